"""Follows a chain name by name to what it may stand for.

A name is looked up as its language does: in the scopes around it, in what the file imports, among
the members of a class and of its bases. What a name was assigned, of which type it is said to be
and what a function returns are followed too, as far as they are written down.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from zapomni_core.modules.codebase._catalog import Catalog
from zapomni_core.modules.codebase._languages import CLASS_LIKE
from zapomni_core.modules.codebase._models import Binding, FactSource, Import
from zapomni_core.modules.codebase._modules import Modules
from zapomni_core.modules.codebase._types import Type, parse_type
from zapomni_core.modules.codebase._values import (
    EXTERNAL,
    Value,
    Values,
    collection_method,
    place,
    steps_of,
    union,
)
from zapomni_core.modules.codebase._view import View

__all__ = ["Evaluator"]

# Each level takes a handful of stack frames.
MAX_DEPTH = 24

_GETTERS = ("property", "cached_property", "lazy", "lazyproperty")
_CLASS_NAMES = frozenset({"cls", "Self", "static"})
_BUILTINS = frozenset(dir(builtins)) - {"super"}


class Evaluator:
    """Answers for one state of a repository."""

    def __init__(self, repository: FactSource) -> None:
        self.catalog = Catalog(repository)
        self.view = self.catalog.view
        """Return a file, None if there is none of this path."""
        self.modules = Modules(repository.paths())
        self._known: dict[tuple[object, ...], Values | None] = {}
        self._lines: dict[tuple[str, int], list[tuple[View, int]]] = {}
        self._depth = 0

    def _once(
        self, key: tuple[object, ...], compute: Callable[..., Values | None], *args: object
    ) -> Values | None:
        """Compute once; what asks for itself on the way is unknown."""
        known = self._known
        if key in known:
            return known[key]
        if self._depth == MAX_DEPTH:
            return ()
        known[key] = ()
        self._depth += 1
        try:
            known[key] = found = compute(*args)
        finally:
            self._depth -= 1
        return found

    # --- Chains and names

    def chain(self, view: View, scope: int, chain: str) -> Values:
        """Return what a chain may stand for where it is written; () if nothing is known."""
        key = (view.path, scope, chain)
        return self._once(key, self._chain, view, scope, chain) or ()

    def _chain(self, view: View, scope: int, chain: str) -> Values:
        if chain.startswith("*"):
            return (Value("many", inner=self.chain(view, scope, chain[1:])),)
        if "|" in chain:
            return union([self.chain(view, scope, one) for one in chain.split("|")])
        head, *steps = steps_of(chain)
        if head == "!":
            return (EXTERNAL,)
        values = self.name(view, scope, head) or ()
        receivers: Values = ()
        for step in steps:
            if step == "()":
                values = union([self._call(value, receivers) for value in values])
            elif step == "[]":
                values = union([self._item(value) for value in values])
            else:
                receivers = values
                values = union([self.attribute(value, step) or () for value in values])
        return values

    def name(self, view: View, scope: int, name: str) -> Values | None:
        """Look a name up from a scope outwards; None if nothing binds it."""
        language = view.language
        if name in language.selves or name == language.parent:
            owner = self._owner(view, scope)
            rebound = any(one.value for one in view.bindings[scope].get(name, ()))
            if owner and not rebound:
                return (_self(*owner, name),)
        current = scope
        while current >= 0:
            one = view.definitions[current]
            found = None
            if one.kind not in CLASS_LIKE:
                found = self.local(view, current, name)
                if found is None and language.implicit_self and one.kind == "method":
                    owner = self._owner(view, current)
                    found = self.member(*owner, name) if owner else None
            elif language.implicit_self or current == scope:
                found = self.member(view, current, name)
            if found is not None:
                return found
            current = one.parent
        if language.name == "python":
            return (EXTERNAL,) if name in _BUILTINS else None
        return self.catalog.shared(view, name)

    def _owner(self, view: View, scope: int) -> tuple[View, int] | None:
        """Return the class around a scope; a method may be written in another file than its."""
        owner = view.owner(scope)
        if owner >= 0:
            return view, owner
        while scope > 0 and view.definitions[scope].kind != "method":
            scope = view.definitions[scope].parent
        prefix = view.definitions[scope].qualified_name.rpartition(".")[0]
        for value in self.chain(view, 0, prefix) if prefix else ():
            other = self.view(value.path) if value.kind == "symbol" else None
            if other and other.definitions[value.number].kind in CLASS_LIKE:
                return other, value.number
        return None

    def local(self, view: View, scope: int, name: str) -> Values | None:
        """Return what one scope binds a name to; None if it does not, () if it is not known."""
        if not view.may_bind(scope, name):
            return None
        key = (view.path, scope, name, "local")
        return self._once(key, self._local, view, scope, name)

    def _local(self, view: View, scope: int, name: str) -> Values | None:
        numbers = view.members[scope].get(name, ())
        imports = view.imports[scope].get(name, ())
        if numbers or imports:
            own = tuple(Value("symbol", view.path, n) for n in view.without_repeats(numbers))
            others = (self._imported(view, one) for one in imports)
            found = union([own, *others])
            return tuple(v for v in found if v != EXTERNAL) or found
        bindings = view.bindings[scope].get(name)
        if bindings is not None:
            return self._bound(view, bindings)
        for star in view.stars.get(scope, ()):
            found_in = self._from_module(view, star.module, name)
            if found_in:
                return found_in
        return None

    # --- What bindings say

    def _bound(self, view: View, bindings: list[Binding]) -> Values:
        types = [one for one in bindings if one.kind == "type"]
        found = union([self._typed(view, one.scope, one.value) for one in types])
        if any(value != EXTERNAL for value in found):
            return found
        others = union([self._value(view, one) for one in bindings if one.kind != "type"])
        return union([found, others])

    def _value(self, view: View, binding: Binding) -> Values:
        if not binding.value:
            return ()
        values = self.chain(view, binding.scope, binding.value)
        if binding.kind == "element":
            return union([self._element(value) for value in values])
        if binding.kind == "enter":
            return union([self._enter(value) for value in values])
        return values

    def _typed(self, view: View, scope: int, text: str) -> Values:
        key = (view.path, scope, text, "type")
        return self._once(key, self._of_types, view, scope, parse_type(text)) or ()

    def _of_types(self, view: View, scope: int, types: tuple[Type, ...]) -> Values:
        found: list[Value] = []
        for one in types:
            if one.kind in ("many", "map", "function"):
                found.append(Value(one.kind, inner=self._of_types(view, scope, one.inner)))
                continue
            for value in self.chain(view, scope, one.name):
                if value.kind == "symbol" and one.kind == "instance":
                    found.extend(self._call(value, ()))
                else:
                    found.append(value)
        return union([tuple(found)])

    # --- Members

    def attribute(self, value: Value, name: str) -> Values | None:
        """Return a member of a value; None if it has none of this name."""
        if value.kind == "external":
            return (EXTERNAL,)
        if value.kind in ("many", "map"):
            return collection_method(value, name)
        if value.kind == "folder":
            return self._in_folder(value.path.strip("/"), name)
        view = self.view(value.path)
        if view is None:
            return None
        if value.kind == "module":
            return self._in_module(view, name)
        if value.kind == "super":
            return self._member_of(self.line(view, value.number)[1:], name) or (EXTERNAL,)
        if view.definitions[value.number].kind == "namespace":
            return self.local(view, value.number, name)
        found = self.member(view, value.number, name)
        if value.kind == "instance" and found:
            return union([self._got(one) for one in found])
        return found

    def member(self, view: View, number: int, name: str) -> Values | None:
        """Return a class's member, its own or inherited."""
        key = (view.path, number, name, "member")
        return self._once(key, self._inherited, view, number, name)

    def _inherited(self, view: View, number: int, name: str) -> Values | None:
        return self._member_of(self.line(view, number), name)

    def _member_of(self, line: list[tuple[View, int]], name: str) -> Values | None:
        known: Values | None = None
        for view, number in line:
            found = self._own_member(view, number, name)
            if found:
                return found
            known = known if found is None else ()
        if known is None and any(self._has_external_base(*one) for one in line):
            return (EXTERNAL,)
        return known

    def _own_member(self, view: View, number: int, name: str) -> Values | None:
        found = self.local(view, number, name)
        if found:
            return found
        attributes = view.attributes[number].get(name)
        if attributes is not None:
            return self._bound(view, attributes) or ()
        if found is None and view.language.name != "python":
            return self.catalog.methods(view, number, name)
        return found

    def line(self, view: View, number: int) -> list[tuple[View, int]]:
        """Return a class and its bases, in the order in which members are looked for."""
        key = (view.path, number)
        if key in self._lines:
            return self._lines[key]
        self._lines[key] = line = [(view, number)]
        for base in view.bases.get(number, ()):
            for value in self.chain(view, view.definitions[number].parent, base):
                above = self.view(value.path) if value.kind == "symbol" else None
                if above and above.definitions[value.number].kind in CLASS_LIKE:
                    line += [one for one in self.line(above, value.number) if one not in line]
        return line

    def _has_external_base(self, view: View, number: int) -> bool:
        parent = view.definitions[number].parent
        return any(
            EXTERNAL in self.chain(view, parent, base) and base not in ("object", "Generic")
            for base in view.bases.get(number, ())
        )

    def _got(self, value: Value) -> Values:
        """Return what reading a member yields: a property is called by it."""
        view = self.view(value.path) if value.kind == "symbol" else None
        if view and view.is_decorated(value.number, _GETTERS):
            return self.returns(view, value.number)
        return (value,)

    # --- Modules

    def _imported(self, view: View, one: Import) -> Values:
        if view.language.name != "python" and one.name:
            whole = self._module(view, f"{one.module}.{one.name}" if one.module else one.name)
            if whole and whole.kind == "module":
                inside = self.view(whole.path)
                found = self.local(inside, 0, one.name) if inside else None
                return found or (whole,)
        if one.name:
            return self._from_module(view, one.module, one.name) or (EXTERNAL,)
        module = self._module(view, one.module)
        return (module or EXTERNAL,)

    def _from_module(self, view: View, module: str, name: str) -> Values:
        value = self._module(view, module)
        return (self.attribute(value, name) or ()) if value else ()

    def _module(self, view: View, module: str) -> Value | None:
        found = self.modules.find(module, view.path, view.language.name)
        return place(found)

    def _in_module(self, view: View, name: str) -> Values | None:
        found = self.local(view, 0, name)
        if not found and view.path.endswith(("/__init__.py", "/__init__.pyi")):
            inside = place(self.modules.inside(view.path.rpartition("/")[0], name))
            return (inside,) if inside else found
        return found

    def _in_folder(self, folder: str, name: str) -> Values | None:
        inside = place(self.modules.inside(folder, name))
        return (inside,) if inside else self.catalog.in_folder(folder, name)

    # --- What comes of a value

    def _call(self, value: Value, receivers: Values) -> Values:
        if value.kind in ("function", "external"):
            return value.inner if value.kind == "function" else (EXTERNAL,)
        if value.kind == "super":
            return (value,)
        if value.kind == "instance":
            return self._result(value, "__call__")
        view = self.view(value.path) if value.kind == "symbol" else None
        if view is None:
            return ()
        if view.definitions[value.number].kind in CLASS_LIKE:
            return (Value("instance", value.path, value.number),)
        found = self.returns(view, value.number)
        # What returns itself is what it was called on, not the class that wrote the method.
        itself = Value("instance", view.path, view.owner(value.number))
        instances = [one for one in receivers if one.kind == "instance"]
        if itself in found and instances:
            return union([tuple(instances), tuple(one for one in found if one != itself)])
        return found

    def returns(self, view: View, number: int) -> Values:
        """Return what calling a function yields."""
        key = (view.path, number, "returns")
        return self._once(key, self._returned, view, number) or ()

    def _returned(self, view: View, number: int) -> Values:
        bindings = view.bindings[number]
        returned = bindings.get("return", [])
        parent = view.definitions[number].parent
        types = [one for one in returned if one.kind == "type"]
        # A type is looked up where the function stands; `Self` is said inside it.
        for scope in (parent, number):
            found = union([self._typed(view, scope, one.value) for one in types])
            if found:
                return found
        if "yield" in bindings:
            inner = union([self._value(view, one) for one in bindings["yield"]])
            return (Value("many", inner=inner),)
        return union([self._value(view, one) for one in returned if one.kind != "type"])

    def _result(self, value: Value, method: str) -> Values:
        """Return what an instance's special method returns."""
        methods = self.attribute(value, method) or ()
        return union([self._call(one, (value,)) for one in methods])

    def _item(self, value: Value) -> Values:
        if value.kind in ("many", "map"):
            return value.inner
        if value.kind == "instance":
            return self._result(value, "__getitem__")
        return (value,) if value.kind in ("symbol", "external") else ()

    def _element(self, value: Value) -> Values:
        if value.kind == "many":
            return value.inner
        if value.kind == "instance":
            return union(one.inner for one in self._result(value, "__iter__") if one.kind == "many")
        return (EXTERNAL,) if value.kind == "external" else ()

    def _enter(self, value: Value) -> Values:
        if value.kind == "many":
            return value.inner
        if value.kind == "instance":
            entered = self._result(value, "__enter__") or self._result(value, "__aenter__")
            return entered or (value,)
        return (value,)


def _self(view: View, owner: int, name: str) -> Value:
    if name == view.language.parent:
        return Value("super", view.path, owner)
    is_class = name in _CLASS_NAMES or (name == "self" and view.language.name == "php")
    return Value("symbol" if is_class else "instance", view.path, owner)

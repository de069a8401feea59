"""The call graph: which symbols of the repository a chain of names may refer to.

A name is looked up as its language does: in the scopes around it, in what the file imports, among
the members of a class and of its bases. What a name was assigned, of which type it is said to be
and what a function returns are followed too, as far as they are written down.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Literal, NamedTuple

from zapomni_core.modules.codebase.languages import (
    CLASS_LIKE,
    LANGUAGES,
    LEAVES,
    Language,
)
from zapomni_core.modules.codebase.models import (
    Binding,
    Definition,
    Facts,
    FactSource,
    Import,
    Reference,
    Repository,
    Snapshot,
    SymbolEdge,
    SymbolId,
)
from zapomni_core.shared.code import role_of

__all__ = [
    "EXTERNAL",
    "MAX_VALUES",
    "Catalog",
    "Evaluator",
    "Modules",
    "Resolver",
    "Type",
    "Value",
    "Values",
    "View",
    "affected_paths",
    "collection_method",
    "parse_type",
    "place",
    "related",
    "steps_of",
    "union",
]


# Each level takes a handful of stack frames.
MAX_DEPTH = 24

_GETTERS = ("property", "cached_property", "lazy", "lazyproperty")
_CLASS_NAMES = frozenset({"cls", "Self", "static"})
_BUILTINS = frozenset(dir(builtins)) - {"super"}
_SCRIPT_GLOBALS = frozenset(
    """Array ArrayBuffer Atomics BigInt Boolean Buffer Date Error Function Intl JSON Map Math Number
    Object Promise Proxy Reflect RegExp Set String Symbol TypeError RangeError WeakMap WeakSet URL
    URLSearchParams console document globalThis navigator process window self localStorage
    sessionStorage fetch setTimeout setInterval clearTimeout clearInterval queueMicrotask
    structuredClone parseInt parseFloat isNaN isFinite encodeURIComponent decodeURIComponent
    AbortController Headers Request Response FormData Blob crypto performance""".split()
)


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
        if not chain.strip("*"):
            return ()  # A name that was covered because it looks like a secret.
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
        if language.name in _SCRIPT_LANGUAGES:
            return (EXTERNAL,) if name in _SCRIPT_GLOBALS else None
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
            folder = value.path.strip("/")
            inside = place(self.modules.inside(folder, name))
            return (inside,) if inside else self.catalog.in_folder(folder, name)
        view = self.view(value.path)
        if view is None:
            return None
        if value.kind == "module" and view.is_script:
            found = self.exported(view, name)
            # `require` yields what the module assigned to `module.exports`.
            whole = () if found or name == "default" else self.exported(view, "default") or ()
            return found or union([self.attribute(one, name) or () for one in whole]) or found
        if value.kind == "module":
            found = self.local(view, 0, name)
            if not found and view.path.endswith(("/__init__.py", "/__init__.pyi")):
                inside = place(self.modules.inside(view.path.rpartition("/")[0], name))
                return (inside,) if inside else found
            return found
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

    def exported(self, view: View, name: str) -> Values | None:
        """Return what a script shows to others under a name."""
        return self._once((view.path, name, "exported"), self._exported, view, name)

    def _exported(self, view: View, name: str) -> Values | None:
        written = view.bindings[0].get(f"export.{name}")
        found = self._bound(view, written) if written else None
        if found:
            return found
        numbers = view.members[0].get(name) or ()
        if name == "default":  # `module.exports = function () {}`
            numbers = numbers or view.members[0].get("exports") or ()
        if numbers:
            return tuple(Value("symbol", view.path, n) for n in view.without_repeats(numbers))
        handed_on = [one for one in view.imports[0].get(name, ()) if one.exported]
        if handed_on:
            return union([self._imported(view, one) for one in handed_on])
        if name in view.bindings[0]:
            return self._bound(view, view.bindings[0][name])
        if name != "default":
            for star in view.stars.get(0, ()):
                found = self._from_module(view, star.module, name)
                if found and found != (EXTERNAL,):
                    return found
        return found

    def _imported(self, view: View, one: Import) -> Values:
        if view.is_script and one.name == "default":
            module = self._module(view, one.module)
            if module is None:
                return (EXTERNAL,)
            # What is known of an object is what the file that makes it defines.
            return self.attribute(module, "default") or (module,)
        if view.language.name not in ("python", *_SCRIPT_LANGUAGES) and one.name:
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

    # --- What comes of a value

    def _call(self, value: Value, receivers: Values) -> Values:
        if value.kind in ("function", "external"):
            return value.inner if value.kind == "function" else (EXTERNAL,)
        if value.kind == "super":
            return (value,)
        if value.kind == "instance":
            return self._result(value, "__call__")
        if value.kind == "module":
            return union([self._call(one, ()) for one in self.attribute(value, "default") or ()])
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
        # A type is looked up in the scope of the function; `Self` inside it.
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


# --- The values of a chain -------------------------------------------------------


MAX_VALUES = 6
_STEP = re.compile(r"\(\)|\[\]|[^.()\[\]]+")
_ONE_OF_MANY = frozenset("pop popleft get setdefault __getitem__ __next__".split())
_MANY_OF_MANY = frozenset("values copy __iter__".split())


class Value(NamedTuple):
    """What a chain may stand for."""

    kind: Literal[
        "symbol", "instance", "super", "module", "folder", "many", "map", "function", "external"
    ]
    path: str = ""
    number: int = 0
    inner: tuple[Value, ...] = ()


Values = tuple[Value, ...]

EXTERNAL = Value("external")
"""Something of another library, and everything that comes of it."""


@lru_cache(maxsize=50_000)
def steps_of(chain: str) -> tuple[str, ...]:
    """Return a chain's names, calls and subscripts in order."""
    return tuple(_STEP.findall(chain))


def union(groups: Iterable[Values]) -> Values:
    """Return what is in any group, once; no more than a handful."""
    # Nearly always there is one group at most, and one value in it.
    some = [group for group in groups if group]
    if len(some) == 1 and len(some[0]) == 1:
        return some[0]
    return tuple(dict.fromkeys(chain.from_iterable(some)))[:MAX_VALUES] if some else ()


def place(found: str) -> Value | None:
    """Return the module or folder at a path."""
    if not found:
        return None
    return Value("folder" if found.endswith("/") else "module", found)


def related(one: str, other: str) -> bool:
    """Say whether code of two languages calls each other by name."""
    return _FAMILIES.get(one, one) == _FAMILIES.get(other, other)


_FAMILIES = {"tsx": "script", "typescript": "script", "javascript": "script", "cpp": "c",
             "java": "jvm", "kotlin": "jvm", "scala": "jvm"}  # fmt: skip


def collection_method(value: Value, name: str) -> Values:
    """Return a method of a list or dictionary: what calling it yields is what matters."""
    if name in _ONE_OF_MANY:
        return (Value("function", inner=value.inner),)
    if name in _MANY_OF_MANY:
        return (Value("function", inner=(Value("many", inner=value.inner),)),)
    return (EXTERNAL,)


# --- A repository's files and its symbols by name, whatever imports what --------------


class Catalog:
    """Views of files, each laid out once."""

    def __init__(self, repository: FactSource) -> None:
        self._repository = repository
        self._views: dict[str, View | None] = {}

    def view(self, path: str) -> View | None:
        """Return a file, None if there is none of this path."""
        views = self._views
        if path in views:
            return views[path]
        facts = self._repository.facts(path)
        views[path] = view = View(path, facts) if facts else None
        return view

    def named(self, name: str, language: str = "") -> Iterator[tuple[View, int]]:
        """Yield the symbols of a name, in files of a related language if one is given."""
        for symbol in self._repository.named(name):
            view = self.view(symbol.path)
            if view and (not language or related(view.language.name, language)):
                yield view, view.numbers[symbol.qualified_name]

    def shared(self, view: View, name: str) -> Values | None:
        """Look among names that need no import: those of the folder, or of the whole repository."""
        if not view.language.shared:
            return None
        folder = view.path.rpartition("/")[0]
        found = [
            (other, number)
            for other, number in self.named(name, view.language.name)
            if other.definitions[other.definitions[number].parent].kind in ("module", "namespace")
        ]
        near = [one for one in found if one[0].path.rpartition("/")[0] == folder]
        if near or view.language.shared == "folder":
            return _values(near)
        if len(found) == 1 or all(one.definitions[n].kind == "namespace" for one, n in found):
            return _values(found)
        return None

    def methods(self, view: View, number: int, name: str) -> Values | None:
        """Find a class's method in another file than its own: Go, Rust, C++, extensions."""
        tail = f".{view.definitions[number].name}.{name}"
        return _values(
            (other, one)
            for other, one in self.named(name, view.language.name)
            if f".{other.definitions[one].qualified_name.partition('#')[0]}".endswith(tail)
        )

    def in_folder(self, folder: str, name: str) -> Values | None:
        """Return what the files of a folder define under a name at their top level."""
        return _values(
            (view, number)
            for view, number in self.named(name)
            if view.path.rpartition("/")[0] == folder and view.definitions[number].parent == 0
        )


def _values(found: Iterable[tuple[View, int]]) -> Values | None:
    values = tuple(Value("symbol", view.path, number) for view, number in found)
    return values[:MAX_VALUES] or None


# --- A file's facts, indexed for lookups -----------------------------------


_PLAIN = Language("text", "", "")
_REPEATED = ("overload", "setter", "deleter")


class View:
    """What each scope of a file defines, imports and binds."""

    def __init__(self, path: str, facts: Facts) -> None:
        self.path = path
        self.facts = facts
        self.language = LANGUAGES.get(facts.language, _PLAIN)
        self.is_script = self.language.name in _SCRIPT_LANGUAGES
        self.definitions = facts.definitions
        self.numbers = {one.qualified_name: n for n, one in enumerate(facts.definitions)}
        self.members: dict[int, dict[str, list[int]]] = defaultdict(dict)
        self.imports: dict[int, dict[str, list[Import]]] = defaultdict(dict)
        self.stars: dict[int, list[Import]] = defaultdict(list)
        self.bindings: dict[int, dict[str, list[Binding]]] = defaultdict(dict)
        self.attributes: dict[int, dict[str, list[Binding]]] = defaultdict(dict)
        self.bases: dict[int, list[str]] = defaultdict(list)
        self._names: dict[int, set[str]] = {}
        for number, definition in enumerate(facts.definitions[1:], 1):
            if definition.kind in LEAVES:
                continue
            self.members[definition.parent].setdefault(definition.name, []).append(number)
            outside = self.class_outside(definition)
            if outside >= 0:
                self.members[outside].setdefault(definition.name, []).append(number)
        for one in facts.imports:
            if one.name == "*":
                self.stars[one.scope].append(one)
            else:
                self.imports[one.scope].setdefault(one.alias, []).append(one)
        for binding in facts.bindings:
            scope, name, _, _ = binding
            if not name.startswith("self."):
                self.bindings[scope].setdefault(name, []).append(binding)
            elif (owner := self.owner(scope)) >= 0:
                self.attributes[owner].setdefault(name[5:], []).append(binding)
        for reference in facts.references:
            if reference.kind == "inherit":
                self.bases[reference.scope].append(reference.target)

    def may_bind(self, scope: int, name: str) -> bool:
        """Say whether a scope binds a name itself, or imports names that are not written there."""
        names = self._names.get(scope)
        if names is None:
            names = {*self.members[scope], *self.imports[scope], *self.bindings[scope]}
            self._names[scope] = names
        return name in names or scope in self.stars

    def owner(self, scope: int) -> int:
        """Return the class around a scope, or the scope itself if it is one; -1 if none is."""
        while scope >= 0:
            one = self.definitions[scope]
            if one.kind in CLASS_LIKE:
                return scope
            outside = self.class_outside(one)
            if outside >= 0:
                return outside
            scope = one.parent
        return -1

    def is_decorated(self, number: int, names: tuple[str, ...]) -> bool:
        """Say whether a symbol has a decorator whose name ends like one of these."""
        decorators = self.definitions[number].decorators
        return any(one.rpartition(".")[2].endswith(names) for one in decorators)

    def without_repeats(self, numbers: Sequence[int]) -> Sequence[int]:
        """Leave out the heads of overloads, and setters next to their getter."""
        if len(numbers) < 2:
            return numbers
        if self.is_script:
            return numbers[-1:]  # What implements the signatures before it.
        return [one for one in numbers if not self.is_decorated(one, _REPEATED)] or numbers[:1]

    def class_outside(self, one: Definition) -> int:
        """Return the class of a method written outside of it; -1 if it is elsewhere, or none."""
        if one.kind != "method" or self.definitions[one.parent].kind in CLASS_LIKE:
            return -1
        return self.numbers.get(one.qualified_name.partition("#")[0].rpartition(".")[0], -1)


# --- Reads a type as it is written, in whichever language, as far as the call graph needs it ---


# What a wrapper does to the type inside it: nothing that matters to a call, or make many of it.
_WRAPPERS = frozenset(
    """Optional ClassVar Final Annotated Required NotRequired ReadOnly InitVar Awaitable Coroutine
    Option Result Box Rc Arc RefCell Mutex RwLock Cow Pin Promise PromiseLike Partial Readonly
    Observable Task ValueTask Future CompletableFuture Lazy Nullable unique_ptr shared_ptr weak_ptr
    AbstractContextManager AbstractAsyncContextManager ContextManager AsyncContextManager
    Ref MutableRefObject Try Either IO""".split()
)
_COLLECTIONS = frozenset(
    """list List Sequence MutableSequence Iterable Iterator AsyncIterable AsyncIterator Generator
    AsyncGenerator set Set frozenset FrozenSet AbstractSet MutableSet deque Deque Collection
    KeysView ValuesView Vec VecDeque Array ArrayList LinkedList HashSet TreeSet Queue Stack Deque
    IEnumerable ICollection IList IReadOnlyList IReadOnlyCollection IAsyncEnumerable vector
    ReadonlyArray ReadonlySet Seq Stream Slice Iter MutableList""".split()
)
_MAPS = frozenset(
    """dict Dict Mapping MutableMapping DefaultDict defaultdict OrderedDict Map HashMap BTreeMap
    TreeMap ConcurrentHashMap Dictionary IDictionary IReadOnlyDictionary ConcurrentDictionary
    Record WeakMap map unordered_map MutableMap ItemsView""".split()
)
_NOISE = frozenset("const mut dyn impl struct class enum readonly ref out in unsafe".split())
_TOKEN = re.compile(r"[^\W\d][\w.]*|\[\]|[\[\]<>(),|?]|\.\.\.")
_OPENING = frozenset("[<(")
_CLOSING = frozenset("]>)")
MAX_TYPE_DEPTH = 20


class Type(NamedTuple):
    """One type: an instance of `name`, the class itself, or a collection of `inner`."""

    kind: Literal["instance", "class", "many", "map", "function"]
    name: str = ""
    inner: tuple[Type, ...] = ()


@lru_cache(maxsize=20_000)
def parse_type(text: str) -> tuple[Type, ...]:
    """Return what a value of this type may be; () if nothing is known."""
    text = text.replace('"', "").replace("'", "").replace("::", ".").lstrip(":* &")
    return _TypeParser(_TOKEN.findall(text)).union(0)


class _TypeParser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0

    def union(self, depth: int) -> tuple[Type, ...]:
        found = [*self._term(depth)]
        while self._take("|"):
            found += self._term(depth)
        return tuple(dict.fromkeys(found))

    def _term(self, depth: int) -> tuple[Type, ...]:
        if depth > MAX_TYPE_DEPTH:
            return ()
        if self._take("[]"):  # Go: a slice of what follows.
            return (Type("many", inner=self._term(depth + 1)),)
        if self._take("["):  # An array's length, or the parameters of a Callable.
            self._skip_to("]")
            inner = self._term(depth + 1)
            return (Type("many", inner=inner),) if inner else ()
        if self._take("("):  # Of several results the first is the one a caller goes on with.
            first = self.union(depth + 1)
            self._skip_to(")")
            return first
        name = self._name()
        if not name:
            return ()
        arguments = self._arguments(depth)
        if name == "map" and arguments:  # Go: map[K]V
            arguments = [*arguments, *([value] if (value := self._term(depth + 1)) else [])]
        found = _apply(name.rpartition(".")[2], name, arguments)
        while True:
            if self._take("[]"):
                found = (Type("many", inner=found),)
            elif not self._take("?"):
                return found

    def _name(self) -> str:
        while self.place < len(self.tokens):
            word = self.tokens[self.place]
            if not (word[0].isalpha() or word[0] == "_"):
                return ""
            self.place += 1
            if word not in _NOISE:
                return word
        return ""

    def _arguments(self, depth: int) -> list[tuple[Type, ...]]:
        close = "]" if self._take("[") else ">" if self._take("<") else ""
        if not close:
            return []
        found = [self.union(depth + 1)]
        while self._take(","):
            found.append(self.union(depth + 1))
        self._skip_to(close)
        return found

    def _take(self, token: str) -> bool:
        if self.place < len(self.tokens) and self.tokens[self.place] == token:
            self.place += 1
            return True
        return False

    def _skip_to(self, close: str) -> None:
        """Go behind the bracket that closes here, over whatever could not be read."""
        depth = 0
        while self.place < len(self.tokens):
            mark = self.tokens[self.place]
            self.place += 1
            if mark in _OPENING:
                depth += 1
            elif mark in _CLOSING:
                if depth == 0 and mark == close:
                    return
                depth = max(0, depth - 1)


def _apply(last: str, name: str, arguments: list[tuple[Type, ...]]) -> tuple[Type, ...]:
    if last in ("None", "null", "undefined", "void", "Any", "object"):
        return ()
    if not arguments:
        return (Type("instance", name),)
    if last == "Union":
        return tuple(one for argument in arguments for one in argument)
    if last in _WRAPPERS:
        return arguments[-1] if last == "Coroutine" else arguments[0]
    if last in ("type", "Type"):
        return tuple(Type("class", one.name) for one in arguments[0] if one.kind == "instance")
    if last == "Callable":
        return (Type("function", inner=arguments[-1]),)
    if last in _COLLECTIONS:
        return (Type("many", inner=arguments[0]),)
    if last in _MAPS:
        return (Type("map", inner=arguments[-1]),)
    return (Type("instance", name),)


# --- Finds the files an import means --------------------------------------------------


_SCRIPT = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".mts", ".cts", ".vue")
_SCRIPT_LANGUAGES = frozenset({"javascript", "typescript", "tsx"})
_SUFFIXES = {
    "c": (".h", ".c", ".hpp"),
    "cpp": (".h", ".hpp", ".hh", ".hxx", ".cpp", ".cc"),
    "csharp": (".cs",),
    "java": (".java", ".kt", ".scala"),
    "kotlin": (".kt", ".java", ".kts"),
    "scala": (".scala", ".java", ".kt"),
    "lua": (".lua",),
    "php": (".php",),
    "ruby": (".rb",),
    "rust": (".rs",),
    "bash": (".sh", ".bash"),
}
_PARTS = re.compile(r"[./\\]+")


class Modules:
    """The files of a repository by what they are imported as."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        self._folders: dict[str, list[str]] = defaultdict(list)
        self._roots_of: dict[tuple[str, str], list[str]] = {}
        known: set[str] = {""}
        for path in sorted(self._paths):
            folder, _, name = path.rpartition("/")
            self._by_stem[name.partition(".")[0]].append(path)
            while folder not in known:
                known.add(folder)
                self._folders[folder.rpartition("/")[2]].append(folder)
                folder = folder.rpartition("/")[0]
        self._known_folders = known

    def find(self, module: str, path: str, language: str) -> str:
        """Return the file, or else the folder with a slash behind it, that a module is; "" if none.

        Args:
            module: As it is written, with dots for other separators.
            path: The file that imports it.
            language: That file's language.
        """
        if language == "python":
            return self._python(module, path)
        if language in _SCRIPT_LANGUAGES:
            return self._script(module, path)
        if language == "go":
            return self._folder_like(module.split("/"))
        return self._anywhere(module, path, language)

    def inside(self, folder: str, name: str) -> str:
        """Return the Python module of this name in a folder, "" if there is none."""
        base = f"{folder}/{name}" if folder else name
        for candidate in (
            f"{base}.py",
            f"{base}/__init__.py",
            f"{base}.pyi",
            f"{base}/__init__.pyi",
        ):
            if candidate in self._paths:
                return candidate
        return f"{base}/" if base in self._known_folders else ""

    def _python(self, module: str, path: str) -> str:
        name = module.lstrip(".")
        dots = len(module) - len(name)
        parts = name.split(".") if name else []
        if dots:
            folder = path
            for _ in range(dots):
                folder = folder.rpartition("/")[0]
            return self._walk_down(folder, parts)
        for root in self._roots(parts[0], path):
            found = self._walk_down(root, parts)
            if found:
                return found
        return ""

    def _walk_down(self, folder: str, parts: list[str]) -> str:
        if not parts:
            above, _, name = folder.rpartition("/")
            return self.inside(above, name) if folder else "/"
        for part in parts[:-1]:
            folder = f"{folder}/{part}" if folder else part
        return self.inside(folder, parts[-1])

    def _roots(self, top: str, path: str) -> list[str]:
        """Return the folders a top-level package may stand in, the nearest first."""
        above = path.rpartition("/")[0]
        key = (top, above)
        if key in self._roots_of:
            return self._roots_of[key]
        roots = []
        while True:
            if not self._is_package(above):
                roots.append(above)
            if not above:
                break
            above = above.rpartition("/")[0]
        if top not in sys.stdlib_module_names:
            others = [folder.rpartition("/")[0] for folder in self._folders.get(top, [])]
            others += [one.rpartition("/")[0] for one in self._by_stem.get(top, [])]
            roots += [root for root in others if not self._is_package(root)]
        self._roots_of[key] = found = list(dict.fromkeys(roots))
        return found

    def _is_package(self, folder: str) -> bool:
        base = f"{folder}/" if folder else ""
        return f"{base}__init__.py" in self._paths or f"{base}__init__.pyi" in self._paths

    def _script(self, module: str, path: str) -> str:
        if module.startswith("."):
            base = _joined(path.rpartition("/")[0], module)
            candidates = [base]
        else:
            # `@/x` and `~/x` are how bundlers write the folder of sources.
            tail = module.removeprefix("@/").removeprefix("~/")
            candidates = [tail, f"src/{tail}"]
        for base in candidates:
            stem = re.sub(r"\.[mc]?jsx?$", "", base)
            for option in (
                base,
                *(f"{stem}{s}" for s in _SCRIPT),
                *(f"{base}/index{s}".lstrip("/") for s in _SCRIPT),
            ):
                if option in self._paths:
                    return option
        return ""

    def _folder_like(self, parts: list[str]) -> str:
        """Return the folder whose path ends like this, as long a tail as there is."""
        folders = self._folders.get(parts[-1], [])
        for start in range(len(parts)):
            tail = "/".join(parts[start:])
            for folder in folders:
                if folder == tail or folder.endswith(f"/{tail}"):
                    return f"{folder}/"
        return ""

    def _anywhere(self, module: str, path: str, language: str) -> str:
        suffixes = _SUFFIXES.get(language, ())
        stem = module
        for suffix in suffixes:
            stem = stem.removesuffix(suffix)
        parts = [part for part in _PARTS.split(stem) if part not in ("", "crate", "super", "self")]
        if not parts:
            return ""
        here = path.rpartition("/")[0]
        files = [one for one in self._by_stem.get(parts[-1], []) if one.endswith(suffixes)]
        folders = self._folders.get(parts[-1], [])
        for start in range(len(parts)):
            tail = "/".join(parts[start:])
            fits = [one for one in files if f"/{one}".rpartition(".")[0].endswith(f"/{tail}")]
            if fits:
                return max(fits, key=lambda one: (_shared(one, here), -len(one)))
            fits = [one for one in folders if f"/{one}".endswith(f"/{tail}")]
            if fits:
                return max(fits, key=lambda one: (_shared(one, here), -len(one))) + "/"
        return ""


def _joined(folder: str, relative: str) -> str:
    parts = folder.split("/") if folder else []
    for part in relative.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _shared(path: str, folder: str) -> int:
    count = 0
    for one, other in zip(path.split("/"), folder.split("/"), strict=False):
        if one != other:
            break
        count += 1
    return count


# --- The call graph: every reference of a file, and the symbol of the repository it means ---


BY_SCOPE = 1.0
BY_SELF = 0.95
BY_TYPE = 0.8
BY_NAME = 0.5
NAME_ONLY = 0.1
MOST_OF_A_NAME = 50
# Each of several that it may be.
ONE_OF_SEVERAL = 0.75

# Methods that everything has: that only one class of the repository does, too, says nothing.
_COMMON = frozenset(
    [name for kind in (str, bytes, list, dict, set, int, float) for name in dir(kind)]
    + """close read write open flush send recv start stop run wait put release acquire next debug
    info warning error exception log match search group findall submit result cancel map
    filter push shift slice splice concat forEach then catch finally toString valueOf length
    toUpperCase toLowerCase includes startsWith endsWith indexOf every some reduce call
    apply bind addEventListener removeEventListener set has delete on once off emit size isEmpty
    contains equals hashCode
    println print clone len unwrap expect iter collect into as_str to_string""".split()
)


_USABLE = CLASS_LIKE | {"function", "method", "macro"}
# Decorators that say something about a symbol and hand it to no one.
_DESCRIBING = frozenset(
    """property cached_property staticmethod classmethod abstractmethod overload override final
    setter getter deleter wraps dataclass contextmanager asynccontextmanager total_ordering
    lru_cache cache singledispatch deprecated skip skipif xfail parametrize usefixtures mark
    no_type_check runtime_checkable unique Override Deprecated""".split()
)


class Resolver:
    """Resolves references for one state of a repository; when files change, take a new one."""

    def __init__(self, repository: FactSource) -> None:
        self._evaluator = Evaluator(repository)
        self._guessed: dict[tuple[str, str, bool], list[SymbolId]] = {}

    def resolve(self, path: str) -> list[SymbolEdge]:
        """Return at least one edge for every reference of a file, resolved or not."""
        view = self._evaluator.view(path)
        if view is None:
            return []
        edges: list[SymbolEdge] = []
        # A name that is used twice on a line is one use.
        seen: set[Reference] = set()
        for reference in view.facts.references:
            if reference.kind == "use":
                if reference in seen:
                    continue
                seen.add(reference)
            edges.extend(self._edges(view, reference))
        edges.extend(self._overrides(view))
        return edges

    def _overrides(self, view: View) -> Iterator[SymbolEdge]:
        """Yield which methods of base classes the methods of a file override."""
        for number in view.bases:
            above = self._evaluator.line(view, number)[1:]
            for name, members in view.members[number].items() if above else ():
                if name == "constructor" or (name.startswith("__") and name != "__call__"):
                    continue
                for base, owner in above:
                    found = base.members[owner].get(name)
                    if found:
                        own = view.definitions[members[0]]
                        overridden = SymbolId(base.path, base.definitions[found[0]].qualified_name)
                        caller = SymbolId(view.path, own.qualified_name)
                        yield SymbolEdge("override", caller, overridden, name, BY_SELF, own.line)
                        break

    def _edges(self, view: View, reference: Reference) -> list[SymbolEdge]:
        scope, kind, target, line = reference
        caller = SymbolId(view.path, view.definitions[scope].qualified_name)
        name = steps_of(target)[-1]
        if kind in ("inherit", "decorate"):
            scope = max(0, view.definitions[scope].parent)
        values = self._evaluator.chain(view, scope, target)
        callees = self._callees(values, kind) if values else []
        if kind == "use":
            strength = self._strength(view, scope, target)
            return [
                SymbolEdge(kind, caller, callee, name, strength, line)
                for callee in (callees if len(callees) == 1 else [])
            ]
        if callees:
            strength = self._strength(view, scope, target)
        else:
            callees = [] if values else self._guess(view, target, name)
            strength = BY_NAME
        registered = self._registered(view, reference, name) if kind == "decorate" else []
        if not callees:
            return [SymbolEdge(kind, caller, None, name, NAME_ONLY, line), *registered]
        if len(callees) > 1:
            strength *= ONE_OF_SEVERAL
        found = [SymbolEdge(kind, caller, callee, name, strength, line) for callee in callees]
        return found + registered

    def _registered(self, view: View, reference: Reference, name: str) -> list[SymbolEdge]:
        """Return that a decorator hands a symbol on, unless it is one that only describes it."""
        if name in _DESCRIBING:
            return []
        definition = view.definitions[reference.scope]
        outside = view.definitions[definition.parent].qualified_name
        caller, callee = (
            SymbolId(view.path, outside),
            SymbolId(view.path, definition.qualified_name),
        )
        return [SymbolEdge("register", caller, callee, name, BY_SCOPE, reference.line)]

    def _callees(self, values: Values, kind: str) -> list[SymbolId]:
        found: list[SymbolId] = []
        for value in values:
            called: Values = (value,)
            if value.kind == "instance":
                called = self._evaluator.attribute(value, "__call__") or ()
            elif value.kind == "module" and kind != "use":
                called = self._evaluator.attribute(value, "default") or ()
            for one in called:
                view = self._evaluator.view(one.path) if one.kind == "symbol" else None
                if view is None:
                    continue
                definition = view.definitions[one.number]
                if kind == "inherit" and definition.kind not in CLASS_LIKE:
                    continue
                if definition.kind == "type" and kind == "call" and view.is_script:
                    continue  # A name of a type only; what is called has the same one.
                if kind == "use" and (value.kind != "symbol" or definition.kind not in _USABLE):
                    continue
                found.append(SymbolId(one.path, definition.qualified_name))
        return list(dict.fromkeys(found))

    def _strength(self, view: View, scope: int, target: str) -> float:
        head, *rest = steps_of(target)
        if head in view.language.selves or head == view.language.parent:
            return BY_SELF if len([step for step in rest if step != "()"]) == 1 else BY_TYPE
        if "()" in rest or "[]" in rest:
            return BY_TYPE
        values = self._evaluator.name(view, scope, head) or ()
        named = any(value.kind in ("module", "folder", "symbol") for value in values)
        return BY_SCOPE if named else BY_TYPE

    def _guess(self, view: View, target: str, name: str) -> list[SymbolId]:
        """Return the only symbol of this name, where nothing speaks against it."""
        if name in _COMMON or len(name) < 3:
            return []
        is_member = len(steps_of(target)) > 1
        imports = view.language.name == "python" or (view.is_script and view.facts.imports)
        if not is_member and imports:
            return []  # What a file neither defines nor imports is not of this repository.
        key = (view.language.name, name, is_member)
        if key not in self._guessed:
            found = list(islice(self._callables(*key), MOST_OF_A_NAME))
            # What tests override or imitate is what they override.
            own = [one for one in found if role_of(one.path) != "test"] or found
            self._guessed[key] = own if len(own) == 1 else []
        return self._guessed[key]

    def _callables(self, language: str, name: str, is_member: bool) -> Iterator[SymbolId]:
        for view, number in self._evaluator.catalog.named(name):
            definition = view.definitions[number]
            if definition.kind in LEAVES or definition.kind in ("key", "section"):
                continue
            if view.language.name == language and (definition.kind == "method") == is_member:
                yield SymbolId(view.path, definition.qualified_name)


# --- Which files a change concerns, so that only their edges are resolved again -------


_WORD = re.compile(r"[^\W\d]\w*")
_HANDED_OUT = frozenset({"return", "yield"})
_CALLABLE = frozenset({"function", "method"})

Change = tuple[Facts | None, Facts | None]
"""What a file said before and says now; None when there was or is none."""


class _Shown(NamedTuple):
    """A name a file shows to others, by one of its meanings."""

    name: str
    text: str
    """Its value, as it is written; the same text means nothing was edited."""
    how: Literal["local", "member", "returns", "bases", "exported"]
    scope: int

    @property
    def words(self) -> set[str]:
        return set(_WORD.findall(self.text))


class _Earlier:
    """A repository as it was before some files changed; implements `FactSource`."""

    def __init__(self, now: Repository, changes: Mapping[str, Change]) -> None:
        self._now = now
        self._changed = changes
        before = {path: old for path, (old, _) in changes.items() if old is not None}
        self._before = Snapshot(before)
        self._paths = (set(now.paths()) - changes.keys()) | before.keys()

    def paths(self) -> Collection[str]:
        return self._paths

    def facts(self, path: str) -> Facts | None:
        return (self._before if path in self._changed else self._now).facts(path)

    def named(self, name: str) -> Sequence[SymbolId]:
        unchanged = [one for one in self._now.named(name) if one.path not in self._changed]
        return [*unchanged, *self._before.named(name)]


def affected_paths(repository: Repository, changes: Mapping[str, Change]) -> set[str]:
    """Return the files, among them the changed ones, whose edges may differ now.

    Args:
        repository: As it is now.
        changes: The files that were added, changed or removed, by path.
    """
    affected = {path for path in changes if path in repository.paths()}
    names = {name for path, change in changes.items() for name in _changed(path, *change)}
    now, then = Evaluator(repository), Evaluator(_Earlier(repository, changes))
    new = names
    while new:
        if "*" in new:
            return set(repository.paths())
        mentioning = {path for name in new for path in repository.mentioning(name)}
        affected |= mentioning
        candidates = [
            (path, shown)
            for path in mentioning - changes.keys()
            for shown in _shown_names(repository.facts(path))
            if shown.name not in names and not shown.words.isdisjoint(new)
        ]
        new = {
            shown.name
            for path, shown in candidates
            if _meaning(now, path, shown) != _meaning(then, path, shown)
        }
        names |= new
    return affected


def _changed(path: str, before: Facts | None, after: Facts | None) -> set[str]:
    """Return the names whose meaning to other files may have changed."""
    old, new = _texts(before), _texts(after)
    names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    if before is None or after is None:
        names.update(_WORD.findall(path))
    return names


def _texts(facts: Facts | None) -> dict[str, set[object]]:
    """Return what a file says to others about each name."""
    texts: dict[str, set[object]] = {}
    for one in facts.definitions[1:] if facts else ():
        texts.setdefault(one.name, set()).add((one.qualified_name, one.kind, one.decorators))
    for shown in _shown_names(facts):
        texts.setdefault(shown.name, set()).add(shown.text)
    return texts


def _shown_names(facts: Facts | None) -> Iterator[_Shown]:
    if facts is None:
        return
    for one in facts.imports:
        if facts.definitions[one.scope].kind not in _CALLABLE:
            yield _Shown(one.alias, f"{one.module} {one.name}", "local", one.scope)
    for reference in facts.references:
        if reference.kind == "inherit":
            definition = facts.definitions[reference.scope]
            text = f"{definition.qualified_name} ({reference.target})"
            yield _Shown(definition.name, text, "bases", reference.scope)
    local: dict[int, dict[str, list[Binding]]] = {}
    for binding in facts.bindings:
        local.setdefault(binding.scope, {}).setdefault(binding.name, []).append(binding)
    for scope, names in local.items():
        yield from _shown_by(scope, facts.definitions[scope], names)


def _shown_by(
    scope: int, definition: Definition, names: dict[str, list[Binding]]
) -> Iterator[_Shown]:
    """Yield what a scope shows: a function nothing but what it hands out."""
    for name in names:
        text = f"{definition.qualified_name} {_explanation(name, names)}"
        if name in _HANDED_OUT:
            yield _Shown(definition.name, text, "returns", scope)
        elif name.startswith("self."):
            yield _Shown(name.removeprefix("self."), text, "member", scope)
        elif name.startswith("export."):
            yield _Shown(name.removeprefix("export."), text, "exported", scope)
        elif definition.kind not in _CALLABLE:
            yield _Shown(name, text, "local", scope)


def _explanation(name: str, names: dict[str, list[Binding]]) -> str:
    """Return what is written about a name, and about the names of its scope it goes back to."""
    used = {name: names[name]}
    new = [name]
    while new:
        words = {word for one in new for b in names[one] for word in _WORD.findall(b.value)}
        new = sorted(word for word in words if word in names and word not in used)
        used.update((word, names[word]) for word in new)
    return " ".join(f"{n} {b.kind} {b.value}" for n, many in used.items() for b in many)


def _meaning(evaluator: Evaluator, path: str, shown: _Shown) -> object:
    """Return the value of a name, in a form that can be compared between two states."""
    view = evaluator.view(path)
    assert view is not None
    if shown.how == "bases":
        return [
            (v.path, v.definitions[n].qualified_name) for v, n in evaluator.line(view, shown.scope)
        ]
    if shown.how == "returns":
        values = evaluator.returns(view, shown.scope)
    elif shown.how == "exported":
        values = evaluator.exported(view, shown.name) or ()
    elif shown.how == "member":
        values = evaluator.member(view, max(0, view.owner(shown.scope)), shown.name) or ()
    else:
        values = evaluator.local(view, shown.scope, shown.name) or ()
    return [_comparable(evaluator, value) for value in values]


def _comparable(evaluator: Evaluator, value: Value) -> object:
    view = evaluator.view(value.path)
    name = view.definitions[value.number].qualified_name if view else ""
    return value.kind, value.path, name, [_comparable(evaluator, one) for one in value.inner]

"""Reads a type as it is written, in whichever language, as far as the call graph needs it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

__all__ = ["Type", "parse_type"]

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
MAX_DEPTH = 20


class Type(NamedTuple):
    """One type: an instance of `name`, the class itself, or a collection of `inner`."""

    kind: Literal["instance", "class", "many", "map", "function"]
    name: str = ""
    inner: tuple[Type, ...] = ()


@lru_cache(maxsize=20_000)
def parse_type(text: str) -> tuple[Type, ...]:
    """Return what a value of this type may be; () if nothing is known."""
    text = text.replace('"', "").replace("'", "").replace("::", ".").lstrip(":* &")
    return _Parser(_TOKEN.findall(text)).union(0)


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0

    def union(self, depth: int) -> tuple[Type, ...]:
        found = [*self._term(depth)]
        while self._take("|"):
            found += self._term(depth)
        return tuple(dict.fromkeys(found))

    def _term(self, depth: int) -> tuple[Type, ...]:
        if depth > MAX_DEPTH:
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

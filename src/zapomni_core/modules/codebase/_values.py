"""What a chain may stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

__all__ = [
    "EXTERNAL",
    "MAX_VALUES",
    "Value",
    "Values",
    "collection_method",
    "place",
    "related",
    "steps_of",
    "union",
]

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

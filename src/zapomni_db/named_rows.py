"""`NamedTuple` for hooks: without `typing`, whose import costs as much as what a hook does."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NamedTuple"]


class _Maker(type):
    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(body["__annotations__"])
        made = namedtuple(name, fields)  # type: ignore[misc]  # noqa: PYI024 - see above
        made.__doc__, made.__module__ = body.get("__doc__"), body["__module__"]
        return made


class NamedTuple(metaclass=_Maker):
    """A class of fields alone becomes a named tuple; type checkers are shown that of `typing`."""

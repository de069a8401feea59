"""`NamedTuple` for hooks: without `typing` and `collections`, which cost more than a hook does.

Type checkers are shown that of `typing`.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NamedTuple"]


class NamedTuple(tuple):  # type: ignore[type-arg]
    """A class of fields alone is a tuple whose items have names."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    _make: Any = classmethod(tuple.__new__)

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)
        for place, name in enumerate(cls._fields):
            setattr(cls, name, _tuplegetter(place, ""))

    def __new__(cls, *values: Any, **named: Any) -> Any:
        """Take the values of the fields in their order, or by name."""
        rest = [named.pop(name) for name in cls._fields[len(values) :]]
        if named or len(values) > len(cls._fields):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
        return tuple.__new__(cls, (*values, *rest))

    def _replace(self, **named: Any) -> Any:
        return type(self)(**{**self._asdict(), **named})

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        fields = (f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({', '.join(fields)})"

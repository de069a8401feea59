"""JSON read and written as `json` does, by the same C code, without loading that module.

`json` compiles seven regular expressions when it is imported and needs none of them here. A hook
would pay for them at every event.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["dumps", "loads"]

_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}


class _Plain:
    """What the scanner asks a decoder for."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int, parse_constant = float, int, _CONSTANTS.__getitem__


def _refuse(value: object) -> object:
    raise TypeError(f"not a JSON value: {type(value).__name__}")


_scan: Any = None
try:
    from _json import encode_basestring, make_encoder, make_scanner

    make_encoder({}, _refuse, encode_basestring, None, ":", ",", False, False, True)
    _scan = make_scanner(_Plain)  # type: ignore[arg-type] # typeshed names the wrong class
except (ImportError, AttributeError, TypeError):  # pragma: no cover - another Python's insides
    pass


def loads(text: str) -> Any:
    """Return the value that a text holds.

    Raises:
        ValueError: It is not JSON, or more than one value.
        RecursionError: It is nested too deeply.
    """
    if _scan is None:
        import json

        return json.loads(text)
    text = text.strip(" \t\n\r")
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):
        # The scanner finds no class for its error where `json` is not loaded.
        end = -1
    if end != len(text):
        raise ValueError("not one JSON value")
    return value


def dumps(value: Any, *, separators: tuple[str, str] = (", ", ": ")) -> str:
    """Return a value as JSON; characters outside of ASCII stay as they are.

    Raises:
        TypeError: It is none that JSON knows.
        ValueError: It contains itself.
        RecursionError: It is nested too deeply.
    """
    if _scan is None:
        import json

        return json.dumps(value, ensure_ascii=False, separators=separators)
    item, name = separators
    # No indentation, names in the order they have, only names that are texts, NaN as it is.
    encode = make_encoder({}, _refuse, encode_basestring, None, name, item, False, False, True)
    return "".join(encode(value, 0))

"""Between Python values and what FalkorDB keeps.

FalkorDB takes parameters as text in front of the statement: everything a user gave passes
through `parameters`, which quotes it, and nothing else is ever put into a statement.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import MemoryFilter

__all__ = [
    "BREAK",
    "Vector",
    "as_document",
    "as_query",
    "check_id",
    "content_hash",
    "decode",
    "digest",
    "exact_number",
    "from_cell",
    "from_json",
    "from_time",
    "from_tokens",
    "parameters",
    "stems_of",
    "text_hash",
    "to_json",
    "to_time",
    "to_tokens",
    "where",
]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

# FalkorDB's strings end at a NUL. The character that stands for it stands for itself, too.
_ESCAPE = "\x1a"


class Vector(tuple[float, ...]):
    """Numbers that are kept as float32: nine digits tell any two of them apart."""

    __slots__ = ()


def parameters(values: Mapping[str, Any]) -> str:
    """Return the header that gives a statement its parameters.

    Raises:
        ValidationError: A name or a value is of a kind FalkorDB does not know.
    """
    header = "CYPHER " + "".join(f"{_checked(name)}={_quote(v)} " for name, v in values.items())
    _to_utf8(header)
    return header


def _to_utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValidationError("text is not valid UTF-8 (a lone surrogate)", "VAL_004") from None


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValidationError(
            "A parameter's name, and a key inside one, must be letters, digits and underscores",
            "VAL_004",
        )
    return name


def _quote(value: Any) -> str:
    if isinstance(value, str):
        return '"' + _encode(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Vector):
        return "[" + ",".join(["%.9g" % number for number in value]) + "]"  # noqa: UP031 - twice as fast
    if isinstance(value, int | float):
        return _quote_number(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_checked(k)}:{_quote(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "[" + ",".join(map(_quote, value)) + "]"
    raise ValidationError(f"A parameter cannot be of the type {type(value).__name__}", "VAL_002")


def _quote_number(value: float) -> str:
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValidationError("A whole number must fit into 64 bits", "VAL_003")
    elif not math.isfinite(value):
        raise ValidationError("A number must be finite", "VAL_003")
    return repr(value)


def _encode(text: str) -> str:
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")


def decode(text: str) -> str:
    """Undo what was done to a text to keep it."""
    if _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)


def from_cell(cell: Sequence[Any]) -> Any:
    """Read one value of a compact answer: its kind, then itself."""
    kind, value = cell
    match kind:
        case 2:
            return decode(value)
        case 4:
            return value == "true"
        case 5:
            return float(value)
        case 6:
            return [from_cell(item) for item in value]
        case 10:
            pairs = zip(value[::2], value[1::2], strict=True)
            return {name: from_cell(item) for name, item in pairs}
        case 12:
            return [float(number) for number in value]
        case _:
            # Integers and nulls are themselves; our statements return nothing else.
            return value


def digest(*parts: str) -> str:
    """Identify a text, or several in this order.

    FalkorDB's indexes drop blanks around a text, do not know the empty one and end at 4,096
    bytes. So what a user wrote is never looked up itself, always its digest.
    """
    lengths = b"".join(len(part).to_bytes(8, "big") for part in parts)
    return hashlib.sha256(lengths + _to_utf8("".join(parts))).hexdigest()[:32]


def check_id(field: str, value: str) -> None:
    """Refuse an id that an index could not tell from another (see `digest`)."""
    if not value or len(value) > 200 or not value.isprintable() or value != value.strip():
        raise ValidationError(
            f"{field} must be 1 to 200 visible characters, without blanks around them", "VAL_004"
        )


def exact_number(number: float) -> str | None:
    """Return a number as text if the fifteen digits the server returns do not tell it."""
    return None if float(f"{number:.15g}") == number else repr(number)


def content_hash(text: str) -> str:
    """Identify a memory's exact text."""
    return hashlib.sha256(_to_utf8(text)).hexdigest()


def text_hash(text: str) -> str:
    """Identify a chunk's exact text; half the length is plenty for a cache key."""
    return content_hash(text)[:32]


def to_time(moment: datetime) -> int:
    """Microseconds since 1970; integers compare exactly and round-trip."""
    try:
        return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except OverflowError as error:
        raise ValidationError("A time is beyond the ends of the calendar", "VAL_003") from error


def from_time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Any:
    return json.loads(text)


def to_tokens(tokens: bytes | None) -> str | None:
    """Token vectors as text: FalkorDB keeps no bytes."""
    return base64.b64encode(tokens).decode() if tokens else None


def from_tokens(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


# --- MemoryFilter as Cypher. The clauses are constants; values are always parameters ---


# What is asked, how it reads, and what the question is compared with.
_CLAUSES: dict[str, tuple[LiteralString, Callable[[Any], Any]]] = {
    "project": ("m.project_hash = $project", digest),
    "source": ("m.source = $source", str),
    "kind": ("m.kind = $kind", str),
    "not_kind": ("m.kind <> $not_kind", str),
    "parent": ("m.parent = $parent", str),
    "pinned": ("m.pinned = $pinned", bool),
    "since": ("m.occurred_at >= $since", to_time),
    "until": ("m.occurred_at < $until", to_time),
    "as_of": (
        "m.created_at <= $as_of AND (m.superseded_at IS NULL OR m.superseded_at > $as_of)",
        to_time,
    ),
}
# A path counts whole or by its end: `auth.py` is `src/auth.py`, `src` is all below it.
_IN_PATH: LiteralString = (
    "(m.source IN [$path, $path_end] OR m.source ENDS WITH ('/' + $path_end)"
    " OR m.source STARTS WITH ($path_end + '/') OR m.source CONTAINS ('/' + $path_end + '/'))"
)
_TAGGED: LiteralString = "$tag{} IN m.tags"


def where(filters: MemoryFilter) -> tuple[str, dict[str, Any]]:
    """Return a condition on the node `m` and its parameters."""
    clauses: list[str] = []
    values: dict[str, Any] = {}
    if not filters.include_superseded and filters.as_of is None:
        clauses.append("m.superseded_by IS NULL")
    for field, (clause, convert) in _CLAUSES.items():
        if (wanted := getattr(filters, field)) is not None:
            clauses.append(clause)
            values[field] = convert(wanted)
    if filters.path is not None:
        clauses.append(_IN_PATH)
        values |= {"path": filters.path, "path_end": filters.path.strip("/")}
    # Not `all(tag IN $tags ...)`: after a WITH, FalkorDB 4.16 gets it wrong without a word.
    for number, tag in enumerate(filters.tags):
        clauses.append(_TAGGED.format(number))
        values[f"tag{number}"] = tag
    return " AND ".join(clauses) or "true", values


# --- The words a passage is found by, the same as in the SQLite engine ----------------


BREAK = "_"
"""Stands between the words of a passage and those of its context: no phrase goes across."""

# The index's own limit is not documented; nobody asks for a longer word.
LONGEST_WORD = 64

_SCHEMA = """
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', columnsize = 0, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE found USING fts5vocab (words, instance);
"""


def stems_of(texts: Sequence[str]) -> list[list[str]]:
    """Return the stems of each text's words, in order."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            # Half a character is no word of anything: it was never stored.
            enumerate(text.encode("utf-8", "replace").decode() for text in texts),
        )
        rows = connection.execute("SELECT doc, offset, term FROM found").fetchall()
    finally:
        connection.close()
    rows.sort()
    stems: list[list[str]] = [[] for _ in texts]
    for number, _, stem in rows:
        stems[number].append(_safe(stem))
    return stems


def _safe(stem: str) -> str:
    """Write a stem in characters no index could take for anything else."""
    encoded = stem.encode()
    if len(encoded) > LONGEST_WORD:
        return "_" + hashlib.sha256(encoded).hexdigest()
    return stem if stem.isascii() else "_" + encoded.hex()


def as_document(stems: Sequence[str]) -> str:
    """Write stems as the index reads them, each in bars of its own.

    So written, a phrase stands in a document exactly where its words stand side by side.
    """
    return "".join(f"|{stem}|" for stem in stems)


def as_query(stems: Sequence[str]) -> str:
    """Return the query for passages in which all these stems stand, in any order."""
    return " ".join(f'"{stem}"' for stem in dict.fromkeys(stems))

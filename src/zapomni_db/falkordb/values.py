"""Conversions between Python values and what FalkorDB stores: parameters, filters, words.

FalkorDB takes parameters as text in front of the statement: every value a user gave passes through
`parameters`, which quotes it, and nothing else is ever put into a statement.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import NEVER, MemoryFilter
from zapomni_db.values import sha256_of, to_time

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
    "from_tokens",
    "parameters",
    "stems_of",
    "text_hash",
    "to_tokens",
    "where",
]

# --- Parameters and answers -------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

# FalkorDB's strings end at a NUL: it is escaped, and so is the escape character.
_ESCAPE = "\x1a"


class Vector(tuple[float, ...]):
    """Numbers that are stored as float32: nine digits distinguish any two of them."""

    __slots__ = ()


def parameters(values: Mapping[str, Any]) -> str:
    """Return the header that gives a statement its parameters.

    Raises:
        ValidationError: A name or a value is of a kind FalkorDB does not know.
    """
    header = "CYPHER " + "".join(f"{_checked(name)}={_quote(v)} " for name, v in values.items())
    try:
        header.encode()
    except UnicodeEncodeError:
        raise ValidationError("text is not valid UTF-8 (a lone surrogate)", "VAL_004") from None
    return header


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
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValidationError("A whole number must fit into 64 bits", "VAL_003")
        return repr(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValidationError("A number must be finite", "VAL_003")
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_checked(k)}:{_quote(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "[" + ",".join(map(_quote, value)) + "]"
    raise ValidationError(f"A parameter cannot be of the type {type(value).__name__}", "VAL_002")


def _encode(text: str) -> str:
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")


def decode(text: str) -> str:
    """Return a stored text as it was given."""
    if _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)


def from_cell(cell: Sequence[Any]) -> Any:
    """Return the value of a cell of a compact answer: its kind, then itself."""
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


# --- Identifiers and numbers ------------------------------------------------------------


def digest(*parts: str) -> str:
    """Return a hash that identifies a text, or several in this order.

    FalkorDB's indexes drop blanks around a text, ignore the empty one and end at 4,096 bytes. So a
    text of a user is never looked up itself, always by its digest.
    """
    lengths = b"".join(len(part).to_bytes(8, "big") for part in parts)
    try:
        return hashlib.sha256(lengths + "".join(parts).encode()).hexdigest()[:32]
    except UnicodeEncodeError:
        raise ValidationError("text is not valid UTF-8 (a lone surrogate)", "VAL_004") from None


def check_id(field: str, value: str) -> None:
    """Refuse an id that an index could confuse with another (see `digest`)."""
    if not value or len(value) > 200 or not value.isprintable() or value != value.strip():
        raise ValidationError(
            f"{field} must be 1 to 200 visible characters, without blanks around them", "VAL_004"
        )


def content_hash(text: str) -> str:
    """Return the hash that identifies a memory's exact text."""
    return sha256_of(text).hex()


def text_hash(text: str) -> str:
    """Return the hash that identifies a chunk's exact text; half the length is enough here."""
    return content_hash(text)[:32]


def exact_number(number: float) -> str | None:
    """Return a number as text if the fifteen digits the server returns are not exact."""
    return None if float(f"{number:.15g}") == number else repr(number)


def to_tokens(tokens: bytes | None) -> str | None:
    """Return token vectors as text: FalkorDB stores no bytes."""
    return base64.b64encode(tokens).decode() if tokens else None


def from_tokens(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


# --- Filters ----------------------------------------------------------------------------

# For each field of a filter: the condition on a memory `m`, and the conversion of its value.
_CONDITIONS: dict[str, tuple[LiteralString, Callable[[Any], Any]]] = {
    "project": ("m.project_hash = $project", digest),
    "projects": ("m.project_hash IN $projects", lambda names: [digest(one) for one in names]),
    "source": ("m.source = $source", str),
    "kind": ("m.kind = $kind", str),
    "not_kind": ("m.kind <> $not_kind", str),
    "parent": ("m.parent = $parent", str),
    "pinned": ("m.pinned = $pinned", bool),
    "since": ("m.occurred_at >= $since", to_time),
    "until": ("m.occurred_at < $until", to_time),
}
# It was true and known then, and what replaced it was not. A graph of an earlier version has no
# `superseded_when`: when it was stored is the best it knows.
_THEN: LiteralString = """
m.occurred_at <= $as_of AND m.created_at <= $known_at AND (m.superseded_by IS NULL
    OR coalesce(m.superseded_when, m.superseded_at) > $as_of OR m.superseded_at > $known_at)"""
# Whether a path is the source or its end, or a folder of it: `auth.py` matches `src/auth.py`, and
# `src` everything below it.
_IN_PATH: LiteralString = (
    "(m.source IN [$path, $path_end] OR m.source ENDS WITH ('/' + $path_end)"
    " OR m.source STARTS WITH ($path_end + '/') OR m.source CONTAINS ('/' + $path_end + '/'))"
)
_TAGGED: LiteralString = "$tag{} IN m.tags"


def where(filters: MemoryFilter) -> tuple[str, dict[str, Any]]:
    """Return a filter as a condition on the node `m`, and its parameters."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    if filters.as_of is not None or filters.known_at is not None:
        conditions.append(_THEN)
        values["as_of"] = to_time(filters.as_of or NEVER)
        values["known_at"] = to_time(filters.known_at or NEVER)
    elif not filters.include_superseded:
        conditions.append("m.superseded_by IS NULL")
    for field, (condition, convert) in _CONDITIONS.items():
        if (wanted := getattr(filters, field)) is not None:
            conditions.append(condition)
            values[field] = convert(wanted)
    if filters.not_projects:
        conditions.append("NOT m.project_hash IN $not_projects")
        values["not_projects"] = [digest(one) for one in filters.not_projects]
    if filters.path is not None:
        conditions.append(_IN_PATH)
        values |= {"path": filters.path, "path_end": filters.path.strip("/")}
    # Not `all(tag IN $tags ...)`: after a WITH, FalkorDB 4.16 silently evaluates it wrongly.
    for number, tag in enumerate(filters.tags):
        conditions.append(_TAGGED.format(number))
        values[f"tag{number}"] = tag
    return " AND ".join(conditions) or "true", values


# --- Words ------------------------------------------------------------------------------
#
# Both engines must find and rank alike, so the words of a chunk come from the same tokenizer:
# SQLite's, in memory. FalkorDB's full-text index is given finished stems and queried for them
# verbatim; it neither stems nor scores.

BREAK = "_"
"""Separates the words of a chunk from those of its context: no phrase matches across it."""

# The index's own limit is not documented; longer words are not worth searching for.
LONGEST_WORD = 64

# SQLite's tables: texts, and the stems found in them.
_TOKENIZER = """
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', columnsize = 0, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE found USING fts5vocab (words, instance);
"""


def stems_of(texts: Sequence[str]) -> list[list[str]]:
    """Return the stems of each text's words, in order."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.executescript(_TOKENIZER)
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            # A lone surrogate is part of no word: it was never stored.
            enumerate(text.encode("utf-8", "replace").decode() for text in texts),
        )
        rows = connection.execute("SELECT doc, offset, term FROM found").fetchall()
    finally:
        connection.close()
    rows.sort()
    stems: list[list[str]] = [[] for _ in texts]
    for number, _, stem in rows:
        encoded = stem.encode()
        # Only characters that the index does not interpret.
        if len(encoded) > LONGEST_WORD:
            stems[number].append("_" + hashlib.sha256(encoded).hexdigest())
        else:
            stems[number].append(stem if stem.isascii() else "_" + encoded.hex())
    return stems


def as_document(stems: Sequence[str]) -> str:
    """Return stems as the index reads them, each between bars.

    So a document contains a phrase exactly where its words are next to each other.
    """
    return "".join(f"|{stem}|" for stem in stems)


def as_query(stems: Sequence[str]) -> str:
    """Return the query for chunks that contain all these stems, in any order."""
    return " ".join(f'"{stem}"' for stem in dict.fromkeys(stems))

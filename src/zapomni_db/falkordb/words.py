"""The words a passage is found by, the same as in the SQLite engine.

Both engines must find and rank alike, so the words come from the same tokenizer: SQLite's own,
in memory. FalkorDB's full-text index is given finished stems and asked for them verbatim; its
own stemming and scoring stay out of it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

__all__ = ["BREAK", "as_document", "as_query", "stems_of"]

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

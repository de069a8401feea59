"""What memories were before they were changed or superseded."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from zapomni_db.graph_models import MemoryVersion
from zapomni_db.history_rules import Replaced, in_order, versions_of, what_changes
from zapomni_db.models import MemoryPatch
from zapomni_db.sqlite.rows import from_json, from_time, to_json

__all__ = ["close_evidence", "record", "versions"]


def record(connection: sqlite3.Connection, key: int, patch: MemoryPatch, now: int) -> None:
    """Keep what a patch is about to change."""
    if (before := what_changes(_current(connection, key), patch)) is not None:
        fields, text = before
        connection.execute(
            "INSERT INTO memory_history (memory_key, replaced_at, fields, text)"
            " VALUES (?, ?, ?, ?)",
            (key, now, to_json(fields), text),
        )


def _current(connection: sqlite3.Connection, key: int) -> dict[str, Any]:
    metadata, project, source, kind, pinned, text = connection.execute(
        "SELECT m.metadata, m.project, m.source, m.kind, m.pinned, t.text FROM memories m"
        " JOIN memory_texts t ON t.memory_key = m.key WHERE m.key = ?",
        (key,),
    ).fetchone()
    tags = connection.execute(
        "SELECT tag FROM memory_tags WHERE memory_key = ? ORDER BY tag", (key,)
    )
    return {
        "metadata": from_json(metadata),
        "project": project,
        "source": source,
        "kind": kind,
        "tags": [tag for (tag,) in tags],
        "pinned": bool(pinned),
        "text": text,
    }


def close_evidence(connection: sqlite3.Connection, key: int, now: int) -> None:
    """Let what a text states end now, and keep its sentences: the passages are about to go."""
    rows = connection.execute(
        "SELECT v.key, c.text, v.start_char, v.end_char FROM graph_evidence v"
        " JOIN chunks c ON c.id = v.chunk_id WHERE v.memory_key = ?",
        (key,),
    ).fetchall()
    connection.executemany(
        "UPDATE graph_evidence SET chunk_id = NULL, text = ?,"
        " withdrawn = coalesce(withdrawn, ?) WHERE key = ?",
        [(text[start:end], now, evidence) for evidence, text, start, end in rows],
    )


# Those that superseded it, one after the other, and all that it superseded.
_LINE = """
WITH RECURSIVE
newer (key) AS (
    SELECT key FROM memories WHERE id = :id
    UNION
    SELECT m.superseded_by FROM memories m JOIN newer n ON m.key = n.key
    WHERE m.superseded_by IS NOT NULL
),
older (key) AS (
    SELECT key FROM memories WHERE id = :id
    UNION
    SELECT m.key FROM memories m JOIN older o ON m.superseded_by = o.key
)
SELECT m.key, m.id, m.created_at, s.created_at, s.id FROM memories m
LEFT JOIN memories s ON s.key = m.superseded_by
WHERE m.key IN (SELECT key FROM newer UNION SELECT key FROM older)
"""


def versions(connection: sqlite3.Connection, memory_id: str) -> list[MemoryVersion]:
    return in_order(
        version
        for row in connection.execute(_LINE, {"id": memory_id}).fetchall()
        for version in _versions_of(connection, *row)
    )


def _versions_of(
    connection: sqlite3.Connection,
    key: int,
    memory_id: str,
    created: int,
    superseded: int | None,
    superseded_by: str | None,
) -> Iterator[MemoryVersion]:
    changes = connection.execute(
        "SELECT replaced_at, fields, text FROM memory_history WHERE memory_key = ?"
        " ORDER BY key DESC",
        (key,),
    ).fetchall()
    return versions_of(
        memory_id,
        _current(connection, key),
        [Replaced(from_time(at), from_json(fields), text) for at, fields, text in changes],
        from_time(created),
        None if superseded is None else from_time(superseded),
        superseded_by,
    )

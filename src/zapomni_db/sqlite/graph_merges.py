"""Which entities count as one.

Merges are kept by id, apart from the entities: a decision holds for texts to come, and undoing it
parts what was told of the two exactly. `graph_entities.root` is only their result: the last entity
of a chain of merges that exists.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString

from zapomni_db.exceptions import EntityNotFoundError, ValidationError
from zapomni_db.graph_models import Merge
from zapomni_db.graph_rules import find_root
from zapomni_db.sqlite.rows import from_time, to_json, to_time

__all__ = ["merge", "merge_same", "reroot", "undo"]


def merge(connection: sqlite3.Connection, source_id: str, target_id: str) -> Merge:
    """Merge what these two stand for."""
    source, target = _root_id(connection, source_id), _root_id(connection, target_id)
    if source is None or target is None:
        raise EntityNotFoundError("No entity has this id.")
    if source == target:
        raise ValidationError("These two are one entity already.", "VAL_003")
    return _merge(connection, source, target, automatic=False)


def merge_same(connection: sqlite3.Connection, pairs: Sequence[tuple[str, str]]) -> None:
    """Merge what an extractor holds to be one, unless somebody decided about it before."""
    for source_id, target_id in pairs:
        decided = connection.execute(
            "SELECT 1 FROM graph_merges WHERE source_id = ?1"
            " AND (undone_at IS NULL OR target_id = ?2)",
            (source_id, target_id),
        ).fetchone()
        source, target = _root_id(connection, source_id), _root_id(connection, target_id)
        if decided is None and source == source_id and target not in (None, source):
            assert target is not None
            _merge(connection, source, target, automatic=True)


def undo(connection: sqlite3.Connection, source_id: str | None) -> Merge | None:
    """Undo the newest merge, of this entity or of all; by hand only if no entity is named."""
    row = connection.execute(
        "SELECT key, source_id, target_id, automatic, merged_at FROM graph_merges"
        " WHERE undone_at IS NULL AND (source_id = ?1 OR (?1 IS NULL AND automatic = 0))"
        " ORDER BY key DESC LIMIT 1",
        (source_id,),
    ).fetchone()
    if row is None:
        return None
    key, source, target, automatic, merged_at = row
    connection.execute("UPDATE graph_merges SET undone_at = ? WHERE key = ?", (_now(), key))
    reroot(connection, {source})
    return Merge(
        source_id=source,
        target_id=target,
        automatic=bool(automatic),
        merged_at=from_time(merged_at),
    )


def _root_id(connection: sqlite3.Connection, entity_id: str) -> str | None:
    row = connection.execute(
        "SELECT coalesce((SELECT r.id FROM graph_entities r WHERE r.key = e.root), e.id)"
        " FROM graph_entities e WHERE e.id = ?",
        (entity_id,),
    ).fetchone()
    return None if row is None else str(row[0])


def _merge(
    connection: sqlite3.Connection, source_id: str, target_id: str, *, automatic: bool
) -> Merge:
    now = _now()
    # It may stand for itself because what it was merged into is gone for now.
    connection.execute(
        "UPDATE graph_merges SET undone_at = ? WHERE source_id = ? AND undone_at IS NULL",
        (now, source_id),
    )
    connection.execute(
        "INSERT INTO graph_merges (source_id, target_id, automatic, merged_at) VALUES (?, ?, ?, ?)",
        (source_id, target_id, int(automatic), now),
    )
    reroot(connection, {source_id})
    return Merge(
        source_id=source_id,
        target_id=target_id,
        automatic=automatic,
        merged_at=from_time(now),
    )


# Everything that is merged into these, directly or not, and these.
_BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT value FROM json_each(?)
    UNION
    SELECT m.source_id FROM graph_merges m JOIN below b ON m.target_id = b.id
    WHERE m.undone_at IS NULL
)
SELECT id FROM below
"""
_NEXT: LiteralString = (
    "SELECT target_id FROM graph_merges WHERE source_id = ? AND undone_at IS NULL"
)
_KEY: LiteralString = "SELECT key FROM graph_entities WHERE id = ?"


def reroot(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """Find again what each of these, and what was merged into them, stands for."""
    if connection.execute("SELECT 1 FROM graph_merges LIMIT 1").fetchone() is None:
        return
    for (entity_id,) in connection.execute(_BELOW, (to_json(sorted(ids)),)).fetchall():
        connection.execute(
            "UPDATE graph_entities SET root = ? WHERE id = ?",
            (_find_root(connection, entity_id), entity_id),
        )


def _find_root(connection: sqlite3.Connection, entity_id: str) -> int | None:
    def value(sql: LiteralString, asked: str) -> Any:
        row = connection.execute(sql, (asked,)).fetchone()
        return row and row[0]

    root = find_root(
        entity_id,
        lambda source: value(_NEXT, source),
        lambda known: value(_KEY, known) is not None,
    )
    return None if root is None else int(value(_KEY, root))


def _now() -> int:
    return to_time(datetime.now(UTC))

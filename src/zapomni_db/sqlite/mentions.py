"""Which passages name which entities: small reads for a search, which imports no more of the graph.

A merged entity is read as the one it was merged into.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import LiteralString

from zapomni_db.models import Mention
from zapomni_db.sqlite.rows import to_json, to_time

__all__ = ["MENTIONED", "find_named", "get_mentions", "get_named", "to_moment"]

MENTIONED: LiteralString = "since <= :now AND (withdrawn IS NULL OR withdrawn > :now)"
"""A condition on mentions at the time `:now`; no other table has columns of these names."""


def to_moment(as_of: datetime | None) -> int:
    """Return the time asked for; None is now."""
    return to_time(as_of or datetime.now(UTC))


# The roots of all entities with one of these names or aliases.
_NAMED: LiteralString = (
    "WITH asked AS (SELECT value FROM json_each(:names)),"
    " found AS (SELECT key FROM graph_entities WHERE folded IN asked"
    " UNION SELECT entity_key FROM graph_mentions WHERE folded IN asked AND " + MENTIONED + ")"
    " SELECT DISTINCT coalesce(r.id, e.id) FROM found f JOIN graph_entities e ON e.key = f.key"
    " LEFT JOIN graph_entities r ON r.key = e.root ORDER BY 1"
)


def find_named(
    connection: sqlite3.Connection, names: Sequence[str], as_of: datetime | None
) -> list[str]:
    bound = {"names": to_json(list(names)), "now": to_moment(as_of)}
    return [entity_id for (entity_id,) in connection.execute(_NAMED, bound)]


# Entities by id with their root's id and type, and all entities merged into that root.
_LEAVES_BY_ID: LiteralString = """
SELECT a.id, r.id, r.type, l.key FROM graph_entities a
JOIN graph_entities r ON r.key = coalesce(a.root, a.key)
JOIN graph_entities l ON l.key = r.key OR l.root = r.key
WHERE a.id IN (SELECT value FROM json_each(?))"""
# The newest passages that name an entity.
_OF_ENTITY: LiteralString = (
    "SELECT chunk_id, min(start_char) FROM graph_mentions WHERE entity_key = :key AND "
    + MENTIONED
    + " GROUP BY chunk_id ORDER BY chunk_id DESC LIMIT :limit"
)


def get_mentions(
    connection: sqlite3.Connection,
    entity_ids: Sequence[str],
    as_of: datetime | None,
    limit: int,
) -> dict[str, list[Mention]]:
    found: dict[str, list[Mention]] = {entity_id: [] for entity_id in entity_ids}
    rows = connection.execute(_LEAVES_BY_ID, (to_json(list(entity_ids)),)).fetchall()
    now = to_moment(as_of)
    for asked, root, kind, key in rows:
        for chunk_id, start in connection.execute(
            _OF_ENTITY, {"key": key, "now": now, "limit": limit}
        ):
            found[asked].append(Mention(str(chunk_id), root, kind, start))
    for asked, mentions in found.items():
        newest = sorted(mentions, key=lambda m: (-int(m.chunk_id), m.start_char))
        first = {mention.chunk_id: mention for mention in reversed(newest)}
        found[asked] = sorted(first.values(), key=lambda m: -int(m.chunk_id))[:limit]
    return found


# The entities that passages name, each once per passage.
_OF_CHUNKS: LiteralString = (
    "SELECT m.chunk_id, coalesce(r.id, e.id), coalesce(r.type, e.type), min(m.start_char)"
    " FROM graph_mentions m JOIN graph_entities e ON e.key = m.entity_key"
    " LEFT JOIN graph_entities r ON r.key = e.root"
    " WHERE m.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(:chunks)) AND "
    + MENTIONED
    + " GROUP BY 1, 2 ORDER BY 1, 4"
)


def get_named(
    connection: sqlite3.Connection, chunk_ids: Sequence[str], as_of: datetime | None
) -> dict[str, list[Mention]]:
    found: dict[str, list[Mention]] = {}
    bound = {"chunks": to_json(list(chunk_ids)), "now": to_moment(as_of)}
    for chunk_id, entity_id, kind, start in connection.execute(_OF_CHUNKS, bound):
        mention = Mention(str(chunk_id), entity_id, kind, start)
        found.setdefault(mention.chunk_id, []).append(mention)
    return found

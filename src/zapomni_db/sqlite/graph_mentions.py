"""Between passages and the entities they name: small reads, as a search needs them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from zapomni_db.graph_models import Mention
from zapomni_db.sqlite.graph_edges import SPOKEN, moment
from zapomni_db.sqlite.rows import to_json

__all__ = ["named", "of_chunks", "of_entities"]

_NAMED: LiteralString = (
    "WITH asked AS (SELECT value FROM json_each(:names)),"
    " found AS (SELECT key FROM graph_entities WHERE folded IN asked"
    " UNION SELECT entity_key FROM graph_mentions WHERE folded IN asked AND " + SPOKEN + ")"
    " SELECT DISTINCT coalesce(r.id, e.id) FROM found f JOIN graph_entities e ON e.key = f.key"
    " LEFT JOIN graph_entities r ON r.key = e.root ORDER BY 1"
)


def named(
    connection: sqlite3.Connection, names: Sequence[str], as_of: datetime | None
) -> list[str]:
    bound = {"names": to_json(list(names)), "now": moment(as_of)}
    return [entity_id for (entity_id,) in connection.execute(_NAMED, bound)]


_OF_ENTITY: LiteralString = (
    "SELECT chunk_id, min(start_char) FROM graph_mentions WHERE entity_key = :key AND "
    + SPOKEN
    + " GROUP BY chunk_id ORDER BY chunk_id DESC LIMIT :limit"
)


def of_entities(
    connection: sqlite3.Connection,
    entity_ids: Sequence[str],
    as_of: datetime | None,
    limit: int,
) -> dict[str, list[Mention]]:
    found: dict[str, list[Mention]] = {entity_id: [] for entity_id in entity_ids}
    rows = connection.execute(
        "SELECT a.id, r.id, r.type, l.key FROM graph_entities a"
        " JOIN graph_entities r ON r.key = coalesce(a.root, a.key)"
        " JOIN graph_entities l ON l.key = r.key OR l.root = r.key"
        " WHERE a.id IN (SELECT value FROM json_each(?))",
        (to_json(list(entity_ids)),),
    ).fetchall()
    now = moment(as_of)
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


_OF_CHUNKS: LiteralString = (
    "SELECT m.chunk_id, coalesce(r.id, e.id), coalesce(r.type, e.type), min(m.start_char)"
    " FROM graph_mentions m JOIN graph_entities e ON e.key = m.entity_key"
    " LEFT JOIN graph_entities r ON r.key = e.root"
    " WHERE m.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(:chunks)) AND "
    + SPOKEN
    + " GROUP BY 1, 2 ORDER BY 1, 4"
)


def of_chunks(
    connection: sqlite3.Connection, chunk_ids: Sequence[str], as_of: datetime | None
) -> dict[str, list[Mention]]:
    found: dict[str, list[Mention]] = {}
    bound = {"chunks": to_json(list(chunk_ids)), "now": moment(as_of)}
    for chunk_id, entity_id, kind, start in connection.execute(_OF_CHUNKS, bound):
        mention = Mention(str(chunk_id), entity_id, kind, start)
        found.setdefault(mention.chunk_id, []).append(mention)
    return found

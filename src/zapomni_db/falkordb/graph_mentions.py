"""Between passages and the entities they name: small reads, as a search needs them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_edges import SPOKEN, moment
from zapomni_db.falkordb.values import digest
from zapomni_db.graph_models import Mention

__all__ = ["named", "of_chunks", "of_entities"]

_ROOT: LiteralString = "OPTIONAL MATCH (e)-[:IS]->(its:Entity) WITH DISTINCT coalesce(its, e)"
_BY_NAME: LiteralString = f"""
UNWIND $hashes AS hash MATCH (e:Entity {{folded_hash: hash}})
WITH DISTINCT e {_ROOT} AS root RETURN root.id
"""
_BY_ALIAS: LiteralString = f"""
UNWIND $hashes AS hash MATCH ()-[m:MENTIONS {{folded_hash: hash}}]->()
WHERE {SPOKEN} WITH DISTINCT endNode(m) AS e {_ROOT} AS root RETURN root.id
"""


async def named(session: Session, names: Sequence[str], as_of: datetime | None) -> list[str]:
    hashes = [digest(name) for name in names]
    rows = await session.read(_BY_NAME, hashes=hashes)
    rows += await session.read(_BY_ALIAS, hashes=hashes, now=moment(as_of))
    return sorted({entity_id for (entity_id,) in rows})


_OF_ENTITIES: LiteralString = f"""
MATCH (asked:Entity) WHERE asked.id IN $ids OPTIONAL MATCH (asked)-[:IS]->(its:Entity)
WITH asked, coalesce(its, asked) AS root OPTIONAL MATCH (root)<-[:IS]-(merged:Entity)
WITH asked, root, [root] + collect(merged) AS leaves UNWIND leaves AS leaf
MATCH (leaf)<-[m:MENTIONS]-(c:Chunk) WHERE {SPOKEN}
WITH asked, root, c, min(m.start_char) AS start ORDER BY c.key DESC
WITH asked, collect([c.id, root.id, root.type, start]) AS found
RETURN asked.id, found[0..$limit]
"""


async def of_entities(
    session: Session, entity_ids: Sequence[str], as_of: datetime | None, limit: int
) -> dict[str, list[Mention]]:
    rows = await session.read(_OF_ENTITIES, ids=list(entity_ids), now=moment(as_of), limit=limit)
    found = {asked: [Mention(*one) for one in mentions] for asked, mentions in rows}
    return {entity_id: found.get(entity_id, []) for entity_id in entity_ids}


_OF_CHUNKS: LiteralString = f"""
MATCH (c:Chunk)-[m:MENTIONS]->(e:Entity) WHERE c.id IN $ids AND {SPOKEN}
OPTIONAL MATCH (e)-[:IS]->(its:Entity)
WITH c, coalesce(its, e) AS root, min(m.start_char) AS start ORDER BY start
RETURN c.id, collect([c.id, root.id, root.type, start])
"""


async def of_chunks(
    session: Session, chunk_ids: Sequence[str], as_of: datetime | None
) -> dict[str, list[Mention]]:
    rows = await session.read(_OF_CHUNKS, ids=list(chunk_ids), now=moment(as_of))
    return {chunk_id: [Mention(*one) for one in mentions] for chunk_id, mentions in rows}

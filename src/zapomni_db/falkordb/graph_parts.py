"""The parts of a transaction that write the graph; each runs for every row `x` of its list."""

from __future__ import annotations

from typing import LiteralString

__all__ = [
    "CREATE_ENTITIES",
    "GAIN",
    "MARK",
    "NAME",
    "STATE",
    "TELL_AGAIN",
    "UNNAME",
    "UNSTATE",
    "UNTELL",
    "UNTELL_PAST",
]

CREATE_ENTITIES: LiteralString = """
CREATE (:Entity {id: x.id, key: base + x.key, name: x.name, folded: x.folded,
    folded_hash: x.folded_hash, type: x.type, description: x.description,
    confidence: x.confidence, confidence_exact: x.confidence_exact, source: x.source,
    given: x.given})
"""
GAIN: LiteralString = """
MATCH (e:Entity {id: x.id}) SET e.confidence = x.confidence,
    e.confidence_exact = x.confidence_exact, e.description = x.description
"""
TELL_AGAIN: LiteralString = """
MATCH (e:Entity {id: x.id}) SET e.name = x.name, e.folded = x.folded,
    e.folded_hash = x.folded_hash, e.type = x.type, e.description = x.description,
    e.confidence = x.confidence, e.confidence_exact = x.confidence_exact, e.source = x.source,
    e.given = e.given OR x.given
"""
NAME: LiteralString = """
MATCH (c:Chunk {id: x.chunk}) MATCH (e:Entity {id: x.entity})
CREATE (c)-[:MENTIONS {start_char: x.start_char, end_char: x.end_char, confidence: x.confidence,
    confidence_exact: x.confidence_exact, source: x.source, alias: x.alias, folded: x.folded,
    folded_hash: x.folded_hash, since: x.since, withdrawn: x.withdrawn}]->(e)
"""
UNNAME: LiteralString = """
OPTIONAL MATCH (:Chunk {id: x.chunk})-[m:MENTIONS]->(:Entity {id: x.entity})
    WHERE m.start_char = x.start_char AND m.end_char = x.end_char
DELETE m
"""
STATE: LiteralString = """
MATCH (a:Entity {id: x.source_id}) MATCH (b:Entity {id: x.target_id})
CREATE (a)-[:RELATES {key: base + x.key, type: x.type, exclusive: x.exclusive,
    strength: x.strength, strength_exact: x.strength_exact, source: x.source, text: x.text,
    start_char: x.start_char, end_char: x.end_char, said: x.said, since: x.since, until: x.until,
    withdrawn: x.withdrawn, chunk: x.chunk, memory: x.memory}]->(b)
"""
UNSTATE: LiteralString = """
OPTIONAL MATCH ()-[v:RELATES {chunk: x.chunk}]->() WHERE v.key = x.key
DELETE v
"""
UNTELL: LiteralString = """
MATCH (a:Entity {id: x.source_id}) MATCH (b:Entity {id: x.target_id}) WITH s, base, x, a, b
OPTIONAL MATCH (a)-[v:RELATES]->(b) WHERE v.type = x.type AND v.memory IS NULL
DELETE v
"""
UNTELL_PAST: LiteralString = """
OPTIONAL MATCH ()-[v:RELATES {memory: x}]->() WHERE v.chunk IS NULL
DELETE v
"""
MARK: LiteralString = "MATCH (c:Chunk {id: x.id}) SET c.extractor = x.extractor"

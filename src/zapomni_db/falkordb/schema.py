"""The schema of a graph: labels, properties, indexes, constraints.

    (:Store)                one node: schema version, counters; written with every change
    (:EmbeddingSpace)       which vectors may be compared; one is active
    (:Memory)-[:HAS_CHUNK {index}]->(:Chunk)
    (:Memory)-[:WAS]->(:Version)                its earlier versions
    (:Chunk)-[:MENTIONS]->(:Entity)             one for each place
    (:Entity)-[:RELATES {type}]->(:Entity)      one for each statement
    (:Entity)-[:IS]->(:Entity)                  its root: what it was merged into in the end
    (:Merge)                that two entities are one; it outlives them
    (:Names)                one node that has every property (see `declare`)

Texts of users are never indexed themselves (see `values.digest`), and neither are numbers: an
index rounds them above 2^53.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import LiteralString

from redis.exceptions import ResponseError

from zapomni_db.exceptions import QueryError, SchemaError, ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.errors import is_absent_graph

__all__ = [
    "CURRENT_VERSION",
    "HnswOptions",
    "declare",
    "drop_vector_index",
    "ensure_vector_index",
    "find_missing",
    "prepare",
    "require_word_index",
]

CURRENT_VERSION = 2
PAUSE_SECONDS = 0.02

# Indexed properties of nodes: label, property, and whether it is unique.
_INDEXED = (
    ("Store", "name", True),
    ("EmbeddingSpace", "slot", True),
    ("Memory", "id", True),
    ("Memory", "idempotency_hash", True),
    ("Memory", "content_hash", False),
    ("Memory", "project_hash", False),
    ("Memory", "group", False),
    ("Memory", "superseded_by", False),
    ("Chunk", "id", True),
    ("Chunk", "text_hash", False),
    ("Chunk", "pending", False),
    ("Entity", "id", True),
    ("Entity", "folded_hash", False),
    ("Merge", "source_id", False),
    ("Merge", "target_id", False),
)
# Indexed properties of edges: type and property.
_INDEXED_EDGES = (
    ("MENTIONS", "folded_hash"),
    ("RELATES", "chunk"),
    ("RELATES", "memory"),
)
_NAMES = (
    "active alias automatic chunk chunks confidence confidence_exact content_hash context"
    " created_at description dimension embedding end_char evidence exclusive expires_at"
    " extractor fields folded folded_hash given graph group id idempotency_hash"
    " idempotency_key index key keys kind length memory merged_at metadata model name"
    " occurred_at origin parent pending pinned position project project_hash replaced_at said"
    " schema sha256 since size slot source source_id start_char strength strength_exact"
    " superseded_at superseded_by superseded_when tags target_id text text_hash tokens trusted"
    " type undone_at until updated_at vectors version withdrawn words"
).split()
# Creates the index of words. We make the stems: the server must not stem or drop words again.
_CREATE_WORD_INDEX: LiteralString = (
    "CALL db.idx.fulltext.createNodeIndex({label: 'Chunk', stopwords: []},"
    " {field: 'words', nostem: true})"
)
# Creates the Store.
_CREATE_STORE: LiteralString = (
    "MERGE (s:Store {name: 'zapomni'})"
    " ON CREATE SET s.schema = $schema, s.version = 0, s.graph = 0, s.keys = 0,"
    " s.chunks = 0, s.words = 0"
)
# Finds the version of the schema.
_SCHEMA_VERSION: LiteralString = "MATCH (s:Store) RETURN s.schema"
# Counts the nodes that another program may have made.
_COUNT_FOREIGN: LiteralString = "MATCH (n) WHERE NOT n:Names RETURN count(n)"
# Finds the status of all indexes, and of all constraints.
_INDEX_STATUS: LiteralString = "CALL db.indexes() YIELD label, status RETURN label, status"
_CONSTRAINT_STATUS: LiteralString = (
    "CALL db.constraints() YIELD label, properties, status RETURN label, properties, status"
)
# Finds the properties of all indexes, and of all constraints.
_INDEXES: LiteralString = "CALL db.indexes() YIELD label, properties RETURN label, properties"
_CONSTRAINTS: LiteralString = (
    "CALL db.constraints() YIELD label, properties RETURN label, properties"
)
# Finds the options of the indexes of chunks.
_CHUNK_INDEXES: LiteralString = (
    "CALL db.indexes() YIELD label, options WHERE label = 'Chunk' RETURN options"
)


@dataclass(frozen=True)
class HnswOptions:
    """How the vector index is built and searched."""

    m: int = 16
    """Neighbors a vector is linked to."""
    ef_construction: int = 128
    """Candidates compared when one is added."""
    ef_runtime: int = 64
    """Candidates compared when one is searched."""

    def __post_init__(self) -> None:
        if not (2 <= self.m <= 512 and 1 <= self.ef_construction <= 4096):
            raise ValidationError("m must be from 2 to 512, ef_construction to 4096", "VAL_003")
        if not 1 <= self.ef_runtime <= 4096:
            raise ValidationError("ef_runtime must be from 1 to 4096", "VAL_003")


async def prepare(session: Session) -> None:
    """Create a missing graph, refuse one that is not ours, wait until its indexes are in use."""
    version = await _schema_version(session)
    if version is None:
        await _create(session)
    elif version > CURRENT_VERSION:
        raise SchemaError(
            f"The graph was made by a newer version of Zapomni (schema {version}, "
            f"this one knows {CURRENT_VERSION}). Upgrade Zapomni; nothing was changed.",
            "SCHEMA_003",
        )
    elif version < CURRENT_VERSION:
        raise SchemaError(
            f"The graph was made by a trial version of Zapomni (schema {version}, this one needs "
            f"{CURRENT_VERSION}). Choose another name for ours; nothing was changed.",
            "SCHEMA_003",
        )
    await _wait_for_indexes(session)


async def _schema_version(session: Session) -> int | None:
    try:
        rows = await session.read(_SCHEMA_VERSION)
        if rows:
            ((version,),) = rows
            return int(version)
        ((foreign,),) = await session.read(_COUNT_FOREIGN)
        if foreign:
            raise SchemaError(
                "The graph belongs to another program. Choose another name for ours.",
                "SCHEMA_004",
            )
    except ResponseError as error:
        if is_absent_graph(error):
            return None
        raise
    return None


async def _create(session: Session) -> None:
    """Create indexes and constraints, and the Store last; other processes may do so at once."""
    await declare(session, *_NAMES)
    await _unless_there(session.write(_CREATE_WORD_INDEX))
    for label, name, is_unique in _INDEXED:
        await _unless_there(session.write(f"CREATE INDEX FOR (n:{label}) ON (n.{name})"))
        if is_unique:
            unique = ("UNIQUE", "NODE", label, "PROPERTIES", 1, name)
            await _unless_there(
                session.command("GRAPH.CONSTRAINT", "CREATE", session.graph, *unique)
            )
    for kind, name in _INDEXED_EDGES:
        await _unless_there(session.write(f"CREATE INDEX FOR ()-[r:{kind}]-() ON (r.{name})"))
    await _wait_for_indexes(session)
    await session.write(_CREATE_STORE, schema=CURRENT_VERSION)


async def declare(session: Session, *names: str) -> None:
    """Introduce properties before a statement that may fail is the first to set them.

    FalkorDB 4.16 forgets names that came with a statement it rolled back, but its cached plan of
    that statement still has their numbers: the next run would write under other names.
    """
    settings = ", ".join(f"n.{name} = true" for name in names)
    await session.write(f"MERGE (n:Names) SET {settings}")


async def _unless_there(creation: Awaitable[object]) -> None:
    try:
        await creation
    except ResponseError as error:
        if "already" in str(error):
            return
        # A more specific error (no permission, no memory) is translated elsewhere.
        if type(error) is not ResponseError or str(error).startswith("MISCONF"):
            raise
        raise SchemaError(
            "The server refused to create an index or a constraint of the graph. Choose another "
            "name for the graph, or upgrade the server.",
            "SCHEMA_001",
            original_exception=error,
        ) from error


async def _wait_for_indexes(session: Session) -> None:
    """Wait until every label's index and every constraint of ours is in use.

    While an index is rebuilt, the one before it stays in use: there is nothing to wait for.
    """
    labels = {label for label, _, _ in _INDEXED}
    unique = {(label, name) for label, name, is_unique in _INDEXED if is_unique}
    while True:
        indexes = await session.read(_INDEX_STATUS)
        in_use = {label for label, status in indexes if status == "OPERATIONAL"}
        constraints = await session.read(_CONSTRAINT_STATUS)
        ours = {status for label, (name, *_), status in constraints if (label, name) in unique}
        if "FAILED" in ours:
            raise SchemaError(
                "A constraint of the graph could not be created: two of its nodes have the same "
                "id. Restore a copy.",
                "SCHEMA_002",
            )
        if ours <= {"OPERATIONAL"} and labels & {label for label, _ in indexes} <= in_use:
            return
        await asyncio.sleep(PAUSE_SECONDS)


async def require_word_index(session: Session) -> None:
    """Check that words can be searched: without the index the server silently finds nothing.

    Raises:
        QueryError: QUERY_003, the index is missing.
    """
    rows = await session.read(_INDEXES)
    if any(label == "Chunk" and "words" in names for label, names in rows):
        return
    # Not created again here: the server refuses its options once the label has other indexes.
    raise QueryError(
        "The graph's index of words is missing: another program deleted it. Copy the memories "
        "into a new graph with `zapomni db copy`.",
        "QUERY_003",
    )


async def find_missing(session: Session) -> list[str]:
    """Return the names of missing indexes and constraints."""
    indexes = await session.read(_INDEXES)
    indexed = {(label, name) for label, names in indexes for name in names}
    constraints = await session.read(_CONSTRAINTS)
    unique = {(label, name) for label, names in constraints for name in names}
    edges = [(kind, name, False) for kind, name in _INDEXED_EDGES]
    wanted = [("Chunk", "words", False), *_INDEXED, *edges]
    return [
        f"index of {label}.{name}"
        for label, name, is_unique in wanted
        if (label, name) not in indexed or (is_unique and (label, name) not in unique)
    ]


async def ensure_vector_index(session: Session, name: str, dimension: int) -> None:
    """Create the vector index of this property of chunks, again if its dimension differs.

    On a large graph it is built in the background, and searches compare with every vector until it
    is ready.
    """
    if (name, dimension) in session.known.indexes:
        return
    rows = await session.read(_CHUNK_INDEXES)
    found = {options[name].get("dimension") for (options,) in rows if name in options}
    if found != {dimension}:
        await drop_vector_index(session, name)
        options = session.hnsw
        await _unless_there(
            session.write(
                f"CREATE VECTOR INDEX FOR (c:Chunk) ON (c.{name}) OPTIONS"
                f" {{dimension: {dimension:d}, similarityFunction: 'cosine', M: {options.m:d},"
                f" efConstruction: {options.ef_construction:d}, efRuntime: {options.ef_runtime:d}}}"
            )
        )
    session.known.indexes.add((name, dimension))


async def drop_vector_index(session: Session, name: str) -> None:
    try:
        await session.write(f"DROP VECTOR INDEX FOR (c:Chunk) ON (c.{name})")
    except ResponseError as error:
        if "no such index" not in str(error):
            raise

"""What only the specification asks of this engine; Zapomni itself does without.

`FalkorDBClient` takes these functions as methods. Messages name the rule that was broken, never the
value that broke it: no text, no metadata value.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from falkordb.asyncio.graph import AsyncGraph
from falkordb.asyncio.query_result import QueryResult
from pydantic import ValidationError as PydanticValidationError

from falkordb import Edge, Node
from zapomni_db.exceptions import DatabaseError, ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_reads import ENTITY_DATA, to_entity_data
from zapomni_db.falkordb.search import get_passages, rank_by_words, search_vectors
from zapomni_db.falkordb.upkeep import get_version
from zapomni_db.falkordb.values import decode
from zapomni_db.models import (
    BM25SearchResult,
    ChunkData,
    EmbeddingSpace,
    EntityData,
    Memory,
    MemoryData,
    MemoryPatch,
    TextSearchRequest,
    VectorSearchRequest,
    VectorSearchResult,
)

if TYPE_CHECKING:
    from zapomni_db.falkordb.client import FalkorDBClient

__all__ = [
    "EntityAtDistance",
    "GraphRows",
    "add_memories_batch",
    "add_memory",
    "bm25_search",
    "get_related",
    "graph_query",
    "health_check",
    "to_patch",
    "vector_search",
]

MAX_TEXT_CHARS = 1_000_000
MAX_CHUNKS = 100
MAX_METADATA_CHARS = 100_000
MAX_METADATA_DEPTH = 10


# --- Adding checked memories ------------------------------------------------------------


async def add_memory(client: FalkorDBClient, memory: Memory) -> str:
    """Store a memory with its chunks and embeddings, all or nothing; return its id.

    Equal texts are separate memories. A chunk whose embedding is all zeros is stored
    without one, and found by its words.

    Raises:
        ValidationError: The memory breaks a rule; the database was not asked.
        DatabaseError: Nothing was stored.
    """
    checked = _to_memory_data(memory, client.dimension)
    (stored,) = await client.store("add_memory", [checked], join=False)
    return stored.memory_id


async def add_memories_batch(client: FalkorDBClient, memories: Sequence[Memory]) -> list[str]:
    """Store all of these or none, in one statement; return their ids in order."""
    checked = [_to_memory_data(memory, client.dimension) for memory in memories]
    stored = await client.store("add_memories_batch", checked, join=False)
    return [one.memory_id for one in stored]


def _to_memory_data(memory: Memory, dimension: int) -> MemoryData:
    """Check a memory and return it as it is stored, with a new id."""
    if not memory.text.strip():
        raise _refuse("text cannot be empty", "VAL_001")
    if len(memory.text) > MAX_TEXT_CHARS:
        raise _refuse(f"text exceeds max length ({MAX_TEXT_CHARS:,})", "VAL_003")
    _check_counts(memory)
    for number, (chunk, embedding) in enumerate(zip(memory.chunks, memory.embeddings, strict=True)):
        if chunk.index != number:
            raise _refuse(f"chunk index mismatch: expected {number}, got {chunk.index}", "VAL_003")
        if not chunk.text.strip():
            raise _refuse(f"chunk {number} text cannot be empty", "VAL_001")
        if len(embedding) != dimension:
            raise _refuse(
                f"embedding {number} dimension must be {dimension}, got {len(embedding)}", "VAL_003"
            )
        if not all(isinstance(value, int | float) for value in embedding):
            raise _refuse(f"embedding {number} contains non-numeric values", "VAL_002")
        if not all(map(math.isfinite, embedding)):
            raise _refuse(f"embedding {number} contains values that are not finite", "VAL_003")
    # Depth first: metadata that contains itself would never end as JSON.
    if _is_deeper(memory.metadata, MAX_METADATA_DEPTH):
        raise _refuse(f"metadata nesting exceeds max depth ({MAX_METADATA_DEPTH})", "VAL_003")
    try:
        size = len(json.dumps(memory.metadata))
    except (TypeError, ValueError) as error:
        raise _refuse(f"metadata not JSON-serializable: {error}", "VAL_002") from error
    if size > MAX_METADATA_CHARS:
        raise _refuse("metadata exceeds max size (100 KB)", "VAL_003")
    return MemoryData(
        memory_id=str(uuid.uuid4()),
        text=memory.text,
        chunks=[
            # A vector of zeros has no direction: the chunk waits for a real one instead.
            ChunkData(**dict(chunk), embedding=embedding if any(embedding) else None)
            for chunk, embedding in zip(memory.chunks, memory.embeddings, strict=True)
        ],
        metadata=memory.metadata,
        timestamp=datetime.now(UTC),
        space=EmbeddingSpace(model="unknown", dimension=dimension),
    )


def _refuse(reason: str, code: str) -> ValidationError:
    return ValidationError(f"Validation failed for memory: {reason}", code)


def _check_counts(memory: Memory) -> None:
    chunks, embeddings = len(memory.chunks), len(memory.embeddings)
    if not chunks:
        raise _refuse("chunks list cannot be empty", "VAL_001")
    if chunks > MAX_CHUNKS:
        raise _refuse(f"too many chunks (max {MAX_CHUNKS})", "VAL_003")
    if not embeddings:
        raise _refuse("embeddings list cannot be empty", "VAL_001")
    if chunks != embeddings:
        raise _refuse(
            f"chunks and embeddings count mismatch ({chunks} chunks, {embeddings} embeddings)",
            "VAL_003",
        )


def _is_deeper(value: Any, levels: int) -> bool:
    if levels < 0:
        return True
    if isinstance(value, dict):
        return any(_is_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_is_deeper(item, levels - 1) for item in value)
    return False


def to_patch(patch: MemoryPatch | Mapping[str, Any]) -> MemoryPatch:
    if isinstance(patch, MemoryPatch):
        return patch
    unknown = patch.keys() - MemoryPatch.model_fields.keys()
    if unknown:
        raise ValidationError(
            f"These fields can be changed: {', '.join(MemoryPatch.model_fields)}", "VAL_004"
        )
    try:
        return MemoryPatch.model_validate(dict(patch))
    except PydanticValidationError as error:
        fields = ", ".join(sorted({str(e["loc"][0]) for e in error.errors()}))
        raise ValidationError(f"These fields have the wrong type: {fields}", "VAL_002") from error


# --- Searching by one arm ---------------------------------------------------------------


async def vector_search(
    client: FalkorDBClient, request: VectorSearchRequest
) -> list[VectorSearchResult]:
    """Return the nearest chunks, exactly scored, best first."""
    return await client.run("vector_search", _vector_search, request)


async def _vector_search(
    session: Session, request: VectorSearchRequest
) -> list[VectorSearchResult]:
    scores = await search_vectors(session, request)
    passages = await get_passages(session, list(scores))
    return [
        VectorSearchResult.model_construct(
            **passages[chunk_id]._asdict(), similarity_score=min(max(score, 0.0), 1.0)
        )
        for chunk_id, score in scores.items()
        if chunk_id in passages
    ]


async def bm25_search(client: FalkorDBClient, request: TextSearchRequest) -> list[BM25SearchResult]:
    """Return the chunks that contain any term, best first."""
    return await client.run("bm25_search", _bm25_search, request)


async def _bm25_search(session: Session, request: TextSearchRequest) -> list[BM25SearchResult]:
    scores = await rank_by_words(session, request)
    passages = await get_passages(session, list(scores))
    return [
        BM25SearchResult.model_construct(**passages[chunk_id]._asdict(), bm25_score=score)
        for chunk_id, score in scores.items()
        if chunk_id in passages
    ]


# --- The graph, whatever the time -------------------------------------------------------

MAX_DEPTH = 10

# The entities one relationship away from those of the border that were not seen before.
_NEXT_ENTITIES: LiteralString = (
    "MATCH (a:Entity)-[:RELATES]-(e:Entity) WHERE a.id IN $border AND NOT e.id IN $seen"
    f" WITH DISTINCT e ORDER BY e.id LIMIT $limit RETURN {ENTITY_DATA}"
)


class EntityAtDistance(NamedTuple):
    """An entity and how many relationships away it is."""

    entity: EntityData
    distance: int


async def get_related(
    client: FalkorDBClient, entity_id: str, depth: int = 1, limit: int = 100
) -> list[EntityAtDistance]:
    """Return the entities that relationships lead to in at most `depth` steps, nearest first.

    Raises:
        ValidationError: depth is not from 1 to 10, or limit below 1.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise ValidationError(f"depth must be from 1 to {MAX_DEPTH}, got {depth}", "VAL_003")
    if limit < 1:
        raise ValidationError(f"limit must be at least 1, got {limit}", "VAL_003")
    return await client.run("get_related", _get_related, entity_id, depth, limit)


async def _get_related(
    session: Session, entity_id: str, depth: int, limit: int
) -> list[EntityAtDistance]:
    found: list[EntityAtDistance] = []
    seen = border = [entity_id]
    for distance in range(1, depth + 1):
        rows = await session.read(
            _NEXT_ENTITIES, border=border, seen=seen, limit=limit - len(found)
        )
        found += [EntityAtDistance(to_entity_data(row), distance) for row in rows]
        border = [found_id for found_id, *_ in rows]
        seen = seen + border
        if not border or len(found) >= limit:
            break
    return found


@dataclass(frozen=True)
class GraphRows:
    """The answer to a statement; nodes, edges and paths are those of the `falkordb` package."""

    rows: list[dict[str, Any]]
    """Values by the name of their column."""

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self.rows)


async def graph_query(
    client: FalkorDBClient, statement: str, parameters: Mapping[str, Any] | None = None
) -> GraphRows:
    """Run a Cypher statement that only reads, with parameters; the server refuses others."""
    return await client.run("graph_query", _graph_query, statement, parameters or {})


async def _graph_query(session: Session, statement: str, values: Mapping[str, Any]) -> GraphRows:
    answer = await session.ask("GRAPH.RO_QUERY", statement, dict(values))
    parsed = QueryResult(AsyncGraph(session.redis, session.graph))
    await parsed.parse(answer)
    names = [name for _, name in parsed.header]
    rows = [dict(zip(names, map(_decode_texts, row), strict=True)) for row in parsed.result_set]
    return GraphRows(rows)


def _decode_texts(value: Any) -> Any:
    """Return a value with its texts as they were given."""
    if isinstance(value, str):
        return decode(value)
    if isinstance(value, list):
        return [_decode_texts(item) for item in value]
    if isinstance(value, dict):
        return {name: _decode_texts(item) for name, item in value.items()}
    if isinstance(value, Node | Edge):
        value.properties = _decode_texts(value.properties)
    return value


# --- The server -------------------------------------------------------------------------


async def health_check(client: FalkorDBClient) -> bool:
    """Return whether the server answers. Never raises."""
    try:
        await client.pool.run("health_check", get_version, max_retries=0)
    except DatabaseError:
        return False
    return True

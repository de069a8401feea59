"""The frozen models every layer shares.

They live in the leaf package so that no layer has to import a higher one to use them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from zapomni_db.values import from_json

__all__ = [
    "KINDS",
    "NEVER",
    "BM25SearchResult",
    "Chunk",
    "ChunkData",
    "ChunkVector",
    "Embedding",
    "EmbeddingSpace",
    "EntityData",
    "FrozenModel",
    "Hits",
    "HybridSearchResult",
    "Memory",
    "MemoryChanges",
    "MemoryData",
    "MemoryFields",
    "MemoryFilter",
    "MemoryPage",
    "MemoryPatch",
    "MemoryRecord",
    "MemoryStats",
    "MemorySummary",
    "Mention",
    "NewMemory",
    "Passage",
    "PendingChunk",
    "Place",
    "QueryEmbedding",
    "RelationshipData",
    "StoreState",
    "StoredMemory",
    "Surroundings",
    "TaskStatus",
    "TextSearchRequest",
    "VectorRanking",
    "VectorSearchRequest",
    "VectorSearchResult",
]


KINDS = ("note", "decision", "preference", "fact", "document")
"""What memories usually are; any other word will do."""
NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""Given as the end of a memory that is to have none."""


_FIELD_NAMES: dict[type[BaseModel], set[str]] = {}


class FrozenModel(BaseModel):
    """The base of the models that layers exchange."""

    # hide_input: a validation message must not quote what a user stored or asked for.
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, defer_build=True)

    @classmethod
    def from_fields(cls, **fields: Any) -> Self:
        """Return a model from checked values of all its fields; thousands are made per second.

        Like `model_construct`, which takes more than twice as long to look up defaults and aliases.
        """
        one = cls.__new__(cls)
        object.__setattr__(one, "__dict__", fields)
        # One set for all of a class: a copy of a model gets a copy of it.
        names = _FIELD_NAMES.get(cls) or _FIELD_NAMES.setdefault(cls, set(fields))
        object.__setattr__(one, "__pydantic_fields_set__", names)
        object.__setattr__(one, "__pydantic_extra__", None)
        object.__setattr__(one, "__pydantic_private__", None)
        return one


# --- Memories ---------------------------------------------------------------------------


class Chunk(FrozenModel):
    """A passage of a text: `text == source[start_char:end_char]`."""

    text: str
    index: int
    start_char: int = 0
    end_char: int = 0
    metadata: dict[str, Any] = {}


class ChunkData(Chunk):
    """A passage as it is stored; without an embedding its vector is pending."""

    embedding: list[float] | None = None
    tokens: bytes | None = None
    """Compact vectors of its tokens, if the embedder makes them."""
    context: str = ""
    """More words to find it by: its date, parts of its identifiers."""


class Memory(FrozenModel):
    """A text, its chunks and their vectors side by side: what `FalkorDBClient.add_memory` takes."""

    text: str
    chunks: list[Chunk]
    embeddings: list[list[float]]
    metadata: dict[str, Any] = {}


class Embedding(FrozenModel):
    """What a model makes of a text: one vector, and perhaps one for each token."""

    vector: list[float]
    tokens: bytes | None = None


class QueryEmbedding(FrozenModel):
    """What a model makes of a question."""

    vector: list[float]
    tokens: bytes | None = None
    """One vector per token, whole; None if the embedder makes none."""
    words: list[str] = []
    """The text of each token."""
    ids: list[int] = []
    """The number of each token in the model's vocabulary."""


class EmbeddingSpace(FrozenModel):
    """Which vectors may be compared with each other: those of one model, one dimension."""

    model: str
    dimension: int = Field(ge=1)
    sha256: str = ""


class NewMemory(FrozenModel):
    """What a new memory is made of, from the request to the store."""

    text: str
    metadata: dict[str, Any] = {}
    project: str = ""
    source: str = ""
    kind: str = "note"
    tags: list[str] = []
    pinned: bool = False
    idempotency_key: str | None = None
    supersedes: str | None = None
    parent: str = ""
    """The conversation, session, document or file this is a part of."""
    position: int = 0
    """Its place in its parent: the number of a turn, a page, a line."""
    occurred_at: datetime | None = None
    """When what it describes happened; None: when it is stored."""
    expires_at: datetime | None = None
    """From when on it is no longer given to sessions; None: never."""
    origin: str = ""
    """Where it came from, such as `import:NAME` or `sync:NAME`; empty: the user's own."""
    trusted: bool = True
    """Whether it may be given to a session unasked."""


class MemoryData(NewMemory):
    """A memory to be stored, all of it or nothing."""

    memory_id: str
    chunks: list[ChunkData]
    timestamp: datetime
    space: EmbeddingSpace | None = None
    """The space the chunks' embeddings belong to; None when every vector is pending."""


class StoredMemory(FrozenModel):
    """What became of a memory given to the store."""

    memory_id: str
    status: Literal["created", "duplicate", "replayed"] = "created"
    """`duplicate`: the same text was already there. `replayed`: the same idempotency key was."""


class MemoryChanges(FrozenModel):
    """Changes to a memory; None leaves a field as it is."""

    text: str | None = None
    metadata: dict[str, Any] | None = None
    project: str | None = None
    source: str | None = None
    kind: str | None = None
    tags: list[str] | None = None
    pinned: bool | None = None
    expires_at: datetime | None = None
    """`NEVER` takes the end away."""
    trusted: bool | None = None
    supersedes: list[str] | None = None
    """Memories stored before it that it replaces, in addition to those it replaces already."""


class MemoryPatch(MemoryChanges):
    """Changes to a stored memory; a new text comes with its chunks and their space."""

    chunks: list[ChunkData] | None = None
    space: EmbeddingSpace | None = None


class MemoryFields(FrozenModel):
    """What is known of a stored memory wherever it is shown."""

    memory_id: str
    metadata: dict[str, Any]
    project: str
    """Its name; at the store, its key."""
    project_key: str = ""
    source: str
    kind: str
    tags: list[str]
    pinned: bool
    parent: str = ""
    position: int = 0
    occurred_at: datetime
    created_at: datetime
    expires_at: datetime | None = None
    origin: str = ""
    trusted: bool = True

    def cautions(self) -> list[str]:
        """Return why it is given to no session, as far as that is so: what a reader should see."""
        expired = self.expires_at is not None and self.expires_at <= datetime.now(UTC)
        untrusted = f"not trusted: {self.origin or 'unknown origin'}"
        return [*(["expired"] if expired else []), *([] if self.trusted else [untrusted])]


class MemorySummary(MemoryFields):
    """A stored memory without its text."""

    preview: str
    length: int
    updated_at: datetime
    superseded_by: str | None = None
    chunk_count: int


class MemoryRecord(MemorySummary):
    """A stored memory, whole."""

    text: str


class MemoryPage(FrozenModel):
    """One page of a listing and how many memories match in all."""

    items: list[MemorySummary]
    total: int
    elsewhere: int = 0
    """How many more there are in other projects, if it was not said in which."""


class MemoryFilter(FrozenModel):
    """Which memories count. Every condition given must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    project: str | None = None
    """A project's name or key; at the store, what memories carry."""
    projects: list[str] | None = None
    """Any of these, as memories carry them; the empty one is of no project."""
    not_projects: list[str] = []
    """None of these."""
    source: str | None = None
    kind: str | None = None
    not_kind: str | None = None
    parent: str | None = None
    tags: list[str] = []
    """A memory must carry all of these."""
    pinned: bool | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    """Happened at or after `since` and before `until`."""
    path: str | None = None
    """The source is this file, or lies in this folder: a path or the end of one."""
    as_of: AwareDatetime | None = None
    """What was true then: it had happened, and what replaced it had not."""
    known_at: AwareDatetime | None = None
    """What was known then: it was stored, and what replaced it was not."""
    include_superseded: bool = False

    def in_every_project(self) -> MemoryFilter:
        """Return the same filter without its conditions on projects."""
        return self.model_copy(update={"project": None, "projects": None, "not_projects": []})


# --- Search -----------------------------------------------------------------------------


class VectorSearchRequest(FrozenModel):
    """Find the chunks nearest to a vector."""

    query_embedding: list[float]
    limit: int = 10
    min_similarity: float = 0.5
    filters: MemoryFilter = Field(default_factory=MemoryFilter)
    second: bool = False
    """Whether the vector belongs to the second space."""


class TextSearchRequest(FrozenModel):
    """Find the chunks that contain any of these words, best match first."""

    terms: list[str]
    limit: int = 10
    filters: MemoryFilter = Field(default_factory=MemoryFilter)
    together: bool = False
    """Whether chunks with most of the words are enough: each is in too many to rank them all."""


class VectorRanking(FrozenModel):
    """The nearest chunks, and how near chunks are to this question on the whole."""

    scores: dict[str, float]
    """Cosines by chunk id, best first."""
    mean: float = 0.0
    deviation: float = 0.0
    count: int = 0


class StoreState(NamedTuple):
    """What a search has to know of a store before it asks for anything."""

    version: int
    """A number that changes with memories and the graph, whichever process changes them."""
    space: EmbeddingSpace | None
    """The space that searches use, or None before the first vector."""
    chunks: int
    """About how many chunks there are."""
    second: EmbeddingSpace | None = None
    """The space of the passages that the model of the first does not read, if there are any."""
    has_graph: bool = True
    """Whether passages may name entities."""


class Place(NamedTuple):
    """Where a passage is: its group and its neighbors.

    Passages of one memory follow each other; so do memories of one parent. Not a pydantic model:
    a search reads hundreds.
    """

    chunk_id: str
    memory_id: str
    group: str
    """The parent, or the memory itself if it has none."""
    group_size: int
    """How many passages that has."""
    position: int
    """The order among the memories of its parent; without one, among the passages of its memory."""
    before: str | None
    after: str | None
    neighbours: tuple[str, ...]
    """Those of the two that there are."""
    occurred_at: datetime
    selected: bool
    """Whether the filter lets this passage through."""


class Passage(NamedTuple):
    """A passage with its text. Not a pydantic model: a search reads hundreds."""

    chunk_id: str
    memory_id: str
    text: str
    stored_metadata: str
    """The memory's, as JSON: most readers need only the text."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The memory's."""
        found: dict[str, Any] = from_json(self.stored_metadata)
        return found


class _Hit(FrozenModel):
    chunk_id: str
    memory_id: str
    text: str
    metadata: dict[str, Any]


class VectorSearchResult(_Hit):
    """A chunk found by meaning."""

    similarity_score: float = Field(ge=0.0, le=1.0)


class BM25SearchResult(_Hit):
    """A chunk found by its words; a higher score is a better match."""

    bm25_score: float


class HybridSearchResult(_Hit):
    """A chunk after the arms' scores were fused."""

    similarity_score: float
    bm25_score: float
    fused_score: float


# --- Knowledge graph --------------------------------------------------------------------


class EntityData(FrozenModel):
    """Something a text mentions: a person, a technology, a file.

    An extractor returns one per mention. Mentions of the same thing share `entity_id`, `name` and
    `type`; each has its own place: `text[start_char:end_char] == surface`.
    """

    entity_id: str
    name: str
    """The canonical name, such as `PostgreSQL` for a mention of `postgres`."""
    type: str
    description: str = ""
    confidence: float = Field(ge=0.0, le=1.0)
    source: str = "unknown"
    """Who found it: `rules`, `gazetteer`, `spacy`, a language model's provider, `manual`."""
    surface: str = ""
    """The words as they appear in the text."""
    start_char: int = 0
    end_char: int = 0
    aliases: list[str] = []
    """Other names of the same thing, as far as they are known; never the canonical one."""


class RelationshipData(FrozenModel):
    """A relationship of one entity to another, and the words that state it."""

    source_entity_id: str
    target_entity_id: str
    relationship_type: str
    strength: float = Field(ge=0.0, le=1.0)
    evidence: str = ""
    """The sentence that says so: `text[start_char:end_char] == evidence`."""
    start_char: int = 0
    end_char: int = 0
    source: str = "unknown"
    """Who found it: `rules`, `cooccurrence`, a language model's provider, `manual`."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """Since when and until when it holds, if the sentence itself says so."""
    exclusive: bool = False
    """Whether the source has one relationship of this type at a time, so that a newer ends it."""


class Mention(NamedTuple):
    """A passage and an entity it names."""

    chunk_id: str
    entity_id: str
    type: str
    start_char: int
    """Where it is named first."""


class Surroundings(NamedTuple):
    """Chunks that may answer a question, and what is around them."""

    places: dict[str, Place]
    members: dict[str, list[str]]
    """All chunks of their groups, by the group's name, if asked for."""
    similarities: dict[str, float]
    """How near the chunks that the filter selects and their neighbors are to the question."""
    tokens: dict[str, bytes]
    """Their token vectors, if asked for."""


class Hits(NamedTuple):
    """What a search found, to be compared and shown."""

    summaries: dict[str, MemorySummary]
    passages: dict[str, Passage]
    beginnings: dict[str, str]
    """How those texts begin that are in several chunks, if asked for."""
    cosines: dict[frozenset[str], float]
    """How near chunks of memories without a parent are to each other, if asked for."""
    elsewhere: int
    """How many memories the other chunks belong to, of those that the filter selects."""


# --- Status -----------------------------------------------------------------------------


class MemoryStats(FrozenModel):
    """What is stored, and how well the caches work."""

    total_memories: int
    total_chunks: int
    total_entities: int
    """All that are stored: dates, and names that are no nodes yet, included."""
    code_files: int = 0
    """Files of indexed repositories: memories of kind `code`, not among the others."""
    database_size_mb: float
    graph_name: str
    engine: str = ""
    schema_version: int | None = None
    pending_vectors: int = 0
    embedding_model: str | None = None
    embedding_dimension: int | None = None
    cache_hit_rate: float | None = None
    """Share of texts and questions that needed no embedding."""
    search_cache_hit_rate: float | None = None
    """Share of searches answered from memory because nothing was written since."""
    avg_query_latency_ms: float | None = None
    languages: str | None = None
    """Set if the model does not read the language of what is stored."""
    notice: str | None = None
    """What should be mended, and by which command."""


class TaskStatus(FrozenModel):
    """How far a background task is."""

    task_id: str
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    progress: float = Field(ge=0.0, le=1.0)
    message: str = ""
    error: str | None = None
    """Why it failed, or why its last attempt did and it waits for the next."""
    error_code: str | None = None
    task_type: str = ""
    params: dict[str, Any] | None = None
    """What it was asked to do; None if that is too long to be shown."""
    done: int = 0
    total: int | None = None
    """How many there are to do, in the task's own units; None until it is known."""
    attempts: int = 0
    result: Any = None
    cancel_requested: bool = False
    stalled: bool = False
    """Running, but its process fell silent: the next worker takes it over."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    updated_at: datetime | None = None
    finished_at: datetime | None = None


# --- Pending vectors --------------------------------------------------------------------


class PendingChunk(FrozenModel):
    """A chunk that has no vector in some space yet."""

    chunk_id: str
    text: str
    kind: str = ""
    source: str = ""
    """Its memory's."""


class IndexedChunk(NamedTuple):
    """A passage, and the words it is found by in addition to its own."""

    chunk_id: str
    text: str
    context: str


class ChunkVector(FrozenModel):
    """A vector for a chunk that was pending."""

    chunk_id: str
    embedding: list[float]
    tokens: bytes | None = None

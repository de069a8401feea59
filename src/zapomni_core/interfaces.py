"""Requests and responses of memories and search, and what the engine asks of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from zapomni_db.code_models import CheckedCitation
from zapomni_db.models import (
    Chunk,
    Embedding,
    EmbeddingSpace,
    EntityData,
    FrozenModel,
    MemoryChanges,
    MemoryFields,
    MemoryFilter,
    MemoryRecord,
    NewMemory,
    QueryEmbedding,
    RelationshipData,
)

__all__ = [
    "AddMemoryRequest",
    "AddMemoryResponse",
    "Embedder",
    "EntityExtractor",
    "ListRequest",
    "MemoryEngine",
    "ModelEmbedder",
    "RelationshipExtractor",
    "Replacement",
    "Reranker",
    "SearchRequest",
    "SearchResponse",
    "SearchResult",
    "SimilarMemory",
    "TextChunker",
    "TokenEmbedder",
    "UpdateMemoryRequest",
    "UpdatedMemory",
]


class AddMemoryRequest(NewMemory):
    """A text to store."""

    cites: list[str] = []
    """Code it cites: `path`, `path:symbol` or `path:L10-L20`."""
    folder: str = ""
    """Where it is added: its repository is the project, if `project` is empty, and relative paths
    in `cites` start there. A `project` of `*` makes a global memory."""
    agent: bool = False
    """Whether an agent adds it: in a folder that is not trusted, it adds to that folder."""
    redact: bool = False
    """Whether secrets in it are masked before it is stored."""


class SimilarMemory(FrozenModel):
    """A stored memory that a new one resembles, and may replace."""

    memory_id: str
    text: str
    """Its beginning in one line, without secrets."""
    kind: str
    occurred_at: datetime
    similarity: float | None = None
    """The cosine of both; None if they were compared by their words."""


class AddMemoryResponse(FrozenModel):
    """The result of adding a text."""

    memory_id: str
    chunks_created: int
    text_preview: str
    status: Literal["created", "duplicate", "replayed"] = "created"
    pending_vectors: int = 0
    """Chunks found by words only until their vectors are made."""
    notice: str | None = None
    """What the user should know: secrets in it, a duplicate, a missing model, pending vectors."""
    similar: list[SimilarMemory] = []
    """Current memories of the project that it resembles, at most three. If it replaces one, say so
    by `supersedes` of an update."""


class UpdateMemoryRequest(MemoryChanges):
    """Changes to a memory; None leaves a field as it is."""

    memory_id: str
    cites: list[str] | None = None
    folder: str = ""
    agent: bool = False
    """As for a new memory."""
    redact: bool = False
    """As for a new memory, for what is changed."""


class UpdatedMemory(MemoryRecord):
    """The new state of a memory."""

    notice: str | None = None
    """What the user should know: secrets in what was changed."""


class ListRequest(FrozenModel):
    """Which memories to list."""

    limit: int = 20
    offset: int = 0
    filters: MemoryFilter | dict[str, Any] | None = None
    folder: str = ""
    """As for a search."""


class SearchRequest(FrozenModel):
    """A question, and which memories and observations may answer it."""

    query: str
    limit: int = 10
    offset: int = 0
    filters: MemoryFilter | dict[str, Any] | None = None
    """A `MemoryFilter`, or its fields by name, where `session` means `parent`."""
    within: Literal["everything", "memories", "observations"] = "everything"
    """What is searched: memories, observations, or both and code ranked together."""
    folder: str = ""
    """Where it is asked. If the filters name no project, the project of its repository and global
    memories answer; a project of `*` means all. Empty: all, but for private projects."""
    agent: bool = False
    """Whether an agent asks: in a folder that is not trusted, that folder and global memories
    answer, and never a private project of elsewhere."""
    fusion: Literal["weighted", "rrf"] = "weighted"
    """How rankings become one: by weighted scores, or by reciprocal ranks."""
    every_passage: bool = False
    """Whether a memory may appear with several passages instead of its best one."""
    graph: bool = True
    """Whether the knowledge graph influences the ranking, as far as it was built."""
    explain: bool = False
    """Whether each result says why it ranked."""
    beside: bool = False
    """Whether each result comes with the passages before and after it."""


class Replacement(FrozenModel):
    """Why a memory is no longer the present state, as memories themselves say."""

    how: str
    """`superseded`, `reverted`, `rejected`, `deprecated` or `withdrawn` by a status line;
    `changed` by a newer fact."""
    by: str = ""
    """What replaced it, as a reader would name it."""
    memory_id: str = ""
    """The memory that replaced it, if it is stored."""

    def line(self) -> str:
        """Return it in a few words."""
        if not self.by and not self.memory_id:
            return self.how
        known = f" ({self.memory_id})" if self.memory_id and self.by else self.memory_id
        return f"{self.how} by {self.by}{known}"


class SearchResult(MemoryFields):
    """The best passage of one memory, or one observation.

    An observation has an empty `memory_id`; its `kind` is its type, its `parent` its session.
    """

    observation_id: int | None = None
    chunk_id: str
    text: str
    score: float
    """Fused score, 0 to 1; comparable within one answer only."""
    evidence: float = 0.0
    """How sure we are that it answers, 0 to 1; comparable between answers."""
    evidence_word: Literal["strong", "weak", "none"] = "none"
    similarity_score: float
    bm25_score: float
    before: str = ""
    after: str = ""
    """The passages next to it, if asked for."""
    explanation: dict[str, Any] | None = None
    """Score and rank by arm, weights and boosts, if asked for."""
    citations: list[CheckedCitation] = []
    """The code it cites, and whether that has changed since."""
    replaced: Replacement | None = None
    """What replaced it, if a memory says so: it ranks below that."""


class SearchResponse(FrozenModel):
    """Ranked passages, and what could not be searched."""

    results: list[SearchResult]
    count: int
    total: int = 0
    """How many were found in all; with `more`, at least so many."""
    more: bool = False
    """Whether deeper pages would find more than this search did."""
    elsewhere: int = 0
    """How many memories of other projects have the question's words; `*` would show them."""
    nothing_close: bool = False
    """Whether hits were found, but none with any evidence."""
    corrected: dict[str, str] = {}
    """Words of the question that no memory has, and what was searched for instead."""
    notice: str | None = None
    """Set when part of the search was missing, such as the model."""

    def correction(self) -> str:
        """Return in words what was searched for instead of what was asked."""
        words = ", ".join(f"{new} (instead of {old})" for old, new in self.corrected.items())
        return f"Searched for {words}." if words else ""


class MemoryEngine(Protocol):
    """What the specification asks of an engine; `zapomni_core.engine.ZapomniEngine` does more."""

    async def add_memory(self, request: AddMemoryRequest) -> AddMemoryResponse:
        """Store a text.

        Raises:
            ValidationError: The request is invalid.
            NotFoundError: `supersedes` names no memory.
            ProcessingError: The text could not be split.
            DatabaseError: Storing failed. In each case nothing was stored.
        """
        ...

    async def search_memory(self, request: SearchRequest) -> SearchResponse:
        """Find passages by meaning and by words.

        Raises:
            ValidationError: The request is invalid.
            SearchError: The store refused the query.
        """
        ...

    async def get_stats(self) -> dict[str, Any]:
        """Return the fields of `MemoryStats`."""
        ...


class TextChunker(Protocol):
    """Splits a text into passages. Implemented by `adapters.chunkers.SemanticChunker`."""

    def chunk(self, text: str) -> list[Chunk]:
        """Return passages with exact offsets: `text[c.start_char:c.end_char] == c.text`."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors: all that the specification asks of an embedder.

    `EmbeddingChain` adapts a class that has no more than this.
    """

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, in order."""
        ...


class ModelEmbedder(Protocol):
    """An embedder that knows its model.

    Implemented by the adapters `local`, `multilingual`, `folder`, `ollama`, `openai` and
    `sentence_transformers`.
    """

    name: str
    """The adapter's name, as in the setting `embedder`."""

    @property
    def model_id(self) -> str:
        """What spaces call the model; known without asking a server."""
        ...

    async def space(self) -> EmbeddingSpace:
        """Return the space that the vectors belong to.

        Raises:
            EmbeddingError: The model is missing, or the service does not answer.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text, in order.

        Raises:
            EmbeddingError: No vector was made.
        """
        ...

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question; some models want questions marked as such."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


@runtime_checkable
class TokenEmbedder(ModelEmbedder, Protocol):
    """An embedder that also makes a compact vector of every token, for late interaction."""

    async def embed_with_tokens(self, texts: Sequence[str]) -> list[Embedding]:
        """Return vectors and token vectors of the same forward pass, in order."""
        ...

    async def embed_query_with_tokens(self, text: str) -> QueryEmbedding:
        """Return a question's vector and token vectors."""
        ...


class Reranker(Protocol):
    """Reads a question and a passage together. Implemented by `CrossEncoder`."""

    async def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return how well each passage answers, 0 to 1, in order.

        Raises:
            SearchError: The model is missing or broken.
        """
        ...

    async def close(self) -> None:
        """Release threads."""
        ...


class EntityExtractor(Protocol):
    """Finds the entities that a text names.

    Implemented by `modules.graph.RuleExtractor` and the adapters `spacy_extractor` and
    `model_extractor`.
    """

    name: str
    """The extractor's name, as in the setting `extractor`."""

    async def extract_entities(
        self, text: str, reference_date: datetime | None = None
    ) -> list[EntityData]:
        """Return one entity per mention; `yesterday` is the day before `reference_date`.

        Raises:
            ExtractionError: The model behind it is missing, silent, or answers nonsense.
        """
        ...


@runtime_checkable
class RelationshipExtractor(Protocol):
    """Finds how entities of a text relate.

    Implemented by `modules.graph.RuleExtractor` and the adapter `model_extractor`.
    """

    async def extract_relationships(
        self, text: str, entities: list[EntityData], reference_date: datetime | None = None
    ) -> list[RelationshipData]:
        """Return relationships between these entities that the text states.

        Raises:
            ExtractionError: The model behind it is missing, silent, or answers nonsense.
        """
        ...

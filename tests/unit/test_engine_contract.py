"""The engine as the specification builds it: from a storage, a chunker and an embedder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.embedders import adapt_embedder
from zapomni_core.adapters.tokenizer import LazyTokenizer
from zapomni_core.engine import ZapomniEngine
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.interfaces import AddMemoryRequest, MemoryEngine, SearchRequest
from zapomni_core.settings import load_settings
from zapomni_db.exceptions import ValidationError as StoreValidationError
from zapomni_db.models import EmbeddingSpace
from zapomni_db.sqlite.storage import SqliteStorage
from zapomni_mcp.exceptions import MCPError, ValidationError

pytestmark = pytest.mark.anyio


class MockStorage:
    """No more than a name: building an engine asks nothing of its parts."""


class MockChunker:
    """Splits nothing."""


class HashEmbedder:
    """All that the specification asks of an embedder."""

    async def embed(self, texts: list[str]) -> list[list[float]]:
        return [[byte + 1.0 for byte in hashlib.sha256(t.encode()).digest()[:8]] for t in texts]


def test_engine_satisfies_protocol() -> None:
    engine: MemoryEngine = ZapomniEngine(
        storage=MockStorage(),  # type: ignore[arg-type]
        chunker=MockChunker(),  # type: ignore[arg-type]
        embedder=HashEmbedder(),
    )

    assert all(callable(getattr(engine, name)) for name in vars(MemoryEngine) if name[0] != "_")


async def test_any_class_that_embeds_is_an_embedder(tmp_path: Path) -> None:
    settings = load_settings()
    storage = SqliteStorage(tmp_path / "memories.db")
    await storage.connect()
    chunker = SemanticChunker(LazyTokenizer(settings.models_path), 512, 50)
    async with ZapomniEngine(storage=storage, chunker=chunker, embedder=HashEmbedder()) as engine:
        added = await engine.add_memory(AddMemoryRequest(text="The zebra is striped."))
        found = await engine.search_memory(SearchRequest(query="The zebra is striped."))

        assert added.pending_vectors == 0
        assert await storage.get_space() == EmbeddingSpace(model="HashEmbedder", dimension=8)
        assert [hit.memory_id for hit in found.results] == [added.memory_id]
        assert found.results[0].similarity_score == pytest.approx(1.0)
        assert (await engine.get_stats())["embedding_model"] == "HashEmbedder"


async def test_an_embedder_names_its_model_and_dimension_if_it_knows_them() -> None:
    class Named(HashEmbedder):
        model = "hash-8"
        dimension = 8

        async def embed(self, texts: list[str]) -> list[list[float]]:
            raise AssertionError("the space is known without a vector")

    assert await adapt_embedder(Named()).space() == EmbeddingSpace(model="hash-8", dimension=8)


@pytest.mark.parametrize(
    ("answer", "code"),
    [(OSError("down"), "EMB_001"), ([[0.0, 0.0]], "EMB_003"), ([], "EMB_003")],
)
async def test_an_embedder_that_fails_is_an_embedding_error(answer, code) -> None:
    class Odd:
        async def embed(self, texts: list[str]) -> list[list[float]]:
            if isinstance(answer, Exception):
                raise answer
            return answer

    with pytest.raises(EmbeddingError) as raised:
        await adapt_embedder(Odd()).embed(["text"])

    assert raised.value.error_code == code
    assert "down" not in raised.value.message


def test_wrong_arguments_of_a_tool_are_an_mcp_error_too() -> None:
    error = ValidationError("text cannot be empty", "VAL_001")

    assert isinstance(error, MCPError)
    assert isinstance(error, StoreValidationError)
    assert (error.error_code, ValidationError("wrong").error_code) == ("VAL_001", "VAL_004")

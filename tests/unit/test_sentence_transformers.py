from __future__ import annotations

import sys

import pytest

from zapomni_core.adapters.sentence_transformers import SentenceTransformersEmbedder
from zapomni_core.exceptions import EmbeddingError
from zapomni_db.models import EmbeddingSpace

pytestmark = pytest.mark.anyio

LIBRARY = """
class SentenceTransformer:
    def __init__(self, name):
        if name != "tiny":
            raise OSError("/home/someone/.cache: no such model")

    def encode_document(self, texts, normalize_embeddings, show_progress_bar):
        assert normalize_embeddings and not show_progress_bar
        return [(1, 0) for text in texts]

    def encode_query(self, texts, normalize_embeddings, show_progress_bar):
        return [(0, 1) for text in texts]
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A stand-in with the library's interface; the real one brings 2 GB of torch."""
    (tmp_path / "sentence_transformers.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("sentence_transformers", None)


async def test_documents_and_questions_are_encoded_as_such(library):
    embedder = SentenceTransformersEmbedder("tiny")
    assert await embedder.space() == EmbeddingSpace(model="sentence-transformers/tiny", dimension=2)
    assert await embedder.embed(["a", "b"]) == [[1.0, 0.0]] * 2
    assert await embedder.embed_query("a") == [0.0, 1.0]
    await embedder.close()


async def test_without_the_library_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbeddingError, match="pip install") as caught:
        await SentenceTransformersEmbedder().space()
    assert caught.value.error_code == "EMB_004"


async def test_a_model_that_cannot_be_loaded_is_said_without_paths(library):
    with pytest.raises(EmbeddingError, match="cannot load the model huge") as caught:
        await SentenceTransformersEmbedder("huge").embed(["a"])
    assert caught.value.error_code == "EMB_004"
    assert "/home" not in caught.value.message

"""Any sentence encoder in a folder: its ONNX file, its tokenizer, a few options."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from command import add, as_json, zapomni
from zapomni_core.adapters.folder_embedder import FolderEmbedder
from zapomni_core.adapters.model_files import MODEL
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.settings import load_settings

NOTES = ("Production deploys happen on Thursdays.", "The cat sleeps on the warm printer.")


@pytest.fixture
def folder(model, tmp_path):
    """The shipped model as if it came from a hub."""
    found = tmp_path / "some-encoder"
    (found / "onnx").mkdir(parents=True)
    own = load_settings().models_path / MODEL
    (found / "onnx" / "model_quantized.onnx").symlink_to(own / "model_quantized.onnx")
    shutil.copy(own / "tokenizer.json", found)
    return found


def embed(folder, text, *, is_question=False):
    embedder = FolderEmbedder(folder)
    made = embedder.embed_query(text) if is_question else embedder.embed([text])

    async def run():
        try:
            return await made, await embedder.space()
        finally:
            await embedder.close()

    vectors, space = asyncio.run(run())
    return (vectors if is_question else vectors[0]), space


def test_memories_are_found_with_an_encoder_in_a_folder(folder, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "folder")
    monkeypatch.setenv("ZAPOMNI_EMBEDDING_MODEL", str(folder))
    for text in NOTES:
        assert as_json("add", text)["pending_vectors"] == 0
    found = as_json("search", "the animal is resting")["results"]
    assert found[0]["text"] == NOTES[1]
    assert found[0]["similarity_score"] > 0.2
    assert as_json("models", "list")["stored_vectors"] == "folder/some-encoder"


def test_a_home_changes_to_it_with_reembed(folder, monkeypatch, private_home):
    add(NOTES[0])
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "folder")
    monkeypatch.setenv("ZAPOMNI_EMBEDDING_MODEL", str(folder))
    assert "zapomni models reembed" in as_json("search", "deploy")["notice"]
    assert "Made 1 vector." in zapomni("models", "reembed").stdout.decode()
    assert as_json("models", "list")["stored_vectors"] == "folder/some-encoder"
    assert as_json("search", "deploy")["notice"] is None


def test_pooling_and_prefixes_are_read_from_its_options(folder):
    plain, space = embed(folder, "port 5433")
    (folder / "encoder.toml").write_text('pooling = "cls"\nquery_prefix = "query: "\n')
    first, other = embed(folder, "port 5433")
    asked, _ = embed(folder, "port 5433", is_question=True)
    written, _ = embed(folder, "query: port 5433")
    assert first != pytest.approx(plain, abs=0.01)
    assert asked == pytest.approx(written, abs=1e-4)
    assert asked != pytest.approx(first, abs=0.01)
    # Vectors of other options are of another space.
    assert other != space


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ('pooling = "best"', "pooling"),
        ('color = "red"', "color"),
        ("= 1", "no TOML"),
        ('weights = "other.onnx"', "has no other.onnx"),
    ],
)
def test_what_is_wrong_with_the_folder_is_said(folder, options, reason):
    (folder / "encoder.toml").write_text(options)
    with pytest.raises(EmbeddingError, match=reason) as caught:
        embed(folder, "text")
    assert str(folder) not in str(caught.value)


def test_without_a_folder_the_setting_is_refused(model):
    failed = zapomni("add", "text", ZAPOMNI_EMBEDDER="folder")
    assert failed.returncode != 0
    assert "ZAPOMNI_EMBEDDING_MODEL" in failed.stderr.decode()


def test_a_folder_that_is_gone_leaves_search_to_the_local_model(model, tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "folder")
    monkeypatch.setenv("ZAPOMNI_EMBEDDING_MODEL", str(tmp_path / "gone"))
    notice = as_json("add", NOTES[0])["notice"]
    assert "has no model_quantized.onnx" in notice
    assert "all-MiniLM-L6-v2-int8 instead" in notice

from __future__ import annotations

import asyncio
import math
import shutil
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

from zapomni_core.adapters import local_embedder
from zapomni_core.adapters.local_embedder import LocalEmbedder
from zapomni_core.adapters.model_files import MODEL, WEIGHTS
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.settings import load_settings
from zapomni_db.models import EmbeddingSpace

pytestmark = pytest.mark.anyio

TEXTS = [
    "The cat sat on the mat.",
    "A feline rested on the rug.",
    "Interest rates rose by half a point in March.",
]


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.fixture(scope="module")
def models() -> Path:
    return load_settings().models_path


@pytest.fixture
async def embedder(models):
    embedder = LocalEmbedder(models)
    yield embedder
    await embedder.close()


async def test_meaning_decides_how_near_vectors_are(embedder):
    cat, feline, rates = await embedder.embed(TEXTS)
    question = await embedder.embed_query("Where is the kitten?")
    assert cosine(cat, feline) > 0.4 > cosine(cat, rates)
    assert cosine(question, cat) > cosine(question, rates)


async def test_vectors_have_384_numbers_and_length_1(embedder):
    for vector in await embedder.embed([*TEXTS, "", "\x00", "word " * 2000, "x" * 50_000]):
        assert len(vector) == 384
        assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)


async def test_a_texts_vector_depends_on_nothing_but_the_text(embedder):
    alone = [(await embedder.embed([text]))[0] for text in TEXTS]
    many = [f"{number} " * number for number in range(40)]
    together = await embedder.embed([*many[:20], *TEXTS, *many[20:]])
    assert together[20:23] == alone


async def test_a_long_text_is_read_up_to_the_window(embedder):
    start = "one two three four five " * 60
    assert await embedder.embed([start]) == await embedder.embed([start + "and another thing"])


async def test_the_vocabulary_numbers_the_tokens_of_a_question_by_how_common_they_are(embedder):
    asked = await embedder.embed_query_with_tokens("time for a kettle")
    numbers = dict(zip(asked.words, asked.ids, strict=True))
    assert 1000 < numbers["for"] < numbers["time"] < numbers["kettle"] < 30_000


async def test_no_texts_make_no_vectors(embedder):
    assert await embedder.embed([]) == []


async def test_the_event_loop_runs_on_while_texts_are_embedded(embedder):
    work = asyncio.create_task(embedder.embed(["a text of some words " * 20] * 20))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20
    assert len(await work) == 20


async def test_the_space_is_known_without_loading_the_model(models):
    embedder = LocalEmbedder(models)
    assert await embedder.space() == EmbeddingSpace(
        model="all-MiniLM-L6-v2-int8", dimension=384, sha256=WEIGHTS.sha256[0]
    )
    assert embedder._model is None


async def test_a_missing_model_is_said_and_found_once_it_is_pulled(models, tmp_path):
    embedder = LocalEmbedder(tmp_path)
    for call in (embedder.space(), embedder.embed(TEXTS), embedder.embed_query("cat")):
        with pytest.raises(EmbeddingError, match="zapomni models pull") as caught:
            await call
        assert caught.value.error_code == "EMB_004"
    shutil.copytree(models / MODEL, tmp_path / MODEL)
    assert len(await embedder.embed(TEXTS)) == 3
    await embedder.close()


@pytest.mark.parametrize("name", ["model_quantized.onnx", "tokenizer.json"])
async def test_a_tampered_file_is_refused(models, tmp_path, name):
    shutil.copytree(models / MODEL, tmp_path / MODEL)
    with (tmp_path / MODEL / name).open("r+b") as file:
        file.seek(1000)
        file.write(b"\x00")
    embedder = LocalEmbedder(tmp_path)
    with pytest.raises(EmbeddingError, match=f"{name} is damaged or was changed") as caught:
        await embedder.embed(TEXTS)
    assert caught.value.error_code == "EMB_004"
    assert str(tmp_path) not in caught.value.message
    await embedder.close()


async def test_a_runtime_that_cannot_load_the_model_is_said(models, monkeypatch, load_model):
    monkeypatch.setattr(local_embedder, "_EncoderModel", load_model)

    def refuse(*args, **kwargs):
        raise RuntimeError("/somewhere/model: opset 99 is not supported")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    embedder = LocalEmbedder(models)
    with pytest.raises(EmbeddingError, match="installed onnxruntime") as caught:
        await embedder.embed(TEXTS)
    assert caught.value.error_code == "EMB_004"
    assert "/somewhere" not in caught.value.message
    await embedder.close()


def test_nothing_heavy_is_imported_before_the_first_text():
    program = (
        "import sys\n"
        "from zapomni_core.adapters.embedders import build_embedders\n"
        "from zapomni_core.settings import load_settings\n"
        "for name in ('local', 'ollama', 'sentence-transformers'):\n"
        "    build_embedders(load_settings(embedder=name))\n"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers', 'httpx2', 'structlog'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

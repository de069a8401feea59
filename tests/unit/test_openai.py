from __future__ import annotations

import math

import pytest

from servers import Answer, openai, serve, vector_of
from zapomni_core.adapters.openai import OpenAIEmbedder
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.infra.retry import RetryPolicy
from zapomni_db.models import EmbeddingSpace

pytestmark = pytest.mark.anyio

AT_ONCE = RetryPolicy(max_attempts=3, initial_delay_seconds=0.0)
MODEL = "text-embedding-3-small"
KEY = "sk-very-secret"


def embedder_for(url: str, model: str = MODEL, key: str = KEY) -> OpenAIEmbedder:
    return OpenAIEmbedder(f"{url}/v1", model, key, 5.0, AT_ONCE)


async def failing(embedder: OpenAIEmbedder) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        await embedder.embed(["one", "two"])
    await embedder.close()
    assert KEY not in repr(caught.value.to_dict())
    return caught.value


async def test_vectors_are_sorted_by_their_index_and_scaled():
    with serve(openai(MODEL, key=KEY)) as server:
        embedder = embedder_for(server.url)
        vectors = await embedder.embed(["one", "three"])
        query = await embedder.embed_query("one")
        space = await embedder.space()
        await embedder.close()
    for text, vector in zip(("one", "three"), vectors, strict=True):
        raw = vector_of(text)
        assert vector == pytest.approx([value / math.hypot(*raw) for value in raw])
    assert query == vectors[0]
    assert space == EmbeddingSpace(model=f"openai/{MODEL}", dimension=8)
    assert server.requests[0].body == {"model": MODEL, "input": ["one", "three"]}


async def test_a_server_that_wants_no_key_gets_none():
    with serve(openai(MODEL)) as server:
        embedder = embedder_for(server.url, key="")
        await embedder.embed(["one"])
        await embedder.close()
    assert "Authorization" not in server.requests[0].headers


async def test_a_refused_key_is_said_once_and_never_shown():
    with serve(openai(MODEL, key="another")) as server:
        error = await failing(embedder_for(server.url))
    assert (error.error_code, error.is_transient) == ("EMB_001", False)
    assert "ZAPOMNI_OPENAI_API_KEY" in error.message
    assert len(server.requests) == 1


async def test_an_unknown_model_is_said():
    with serve(openai("other")) as server:
        error = await failing(embedder_for(server.url))
    assert error.error_code == "EMB_004"
    assert "ZAPOMNI_EMBEDDING_MODEL" in error.message


async def test_an_unknown_model_is_understood_from_a_plain_string_too():
    with serve(lambda _: Answer({"error": "model 'x' not found"}, 404)) as server:
        assert (await failing(embedder_for(server.url))).error_code == "EMB_004"


async def test_a_wrong_base_address_is_said():
    with serve(openai(MODEL)) as server:
        embedder = OpenAIEmbedder(server.url, MODEL, KEY, 5.0, AT_ONCE)
        error = await failing(embedder)
    assert (error.error_code, error.is_transient) == ("EMB_001", False)
    assert "up to /v1" in error.message


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_overloaded_server_is_asked_again(status):
    refused = iter([Answer({"error": {"message": "Rate limit reached", "code": None}}, status)])
    healthy = openai(MODEL)
    with serve(lambda request: next(refused, None) or healthy(request)) as server:
        embedder = embedder_for(server.url)
        assert len(await embedder.embed(["one"])) == 1
        await embedder.close()
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        {"data": None},
        {"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": "AACAPw=="}]},
        {"data": ["x", "y"]},
    ],
)
async def test_garbage_is_refused(body):
    with serve(lambda _: Answer(body)) as server:
        assert (await failing(embedder_for(server.url))).error_code == "EMB_003"


async def test_a_refused_connection_is_said():
    with serve(openai(MODEL)) as server:
        pass
    assert (await failing(embedder_for(server.url))).error_code == "EMB_001"

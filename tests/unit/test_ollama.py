from __future__ import annotations

import math

import pytest

from servers import Answer, ollama, serve, vector_of
from zapomni_core.adapters.ollama import OllamaEmbedder
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.infra.circuit_breaker import CircuitState
from zapomni_core.infra.retry import RetryPolicy
from zapomni_db.models import EmbeddingSpace

pytestmark = pytest.mark.anyio

AT_ONCE = RetryPolicy(max_attempts=3, initial_delay_seconds=0.0)
MODEL = "nomic-embed-text"


def unit(values: list[float]) -> list[float]:
    return [value / math.hypot(*values) for value in values]


def close_to(vectors: list[list[float]]) -> list:
    return [pytest.approx(vector) for vector in vectors]


async def failing(url: str, seconds: float = 5.0) -> EmbeddingError:
    embedder = OllamaEmbedder(url, MODEL, seconds, AT_ONCE)
    with pytest.raises(EmbeddingError) as caught:
        await embedder.embed(["one", "two"])
    await embedder.close()
    assert url not in caught.value.message
    return caught.value


async def test_texts_go_out_in_one_request_marked_as_documents():
    with serve(ollama(MODEL)) as server:
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        vectors = await embedder.embed(["one", "two"])
        await embedder.close()
    assert vectors == close_to([unit(vector_of(f"search_document: {t}")) for t in ("one", "two")])
    assert [request.path for request in server.requests] == ["/api/embed"]
    assert server.requests[0].body == {
        "model": MODEL,
        "input": ["search_document: one", "search_document: two"],
    }


async def test_a_question_is_marked_as_a_question():
    with serve(ollama(MODEL)) as server:
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        await embedder.embed_query("where?")
        await embedder.close()
    assert server.requests[0].body["input"] == ["search_query: where?"]


async def test_other_models_get_the_text_as_it_is():
    with serve(ollama("mxbai-embed-large")) as server:
        embedder = OllamaEmbedder(server.url, "mxbai-embed-large", policy=AT_ONCE)
        await embedder.embed(["one"])
        await embedder.close()
    assert server.requests[0].body["input"] == ["one"]


async def test_many_texts_go_out_in_batches_and_come_back_in_order():
    texts = [f"{number} " + "a" * number for number in range(150)]
    with serve(ollama("plain")) as server:
        embedder = OllamaEmbedder(server.url, "plain", policy=AT_ONCE)
        assert await embedder.embed(texts) == close_to([unit(vector_of(t)) for t in texts])
        assert await embedder.embed([]) == []
        await embedder.close()
    assert [len(request.body["input"]) for request in server.requests] == [64, 64, 22]


async def test_an_old_server_is_asked_one_text_at_a_time():
    with serve(ollama(MODEL, old=True)) as server:
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        vectors = await embedder.embed(["one", "two"])
        await embedder.embed_query("three")
        await embedder.close()
    assert vectors == close_to([unit(vector_of(f"search_document: {t}")) for t in ("one", "two")])
    paths = [request.path for request in server.requests]
    assert paths == ["/api/embed", "/api/embeddings", "/api/embeddings", "/api/embeddings"]


async def test_the_space_is_learnt_with_one_request():
    with serve(ollama(f"{MODEL}:latest")) as server:
        embedder = OllamaEmbedder(server.url, f"{MODEL}:latest", policy=AT_ONCE)
        spaces = [await embedder.space(), await embedder.space()]
        await embedder.close()
    assert spaces == [EmbeddingSpace(model=f"ollama/{MODEL}", dimension=8)] * 2
    assert len(server.requests) == 1


async def test_an_address_without_scheme_is_understood():
    with serve(ollama(MODEL)) as server:
        embedder = OllamaEmbedder(server.url.removeprefix("http://") + "/", policy=AT_ONCE)
        assert len(await embedder.embed(["one"])) == 1
        await embedder.close()


async def test_a_proxy_in_the_environment_does_not_see_what_stays_on_this_machine(monkeypatch):
    with serve(ollama(MODEL)) as server, serve(lambda _: Answer(b"", 502)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        await embedder.embed(["one"])
        await embedder.close()
    assert proxy.requests == []


@pytest.mark.parametrize("old", [False, True])
async def test_a_model_that_is_not_pulled_is_said_at_once_with_the_command(old):
    with serve(ollama("other", old=old)) as server:
        error = await failing(server.url)
    assert (error.error_code, error.is_transient) == ("EMB_004", False)
    assert f"ollama pull {MODEL}" in error.message
    assert len(server.requests) == (2 if old else 1)


async def test_a_missing_model_leaves_the_breaker_closed():
    with serve(ollama()) as server:
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        for _ in range(7):
            with pytest.raises(EmbeddingError, match="ollama pull"):
                await embedder.embed(["one"])
        await embedder.close()
    assert embedder._breaker.state is CircuitState.CLOSED
    assert len(server.requests) == 7


async def test_a_refused_connection_is_said():
    with serve(ollama(MODEL)) as server:
        pass
    error = await failing(server.url)
    assert (error.error_code, error.is_transient) == ("EMB_001", True)
    assert "cannot be reached" in error.message


async def test_a_slow_server_times_out_and_is_asked_again():
    with serve(lambda _: Answer(b"", hang=True)) as server:
        error = await failing(server.url, seconds=0.5)
    assert (error.error_code, error.is_transient) == ("EMB_002", True)
    assert "within 0.5 s" in error.message
    assert len(server.requests) == 3


async def test_a_server_that_recovers_is_not_noticed():
    answers = iter([Answer({"error": "llama runner crashed"}, 500), Answer(b"", 503)])
    healthy = ollama(MODEL)
    with serve(lambda request: next(answers, None) or healthy(request)) as server:
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        assert len(await embedder.embed(["one"])) == 1
        await embedder.close()
    assert len(server.requests) == 3


async def test_a_server_that_stays_down_is_left_alone():
    with serve(lambda _: Answer({"error": "out of memory"}, 500)) as server:
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        for _ in range(5):
            with pytest.raises(EmbeddingError, match=r"overloaded or failing \(500\)"):
                await embedder.embed(["one"])
        asked = len(server.requests)
        with pytest.raises(EmbeddingError, match="left alone") as caught:
            await embedder.embed(["one"])
        await embedder.close()
    assert caught.value.error_code == "EMB_001"
    assert len(server.requests) == asked == 15


@pytest.mark.parametrize(
    "body",
    [
        b"<html>It works!</html>",
        b"\xff\xfe",
        ["embeddings"],
        {},
        {"embeddings": None},
        {"embeddings": []},
        {"embeddings": [[1.0, 2.0]]},
        {"embeddings": [[1.0, 2.0], [1.0]]},
        {"embeddings": [[], []]},
        {"embeddings": [[1.0], "x"]},
        {"embeddings": [[1.0], ["1.0"]]},
        {"embeddings": [[1.0], [None]]},
        {"embeddings": [[1.0], [float("nan")]]},
        {"embeddings": [[1.0], [float("inf")]]},
        {"embeddings": [[1.0, 1.0], [0.0, 0.0]]},
    ],
)
async def test_garbage_is_refused(body):
    with serve(lambda _: Answer(body)) as server:
        error = await failing(server.url)
    assert error.error_code == "EMB_003"


async def test_a_changed_dimension_is_refused():
    sizes = iter([4, 5, 5, 5])
    with serve(lambda _: Answer({"embeddings": [[1.0] * next(sizes)]})) as server:
        embedder = OllamaEmbedder(server.url, policy=AT_ONCE)
        await embedder.embed(["one"])
        with pytest.raises(EmbeddingError, match="dimension 5 instead of 4") as caught:
            await embedder.embed(["two"])
        await embedder.close()
    assert caught.value.error_code == "EMB_003"


@pytest.mark.parametrize("status", [302, 400, 413])
async def test_a_refused_request_is_not_sent_again_nor_anywhere_else(status):
    answer = Answer({"error": "no"}, status, headers={"Location": "http://127.0.0.1:1/"})
    with serve(lambda _: answer) as server:
        error = await failing(server.url)
    assert (error.error_code, error.is_transient) == ("EMB_001", False)
    assert len(server.requests) == 1


async def test_an_impossible_address_is_said():
    error = await failing("http://[::1")
    assert "address" in error.message

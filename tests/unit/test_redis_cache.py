"""The shared embedding cache on a real Redis: useful while it works, harmless when it does not."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from zapomni_core.adapters.embedders import build_cache
from zapomni_core.exceptions import ConfigurationError, DatabaseConnectionError
from zapomni_core.modules.memories import EmbeddingChain
from zapomni_core.settings import load_settings
from zapomni_db.cache import redis_cache
from zapomni_db.cache.redis_cache import RedisCache
from zapomni_db.falkordb.server import start_server, stop_server
from zapomni_db.models import Embedding, EmbeddingSpace

pytestmark = pytest.mark.anyio

SPACE = EmbeddingSpace(model="model", dimension=4, sha256="ab")
OTHER_SPACE = EmbeddingSpace(model="model", dimension=4, sha256="cd")
HALF = Embedding(vector=[0.5, 0.5, 0.5, 0.5])
SECRET = "the text nobody may read"


class Embedder:
    """Makes the same vector of every text, and remembers which it was asked for."""

    name = model_id = "model"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def space(self) -> EmbeddingSpace:
        return SPACE

    async def embed(self, texts):
        self.asked += texts
        return [HALF.vector for _ in texts]

    async def embed_query(self, text):
        return HALF.vector

    async def close(self):
        pass


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A server that is there may take its time; tests of one that is not set the limit again."""
    monkeypatch.setattr(redis_cache, "ANSWER_SECONDS", 60.0)


@pytest.fixture
def hurry(patience, monkeypatch):
    monkeypatch.setattr(redis_cache, "ANSWER_SECONDS", 0.5)


@pytest.fixture
async def server(anyio_backend, falkordb_server):
    """A connection to the Redis everybody shares, its keys gone afterwards."""
    async with redis.asyncio.Redis(unix_socket_path=str(falkordb_server.socket)) as client:
        yield client
        async for key in client.scan_iter("zapomni:*"):
            await client.delete(key)


@pytest.fixture
async def cache(falkordb_server, server):
    cache = RedisCache(f"unix://{falkordb_server.socket}")
    yield cache
    await cache.close()


@pytest.fixture
async def own_server(anyio_backend, tmp_path):
    """A Redis to be hurt, and a cache on it."""
    server = start_server(tmp_path / "s")
    cache = RedisCache(f"unix://{server.socket}")
    yield server, cache
    await cache.close()
    stop_server(server.folder)


@asynccontextmanager
async def fake(answer: Callable) -> AsyncIterator[RedisCache]:
    """A port where `answer` speaks instead of a Redis."""

    async def speak(reader, writer):
        try:
            await answer(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    serving = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = serving.sockets[0].getsockname()[1]
    cache = RedisCache(f"redis://127.0.0.1:{port}/0?protocol=2")
    try:
        yield cache
    finally:
        await cache.close()
        serving.close()


async def keys(server) -> list[bytes]:
    return [key async for key in server.scan_iter("zapomni:*")]


async def test_what_one_leaves_another_finds(cache, falkordb_server):
    tokens = Embedding(vector=[0, 1, 0, 0], tokens=b"\x00\x01")
    await cache.put(SPACE, {"a": HALF, "b": tokens})
    other = RedisCache(f"unix://{falkordb_server.socket}")
    assert await other.get(SPACE, ["a", "b", "c"]) == {"a": HALF, "b": tokens}
    assert await other.get(OTHER_SPACE, ["a"]) == {}
    await other.close()


async def test_many_texts_are_asked_for_in_batches(cache):
    texts = [f"text {number}" for number in range(200)]
    await cache.put(SPACE, dict.fromkeys(texts, HALF))
    assert (await cache.get(SPACE, texts)).keys() == set(texts)


async def test_neither_keys_nor_values_hold_the_text_and_keys_expire(cache, server):
    await cache.put(SPACE, {SECRET: HALF})
    (key,) = await keys(server)
    assert SECRET.encode() not in key + await server.get(key)
    assert b"model" not in key
    assert 0 < await server.ttl(key) <= redis_cache.KEPT_SECONDS


async def test_empty_tokens_are_not_no_tokens(cache):
    await cache.put(SPACE, {"a": Embedding(vector=HALF.vector, tokens=b"")})
    assert (await cache.get(SPACE, ["a"]))["a"].tokens == b""


@pytest.mark.parametrize(
    "lie",
    [
        b"",
        b"short",
        b"\0" * 24,
        lambda true: true[:-1],
        lambda true: true + b"x",
        lambda true: true[:-1] + bytes([true[-1] ^ 1]),
    ],
)
async def test_a_value_that_is_not_ours_is_no_value(cache, server, lie):
    await cache.put(SPACE, {"a": HALF})
    (key,) = await keys(server)
    await server.set(key, lie(await server.get(key)) if callable(lie) else lie)
    assert await cache.get(SPACE, ["a"]) == {}


async def test_a_value_under_another_texts_key_is_no_value(cache, server):
    await cache.put(SPACE, {"a": HALF})
    (a,) = await keys(server)
    await cache.put(SPACE, {"b": Embedding(vector=[1, 0, 0, 0])})
    (b,) = set(await keys(server)) - {a}
    await server.copy(a, b, replace=True)
    assert await cache.get(SPACE, ["b"]) == {}


@pytest.mark.parametrize("vector", [[0.0] * 4, [float("nan")] * 4, [2.0, 0, 0, 0], [0.5] * 3])
async def test_a_vector_that_is_none_is_no_value(cache, vector):
    await cache.put(SPACE, {"a": Embedding(vector=vector)})
    assert await cache.get(SPACE, ["a"]) == {}


async def test_a_key_of_another_type_is_no_value(cache, server):
    await cache.put(SPACE, {"a": HALF})
    (key,) = await keys(server)
    await server.delete(key)
    await server.rpush(key, "list")
    assert await cache.get(SPACE, ["a"]) == {}
    await cache.put(SPACE, {"a": HALF})
    assert await cache.get(SPACE, ["a"]) == {"a": HALF}


async def test_a_server_that_died_is_left_alone_and_found_again(own_server, monkeypatch):
    server, cache = own_server
    await cache.put(SPACE, {"a": HALF})
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(DatabaseConnectionError) as caught:
        await cache.get(SPACE, ["a"])
    assert str(server.socket) not in caught.value.message
    start_server(server.folder)
    assert await cache.get(SPACE, ["a"]) == {}  # left alone

    monkeypatch.setattr(redis_cache, "PAUSE_SECONDS", 0.0)
    cache._paused_until = 0.0
    assert await cache.get(SPACE, ["a"]) == {"a": HALF}


async def test_a_halted_server_costs_one_bounded_wait(own_server, monkeypatch):
    server, cache = own_server
    await cache.put(SPACE, {"a": HALF})
    os.kill(server.pid, signal.SIGSTOP)
    monkeypatch.setattr(redis_cache, "ANSWER_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(DatabaseConnectionError) as caught:
        await cache.get(SPACE, ["a"])
    assert caught.value.error_code == "CONN_002"
    for _ in range(1000):
        assert await cache.get(SPACE, ["a"]) == {}
        await cache.put(SPACE, {"a": HALF})
    # One wait, not two thousand.
    assert time.monotonic() - started < 1000 * redis_cache.ANSWER_SECONDS


async def test_a_full_server_still_answers(own_server):
    server, cache = own_server
    await cache.put(SPACE, {"a": HALF})
    async with redis.asyncio.Redis(unix_socket_path=str(server.socket)) as client:
        await client.config_set("maxmemory", "1")
    await cache.put(SPACE, {"b": HALF})
    assert await cache.get(SPACE, ["a", "b"]) == {"a": HALF}


async def cut_off(reader, writer):
    await reader.read(10)
    writer.write(b"$400000\r\nhalf of an")


async def no_redis(reader, writer):
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def trickle(reader, writer):
    while not writer.is_closing():
        writer.write(b"+")
        await writer.drain()
        await asyncio.sleep(0.05)


async def silence(reader, writer):
    await reader.read()


@pytest.mark.parametrize("answer", [cut_off, no_redis, trickle, silence])
async def test_what_does_not_speak_like_a_redis_is_left_alone(answer, hurry):
    async with fake(answer) as cache:
        with pytest.raises(DatabaseConnectionError):
            await cache.get(SPACE, ["a"])
        assert await cache.get(SPACE, ["a"]) == {}


async def wrong_count(reader, writer):
    while await reader.read(65536):
        writer.write(b"*0\r\n")


async def wrong_type(reader, writer):
    while await reader.read(65536):
        writer.write(b":7\r\n")


@pytest.mark.parametrize("answer", [wrong_count, wrong_type])
async def test_an_answer_that_does_not_fit_the_question_is_none(answer):
    async with fake(answer) as cache:
        chain = EmbeddingChain([Embedder()], shared=cache)
        assert (await chain.embed(["a"])).texts == [HALF]


# --- in the chain -----------------------------------------------------------------------


async def test_the_chain_embeds_only_what_the_cache_does_not_know(cache):
    first, second = Embedder(), Embedder()
    await EmbeddingChain([first], shared=cache).embed(["a", "b"])
    chain = EmbeddingChain([second], shared=cache)
    made = await chain.embed(["a", "b", "c"])
    assert made.texts == [HALF] * 3
    assert (first.asked, second.asked) == (["a", "b"], ["c"])
    assert chain.hit_rate == pytest.approx(2 / 3)


async def test_no_call_fails_by_a_dead_cache(own_server, capsys):
    server, cache = own_server
    os.kill(server.pid, signal.SIGKILL)
    embedder = Embedder()
    chain = EmbeddingChain([embedder], shared=cache)
    assert (await chain.embed(["a", "b"])).texts == [HALF, HALF]
    assert embedder.asked == ["a", "b"]
    await chain.close()


async def test_a_cache_nobody_asked_for_is_none():
    assert build_cache(load_settings({})) is None


@pytest.mark.parametrize("url", ["http://u:secret@host", "secret", "redis://host:secret"])
async def test_an_address_that_is_none_is_refused_without_quoting_it(url):
    with pytest.raises(ConfigurationError, match="redis://host:6379/0") as caught:
        build_cache(load_settings({}, cache=url))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_without_redis_py_the_setting_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "zapomni_db.cache.redis_cache", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        build_cache(load_settings({}, cache="redis://host"))

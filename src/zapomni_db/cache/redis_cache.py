"""Embeddings in a Redis, for many machines: what one has embedded, the others need not.

Keys are hashes of model and text, values are bytes: neither text nor model name is in them. An
answer is believed only if it fits its question; a server that is slow, silent or gone is asked
again after a pause, and until then costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from zapomni_db.exceptions import DatabaseConnectionError
from zapomni_db.models import Embedding, EmbeddingSpace

__all__ = ["RedisCache"]

Q = TypeVar("Q")
T = TypeVar("T")

ANSWER_SECONDS = 0.5
"""The longest one question may take, connecting included."""
PAUSE_SECONDS = 30.0
"""How long a server that failed is left alone."""
KEPT_SECONDS = 30 * 86_400
BATCH = 64
_CHECK_BYTES = 8
_UNIT_TOLERANCE = 1e-3


class RedisCache:
    """Looks embeddings up in a Redis and leaves new ones there.

    Args:
        url: `redis://`, `rediss://` or `unix://`, as redis-py reads it.

    Raises:
        ValueError: The address cannot be read.
    """

    def __init__(self, url: str) -> None:
        self._client = redis.asyncio.Redis.from_url(
            url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._paused_until = 0.0

    async def get(self, space: EmbeddingSpace, texts: Sequence[str]) -> dict[str, Embedding]:
        """Return what is known of these texts.

        Raises:
            DatabaseConnectionError: The server failed just now; it is left alone for a while.
        """
        found: dict[str, Embedding] = {}
        for batch in _batches(texts):
            keys = [_key(space, text) for text in batch]
            values = await self._ask(self._client.mget, keys)
            if not isinstance(values, list):
                continue
            for text, key, value in zip(batch, keys, values, strict=False):
                if embedding := _unpack(key, value, space.dimension):
                    found[text] = embedding
        return found

    async def put(self, space: EmbeddingSpace, made: Mapping[str, Embedding]) -> None:
        """Leave these for others.

        Raises:
            DatabaseConnectionError: The server failed just now; it is left alone for a while.
        """
        for batch in _batches(list(made)):
            entries = {key: _pack(key, made[t]) for t in batch for key in [_key(space, t)]}
            await self._ask(self._set, entries)

    async def close(self) -> None:
        """Release the connections."""
        with suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.aclose()

    async def _set(self, entries: Mapping[bytes, bytes]) -> None:
        async with self._client.pipeline(transaction=False) as pipeline:
            for key, value in entries.items():
                pipeline.set(key, value, ex=KEPT_SECONDS)
            await pipeline.execute()

    async def _ask(self, question: Callable[[Q], Awaitable[T]], about: Q) -> T | None:
        if time.monotonic() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await question(about)
        except ResponseError:
            # It is there and says no: full, read-only, or not for us.
            return None
        except Exception as error:  # what lies to a parser may come out as anything
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            raise DatabaseConnectionError(
                f"The embedding cache does not answer; it is left alone for {PAUSE_SECONDS:.0f} s.",
                "CONN_002" if isinstance(error, TimeoutError | RedisTimeoutError) else "CONN_001",
                original_exception=error,
            ) from error


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + BATCH] for start in range(0, len(texts), BATCH))


def _key(space: EmbeddingSpace, text: str) -> bytes:
    model = f"{space.model}\0{space.dimension}\0{space.sha256}"
    named = _hex([model.encode()])[:16], _hex([text.encode("utf-8", "surrogatepass")])
    return ":".join(("zapomni", "embedding", *named)).encode()


def _pack(key: bytes, made: Embedding) -> bytes:
    vector = struct.pack(f"<{len(made.vector)}f", *made.vector)
    body = vector if made.tokens is None else vector + b"\1" + made.tokens
    return _check(key, body) + body


def _unpack(key: bytes, value: object, dimension: int) -> Embedding | None:
    """Return what the value says, None if it is not what we would have written there."""
    if not isinstance(value, bytes):
        return None
    check, body = value[:_CHECK_BYTES], value[_CHECK_BYTES:]
    size = 4 * dimension
    if len(body) < size or check != _check(key, body):
        return None
    vector = list(struct.unpack(f"<{dimension}f", body[:size]))
    # Written so that what is not a number does not pass.
    if not abs(math.hypot(*vector) - 1) <= _UNIT_TOLERANCE:
        return None
    tokens = body[size + 1 :] if body[size : size + 1] else None
    return Embedding.model_construct(vector=vector, tokens=tokens)


def _check(key: bytes, body: bytes) -> bytes:
    return bytes.fromhex(_hex([key, body]))[:_CHECK_BYTES]


def _hex(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()

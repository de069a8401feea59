"""Embeddings made on this machine: all-MiniLM-L6-v2, int8, without any service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zapomni_core.adapters.loaded_model import LoadedModel
from zapomni_core.adapters.model_files import (
    DIMENSION,
    MODEL,
    TOKENIZER,
    WEIGHTS,
    check_file,
    find_model,
)
from zapomni_core.adapters.onnx import open_prepared_session
from zapomni_core.adapters.tokenizer import read_tokenizer
from zapomni_core.shared.text import as_spoken
from zapomni_core.shared.token_codec import TokenCodec
from zapomni_db.models import Embedding, EmbeddingSpace, QueryEmbedding

if TYPE_CHECKING:
    import numpy as np
    import tokenizers
    from numpy.typing import NDArray

__all__ = ["LONGEST_TEXT", "LocalEmbedder"]

PROJECTION = "minilm_projection.bin"
_NOTHING = Embedding.model_construct(vector=[], tokens=None)

WINDOW = 256
# Tokenizing reads the whole text, the model only its first 256 tokens.
LONGEST_TEXT = 20_000
# Texts a worker takes at a time: ~0.2 s of work, so that a question never waits long for bulk.
SHARE = 8
# A question of so many characters takes a few milliseconds: no other thread is asked.
SHORT_QUESTION = 300


class LocalEmbedder(LoadedModel["_EncoderModel"]):
    """One text per run of the model, several runs at a time.

    Batching would be wrong here, not only slower: the int8 model scales its numbers over the
    whole batch, so a text's vector would depend on its neighbours (cosine down to 0.975).
    """

    name = "local"

    def __init__(self, models_path: Path, threads: int | None = None) -> None:
        self._models_path = models_path
        self._threads = threads or min(4, os.cpu_count() or 1)
        super().__init__(self._threads, "embed")

    @property
    def model_id(self) -> str:
        """What spaces call the model."""
        return MODEL

    async def space(self) -> EmbeddingSpace:
        """Say which space the vectors belong to, without loading the model."""
        if not self.is_loaded:
            find_model(self._models_path)
        return EmbeddingSpace(model=self.model_id, dimension=DIMENSION, sha256=WEIGHTS.sha256[0])

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text."""
        return [made.vector for made in await self.embed_with_tokens(texts)]

    async def embed_with_tokens(self, texts: Sequence[str]) -> list[Embedding]:
        """Return vectors and packed token vectors of one pass; the event loop stays free."""
        result: list[Embedding] = [_NOTHING] * len(texts)
        # Texts of like length side by side: every worker gets the same share of the work.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        window = SHARE * self._threads
        for begin in range(0, len(order), window):
            turns = order[begin : begin + window]
            shares = [turns[worker :: self._threads] for worker in range(self._threads)]
            done = await asyncio.gather(
                *(
                    self._work(self._embed_share, [texts[index] for index in share])
                    for share in shares
                    if share
                )
            )
            for share, made in zip(shares, done, strict=False):
                for index, embedding in zip(share, made, strict=True):
                    result[index] = embedding
        return result

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question; this model does not mark questions."""
        return (await self.embed([text]))[0]

    async def embed_query_with_tokens(self, text: str) -> QueryEmbedding:
        """Return a question's vector and its tokens."""
        if self.is_loaded and len(text) <= SHORT_QUESTION:
            return self._embed_query(text)
        return await self._work(self._embed_query, text)

    def raw_tokens(self, text: str) -> NDArray[np.float32]:
        """Return the model's own token vectors, scaled to length 1; blocks until done."""
        import numpy as np

        tokens = self._loaded().run(text)[1:-1]
        unit: NDArray[np.float32] = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
        return unit

    def _embed_share(self, texts: Sequence[str]) -> list[Embedding]:
        model = self._loaded()
        return [model.embed(text) for text in texts]

    def _embed_query(self, text: str) -> QueryEmbedding:
        return self._loaded().ask(text)

    def _load(self) -> _EncoderModel:
        return _EncoderModel(self._models_path)


class _EncoderModel:
    def __init__(self, models_path: Path) -> None:
        paths = find_model(models_path)
        check_file(paths.weights, WEIGHTS)
        check_file(paths.tokenizer, TOKENIZER)
        self._tokenizer: tokenizers.Tokenizer = read_tokenizer(paths.tokenizer)
        self._tokenizer.enable_truncation(WINDOW)
        self._session = open_prepared_session(paths.weights)
        self._codec = TokenCodec(Path(__file__).with_name(PROJECTION).read_bytes())

    def embed(self, text: str) -> Embedding:
        """The mean of the token vectors, scaled to length 1, and the tokens themselves."""
        hidden = self.run(text)
        # The first and the last one only mark the ends.
        return Embedding.model_construct(
            vector=_unit_mean(hidden), tokens=self._codec.pack(hidden[1:-1])
        )

    def ask(self, text: str) -> QueryEmbedding:
        """The same for a question, its tokens by name."""
        encoded = self._encode(text)
        hidden = self._run(encoded)
        return QueryEmbedding.model_construct(
            vector=_unit_mean(hidden),
            tokens=self._codec.ask(hidden[1:-1]),
            words=encoded.tokens[1:-1],
            ids=encoded.ids[1:-1],
        )

    def run(self, text: str) -> NDArray[np.float32]:
        """Return one vector per token."""
        return self._run(self._encode(text))

    def _encode(self, text: str) -> tokenizers.Encoding:
        return self._tokenizer.encode(as_spoken(text[:LONGEST_TEXT]))

    def _run(self, encoded: tokenizers.Encoding) -> NDArray[np.float32]:
        import numpy as np  # costs 0.2 s at import

        ids = np.array([encoded.ids], dtype=np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        hidden: NDArray[np.float32] = self._session.run(None, inputs)[0][0]
        return hidden


def _unit_mean(hidden: NDArray[np.float32]) -> list[float]:
    import numpy as np

    mean = hidden.mean(axis=0)
    vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
    return vector

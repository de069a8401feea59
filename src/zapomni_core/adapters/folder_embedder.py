"""Embeddings of any sentence encoder in a folder: its ONNX file, its tokenizer, a few options.

`encoder.toml` in the folder says what the files do not:

    weights = "onnx/model_quantized.onnx"   # which of several; else the usual names are tried
    pooling = "mean"                        # or "cls", or "last": how tokens become one vector
    window = 512                            # how many tokens of a text are read
    query_prefix = "query: "                # what this model wants before a question
    passage_prefix = "passage: "            # ... and before a passage

Everything has a default: mean, 512 and no prefixes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from zapomni_core.adapters.loaded_model import LoadedModel
from zapomni_core.adapters.local_embedder import LONGEST_TEXT
from zapomni_core.adapters.model_files import describe_error
from zapomni_core.adapters.onnx import open_session
from zapomni_core.exceptions import EmbeddingError
from zapomni_db.models import EmbeddingSpace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FolderEmbedder", "FolderEncoder"]

OPTIONS = "encoder.toml"
TOKENIZER = "tokenizer.json"
# As hubs name them, the smallest first.
WEIGHTS = tuple(
    f"{folder}{name}.onnx" for folder in ("", "onnx/") for name in ("model_quantized", "model")
)


class _Options(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    weights: str = ""
    pooling: Literal["mean", "cls", "last"] = "mean"
    window: int = pydantic.Field(default=512, ge=8, le=32_768)
    query_prefix: str = pydantic.Field(default="", max_length=1000)
    passage_prefix: str = pydantic.Field(default="", max_length=1000)


class FolderEmbedder(LoadedModel["FolderEncoder"]):
    """An encoder such as e5, gte, bge or Arctic as it is on a hub; loaded with the first text.

    Args:
        folder: Where its files are.
        threads: How many texts are read at once.
    """

    name = "folder"

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        self._folder = folder
        self._threads = threads or min(4, os.cpu_count() or 1)
        super().__init__(self._threads, "embed")
        self._space: tuple[tuple[int, ...], EmbeddingSpace] | None = None

    @property
    def model_id(self) -> str:
        """What spaces call the model: its folder's name."""
        return f"{self.name}/{self._folder.name}"

    async def space(self) -> EmbeddingSpace:
        """Say which space the vectors belong to: other weights or options make another one."""
        return await self._work(self._read_space)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text, in order."""
        shares = [list(texts[worker :: self._threads]) for worker in range(self._threads)]
        made = await asyncio.gather(
            *(self._work(self._embed, share, False) for share in shares if share)
        )
        result: list[list[float]] = [[]] * len(texts)
        for worker, vectors in enumerate(made):
            result[worker :: self._threads] = vectors
        return result

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question, with the prefix that the model wants."""
        (vector,) = await self._work(self._embed, [text], True)
        return vector

    def _embed(self, texts: Sequence[str], is_question: bool) -> list[list[float]]:
        encoder = self._loaded()
        return [encoder.embed(text, is_question=is_question) for text in texts]

    def _load(self) -> FolderEncoder:
        return FolderEncoder(self._folder)

    def _read_space(self) -> EmbeddingSpace:
        weights, options = find_encoder(self._folder)
        try:
            known = weights.stat()
            seal = (known.st_ino, known.st_size, known.st_mtime_ns, hash(options))
            if self._space is not None and self._space[0] == seal:
                return self._space[1]
            with weights.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
        except OSError as error:
            raise _unreadable(weights.name, error) from error
        digest.update(options.model_dump_json(exclude={"weights"}).encode())
        dimension = len(self._loaded().embed("dimension"))
        space = EmbeddingSpace(model=self.model_id, dimension=dimension, sha256=digest.hexdigest())
        self._space = seal, space
        return space


class FolderEncoder:
    """The encoder itself, loaded; blocks while it works."""

    def __init__(self, folder: Path, open_weights: Callable[[Path], Any] = open_session) -> None:
        import tokenizers  # a native library, on first use

        weights, self._options = find_encoder(folder)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # tokenizers' errors share no other base
            raise EmbeddingError(
                f"The file {TOKENIZER} of the encoder cannot be read as a tokenizer.",
                "EMB_004",
                original_exception=error,
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._options.window)
        self._session = open_weights(weights)
        self._wanted = {one.name for one in self._session.get_inputs()}

    def embed(self, text: str, *, is_question: bool = False) -> list[float]:
        """Return the vector of a text, scaled to length 1."""
        import numpy as np

        options = self._options
        prefix = options.query_prefix if is_question else options.passage_prefix
        tokens = self._tokenizer.encode(prefix + text[:LONGEST_TEXT]).ids
        ids = np.array([tokens or [0]], dtype=np.int64)
        given = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.arange(ids.shape[1], dtype=np.int64)[np.newaxis],
        }
        try:
            made = self._session.run(
                None, {name: value for name, value in given.items() if name in self._wanted}
            )[0][0]
        except Exception as error:  # onnxruntime's errors share no base but Exception
            raise EmbeddingError(
                "The encoder does not take what sentence encoders take: token ids, their mask and "
                "types. Export it as a feature extractor.",
                "EMB_004",
                original_exception=error,
            ) from error
        vector = self._pool(np.asarray(made, dtype=np.float32))
        length = float(np.linalg.norm(vector))
        if vector.ndim != 1 or not np.isfinite(length) or length == 0:
            raise EmbeddingError("The encoder made no vector of a text.", "EMB_003")
        unit: list[float] = (vector / length).tolist()
        return unit

    def _pool(self, made: NDArray[np.float32]) -> NDArray[np.float32]:
        if made.ndim == 1:  # It pools by itself.
            return made
        if self._options.pooling == "mean":
            pooled: NDArray[np.float32] = made.mean(axis=0)
        else:
            pooled = made[0] if self._options.pooling == "cls" else made[-1]
        return pooled


def find_encoder(folder: Path) -> tuple[Path, _Options]:
    """Return the weights of an encoder and its options.

    Raises:
        EmbeddingError: EMB_004, a file is missing or encoder.toml is wrong.
    """
    try:
        text = (folder / OPTIONS).read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(OPTIONS, error) from error
    try:
        options = _Options.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise EmbeddingError(
            f"{OPTIONS} is no TOML.", "EMB_004", original_exception=error
        ) from error
    except pydantic.ValidationError as error:
        wrong = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise EmbeddingError(
            f"{OPTIONS} has a wrong value or an unknown name: {wrong}. It may have weights, "
            "pooling (mean, cls or last), window, query_prefix and passage_prefix.",
            "EMB_004",
            original_exception=error,
        ) from error
    names = (options.weights,) if options.weights else WEIGHTS
    found = [name for name in names if os.path.isfile(folder / name)]  # noqa: PTH113
    if not found or not os.path.isfile(folder / TOKENIZER):  # noqa: PTH113
        missing = TOKENIZER if found else " or ".join(names)
        raise EmbeddingError(
            f"The folder of the encoder has no {missing}. Set ZAPOMNI_EMBEDDING_MODEL to a folder "
            "with the ONNX file and the tokenizer.json of a sentence encoder.",
            "EMB_004",
        )
    return folder / found[0], options


def _unreadable(name: str, error: Exception) -> EmbeddingError:
    reason = describe_error(error) if isinstance(error, OSError) else "it is no UTF-8"
    return EmbeddingError(
        f"The file {name} of the encoder cannot be read: {reason}.",
        "EMB_004",
        original_exception=error,
    )

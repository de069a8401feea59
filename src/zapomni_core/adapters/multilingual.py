"""Embeddings of other languages made on this machine, by one model or by two together.

The first is Google's multilingual sentence encoder.

Version 3 of the Universal Sentence Encoder, multilingual: 16 languages in one space, so that a
question finds a text in another language. It adds up the vectors of a text's pieces and of their
runs of two, three and five. The four dense layers that come after are left out: they were made to
compare sentences, and passages are found better by what goes into them. No token vectors.

The second is larger, and reads a text as a whole: paraphrase-multilingual-MiniLM-L12-v2. What one
finds the other often does not; where both are here, a vector is that of the one and that of the
other, one after the other.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zapomni_core.adapters.loaded_model import LoadedModel
from zapomni_core.adapters.model_files import (
    MULTILINGUAL,
    MULTILINGUAL_LARGE,
    PULL_MULTILINGUAL,
    LocalModel,
    check_file,
    find_files,
)
from zapomni_core.adapters.tokenizer import read_tokenizer
from zapomni_core.exceptions import EmbeddingError
from zapomni_db.models import EmbeddingSpace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CENTER", "MultilingualEmbedder", "SentenceEncoder"]

_Encode = Callable[[str], list[float]]

DIMENSION, LARGE_DIMENSION = 512, 384
CENTER = "multilingual_center.bin"
# A passage has about 200; what follows would hardly move the sum.
WINDOW = 512
LONGEST_TEXT = 20_000
BEGIN, END, UNKNOWN = 1, 2, 0
# Runs of pieces, and how many of a run come before the piece it belongs to.
RUNS = ((2, 0), (3, 1), (5, 2))
BLOCKS = 17
# The dense layers after the sum.
LEFT_OUT = frozenset({"d0", "d1", "d2", "d3", "p1", "p3"})


class MultilingualEmbedder:
    """The multilingual model, and the larger one with it if that is here.

    A question takes 3 ms, a passage 5; with both three times as long.
    """

    name = "multilingual"

    def __init__(self, models_path: Path) -> None:
        self._models_path = models_path
        self._first = _Part(lambda: SentenceEncoder(models_path).embed)
        self._large = _Part(lambda: _load_large(models_path))

    @property
    def models(self) -> list[LoadedModel[Any]]:
        """The models that it may load."""
        return [self._first, self._large]

    @property
    def model_id(self) -> str:
        """What spaces call the models."""
        return _space_of(*self._more()).model

    async def space(self) -> EmbeddingSpace:
        """Say which space the vectors belong to, without loading a model."""
        if not find_files(self._models_path, MULTILINGUAL):
            raise EmbeddingError(
                f"The model {MULTILINGUAL.name} is not on this machine. {PULL_MULTILINGUAL}",
                "EMB_004",
            )
        return _space_of(*self._more())

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text; the event loop stays free."""
        if not texts:  # neither model is loaded for nothing
            return []
        parts = [await self._first.embed(texts)]
        if self._more():
            parts.append(await self._large.embed(texts))
        share = 1 / math.sqrt(len(parts))
        return [[share * x for x in chain(*several)] for several in zip(*parts, strict=True)]

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question; neither model marks questions."""
        return (await self.embed([text]))[0]

    async def close(self) -> None:
        """Let the threads go."""
        for model in self.models:
            await model.close()

    def _more(self) -> list[LocalModel]:
        return [MULTILINGUAL_LARGE] if find_files(self._models_path, MULTILINGUAL_LARGE) else []


@cache
def _space_of(*more: LocalModel) -> EmbeddingSpace:
    """Return the space of the multilingual model, and of more with it."""
    digest = hashlib.sha256(MULTILINGUAL.files[0].sha256[0].encode())
    digest.update(Path(__file__).with_name(CENTER).read_bytes())
    for model in more:
        digest.update(model.files[0].sha256[0].encode())
    return EmbeddingSpace(
        model="+".join(model.name for model in (MULTILINGUAL, *more)),
        dimension=DIMENSION + LARGE_DIMENSION * len(more),
        sha256=digest.hexdigest(),
    )


class _Part(LoadedModel["_Encode"]):
    """One of the models; one text at a time in one thread."""

    def __init__(self, load: Callable[[], _Encode]) -> None:
        super().__init__(1, "multilingual")
        self._load_encoder = load

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text."""
        return await self._work(self._embed, list(texts))

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return list(map(self._loaded(), texts))

    def _load(self) -> _Encode:
        return self._load_encoder()


def _load_large(models_path: Path) -> _Encode:
    from zapomni_core.adapters.folder_embedder import FolderEncoder  # no search without it needs it
    from zapomni_core.adapters.onnx import open_prepared_session

    folder = models_path / MULTILINGUAL_LARGE.name
    for file in MULTILINGUAL_LARGE.files:
        check_file(folder / file.name, file)
    return FolderEncoder(folder, open_prepared_session).embed


class SentenceEncoder:
    """The model itself, loaded; blocks while it works."""

    def __init__(self, models_path: Path) -> None:
        import numpy as np

        folder = models_path / MULTILINGUAL.name
        weights, tokenizer = MULTILINGUAL.files
        check_file(folder / weights.name, weights)
        check_file(folder / tokenizer.name, tokenizer)
        self._tokenizer = read_tokenizer(folder / tokenizer.name)
        self._tokenizer.enable_truncation(WINDOW)
        # Read where it is used: a text has some hundred of the 128,000 rows.
        data = np.memmap(folder / weights.name, dtype=np.uint8, mode="r")
        length = int.from_bytes(data[:8].tobytes(), "little")
        self._arrays: dict[str, NDArray[np.float32]] = {}
        self._rows: NDArray[np.uint8] = np.zeros((0, DIMENSION), dtype=np.uint8)
        for name, (kind, shape, start) in json.loads(data[8 : 8 + length].tobytes()).items():
            size = int(np.prod(shape)) * np.dtype(kind).itemsize
            array = data[start : start + size].view(kind).reshape(shape)
            if name == "rows":
                self._rows = array
            elif name not in LEFT_OUT:
                self._arrays[name] = np.array(array)
        center = Path(__file__).with_name(CENTER).read_bytes()
        self._center = np.frombuffer(center, dtype="<f2").astype(np.float32)

    def embed(self, text: str) -> list[float]:
        """Return the vector of a text, less what all texts have in common, at length 1."""
        import numpy as np

        vector = self.encode(text) - self._center
        unit: list[float] = (vector / max(float(np.linalg.norm(vector)), 1e-9)).tolist()
        return unit

    def encode(self, text: str) -> NDArray[np.float32]:
        """Return the model's own vector of a text, at length 1."""
        import numpy as np

        part = self._arrays
        pieces = self._tokenizer.encode(text[:LONGEST_TEXT]).ids or [UNKNOWN]
        ids = np.array([BEGIN, *pieces, END])
        # Each block of the vocabulary was quantized by itself.
        block = ids % BLOCKS
        own = self._rows[ids] * part["scale"][block, None] + part["lo"][block, None]
        found = [own]
        for length, before in RUNS:
            start = own @ part[f"proj{length}"] + part[f"proj_b{length}"]
            start = self._normalize(start, part[f"ln_g{length}"], part[f"ln_b{length}"])
            for layer in ("1", "2"):
                runs = _runs(start, length, before)
                made = runs @ part[f"w{layer}_{length}"] + part[f"b{layer}_{length}"]
                start = np.maximum(made, 0) + start
            found.append(start)
        pooled = self._normalize(np.concatenate(found, axis=1), part["ln_g"], part["ln_b"])
        # The sum over the pieces of a linear layer is that layer of their sum.
        vector = pooled.sum(axis=0) @ part["cnn_W"] + len(ids) * part["cnn_b"]
        unit: NDArray[np.float32] = vector / max(float(np.linalg.norm(vector)), 1e-9)
        return unit

    def _normalize(
        self, rows: NDArray[np.float32], gain: NDArray[np.float32], bias: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Bring each row to mean 0 and deviation 1, then scale and shift it."""
        import numpy as np

        centered = rows - rows.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", centered, centered) / rows.shape[1]
        deviation = np.sqrt(variance + self._arrays["eps"])[:, None]
        scaled: NDArray[np.float32] = centered / deviation * gain + bias
        return scaled


def _runs(rows: NDArray[np.float32], length: int, before: int) -> NDArray[np.float32]:
    """Return for each row the run of rows around it, side by side; zeros beyond the ends."""
    import numpy as np

    padded = np.pad(rows, ((before, length - 1 - before), (0, 0)))
    side = [padded[i : i + len(rows)] for i in range(length)]
    return np.concatenate(side, axis=1)

"""Embeddings of other languages made on this machine: Google's multilingual sentence encoder.

Version 3 of the Universal Sentence Encoder, multilingual: 16 languages in one space, so that a
question finds a text in another language. It adds up the vectors of a text's pieces and of their
runs of two, three and five. The four dense layers that come after are left out: they were made to
compare sentences, and passages are found better by what goes into them. No token vectors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zapomni_core.adapters.loaded_model import LoadedModel
from zapomni_core.adapters.model_files import (
    MULTILINGUAL,
    PULL_MULTILINGUAL,
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

DIMENSION = 512
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


class MultilingualEmbedder(LoadedModel["SentenceEncoder"]):
    """One text at a time in one thread: a question takes 3 ms, a passage 5."""

    name = "multilingual"

    def __init__(self, models_path: Path) -> None:
        super().__init__(1, "multilingual")
        self._models_path = models_path

    @property
    def model_id(self) -> str:
        """What spaces call the model."""
        return MULTILINGUAL.name

    async def space(self) -> EmbeddingSpace:
        """Say which space the vectors belong to, without loading the model."""
        if not find_files(self._models_path, MULTILINGUAL):
            raise EmbeddingError(
                f"The model {self.model_id} is not on this machine. {PULL_MULTILINGUAL}", "EMB_004"
            )
        weights = MULTILINGUAL.files[0].sha256[0]
        center = Path(__file__).with_name(CENTER).read_bytes()
        digest = hashlib.sha256(weights.encode() + center).hexdigest()
        return EmbeddingSpace(model=self.model_id, dimension=DIMENSION, sha256=digest)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit-length vector per text; the event loop stays free."""
        return await self._work(self._embed, list(texts))

    async def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question; this model does not mark questions."""
        return (await self.embed([text]))[0]

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        model = self._loaded()
        return [model.embed(text).tolist() for text in texts]

    def _load(self) -> SentenceEncoder:
        return SentenceEncoder(self._models_path)


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
        self._center = np.frombuffer(center, dtype="<f4")

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text, less what all texts have in common, at length 1."""
        import numpy as np

        vector = self.encode(text) - self._center
        unit: NDArray[np.float32] = vector / max(float(np.linalg.norm(vector)), 1e-9)
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

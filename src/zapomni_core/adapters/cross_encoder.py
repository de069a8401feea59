"""A cross-encoder reads question and passage together: slower than any arm, and closer.

Off by default. Any sequence classifier exported to ONNX will do, such as ms-marco-MiniLM-L6-v2;
its folder is given by the setting `reranker` and nothing is ever downloaded for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zapomni_core.adapters.loaded_model import LoadedModel
from zapomni_core.exceptions import SearchError
from zapomni_core.infra.onnx import load_onnxruntime

__all__ = ["CrossEncoder"]

WEIGHTS, TOKENIZER = "model.onnx", "tokenizer.json"
WINDOW = 512
# More than any window holds; tokenizing would read it all.
LONGEST_TEXT = 8000


class CrossEncoder(LoadedModel["_RerankModel"]):
    """Scores pairs with the model in a folder, loaded with the first question."""

    def __init__(self, folder: Path) -> None:
        super().__init__(1, "rerank")
        self._folder = folder

    async def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return how well each passage answers, 0 to 1, in order."""
        return await self._work(self._score, query, list(passages))

    def _load(self) -> _RerankModel:
        return _RerankModel(self._folder)

    def _score(self, query: str, passages: list[str]) -> list[float]:
        try:
            model = self._loaded()
            return [model.score(query, passage) for passage in passages]
        except SearchError:
            raise
        except Exception as error:  # onnxruntime's and tokenizers' errors share no other base
            raise SearchError(
                f"The reranker's {WEIGHTS} or {TOKENIZER} cannot be used: it must be a sequence "
                "classifier for pairs of texts.",
                "SEARCH_003",
                original_exception=error,
            ) from error


class _RerankModel:
    def __init__(self, folder: Path) -> None:
        import tokenizers

        onnxruntime = load_onnxruntime()

        if not all((folder / name).is_file() for name in (WEIGHTS, TOKENIZER)):
            raise SearchError(
                f"The folder set as reranker has no {WEIGHTS} and {TOKENIZER}.", "SEARCH_003"
            )
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.enable_truncation(WINDOW, strategy="longest_first")
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: Any = onnxruntime.InferenceSession(
            str(folder / WEIGHTS), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {given.name for given in self._session.get_inputs()}

    def score(self, query: str, passage: str) -> float:
        import numpy as np

        pair = self._tokenizer.encode(query[:LONGEST_TEXT], passage[:LONGEST_TEXT])
        known = {
            "input_ids": pair.ids,
            "attention_mask": pair.attention_mask,
            "token_type_ids": pair.type_ids,
        }
        inputs = {
            name: np.array([values], dtype=np.int64)
            for name, values in known.items()
            if name in self._inputs
        }
        logits = self._session.run(None, inputs)[0][0]
        # One logit means yes; two, no and yes, decide by their difference.
        logit = float(logits[0] if len(logits) == 1 else logits[1] - logits[0])
        return float(1 / (1 + np.exp(-logit)))

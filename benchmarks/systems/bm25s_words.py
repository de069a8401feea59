"""bm25s with its defaults, English stop-words and stems as in its introduction."""

from __future__ import annotations

import json
from pathlib import Path

import bm25s
import Stemmer


class Index:
    def __init__(self, folder: Path, vectors: None) -> None:
        del vectors
        self._folder = folder
        self._stemmer = Stemmer.Stemmer("english")
        if (folder / "ids.json").exists():
            self._bm25 = bm25s.BM25.load(str(folder))
            self._ids = json.loads((folder / "ids.json").read_text(encoding="utf-8"))

    def add(self, docs: list[dict]) -> None:
        self._ids = [doc["id"] for doc in docs]
        self._bm25 = bm25s.BM25()
        self._bm25.index(self._tokens([doc["text"] for doc in docs]), show_progress=False)
        self._bm25.save(str(self._folder))
        (self._folder / "ids.json").write_text(json.dumps(self._ids), encoding="utf-8")

    def search(self, query: str, limit: int) -> list[str]:
        tokens = self._tokens([query])
        found, scores = self._bm25.retrieve(
            tokens, k=min(limit, len(self._ids)), show_progress=False
        )
        return [self._ids[n] for n, s in zip(found[0], scores[0], strict=True) if s > 0]

    def _tokens(self, texts: list[str]):
        return bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)

    def close(self) -> None:
        pass

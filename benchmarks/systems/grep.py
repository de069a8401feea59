"""What an agent with a shell does: look for the question's words, most words first."""

from __future__ import annotations

import json
import re
from pathlib import Path

_WORD = re.compile(r"\w+")


class Index:
    def __init__(self, folder: Path, vectors: None) -> None:
        del vectors
        self._path = folder / "docs.json"
        self._docs: list[list[str]] = []
        if self._path.exists():
            self._docs = json.loads(self._path.read_text(encoding="utf-8"))

    def add(self, docs: list[dict]) -> None:
        self._docs = [[doc["id"], doc["text"].lower()] for doc in docs]
        self._path.write_text(json.dumps(self._docs), encoding="utf-8")

    def search(self, query: str, limit: int) -> list[str]:
        words = set(_WORD.findall(query.lower()))
        counted = [(sum(word in text for word in words), name) for name, text in self._docs]
        # Sorting is stable: equals stay in the order they were stored.
        best = sorted((c for c in counted if c[0]), key=lambda c: -c[0])
        return [name for _, name in best[:limit]]

    def close(self) -> None:
        pass

"""txtai's hybrid search: its BM25 and vectors, weighted alike as by default."""

from __future__ import annotations

from pathlib import Path

from txtai import Embeddings

from benchmarks.vectors import Vectors


class Index:
    def __init__(self, folder: Path, vectors: Vectors) -> None:
        self._path = folder / "index"

        def transform(texts):
            return vectors(texts)

        config = {"method": "external", "transform": transform, "hybrid": True}
        self._index = Embeddings(config)
        if self._path.exists():
            self._index.load(str(self._path), config={"transform": transform})

    def add(self, docs: list[dict]) -> None:
        self._index.index((doc["id"], doc["text"], None) for doc in docs)
        self._index.config["transform"] = None  # a function cannot be saved
        self._index.save(str(self._path))

    def search(self, query: str, limit: int) -> list[str]:
        return [name for name, _ in self._index.search(query, limit)]

    def close(self) -> None:
        self._index.close()

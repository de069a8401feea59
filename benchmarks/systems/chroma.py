"""chromadb, persistent, with its defaults: vectors only."""

from __future__ import annotations

from pathlib import Path

import chromadb

from benchmarks.vectors import Vectors

BATCH = 1000


class Index:
    def __init__(self, folder: Path, vectors: Vectors) -> None:
        self._vectors = vectors
        settings = chromadb.Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(str(folder), settings=settings)
        self._docs = self._client.get_or_create_collection("docs", embedding_function=None)

    def add(self, docs: list[dict]) -> None:
        for start in range(0, len(docs), BATCH):
            batch = docs[start : start + BATCH]
            texts = [doc["text"] for doc in batch]
            ids = [doc["id"] for doc in batch]
            self._docs.add(ids=ids, documents=texts, embeddings=self._vectors(texts))

    def search(self, query: str, limit: int) -> list[str]:
        vector = self._vectors.one(query)
        return self._docs.query(query_embeddings=[vector], n_results=limit)["ids"][0]

    def close(self) -> None:
        pass

"""mem0 without its language model (`infer=False`), on its embedded Qdrant.

Its word half needs models that are downloaded when first used; offline it is vectors only.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.vectors import Vectors

USER = "bench"


class Index:
    def __init__(self, folder: Path, vectors: Vectors) -> None:
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = str(folder)
        os.environ["OPENAI_API_KEY"] = "unused"
        from mem0 import Memory

        store = {"path": str(folder / "qdrant"), "embedding_model_dims": 384, "on_disk": True}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = Embedder(vectors)

    def add(self, docs: list[dict]) -> None:
        for doc in docs:
            self._memory.add(doc["text"], user_id=USER, metadata={"doc": doc["id"]}, infer=False)

    def search(self, query: str, limit: int) -> list[str]:
        found = self._memory.search(query, filters={"user_id": USER}, top_k=limit)
        return [hit["metadata"]["doc"] for hit in found["results"]]

    def close(self) -> None:
        self._memory.vector_store.client.close()


class Embedder:
    """Hands out what was embedded before, in the shape mem0 asks for."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        del memory_action
        return self._vectors.one(text).tolist()

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        del memory_action
        return self._vectors(texts).tolist()

"""mcp-memory-service's storage on sqlite-vec, searched as its tool does by default: by vectors.

It needs a sqlite3 that loads extensions; pysqlite3 stands in where Python's own cannot.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.vectors import Vectors

BATCH = 256

if not hasattr(sqlite3.Connection, "enable_load_extension"):
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2


class Index:
    def __init__(self, folder: Path, vectors: Vectors) -> None:
        os.environ.update(
            MCP_MEMORY_BASE_DIR=str(folder), MCP_SEMANTIC_DEDUP_ENABLED="false", HF_HUB_OFFLINE="1"
        )
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage

        class Storage(SqliteVecMemoryStorage):
            async def _initialize_embedding_model(self) -> None:
                self.embedding_model = Model(vectors)

        self._runner = asyncio.Runner()
        self._storage = Storage(str(folder / "memories.db"))
        self._runner.run(self._storage.initialize())
        self._docs: dict[str, list[str]] = defaultdict(list)

    def add(self, docs: list[dict]) -> None:
        from mcp_memory_service.models.memory import Memory

        memories = {}
        for doc in docs:
            key = hashlib.sha256(doc["text"].encode()).hexdigest()
            self._docs[key].append(doc["id"])
            memories[key] = Memory(content=doc["text"], content_hash=key, tags=["bench"])
        waiting = list(memories.values())
        for start in range(0, len(waiting), BATCH):
            kept = self._runner.run(self._storage.store_batch(waiting[start : start + BATCH]))
            refused = [why for done, why in kept if not done]
            if refused:
                raise RuntimeError(f"refused {len(refused)} documents: {refused[0]}")

    def search(self, query: str, limit: int) -> list[str]:
        found = self._runner.run(self._ask(query, limit))
        hashes = [hit.memory.content_hash for hit in found]
        return [doc for key in hashes for doc in self._docs.get(key, [key])]

    def _ask(self, query: str, limit: int):
        return self._storage.retrieve(query, limit)

    def close(self) -> None:
        self._runner.run(self._storage.close())
        self._runner.close()


class Model:
    """Stands where its sentence-transformers model would."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    def encode(self, texts: list[str], **options):
        del options
        return self._vectors(texts)

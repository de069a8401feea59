"""LanceDB's hybrid search: its full-text index and vectors, fused by its default reranker."""

from __future__ import annotations

from pathlib import Path

import lancedb
import pyarrow as pa

from benchmarks.vectors import Vectors


class Index:
    def __init__(self, folder: Path, vectors: Vectors) -> None:
        self._vectors = vectors
        self._db = lancedb.connect(str(folder))
        names = self._db.list_tables().tables
        self._table = self._db.open_table("docs") if "docs" in names else None

    def add(self, docs: list[dict]) -> None:
        texts = [doc["text"] for doc in docs]
        matrix = self._vectors(texts)
        flat = pa.array(matrix.reshape(-1), type=pa.float32())
        data = pa.table(
            {
                "id": [doc["id"] for doc in docs],
                "text": texts,
                "vector": pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1]),
            }
        )
        self._table = self._db.create_table("docs", data)
        self._table.create_fts_index("text")

    def search(self, query: str, limit: int) -> list[str]:
        asked = self._table.search(query_type="hybrid").vector(self._vectors.one(query))
        found = asked.text(query).select(["id"]).limit(limit).to_arrow()
        return found.column("id").to_pylist()

    def close(self) -> None:
        pass

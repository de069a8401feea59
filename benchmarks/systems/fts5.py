"""Plain SQLite full-text search: any word of the question, porter stems, BM25."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

_WORD = re.compile(r"\w+")


class Index:
    def __init__(self, folder: Path, vectors: None) -> None:
        del vectors
        self._db = sqlite3.connect(folder / "fts5.db")
        self._db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS docs"
            " USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')"
        )

    def add(self, docs: list[dict]) -> None:
        with self._db:
            self._db.executemany("INSERT INTO docs VALUES (:id, :text)", docs)

    def search(self, query: str, limit: int) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(query)))
        found = self._db.execute(
            "SELECT id FROM docs WHERE docs MATCH ? ORDER BY bm25(docs), rowid LIMIT ?",
            [words or '""', limit],
        )
        return [name for (name,) in found]

    def close(self) -> None:
        self._db.close()

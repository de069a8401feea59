"""Counting and checking what is stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from zapomni_db.models import MemoryStats
from zapomni_db.sqlite.migrations import migrate
from zapomni_db.sqlite.spaces import active_space, count_pending

__all__ = ["check_integrity", "missing_tables", "stats"]


def stats(connection: sqlite3.Connection, path: Path) -> MemoryStats:
    counts = connection.execute(
        "SELECT (SELECT count(*) FROM memories WHERE kind <> 'code'),"
        " (SELECT count(*) FROM chunks),"
        " (SELECT count(*) FROM graph_entities WHERE root IS NULL),"
        " (SELECT count(*) FROM memories WHERE kind = 'code')"
    ).fetchone()
    active = active_space(connection)
    return MemoryStats(
        total_memories=counts[0],
        total_chunks=counts[1],
        total_entities=counts[2],
        code_files=counts[3],
        database_size_mb=round(_bytes_on_disk(path) / 1e6, 3),
        graph_name=path.stem,
        engine="sqlite",
        schema_version=connection.execute("PRAGMA user_version").fetchone()[0],
        pending_vectors=count_pending(connection, None),
        embedding_model=active[1].model if active else None,
        embedding_dimension=active[1].dimension if active else None,
    )


def _bytes_on_disk(path: Path) -> int:
    parts = (path, path.with_name(path.name + "-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


# Each returns how many rows are wrong; 0 is sound.
_COUNTED_CHECKS = {
    "passages without a memory": "SELECT count(*) FROM chunks c WHERE NOT EXISTS"
    " (SELECT 1 FROM memories m WHERE m.key = c.memory_key)",
    "memories without text": "SELECT count(*) FROM memories m WHERE NOT EXISTS"
    " (SELECT 1 FROM memory_texts t WHERE t.memory_key = m.key)",
    "memories without passages": "SELECT count(*) FROM memories m WHERE NOT EXISTS"
    " (SELECT 1 FROM chunks c WHERE c.memory_key = m.key)",
    "vectors of the wrong size": "SELECT count(*) FROM chunk_vectors v JOIN embedding_spaces s"
    " ON s.key = v.space_key WHERE length(v.vector) <> 4 * s.dimension",
    "passages wrongly marked as having a vector": "SELECT count(*) FROM chunks c"
    " WHERE c.vector_pending = 0 AND NOT EXISTS (SELECT 1 FROM chunk_vectors v"
    " JOIN embedding_spaces s ON s.key = v.space_key AND s.active = 1 WHERE v.chunk_id = c.id)",
    "entities nothing speaks of": "SELECT count(*) FROM graph_entities e WHERE e.given = 0"
    " AND NOT EXISTS (SELECT 1 FROM graph_mentions WHERE entity_key = e.key)"
    " AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE source_key = e.key)"
    " AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE target_key = e.key)",
    "relationships with the wrong support": "SELECT count(*) FROM graph_relationships r"
    " WHERE r.support < 1 OR r.support <>"
    " (SELECT count(*) FROM graph_evidence WHERE relationship_key = r.key)",
}


_WORD_INDEXES = (
    (
        "word index",
        "passages",
        "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)",
    ),
    (
        "word index of observations",
        "observations",
        "INSERT INTO observations_fts (observations_fts, rank) VALUES ('integrity-check', 1)",
    ),
)


def missing_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of tables that a new file has and this one has not."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        wanted = {name for (name,) in fresh.execute(sql)}
    return sorted(wanted.difference(name for (name,) in connection.execute(sql)))


def check_integrity(connection: sqlite3.Connection) -> Mapping[str, str]:
    """Run SQLite's own checks, the word index's, and ours."""
    problems: dict[str, str] = {}
    verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        problems["file structure"] = "damaged"
    if missing := missing_tables(connection):
        return {**problems, "missing tables": ", ".join(missing)}
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        problems["references"] = "broken"
    for name, what, sql in _WORD_INDEXES:
        try:
            connection.execute(sql)
        except sqlite3.DatabaseError:
            problems[name] = f"does not match the stored {what}"
    for name, sql in _COUNTED_CHECKS.items():
        wrong = connection.execute(sql).fetchone()[0]
        if wrong:
            problems[name] = f"{wrong} found"
    return problems

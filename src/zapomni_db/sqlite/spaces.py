"""Embedding spaces, stored vectors, and the chunks that still wait for one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import Embedding, EmbeddingSpace
from zapomni_db.sqlite.rows import from_blob, text_hash, to_blob, to_json
from zapomni_db.vector_models import ChunkVector, PendingChunk

__all__ = [
    "activate",
    "active_space",
    "add_vectors",
    "claim_space",
    "count_pending",
    "drop_inactive",
    "pending",
    "prune_log",
    "stored_embeddings",
    "tokens_of",
]

LOG_ENTRIES_KEPT = 20_000


def active_space(connection: sqlite3.Connection) -> tuple[int, EmbeddingSpace] | None:
    row = connection.execute(
        "SELECT key, model, dimension, sha256 FROM embedding_spaces WHERE active = 1"
    ).fetchone()
    if row is None:
        return None
    return row[0], EmbeddingSpace(model=row[1], dimension=row[2], sha256=row[3])


def claim_space(connection: sqlite3.Connection, space: EmbeddingSpace) -> int:
    """Return the key vectors of this space are stored under; the first space becomes active."""
    active = active_space(connection)
    if active is None:
        key = _space_key(connection, space, create=True)
        connection.execute("UPDATE embedding_spaces SET active = 1 WHERE key = ?", (key,))
        return key
    key, kept = active
    if kept.dimension != space.dimension:
        raise ValidationError(
            f"embedding dimension must be {kept.dimension}, got {space.dimension}", "VAL_003"
        )
    if kept != space:
        raise ValidationError(
            f"The stored vectors were made by {kept.model}, these by {space.model}; "
            "vectors of two models cannot be compared. Run `zapomni models reembed` to switch.",
            "VAL_004",
        )
    return key


def _space_key(connection: sqlite3.Connection, space: EmbeddingSpace, *, create: bool) -> int:
    values = (space.model, space.dimension, space.sha256)
    if create:
        connection.execute(
            "INSERT OR IGNORE INTO embedding_spaces (model, dimension, sha256) VALUES (?, ?, ?)",
            values,
        )
    row = connection.execute(
        "SELECT key FROM embedding_spaces WHERE model = ? AND dimension = ? AND sha256 = ?", values
    ).fetchone()
    return 0 if row is None else int(row[0])


def stored_embeddings(
    connection: sqlite3.Connection, space: EmbeddingSpace, texts: Sequence[str]
) -> dict[str, Embedding]:
    key = _space_key(connection, space, create=False)
    found = {}
    for text in texts:
        row = connection.execute(
            "SELECT v.vector, t.tokens FROM chunks c"
            " CROSS JOIN chunk_vectors v ON v.chunk_id = c.id"
            " LEFT JOIN chunk_tokens t ON t.chunk_id = c.id AND t.space_key = v.space_key"
            " WHERE c.text_hash = ? AND v.space_key = ? LIMIT 1",
            (text_hash(text), key),
        ).fetchone()
        if row is not None:
            found[text] = Embedding.model_construct(vector=from_blob(row[0]), tokens=row[1])
    return found


def tokens_of(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, bytes]:
    rows = connection.execute(
        "SELECT t.chunk_id, t.tokens FROM embedding_spaces s JOIN chunk_tokens t"
        " ON t.space_key = s.key WHERE s.active = 1"
        " AND t.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))",
        (to_json(list(chunk_ids)),),
    )
    return {str(chunk_id): tokens for chunk_id, tokens in rows}


def pending(
    connection: sqlite3.Connection, space: EmbeddingSpace | None, limit: int
) -> list[PendingChunk]:
    active = active_space(connection)
    if space is None or active is None or active[1] == space:
        rows = connection.execute(
            "SELECT id, text FROM chunks WHERE vector_pending = 1 ORDER BY id LIMIT ?", (limit,)
        )
    else:
        rows = connection.execute(
            "SELECT c.id, c.text FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM chunk_vectors v"
            " WHERE v.chunk_id = c.id AND v.space_key = ?) ORDER BY c.id LIMIT ?",
            (_space_key(connection, space, create=False), limit),
        )
    return [PendingChunk(chunk_id=str(chunk_id), text=text) for chunk_id, text in rows]


def count_pending(connection: sqlite3.Connection, space: EmbeddingSpace | None) -> int:
    active = active_space(connection)
    if space is None or active is None or active[1] == space:
        sql = "SELECT count(*) FROM chunks WHERE vector_pending = 1"
        return int(connection.execute(sql).fetchone()[0])
    return int(
        connection.execute(
            "SELECT (SELECT count(*) FROM chunks)"
            " - (SELECT count(*) FROM chunk_vectors WHERE space_key = ?)",
            (_space_key(connection, space, create=False),),
        ).fetchone()[0]
    )


def add_vectors(
    connection: sqlite3.Connection, space: EmbeddingSpace, vectors: Sequence[ChunkVector]
) -> None:
    active = active_space(connection)
    key = claim_space(connection, space) if active is None else 0
    key = key or _space_key(connection, space, create=True)
    is_active = active is None or active[1] == space
    for position, vector in enumerate(vectors):
        blob = to_blob(vector.embedding, space.dimension, position)
        # From chunks, so that one deleted or replaced meanwhile is passed over.
        connection.execute(
            "INSERT OR REPLACE INTO chunk_vectors (chunk_id, space_key, vector)"
            " SELECT id, ?, ? FROM chunks WHERE id = ?",
            (key, blob, int(vector.chunk_id)),
        )
        if vector.tokens:
            connection.execute(
                "INSERT OR REPLACE INTO chunk_tokens (chunk_id, space_key, tokens)"
                " SELECT id, ?, ? FROM chunks WHERE id = ?",
                (key, vector.tokens, int(vector.chunk_id)),
            )
        if is_active:
            connection.execute(
                "UPDATE chunks SET vector_pending = 0 WHERE id = ?", (int(vector.chunk_id),)
            )


def activate(connection: sqlite3.Connection, space: EmbeddingSpace) -> int:
    missing = count_pending(connection, space)
    active = active_space(connection)
    if missing or (active is not None and active[1] == space):
        return missing
    key = _space_key(connection, space, create=True)
    connection.execute("UPDATE embedding_spaces SET active = 0")
    connection.execute("UPDATE embedding_spaces SET active = 1 WHERE key = ?", (key,))
    connection.execute("UPDATE chunks SET vector_pending = 0 WHERE vector_pending = 1")
    return 0


def drop_inactive(connection: sqlite3.Connection, limit: int) -> bool:
    """Delete some vectors no search uses any more; True while there are more."""
    connection.execute(
        "DELETE FROM chunk_tokens WHERE rowid IN (SELECT t.rowid FROM embedding_spaces s"
        " JOIN chunk_tokens t ON t.space_key = s.key WHERE s.active = 0 LIMIT ?)",
        (limit,),
    )
    dropped = connection.execute(
        "DELETE FROM chunk_vectors WHERE rowid IN (SELECT v.rowid FROM embedding_spaces s"
        " JOIN chunk_vectors v ON v.space_key = s.key WHERE s.active = 0 LIMIT ?)",
        (limit,),
    ).rowcount
    if dropped == 0:
        connection.execute("DELETE FROM embedding_spaces WHERE active = 0")
    return dropped > 0


def prune_log(connection: sqlite3.Connection) -> None:
    """Forget old changes; a cache that missed them reloads whole."""
    connection.execute(
        "DELETE FROM vector_log WHERE seq <= (SELECT max(seq) FROM vector_log) - ?",
        (LOG_ENTRIES_KEPT,),
    )

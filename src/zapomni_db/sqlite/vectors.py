"""Embedding spaces, stored vectors, the chunks that have none yet, and the vectors in memory.

`VectorCache` holds the vectors of the active space as one numpy matrix. Each refresh happens inside
the reader's transaction and reads the log of changes, so a search sees exactly the vectors of its
snapshot, whichever process wrote them.
"""

from __future__ import annotations

import math
import sqlite3
import sys
import threading
from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING, LiteralString, NamedTuple

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import ChunkVector, Embedding, EmbeddingSpace, PendingChunk
from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.rows import from_blob, text_hash, to_blob, to_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ActiveSpace",
    "Nearest",
    "VectorCache",
    "activate_space",
    "claim_space",
    "count_pending",
    "drop_inactive_vectors",
    "get_embeddings",
    "get_pending",
    "get_space",
    "get_tokens",
    "prune_log",
    "read_active_space",
    "store_vectors",
]


LOG_ENTRIES_KEPT = 20_000


# --- Spaces -----------------------------------------------------------------------------

_ACTIVE: LiteralString = """
SELECT key, model, dimension, sha256 FROM embedding_spaces WHERE active = 1"""
# One space at most is active: the other one ends first.
_DEACTIVATE: LiteralString = "UPDATE embedding_spaces SET active = 0"
_ACTIVATE: LiteralString = "UPDATE embedding_spaces SET active = 1 WHERE key = ?"
_SPACE_KEY: LiteralString = """
SELECT key FROM embedding_spaces WHERE model = ? AND dimension = ? AND sha256 = ?"""
_INSERT_SPACE: LiteralString = """
INSERT OR IGNORE INTO embedding_spaces (model, dimension, sha256) VALUES (?, ?, ?)"""


class ActiveSpace(NamedTuple):
    """The space that searches use, and the key its vectors are stored under."""

    key: int
    space: EmbeddingSpace


def read_active_space(connection: sqlite3.Connection) -> ActiveSpace | None:
    row = connection.execute(_ACTIVE).fetchone()
    if row is None:
        return None
    key, model, dimension, sha256 = row
    return ActiveSpace(key, EmbeddingSpace(model=model, dimension=dimension, sha256=sha256))


def get_space(connection: sqlite3.Connection) -> EmbeddingSpace | None:
    active = read_active_space(connection)
    return None if active is None else active.space


def claim_space(connection: sqlite3.Connection, space: EmbeddingSpace) -> int:
    """Return the key vectors of this space are stored under; the first space becomes active."""
    active = read_active_space(connection)
    if active is None:
        key = _space_key(connection, space, create=True)
        connection.execute(_ACTIVATE, (key,))
        return key
    key, stored = active
    if stored.dimension != space.dimension:
        raise ValidationError(
            f"embedding dimension must be {stored.dimension}, got {space.dimension}", "VAL_003"
        )
    if stored != space:
        raise ValidationError(
            f"The stored vectors were made by {stored.model}, these by {space.model}; "
            "vectors of two models cannot be compared. Run `zapomni models reembed` to switch.",
            "VAL_004",
        )
    return key


def _space_key(connection: sqlite3.Connection, space: EmbeddingSpace, *, create: bool) -> int:
    values = (space.model, space.dimension, space.sha256)
    if create:
        connection.execute(_INSERT_SPACE, values)
    return int(fetch_value(connection, _SPACE_KEY, values) or 0)


# --- Stored vectors ---------------------------------------------------------------------

# The vector and token vectors of any chunk with exactly this text.
_EMBEDDING: LiteralString = """
SELECT v.vector, t.tokens FROM chunks c
CROSS JOIN chunk_vectors v ON v.chunk_id = c.id
LEFT JOIN chunk_tokens t ON t.chunk_id = c.id AND t.space_key = v.space_key
WHERE c.text_hash = ? AND v.space_key = ? LIMIT 1"""

_TOKENS: LiteralString = """
SELECT t.chunk_id, t.tokens FROM embedding_spaces s JOIN chunk_tokens t ON t.space_key = s.key
WHERE s.active = 1 AND t.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))"""

_VECTORS: LiteralString = """
SELECT v.chunk_id, v.vector FROM embedding_spaces s JOIN chunk_vectors v ON v.space_key = s.key
WHERE s.active = 1 AND v.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))"""

# Chunks without a vector: in the active space they are marked, in another one they are compared.
_PENDING: LiteralString = """
SELECT id, text FROM chunks WHERE vector_pending = 1 ORDER BY id LIMIT ?"""
_PENDING_IN: LiteralString = """
SELECT c.id, c.text FROM chunks c
WHERE NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = c.id AND v.space_key = ?)
ORDER BY c.id LIMIT ?"""
_COUNT_PENDING: LiteralString = "SELECT count(*) FROM chunks WHERE vector_pending = 1"
_COUNT_PENDING_IN: LiteralString = """
SELECT (SELECT count(*) FROM chunks) - (SELECT count(*) FROM chunk_vectors WHERE space_key = ?)"""

# Inserted from chunks, so that one deleted or replaced meanwhile is skipped.
_STORE_VECTOR: LiteralString = """
INSERT OR REPLACE INTO chunk_vectors (chunk_id, space_key, vector)
SELECT id, ?, ? FROM chunks WHERE id = ?"""
_STORE_TOKENS: LiteralString = """
INSERT OR REPLACE INTO chunk_tokens (chunk_id, space_key, tokens)
SELECT id, ?, ? FROM chunks WHERE id = ?"""
_MARK_STORED: LiteralString = "UPDATE chunks SET vector_pending = 0 WHERE id = ?"
_MARK_ALL_STORED: LiteralString = "UPDATE chunks SET vector_pending = 0 WHERE vector_pending = 1"

# Some vectors of spaces that no search uses.
_DROP_VECTORS: LiteralString = """
DELETE FROM chunk_vectors WHERE rowid IN (SELECT v.rowid FROM embedding_spaces s
    JOIN chunk_vectors v ON v.space_key = s.key WHERE s.active = 0 LIMIT ?)"""
_DROP_TOKENS: LiteralString = """
DELETE FROM chunk_tokens WHERE rowid IN (SELECT t.rowid FROM embedding_spaces s
    JOIN chunk_tokens t ON t.space_key = s.key WHERE s.active = 0 LIMIT ?)"""
_DROP_SPACES: LiteralString = "DELETE FROM embedding_spaces WHERE active = 0"

# All but the newest changes.
_PRUNE_LOG: LiteralString = """
DELETE FROM vector_log WHERE seq <= (SELECT max(seq) FROM vector_log) - ?"""


def get_embeddings(
    connection: sqlite3.Connection, space: EmbeddingSpace, texts: Sequence[str]
) -> dict[str, Embedding]:
    key = _space_key(connection, space, create=False)
    found = {}
    for text in texts:
        for vector, tokens in connection.execute(_EMBEDDING, (text_hash(text), key)):
            found[text] = Embedding.model_construct(vector=from_blob(vector), tokens=tokens)
    return found


def get_tokens(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, bytes]:
    rows = connection.execute(_TOKENS, (to_json(list(chunk_ids)),))
    return {str(chunk_id): tokens for chunk_id, tokens in rows}


FEW_VECTORS = 20


def get_cosines(
    connection: sqlite3.Connection, chunk_ids: Sequence[str]
) -> dict[frozenset[str], float]:
    """Return how near the chunks that have vectors in the active space are to each other."""
    rows = connection.execute(_VECTORS, (to_json(list(chunk_ids)),)).fetchall()
    if len(rows) < 2:
        return {}
    known = [(str(chunk_id), from_blob(blob)) for chunk_id, blob in rows]
    if len(known) <= FEW_VECTORS and "numpy" not in sys.modules:
        # A search by words has not loaded numpy: importing it takes longer than these products.
        lengths = [math.hypot(*vector) or 1.0 for _, vector in known]
        return {
            frozenset((known[i][0], known[j][0])): sum(map(mul, known[i][1], known[j][1]))
            / (lengths[i] * lengths[j])
            for i in range(len(known))
            for j in range(i)
        }
    import numpy as np

    matrix = np.asarray([vector for _, vector in known], dtype=np.float32)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix /= np.where(norms > 0, norms, 1)
    products = np.einsum("id,jd->ij", matrix, matrix)
    return {
        frozenset((known[i][0], known[j][0])): float(products[i, j])
        for i in range(len(known))
        for j in range(i)
    }


def get_pending(
    connection: sqlite3.Connection, space: EmbeddingSpace | None, limit: int
) -> list[PendingChunk]:
    active = read_active_space(connection)
    if space is None or active is None or active.space == space:
        rows = connection.execute(_PENDING, (limit,))
    else:
        key = _space_key(connection, space, create=False)
        rows = connection.execute(_PENDING_IN, (key, limit))
    return [PendingChunk(chunk_id=str(chunk_id), text=text) for chunk_id, text in rows]


def count_pending(connection: sqlite3.Connection, space: EmbeddingSpace | None) -> int:
    active = read_active_space(connection)
    if space is None or active is None or active.space == space:
        return int(fetch_value(connection, _COUNT_PENDING))
    key = _space_key(connection, space, create=False)
    return int(fetch_value(connection, _COUNT_PENDING_IN, (key,)))


def store_vectors(
    connection: sqlite3.Connection, space: EmbeddingSpace, vectors: Sequence[ChunkVector]
) -> None:
    active = read_active_space(connection)
    if active is None:
        key = claim_space(connection, space)
    else:
        key = _space_key(connection, space, create=True)
    is_active = active is None or active.space == space
    for position, vector in enumerate(vectors):
        chunk_id = int(vector.chunk_id)
        blob = to_blob(vector.embedding, space.dimension, position)
        connection.execute(_STORE_VECTOR, (key, blob, chunk_id))
        if vector.tokens:
            connection.execute(_STORE_TOKENS, (key, vector.tokens, chunk_id))
        if is_active:
            connection.execute(_MARK_STORED, (chunk_id,))


def activate_space(connection: sqlite3.Connection, space: EmbeddingSpace) -> int:
    missing = count_pending(connection, space)
    if missing == 0 and get_space(connection) != space:
        key = _space_key(connection, space, create=True)
        connection.execute(_DEACTIVATE)
        connection.execute(_ACTIVATE, (key,))
        connection.execute(_MARK_ALL_STORED)
    return missing


def drop_inactive_vectors(connection: sqlite3.Connection, limit: int) -> bool:
    """Delete some vectors that no search uses; return whether there may be more."""
    connection.execute(_DROP_TOKENS, (limit,))
    dropped = connection.execute(_DROP_VECTORS, (limit,)).rowcount
    if dropped == 0:
        connection.execute(_DROP_SPACES)
    return dropped > 0


def prune_log(connection: sqlite3.Connection) -> None:
    """Delete old changes; a cache that missed them reloads completely."""
    connection.execute(_PRUNE_LOG, (LOG_ENTRIES_KEPT,))


# --- The vectors of the active space in memory -----------------------------------------


# Fewer vectors are scored exactly faster than they are preselected.
SIGNS_FROM = 20_000
NEAR_AT_LEAST = 2_000
NEAR_PER_HIT = 20


_NEWEST_CHANGE: LiteralString = "SELECT coalesce(max(seq), 0) FROM vector_log"
_OLDEST_CHANGE: LiteralString = "SELECT coalesce(min(seq), 0) FROM vector_log"

# How many vectors a space has, and their dimension.
_SIZE: LiteralString = """
SELECT (SELECT count(*) FROM chunk_vectors WHERE space_key = s.key), s.dimension
FROM embedding_spaces s WHERE s.key = ?"""
_ALL_VECTORS: LiteralString = """
SELECT chunk_id, vector FROM chunk_vectors WHERE space_key = ? ORDER BY rowid"""

# Vectors that changed since an entry of the log; NULL for those that were deleted.
_CHANGED_VECTORS: LiteralString = """
SELECT l.chunk_id, v.vector FROM (SELECT DISTINCT chunk_id FROM vector_log WHERE seq > ?) l
LEFT JOIN chunk_vectors v ON v.chunk_id = l.chunk_id AND v.space_key = ?"""


class Nearest(NamedTuple):
    """The best (chunk id, cosine), and mean, deviation and number of all that were compared."""

    best: list[tuple[int, float]]
    mean: float
    deviation: float
    among: int


class VectorCache:
    """Vectors by chunk id, normalised, scored exactly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: object = None
        self._space_key = 0
        self._seq = -1
        self._size = 0
        self._rows: dict[int, int] = {}
        self._ids: NDArray[np.int64] | None = None
        self._matrix: NDArray[np.float32] | None = None
        # One sign bit per number: a preselection that is thirteen times cheaper than the scores.
        self._signs: NDArray[np.uint8] | None = None

    def search(
        self,
        connection: sqlite3.Connection,
        space_key: int,
        query: Sequence[float],
        limit: int,
        *,
        only: set[int] | None = None,
        without: set[int] | None = None,
    ) -> Nearest:
        """Find the nearest chunks.

        Args:
            connection: Inside a read transaction.
            space_key: The active space.
            query: A vector of that space.
            limit: How many to return.
            only: If given, no other chunk is compared.
            without: Chunks that are not compared.
        """
        import numpy as np  # word search must not pay for it

        with self._lock:
            self._refresh(connection, space_key)
            if self._matrix is None or self._ids is None or not self._size:
                return Nearest([], 0.0, 0.0, 0)
            vector = _unit_rows(np.asarray([query], dtype=np.float32))[0]
            if not vector.any():
                return Nearest([], 0.0, 0.0, 0)
            rows = self._compared_rows(only, without)
            scores, ids = self._score(vector, limit, rows)
            count = self._size if rows is None else len(rows)
            sample = scores if len(scores) == count else self._sample(vector, rows)
        mean, deviation = (float(sample.mean()), float(sample.std())) if len(sample) else (0.0, 0.0)
        if limit < len(scores):
            # Ties at the border are settled by id, so that paging is stable.
            border = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            keep = np.flatnonzero(scores >= border)
            scores, ids = scores[keep], ids[keep]
        order = np.lexsort((ids, -scores))[:limit]
        best = [(int(ids[i]), float(scores[i])) for i in order]
        return Nearest(best, mean, deviation, count)

    def _score(
        self,
        vector: NDArray[np.float32],
        limit: int,
        rows: NDArray[np.int64] | None,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Score the compared chunks exactly; of very many, those whose signs agree most."""
        import numpy as np

        assert self._matrix is not None
        assert self._ids is not None
        count = self._size if rows is None else len(rows)
        near = max(NEAR_AT_LEAST, NEAR_PER_HIT * limit)
        if count > SIGNS_FROM and near < count:
            rows = self._nearest_signs(vector, rows, near)
        if rows is None:
            matrix, ids = self._matrix[: self._size], self._ids[: self._size]
        elif len(rows) * 4 > self._size:
            # vecdot, not @: a threaded BLAS spends eight times the CPU on a product this small.
            return np.vecdot(self._matrix[: self._size], vector)[rows], self._ids[rows]
        else:
            matrix, ids = self._matrix[rows], self._ids[rows]
        return np.vecdot(matrix, vector), ids

    def _sample(
        self, vector: NDArray[np.float32], rows: NDArray[np.int64] | None
    ) -> NDArray[np.float32]:
        """Score some of the chunks, evenly spread: enough to know their mean and spread."""
        import numpy as np

        assert self._matrix is not None
        chosen = np.arange(self._size) if rows is None else rows
        step = max(1, len(chosen) // NEAR_AT_LEAST)
        sample: NDArray[np.float32] = np.vecdot(self._matrix[chosen[::step]], vector)
        return sample

    def _compared_rows(
        self, only: set[int] | None, without: set[int] | None
    ) -> NDArray[np.int64] | None:
        import numpy as np

        if only is not None:
            return np.array(sorted(self._rows[i] for i in only if i in self._rows), dtype=np.int64)
        if not without:
            return None
        keep = np.ones(self._size, dtype=bool)
        keep[[self._rows[i] for i in without if i in self._rows]] = False
        return np.flatnonzero(keep)

    def _nearest_signs(
        self, vector: NDArray[np.float32], rows: NDArray[np.int64] | None, count: int
    ) -> NDArray[np.int64]:
        import numpy as np

        assert self._signs is not None
        signs = self._signs[: self._size].view(np.uint64)
        wanted = _signs_of(vector[np.newaxis]).view(np.uint64)
        differing = np.bitwise_count(signs ^ wanted).sum(axis=1, dtype=np.uint16)
        if rows is not None:
            return rows[np.argpartition(differing[rows], count)[:count]]
        return np.argpartition(differing, count)[:count]

    def _refresh(self, connection: sqlite3.Connection, space_key: int) -> None:
        newest = fetch_value(connection, _NEWEST_CHANGE)
        file = getattr(connection, "identity", None)
        if file != self._file:
            # The database was replaced by another one: its numbers mean something else.
            self._file, self._space_key = file, 0
        if space_key == self._space_key and newest == self._seq:
            return
        oldest = fetch_value(connection, _OLDEST_CHANGE)
        # Another search may have brought it further than this reader's snapshot.
        if space_key != self._space_key or not oldest - 1 <= self._seq <= newest:
            self._load(connection, space_key)
        else:
            for chunk_id, blob in connection.execute(_CHANGED_VECTORS, (self._seq, space_key)):
                if blob is None:
                    self._remove(chunk_id)
                else:
                    self._put(chunk_id, blob)
        self._seq = newest

    def _load(self, connection: sqlite3.Connection, space_key: int) -> None:
        import numpy as np

        self._space_key = space_key
        count, dimension = connection.execute(_SIZE, (space_key,)).fetchone()
        capacity = max(count, 64)
        self._matrix = np.zeros((capacity, dimension), dtype=np.float32)
        self._ids = np.zeros(capacity, dtype=np.int64)
        self._signs = np.zeros((capacity, -(-dimension // 64) * 8), dtype=np.uint8)
        self._rows, self._size = {}, 0
        cursor = connection.execute(_ALL_VECTORS, (space_key,))
        while batch := cursor.fetchmany(4096):
            block = np.frombuffer(b"".join(v for _, v in batch), dtype=np.float32)
            block = block.reshape(len(batch), dimension)
            self._matrix[self._size : self._size + len(batch)] = _unit_rows(block)
            self._signs[self._size : self._size + len(batch)] = _signs_of(block)
            for chunk_id, _ in batch:
                self._ids[self._size] = chunk_id
                self._rows[chunk_id] = self._size
                self._size += 1

    def _put(self, chunk_id: int, blob: bytes) -> None:
        import numpy as np

        assert self._matrix is not None
        assert self._ids is not None
        assert self._signs is not None
        row = self._rows.get(chunk_id)
        if row is None:
            if self._size == len(self._ids):
                self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
                self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
                self._signs = np.concatenate([self._signs, np.zeros_like(self._signs)])
            row = self._size
            self._size += 1
        vector = np.frombuffer(blob, dtype=np.float32)
        self._matrix[row] = _unit_rows(vector[np.newaxis])[0]
        self._signs[row] = _signs_of(vector[np.newaxis])[0]
        self._ids[row] = chunk_id
        self._rows[chunk_id] = row

    def _remove(self, chunk_id: int) -> None:
        row = self._rows.pop(chunk_id, None)
        if row is None:
            return
        assert self._matrix is not None
        assert self._ids is not None
        assert self._signs is not None
        self._size -= 1
        if row != self._size:
            # The last row moves into the gap; order in the matrix means nothing.
            moved = int(self._ids[self._size])
            self._matrix[row] = self._matrix[self._size]
            self._signs[row] = self._signs[self._size]
            self._ids[row] = moved
            self._rows[moved] = row


def _unit_rows(block: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows at length one; one without a direction becomes zeros: it is near nothing."""
    import numpy as np

    lengths = np.linalg.norm(block, axis=1, keepdims=True)
    known = np.isfinite(lengths) & (lengths > 0)
    rows: NDArray[np.float32] = np.divide(block, lengths, out=np.zeros_like(block), where=known)
    return rows


def _signs_of(block: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Pack the signs of each row, padded to whole 64-bit words."""
    import numpy as np

    packed = np.packbits(block > 0, axis=1)
    missing = -packed.shape[1] % 8
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, missing))))

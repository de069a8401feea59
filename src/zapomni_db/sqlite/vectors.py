"""Embedding spaces, stored vectors, the chunks that have none yet, and the vectors in memory.

`VectorCache` holds the vectors of the active space: a few as they are; of many the upper bytes and
the signs, which preselect what is then scored exactly. Each refresh happens inside the reader's
transaction and reads the log of changes, so a search sees exactly the vectors of its snapshot,
whichever process wrote them.
"""

from __future__ import annotations

import math
import sqlite3
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from zapomni_db.exceptions import ValidationError
from zapomni_db.models import ChunkVector, Embedding, EmbeddingSpace, PendingChunk
from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.packing import (
    Codes,
    PackedVector,
    pack_stored,
    pack_vectors,
    read_codes,
    read_joined_codes,
    read_lower,
    read_vectors,
)
from zapomni_db.sqlite.rows import text_hash, to_json

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
    "get_second_space",
    "get_space",
    "get_tokens",
    "get_unseen",
    "pack_old_vectors",
    "prune_log",
    "read_active_space",
    "sample_second",
    "store_second",
    "store_vectors",
]


LOG_ENTRIES_KEPT = 20_000


# --- Spaces -----------------------------------------------------------------------------

_ACTIVE: LiteralString = """
SELECT key, model, dimension, sha256 FROM embedding_spaces WHERE active = 1"""
# Of the passages that the model of the active space does not read.
_SECOND: LiteralString = """
SELECT key, model, dimension, sha256 FROM embedding_spaces WHERE active = 2"""
_DEACTIVATE_SECOND: LiteralString = """
UPDATE embedding_spaces SET active = 0 WHERE active = 2 AND key <> ?"""
# A space without vectors is not searched.
_ACTIVATE_SECOND: LiteralString = """
UPDATE embedding_spaces SET active = iif(?, 2, active), seen = max(seen, ?) WHERE key = ?"""
# One space at most is active: the other one ends first.
_DEACTIVATE: LiteralString = "UPDATE embedding_spaces SET active = 0 WHERE active = 1"
_ACTIVATE: LiteralString = "UPDATE embedding_spaces SET active = 1 WHERE key = ?"
_SPACE_KEY: LiteralString = """
SELECT key FROM embedding_spaces WHERE model = ? AND dimension = ? AND sha256 = ?"""
_INSERT_SPACE: LiteralString = """
INSERT OR IGNORE INTO embedding_spaces (model, dimension, sha256) VALUES (?, ?, ?)"""


class ActiveSpace(NamedTuple):
    """The space that searches use, and the key its vectors are stored under."""

    key: int
    space: EmbeddingSpace


def read_active_space(
    connection: sqlite3.Connection, *, second: bool = False
) -> ActiveSpace | None:
    row = connection.execute(_SECOND if second else _ACTIVE).fetchone()
    if row is None:
        return None
    key, *space = row
    return ActiveSpace(key, _space(*space))


@lru_cache(maxsize=8)
def _space(model: str, dimension: int, sha256: str) -> EmbeddingSpace:
    """Return a space; every search reads it several times."""
    return EmbeddingSpace(model=model, dimension=dimension, sha256=sha256)


def get_space(connection: sqlite3.Connection) -> EmbeddingSpace | None:
    active = read_active_space(connection)
    return None if active is None else active.space


def get_second_space(connection: sqlite3.Connection) -> EmbeddingSpace | None:
    second = read_active_space(connection, second=True)
    return None if second is None else second.space


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
SELECT v.vector, t.rest, t.tokens FROM chunks c
CROSS JOIN chunk_vectors v ON v.chunk_id = c.id
LEFT JOIN chunk_tokens t ON t.chunk_id = c.id AND t.space_key = v.space_key
WHERE c.text_hash = ? AND v.space_key = ? LIMIT 1"""

_TOKENS: LiteralString = """
SELECT t.chunk_id, t.tokens FROM embedding_spaces s JOIN chunk_tokens t ON t.space_key = s.key
WHERE s.active = 1 AND t.tokens <> x''
    AND t.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))"""

# Stored vectors of a space, with their lower parts.
_VECTORS: LiteralString = """
SELECT v.chunk_id, v.vector, t.rest FROM chunk_vectors v
LEFT JOIN chunk_tokens t ON t.chunk_id = v.chunk_id AND t.space_key = v.space_key
WHERE v.space_key = ?"""
_LOWER_PARTS: LiteralString = """
SELECT chunk_id, rest FROM chunk_tokens
WHERE space_key = ? AND rest IS NOT NULL
    AND chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))"""
_VECTORS_OF: LiteralString = (
    _VECTORS + " AND v.chunk_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))"
)

# Chunks without a vector: in the active space they are marked, in another one they are compared.
_PENDING: LiteralString = """
SELECT c.id, c.text, m.kind, m.source FROM chunks c JOIN memories m ON m.key = c.memory_key
WHERE c.vector_pending = 1 ORDER BY c.id LIMIT ?"""
_PENDING_IN: LiteralString = """
SELECT c.id, c.text, m.kind, m.source FROM chunks c JOIN memories m ON m.key = c.memory_key
WHERE NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = c.id AND v.space_key = ?)
ORDER BY c.id LIMIT ?"""
_COUNT_PENDING: LiteralString = "SELECT count(*) FROM chunks WHERE vector_pending = 1"
_COUNT_PENDING_IN: LiteralString = """
SELECT (SELECT count(*) FROM chunks) - (SELECT count(*) FROM chunk_vectors WHERE space_key = ?)"""

# Chunks that were not checked for a second space yet.
_UNSEEN: LiteralString = """
SELECT id, text FROM chunks
WHERE id > coalesce((SELECT seen FROM embedding_spaces WHERE key = ?), 0) ORDER BY id LIMIT ?"""

# Inserted from chunks, so that one deleted or replaced meanwhile is skipped.
_STORE_VECTOR: LiteralString = """
INSERT OR REPLACE INTO chunk_vectors (chunk_id, space_key, vector)
SELECT id, ?, ? FROM chunks WHERE id = ?"""
_STORE_TOKENS: LiteralString = """
INSERT OR REPLACE INTO chunk_tokens (chunk_id, space_key, tokens, rest)
SELECT id, ?, ?, ? FROM chunks WHERE id = ?"""
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
        for upper, lower, tokens in connection.execute(_EMBEDDING, (text_hash(text), key)):
            vector = PackedVector(upper, lower).numbers()
            found[text] = Embedding.model_construct(vector=vector, tokens=tokens or None)
    return found


def get_tokens(connection: sqlite3.Connection, chunk_ids: Sequence[str]) -> dict[str, bytes]:
    rows = connection.execute(_TOKENS, (to_json(list(chunk_ids)),))
    return {str(chunk_id): tokens for chunk_id, tokens in rows}


FEW_VECTORS = 20


def get_cosines(
    connection: sqlite3.Connection, chunk_ids: Sequence[str]
) -> dict[frozenset[str], float]:
    """Return how near the chunks that have vectors in the active space are to each other."""
    active = read_active_space(connection)
    if active is None:
        return {}
    values = (active.key, to_json(list(chunk_ids)))
    rows = [(str(i), PackedVector(*parts)) for i, *parts in connection.execute(_VECTORS_OF, values)]
    if len(rows) < 2:
        return {}
    if len(rows) <= FEW_VECTORS and "numpy" not in sys.modules:
        # A search by words has not loaded numpy: importing it takes longer than these products.
        known = [(chunk_id, vector.numbers()) for chunk_id, vector in rows]
        lengths = [math.hypot(*vector) or 1.0 for _, vector in known]
        return {
            frozenset((known[i][0], known[j][0])): sum(map(mul, known[i][1], known[j][1]))
            / (lengths[i] * lengths[j])
            for i in range(len(known))
            for j in range(i)
        }
    import numpy as np

    matrix = read_vectors([vector for _, vector in rows], active.space.dimension)
    products = np.einsum("id,jd->ij", matrix, matrix).tolist()
    ids = [chunk_id for chunk_id, _ in rows]
    return {frozenset((ids[i], ids[j])): products[i][j] for i in range(len(ids)) for j in range(i)}


def get_pending(
    connection: sqlite3.Connection, space: EmbeddingSpace | None, limit: int
) -> list[PendingChunk]:
    active = read_active_space(connection)
    if space is None or active is None or active.space == space:
        rows = connection.execute(_PENDING, (limit,))
    else:
        key = _space_key(connection, space, create=False)
        rows = connection.execute(_PENDING_IN, (key, limit))
    return [
        PendingChunk(chunk_id=str(chunk_id), text=text, kind=kind, source=source)
        for chunk_id, text, kind, source in rows
    ]


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
    for chunk_id in _store(connection, key, space, vectors):
        if is_active:
            connection.execute(_MARK_STORED, (chunk_id,))


def _store(
    connection: sqlite3.Connection, key: int, space: EmbeddingSpace, vectors: Sequence[ChunkVector]
) -> list[int]:
    embeddings = [vector.embedding for vector in vectors]
    packed = pack_vectors(embeddings, space.dimension, range(len(vectors)))
    chunk_ids = [int(vector.chunk_id) for vector in vectors]
    for chunk_id, vector, (upper, lower) in zip(chunk_ids, vectors, packed, strict=True):
        connection.execute(_STORE_VECTOR, (key, upper, chunk_id))
        connection.execute(_STORE_TOKENS, (key, vector.tokens or b"", lower, chunk_id))
    return chunk_ids


def get_unseen(
    connection: sqlite3.Connection, space: EmbeddingSpace, limit: int
) -> list[PendingChunk]:
    rows = connection.execute(_UNSEEN, (_space_key(connection, space, create=False), limit))
    return [PendingChunk(chunk_id=str(chunk_id), text=text) for chunk_id, text in rows]


def store_second(
    connection: sqlite3.Connection,
    space: EmbeddingSpace,
    vectors: Sequence[ChunkVector],
    seen: str,
) -> None:
    key = _space_key(connection, space, create=True)
    if vectors:
        connection.execute(_DEACTIVATE_SECOND, (key,))
    connection.execute(_ACTIVATE_SECOND, (bool(vectors), int(seen), key))
    _store(connection, key, space, vectors)


def sample_second(connection: sqlite3.Connection, cache: VectorCache, limit: int) -> bytes:
    second = read_active_space(connection, second=True)
    return b"" if second is None else cache.sample(connection, second.key, limit)


# Vectors of older versions, which are float32, are below a row number.
_UNPACKED_BELOW: LiteralString = "SELECT row FROM unpacked_vectors"
_SET_UNPACKED_BELOW: LiteralString = "UPDATE unpacked_vectors SET row = ?"
_UNPACKED: LiteralString = """
SELECT v.rowid, v.chunk_id, v.space_key, v.vector, t.rest FROM chunk_vectors v
LEFT JOIN chunk_tokens t ON t.chunk_id = v.chunk_id AND t.space_key = v.space_key
WHERE v.rowid < ? ORDER BY v.rowid DESC LIMIT ?"""
_REPLACE_VECTOR: LiteralString = """
UPDATE chunk_vectors SET vector = ? WHERE chunk_id = ? AND space_key = ?"""
_ADD_REST: LiteralString = """
INSERT INTO chunk_tokens (chunk_id, space_key, tokens, rest) VALUES (?, ?, x'', ?)
ON CONFLICT (chunk_id, space_key) DO UPDATE SET rest = excluded.rest"""


def pack_old_vectors(connection: sqlite3.Connection, limit: int) -> int:
    """Pack some vectors of older versions; return how many were looked at, 0: there are no more.

    They stay the same, so the log of changes has no entry for them.
    """
    below = fetch_value(connection, _UNPACKED_BELOW)
    rows = connection.execute(_UNPACKED, (below, limit)).fetchall() if below else []
    by_size: dict[int, list[tuple[int, int, bytes]]] = {}
    for _, chunk_id, space_key, vector, rest in rows:
        if rest is None:
            by_size.setdefault(len(vector), []).append((chunk_id, space_key, vector))
    for alike in by_size.values():
        packed = pack_stored([vector for _, _, vector in alike])
        for (chunk_id, space_key, _), (upper, lower) in zip(alike, packed, strict=True):
            connection.execute(_REPLACE_VECTOR, (upper, chunk_id, space_key))
            connection.execute(_ADD_REST, (chunk_id, space_key, lower))
    if below:
        lowest, *_ = rows[-1] if rows else (0,)
        connection.execute(_SET_UNPACKED_BELOW, (lowest,))
    return len(rows)


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


# Fewer vectors are held as they are, and all scored.
MANY_VECTORS = 20_000
# Of many, so many whose signs agree most with the question's are compared by their upper bytes ...
NEAR_AT_LEAST, NEAR_AT_MOST, NEAR_SHARE = 2_000, 16_000, 60
NEAR_PER_HIT = 20
# ... and of those so many for each hit are scored exactly, with what is on the disk.
EXACT_AT_LEAST, EXACT_PER_HIT = 100, 2
# Vectors that are compared at a time, so that the numbers stay in a processor's own memory.
BLOCK, SIGNS_BLOCK = 1024, 16_384
# Rows that are read at a time. In larger blocks memory would go back to the system after each one:
# of a million vectors, half of the time of loading them.
READ_AT_ONCE = 256


_NEWEST_CHANGE: LiteralString = "SELECT coalesce(max(seq), 0) FROM vector_log"
_OLDEST_CHANGE: LiteralString = "SELECT coalesce(min(seq), 0) FROM vector_log"

# How many vectors a space has, and their dimension.
_SIZE: LiteralString = """
SELECT (SELECT count(*) FROM chunk_vectors WHERE space_key = s.key), s.dimension
FROM embedding_spaces s WHERE s.key = ?"""
# Upper parts of the next vectors, joined: one long row takes half of the time of many short ones.
_UPPER_JOINED: LiteralString = """
SELECT max(row), group_concat(chunk_id), CAST(group_concat(vector, '') AS BLOB) FROM
    (SELECT rowid AS row, chunk_id, vector FROM chunk_vectors NOT INDEXED
    WHERE rowid > ? AND space_key = ? ORDER BY rowid LIMIT ?)"""
_UPPER: LiteralString = """
SELECT chunk_id, vector, NULL FROM chunk_vectors NOT INDEXED
WHERE rowid > ? AND space_key = ? ORDER BY rowid LIMIT ?"""

# Vectors that changed since an entry of the log; NULL for those that were deleted.
_CHANGED_VECTORS: LiteralString = """
SELECT l.chunk_id, v.vector, t.rest
FROM (SELECT DISTINCT chunk_id FROM vector_log WHERE seq > ?) l
LEFT JOIN chunk_vectors v ON v.chunk_id = l.chunk_id AND v.space_key = ?
LEFT JOIN chunk_tokens t ON t.chunk_id = v.chunk_id AND t.space_key = v.space_key"""


StoredRow = tuple[int, bytes, bytes | None]
"""A chunk's id, and both parts of its vector."""
ChangedRow = tuple[int, bytes | None, bytes | None]


class Nearest(NamedTuple):
    """The best (chunk id, cosine), and mean, deviation and number of all that were compared."""

    best: list[tuple[int, float]]
    mean: float
    deviation: float
    among: int


class VectorCache:
    """The vectors of a space, by chunk id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: object = None
        self._space_key = 0
        self._seq = -1
        self._held: _Held | None = None

    def search(
        self,
        connection: sqlite3.Connection,
        space_key: int,
        query: Sequence[float],
        limit: int,
        *,
        only: Sequence[int] | None = None,
        without: Sequence[int] = (),
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

        vector = _unit(query)
        with self._lock:
            held = self._refreshed(connection, space_key)
            if not held.size or not vector.any():
                return Nearest([], 0.0, 0.0, 0)
            rows = held.compared_rows(only, without)
            count = held.size if rows is None else len(rows)
            near, scores, sample = held.score(vector, limit, rows)
            if held.is_many:
                near, scores = held.score_exactly(
                    connection, space_key, vector, limit, near, scores
                )
            ids = held.ids[near]
        mean = float(sample.mean()) if count else 0.0
        apart = sample - mean
        deviation = math.sqrt(float(np.vecdot(apart, apart)) / len(apart)) if count else 0.0
        if limit < len(scores):
            # Ties at the border are settled by id, so that paging is stable.
            border = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            keep = np.flatnonzero(scores >= border)
            scores, ids = scores[keep], ids[keep]
        order = np.lexsort((ids, -scores))[:limit]
        best = list(zip(ids[order].tolist(), scores[order].tolist(), strict=True))
        return Nearest(best, mean, deviation, count)

    def compare(
        self,
        connection: sqlite3.Connection,
        space_key: int,
        query: Sequence[float],
        chunk_ids: Sequence[str],
    ) -> dict[str, float]:
        """Return the cosines of a vector and of those chunks that have one."""
        import numpy as np

        vector = _unit(query)
        with self._lock:
            held = self._refreshed(connection, space_key)
            rows = held.rows_of(np.array(list(map(int, chunk_ids)), dtype=np.int64))
            known = [i for i, row in zip(chunk_ids, rows.tolist(), strict=True) if row >= 0]
            if not known or not vector.any():
                return {}
            scores = held.compare(vector, rows if len(known) == len(rows) else rows[rows >= 0])
        return dict(zip(known, scores.tolist(), strict=True))

    def sample(self, connection: sqlite3.Connection, space_key: int, limit: int) -> bytes:
        """Return so many vectors, spread over all, as float32."""
        with self._lock:
            return self._refreshed(connection, space_key).sample(limit)

    def _refreshed(self, connection: sqlite3.Connection, space_key: int) -> _Held:
        newest = fetch_value(connection, _NEWEST_CHANGE)
        file = getattr(connection, "identity", None)
        if file != self._file:
            # The database was replaced by another one: its numbers mean something else.
            self._file, self._space_key = file, 0
        held = self._held
        if held is not None and (self._space_key, self._seq) == (space_key, newest):
            return held
        oldest = fetch_value(connection, _OLDEST_CHANGE)
        if (
            held is None
            or space_key != self._space_key
            # Another search may have brought it further than this reader's snapshot.
            or not oldest - 1 <= self._seq <= newest
            or held.is_outgrown
        ):
            held = _load(connection, space_key)
        else:
            held.change(connection.execute(_CHANGED_VECTORS, (self._seq, space_key)).fetchall())
        self._held, self._space_key, self._seq = held, space_key, newest
        return held


def _load(connection: sqlite3.Connection, space_key: int) -> _Held:
    count, dimension = connection.execute(_SIZE, (space_key,)).fetchone()
    held = _Held(dimension, count)
    if not held.is_many:
        cursor = connection.execute(_VECTORS, (space_key,))
        while batch := cursor.fetchmany(READ_AT_ONCE):
            held.append(batch)
        return held
    values = (-1, space_key, READ_AT_ONCE)
    while (found := connection.execute(_UPPER_JOINED, values).fetchone())[0] is not None:
        last, joined_ids, joined = found
        ids = joined_ids.split(",")
        codes = read_joined_codes(joined, len(ids), dimension)
        if codes is None:  # some are of an older version
            held.append(connection.execute(_UPPER, values).fetchall())
        else:
            held.append_codes(list(map(int, ids)), codes)
        values = (last, space_key, READ_AT_ONCE)
    return held


class _Held:
    """Vectors in rows, in no order: a few as they are, of many the upper bytes and the signs."""

    def __init__(self, dimension: int, count: int) -> None:
        import numpy as np

        self.dimension = dimension
        self.is_many = count > MANY_VECTORS
        self.size = 0
        # Room for more costs no memory until it is written to.
        room = count + max(count // 4, 64)
        self.ids = np.empty(room, dtype=np.int64)
        self._sorted: NDArray[np.intp] | None = None
        self._scored: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        """The last vector that all were compared with, and the cosines: a search asks again."""
        self._columns: list[NDArray[Any]] = [np.empty((room, dimension), dtype=np.float32)]
        if self.is_many:
            words = -(-dimension // 64)
            self._columns = [
                np.empty((room, dimension), dtype=np.int8),
                np.empty(room, dtype=np.float32),
                *(np.empty(room, dtype=np.uint64) for _ in range(words)),
            ]

    @property
    def is_outgrown(self) -> bool:
        """Whether these have become so many that they should be held in another way."""
        return not self.is_many and self.size > 2 * MANY_VECTORS

    # --- Changing them ------------------------------------------------------------------

    def append(self, rows: Sequence[StoredRow]) -> None:
        """Add vectors of chunks that have none here."""
        if rows:
            self._append([chunk_id for chunk_id, _, _ in rows], self._parts_of(rows))

    def append_codes(self, chunk_ids: Sequence[int], codes: Codes) -> None:
        """Add the upper bytes of many vectors."""
        self._append(chunk_ids, _parts_of_codes(codes))

    def _append(self, chunk_ids: Sequence[int], parts: Sequence[NDArray[Any]]) -> None:
        import numpy as np

        start, end = self.size, self.size + len(chunk_ids)
        if end > len(self.ids):
            more = max(end - len(self.ids), len(self.ids) // 4)
            self.ids, *self._columns = (
                np.concatenate([column, np.empty((more, *column.shape[1:]), dtype=column.dtype)])
                for column in (self.ids, *self._columns)
            )
        for column, part in zip(self._columns, parts, strict=True):
            column[start:end] = part
        self.ids[start:end] = chunk_ids
        self.size, self._sorted, self._scored = end, None, None

    def change(self, rows: Sequence[ChangedRow]) -> None:
        """Store vectors anew, and forget those of which nothing is left."""
        import numpy as np

        known = self.rows_of(np.array([row[0] for row in rows], dtype=np.int64)).tolist()
        stored = [(i, vector, rest) for i, vector, rest in rows if vector is not None]
        at = [row for row, (_, vector, _) in zip(known, rows, strict=True) if vector is not None]
        old = [one for one, row in zip(stored, at, strict=True) if row >= 0]
        if old:
            rows_of_old = np.array([row for row in at if row >= 0])
            for column, part in zip(self._columns, self._parts_of(old), strict=True):
                column[rows_of_old] = part
        gone = [row for row, (_, v, _) in zip(known, rows, strict=True) if v is None and row >= 0]
        # From the last one: the last row moves into the gap, and must not be one that goes, too.
        for row in sorted(gone, reverse=True):
            self.size -= 1
            for column in (self.ids, *self._columns):
                column[row] = column[self.size]
        self._sorted = self._scored = None
        self.append([one for one, row in zip(stored, at, strict=True) if row < 0])

    def _parts_of(self, rows: Sequence[StoredRow]) -> list[NDArray[Any]]:
        """Return what each column has of vectors."""
        if self.is_many:
            return _parts_of_codes(read_codes([vector for _, vector, _ in rows], self.dimension))
        return [read_vectors([PackedVector(v, rest) for _, v, rest in rows], self.dimension)]

    # --- Comparing them -----------------------------------------------------------------

    def rows_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the rows of chunks, -1 where there is none."""
        import numpy as np

        if not self.size:
            return np.full(len(chunk_ids), -1)
        ids = self.ids[: self.size]
        if self._sorted is None:
            self._sorted = np.argsort(ids, kind="stable")
        at = np.searchsorted(ids, chunk_ids, sorter=self._sorted)
        rows = self._sorted[np.minimum(at, self.size - 1)]
        return np.where(ids[rows] == chunk_ids, rows, -1)

    def compared_rows(
        self, only: Sequence[int] | None, without: Sequence[int]
    ) -> NDArray[np.intp] | None:
        """Return the rows that count; None: all."""
        import numpy as np

        if only is not None:
            rows = self.rows_of(np.array(only, dtype=np.int64))
            return np.sort(rows[rows >= 0])
        if not without:
            return None
        keep = np.ones(self.size, dtype=bool)
        rows = self.rows_of(np.array(without, dtype=np.int64))
        keep[rows[rows >= 0]] = False
        return np.flatnonzero(keep)

    def sample(self, limit: int) -> bytes:
        """Return so many vectors, spread over all, as float32; of many nearly."""
        import numpy as np

        rows = np.arange(0, self.size, max(1, -(-self.size // limit)))
        vectors, *rest = self._columns
        chosen = vectors[rows].astype(np.float32)
        if self.is_many:
            chosen *= rest[0][rows, None]
        return chosen.tobytes()

    def score(
        self, vector: NDArray[np.float32], limit: int, rows: NDArray[np.intp] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
        """Return rows among which are the nearest, their cosines, and cosines that are typical."""
        import numpy as np

        count = self.size if rows is None else len(rows)
        near = max(NEAR_AT_LEAST, min(count // NEAR_SHARE, NEAR_AT_MOST), NEAR_PER_HIT * limit)
        if not self.is_many or near >= count:
            scores = self.compare(vector, rows)
            return np.arange(count) if rows is None else rows, scores, scores
        chosen = self._nearest_signs(vector, rows, near)
        spread = np.arange(0, count, max(1, count // NEAR_AT_LEAST))
        if rows is not None:
            spread = rows[spread]
        return chosen, self.compare(vector, chosen), self.compare(vector, spread)

    def compare(
        self, vector: NDArray[np.float32], rows: NDArray[np.intp] | None
    ) -> NDArray[np.float32]:
        """Return the cosines of rows, None: of all; of many vectors nearly."""
        import numpy as np

        vectors, *rest = self._columns
        if not self.is_many:
            # vecdot, not @: a threaded BLAS spends eight times the CPU on a product this small.
            if self._scored is None or not np.array_equal(self._scored[0], vector):
                if rows is not None and 4 * len(rows) <= self.size:
                    few: NDArray[np.float32] = np.vecdot(vectors[rows], vector)
                    return few
                self._scored = vector, np.vecdot(vectors[: self.size], vector)
            scores = self._scored[1]
            return scores if rows is None else scores[rows]
        rows = np.arange(self.size) if rows is None else rows
        found = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), BLOCK):
            steps = vectors[rows[start : start + BLOCK]].astype(np.float32)
            np.vecdot(steps, vector, out=found[start : start + BLOCK])
        worth: NDArray[np.float32] = rest[0]
        found *= worth[rows]
        return found

    def _nearest_signs(
        self, vector: NDArray[np.float32], rows: NDArray[np.intp] | None, count: int
    ) -> NDArray[np.intp]:
        """Return the rows with the most signs in common with a vector."""
        import numpy as np

        _, _, *signs = self._columns
        wanted = [word[0] for word in _signs_of(vector[np.newaxis])]
        among = self.size if rows is None else len(rows)
        differing = np.empty(among, dtype=np.uint16)
        for start in range(0, among, SIGNS_BLOCK):
            end = min(start + SIGNS_BLOCK, among)
            at = slice(start, end) if rows is None else rows[start:end]
            counts = [np.bitwise_count(w[at] ^ own) for w, own in zip(signs, wanted, strict=True)]
            # Three words of 64 signs still fit into a byte.
            threes = [sum(counts[n + 1 : n + 3], counts[n]) for n in range(0, len(counts), 3)]
            differing[start:end] = sum(threes[1:], threes[0].astype(np.uint16))
        # Few numbers are different: counting them is faster than sorting, and all that agree in as
        # many signs are taken.
        most = np.searchsorted(np.cumsum(np.bincount(differing)), count)
        nearest: NDArray[np.intp] = np.flatnonzero(differing <= most)
        return nearest if rows is None else rows[nearest]

    def score_exactly(
        self,
        connection: sqlite3.Connection,
        space_key: int,
        vector: NDArray[np.float32],
        limit: int,
        rows: NDArray[np.intp],
        scores: NDArray[np.float32],
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the nearest of rows, their cosines corrected by the lower bytes on the disk."""
        import numpy as np

        most = max(EXACT_AT_LEAST, EXACT_PER_HIT * limit)
        if most < len(scores):
            best = np.argpartition(-scores, most)[:most]
            rows, scores = rows[best], scores[best]
        ids = to_json(self.ids[rows].tolist())
        found = connection.execute(_LOWER_PARTS, (space_key, ids)).fetchall()
        if found:
            known = self.rows_of(np.array([chunk_id for chunk_id, _ in found], dtype=np.int64))
            lower = np.vecdot(read_lower([part for _, part in found]), vector)
            gains = dict(
                zip(known.tolist(), (lower * self._columns[1][known]).tolist(), strict=True)
            )
            scores = scores + np.array([gains.get(row, 0.0) for row in rows.tolist()], np.float32)
        return rows, scores


def _unit(query: Sequence[float]) -> NDArray[np.float32]:
    """Return a vector at length one; one without a direction as zeros."""
    import numpy as np

    vector = np.asarray(query, dtype=np.float32)
    length = np.linalg.norm(vector)
    return vector / length if np.isfinite(length) and length > 0 else np.zeros_like(vector)


def _parts_of_codes(codes: Codes) -> list[NDArray[Any]]:
    return [codes.steps, codes.worth, *_signs_of(codes.steps)]


def _signs_of(block: NDArray[Any]) -> list[NDArray[np.uint64]]:
    """Return the signs of each row, packed into words of 64: one array for each word."""
    import numpy as np

    packed = np.packbits(block > 0, axis=1)
    if missing := -packed.shape[1] % 8:
        packed = np.pad(packed, ((0, 0), (0, missing)))
    return list(packed.view(np.uint64).T)

"""Checking a database file, and salvaging what can be read of a damaged one. Standard library only.

`sqlite3`'s own `.recover` is part of the command-line program, not of Python. `salvage` reads every
table around the pages that cannot be read and puts the rows into a new file.
"""

from __future__ import annotations

import re
import sqlite3
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

from zapomni_db.sqlite.backups import count_rows
from zapomni_db.sqlite.connection import connect, fetch_value, prepare_file, translated
from zapomni_db.sqlite.migrations import APPLICATION_ID, LATEST_VERSION, migrate
from zapomni_db.sqlite.rows import content_hash, text_hash

__all__ = ["Damage", "Salvage", "check_integrity", "find_damage", "rebuild_indexes", "salvage"]

HEADER = b"SQLite format 3\0"
HEADER_BYTES = 100
PROBLEMS_READ = 200
# Reads that may fail in one table before the rest of its gaps is given up.
FAILED_READS = 4000
# The highest row number where nothing says it.
UNKNOWN_END = 1_000_000

# What SQLite says of indexes alone: they are made again from the rows.
_INDEX_ONLY = re.compile(
    r"row \d+ missing from index|wrong # of entries in index|non-unique entry in index"
    r"|rowid not at end-of-record for row \d+ of index|values of row \d+ .*index",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Damage:
    """What is wrong, in words for the user, and whether only indexes are affected."""

    problems: tuple[str, ...]
    indexes_only: bool = False

    def __bool__(self) -> bool:
        return bool(self.problems)


@dataclass(frozen=True)
class Salvage:
    """How many rows of each table were saved, and how many are known to be lost.

    A table is missing in `lost` if nothing was lost, and None there if the number is unknown.
    """

    saved: dict[str, int]
    lost: dict[str, int | None]
    altered: int
    """Memories whose text is not the one that was stored: its hash says so."""


# --- Checking a file that can be read ------------------------------------------------------

# A vector `v` is packed, with its length and step before its upper bytes and its lower bytes apart,
# or it is of an older version, as float32.
_SOUND_VECTOR: LiteralString = (
    "EXISTS (SELECT 1 FROM embedding_spaces s"
    " LEFT JOIN chunk_tokens t ON t.chunk_id = v.chunk_id AND t.space_key = v.space_key"
    " WHERE s.key = v.space_key AND length(v.vector) = iif(t.rest IS NULL, 4, 1) * s.dimension"
    " + iif(t.rest IS NULL, 0, 8) AND coalesce(length(t.rest), s.dimension) = s.dimension)"
)

# Each returns how many rows are wrong; 0 is sound.
_COUNTED_CHECKS: dict[str, LiteralString] = {
    "passages without a memory": "SELECT count(*) FROM chunks c WHERE NOT EXISTS"
    " (SELECT 1 FROM memories m WHERE m.key = c.memory_key)",
    "memories without text": "SELECT count(*) FROM memories m WHERE NOT EXISTS"
    " (SELECT 1 FROM memory_texts t WHERE t.memory_key = m.key)",
    "memories without passages": "SELECT count(*) FROM memories m WHERE NOT EXISTS"
    " (SELECT 1 FROM chunks c WHERE c.memory_key = m.key)",
    "vectors of the wrong size": "SELECT count(*) FROM chunk_vectors v WHERE NOT " + _SOUND_VECTOR,
    "passages wrongly marked as having a vector": "SELECT count(*) FROM chunks c"
    " WHERE c.vector_pending = 0 AND NOT EXISTS (SELECT 1 FROM chunk_vectors v"
    " JOIN embedding_spaces s ON s.key = v.space_key AND s.active = 1 WHERE v.chunk_id = c.id)",
    "entities that nothing mentions": "SELECT count(*) FROM graph_entities e WHERE e.given = 0"
    " AND NOT EXISTS (SELECT 1 FROM graph_mentions WHERE entity_key = e.key)"
    " AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE source_key = e.key)"
    " AND NOT EXISTS (SELECT 1 FROM graph_relationships WHERE target_key = e.key)",
    "relationships with the wrong support": "SELECT count(*) FROM graph_relationships r"
    " WHERE r.support < 1 OR r.support <>"
    " (SELECT count(*) FROM graph_evidence WHERE relationship_key = r.key)",
}


# FTS5 compares a word index with the rows it was made from; a difference is an error.
_WORD_INDEXES: tuple[tuple[str, str, LiteralString], ...] = (
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
    (
        "word index of the digest",
        "memories",
        "INSERT INTO memory_digest_fts (memory_digest_fts, rank) VALUES ('integrity-check', 1)",
    ),
)


def _missing_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of tables that a new file has and this one has not."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        wanted = {name for (name,) in fresh.execute(sql)}
    return sorted(wanted.difference(name for (name,) in connection.execute(sql)))


def check_integrity(connection: sqlite3.Connection) -> Mapping[str, str]:
    """Run SQLite's own checks, the word index's, and ours."""
    problems: dict[str, str] = {}
    if fetch_value(connection, "PRAGMA integrity_check(1)") != "ok":
        problems["file structure"] = "damaged"
    if missing := _missing_tables(connection):
        return {**problems, "missing tables": ", ".join(missing)}
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        problems["references"] = "broken"
    for name, what, sql in _WORD_INDEXES:
        try:
            connection.execute(sql)
        except sqlite3.DatabaseError:
            problems[name] = f"does not match the stored {what}"
    for name, sql in _COUNTED_CHECKS.items():
        if wrong := fetch_value(connection, sql):
            problems[name] = f"{wrong} found"
    return problems


# --- Naming the damage --------------------------------------------------------------------


def find_damage(path: Path) -> Damage:
    """Read a whole database and name what is wrong with it. The file is not changed."""
    if not path.exists():
        return Damage(())
    if path.stat().st_size == 0:
        return Damage(("the file is empty: 0 bytes",))
    try:
        with closing(connect(path)) as connection:
            return _check_with_sqlite(connection)
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            with translated("checking"):
                raise
    return Damage(tuple(_read_header(path)) or ("malformed pages",))


def _read_header(path: Path) -> Iterator[str]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        header = stream.read(HEADER_BYTES)
    if not header.startswith(HEADER):
        yield "not a database: the beginning of the file is overwritten"
        return
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    if page and pages * page > size:
        missing = pages - size // page
        yield f"truncated: {missing} of {pages} pages are missing"


def _check_with_sqlite(connection: sqlite3.Connection) -> Damage:
    ours = fetch_value(connection, "PRAGMA application_id") == APPLICATION_ID
    tables = {
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }
    if tables and not ours:
        return Damage(("a database of another program",))
    version = fetch_value(connection, "PRAGMA user_version")
    if not tables or version != LATEST_VERSION:
        return Damage(())  # Opening it creates or migrates it, or says that it is too new.
    problems: list[str] = []
    if missing := _missing_tables(connection):
        problems.append(f"missing tables: {', '.join(missing)}")
    lines: list[str] = []
    ended = False
    with suppress(sqlite3.DatabaseError):  # which even the check may run into
        for (text,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_READ})"):
            lines += text.splitlines() if text != "ok" else []
        ended = len(lines) < PROBLEMS_READ
    pages = [line for line in lines if not _INDEX_ONLY.search(line)]
    if pages or not ended:
        more = "" if ended else "at least "
        problems.append(f"malformed pages: {more}{max(1, len(pages))} faults")
    if len(lines) > len(pages):
        problems.append("indexes do not match their tables")
    if missing or pages or not ended:
        return Damage(tuple(problems))
    words = ("word index", "word index of observations")
    found = check_integrity(connection)
    indexes_only = all(name in (*words, "file structure") for name in found)
    problems += [f"{name}: {what}" for name, what in found.items() if name != "file structure"]
    return Damage(tuple(problems), indexes_only=indexes_only and bool(problems))


def rebuild_indexes(path: Path) -> None:
    """Make every index and both word indexes again from the rows: nothing is lost by that."""
    with translated("rebuilding indexes"), closing(connect(path)) as connection:
        connection.execute("REINDEX")
        _rebuild_words(connection)


def _rebuild_words(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")
    connection.execute("INSERT INTO observations_fts (observations_fts) VALUES ('rebuild')")
    connection.execute("INSERT INTO memory_digest_fts (memory_digest_fts) VALUES ('rebuild')")


# --- Saving what can be read --------------------------------------------------------------


def salvage(damaged: Path, target: Path) -> Salvage | None:
    """Put every row that can be read in a damaged database into a new one.

    Args:
        damaged: A copy of the damaged file that may be changed, its log next to it.
        target: The new file.

    Returns:
        What was saved and what was lost; None if not even the list of tables can be read.
    """
    with translated("salvaging"):
        prepare_file(target)
        source = _open_somehow(damaged, target)
        if source is None:
            return None
        with closing(source), closing(connect(target)) as fresh:
            fresh.execute("PRAGMA foreign_keys = OFF")
            fresh.execute("PRAGMA synchronous = OFF")
            fresh.execute("BEGIN IMMEDIATE")
            triggers = fresh.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            for name, _ in triggers:
                fresh.execute(f"DROP TRIGGER {name}")
            expected: dict[str, int | None] = {}
            gaps: set[str] = set()
            for table in count_rows(fresh):
                if _copy_table(source, fresh, table):
                    gaps.add(table)
                expected[table] = _expected_rows(source, table)
            altered = _mend(fresh)
            for _, sql in triggers:
                fresh.execute(sql)
            _rebuild_words(fresh)
            saved = count_rows(fresh)
            fresh.execute("COMMIT")
            fresh.execute("PRAGMA journal_mode = DELETE")
    lost: dict[str, int | None] = {}
    for table, count in saved.items():
        known = expected[table]
        # The first means nothing in another file, the others are made again.
        if table in ("vector_log", "memory_digest", "digest_queue", "digest_state"):
            continue
        if known is not None and known > count:
            lost[table] = known - count
        elif known is None and table in gaps:
            lost[table] = None
    return Salvage(saved, lost, altered)


def _open_somehow(damaged: Path, fresh: Path) -> sqlite3.Connection | None:
    """Open the file as it is, else with a new header, else with the first page of a new file."""
    for mended in (0, HEADER_BYTES, 4096):
        if mended:
            _mend_beginning(damaged, fresh, mended)
        else:
            _pad(damaged)
        with suppress(sqlite3.DatabaseError):
            # With a writable schema, a broken part of it hides no other.
            connection = connect(damaged, pragmas=("PRAGMA writable_schema = ON",))
            # Bytes that are no longer UTF-8 must not hide the rest of the row.
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            with suppress(sqlite3.DatabaseError):
                names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
                if names & {"memories", "observations"}:
                    return connection
            connection.close()
    return None


def _pad(damaged: Path) -> None:
    """Give a truncated file its size back: SQLite reads no page of one that is too short."""
    with damaged.open("r+b") as stream:
        header = stream.read(HEADER_BYTES)
        page = int.from_bytes(header[16:18], "big")
        size = int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)
        actual = stream.seek(0, 2)
        if header.startswith(HEADER) and actual < size < 4 * actual + 2**24:
            stream.truncate(size)


def _mend_beginning(damaged: Path, fresh: Path, length: int) -> None:
    """Take the first bytes from a new file: ours are all made the same way."""
    with closing(connect(fresh)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    beginning = bytearray(fresh.read_bytes()[:length])
    pages = damaged.stat().st_size // 4096
    beginning[24:28] = beginning[92:96]  # the page count is good
    beginning[28:32] = pages.to_bytes(4, "big")
    beginning[32:40] = bytes(8)  # no free pages
    with damaged.open("r+b") as stream:
        stream.write(beginning)


# The columns of a table, each with its place in the primary key or 0.
_COLUMNS: LiteralString = "SELECT name, pk FROM pragma_table_info(?)"
# The indexes of a table that hold all of its rows.
_WHOLE_INDEXES: LiteralString = "SELECT name FROM pragma_index_list(?) WHERE NOT partial"


def _copy_table(source: sqlite3.Connection, fresh: sqlite3.Connection, table: str) -> bool:
    """Copy the rows of a table that can be read; return whether some could not."""
    try:
        there = {column for column, _ in source.execute(_COLUMNS, (table,))}
    except sqlite3.DatabaseError:
        return True
    info = fresh.execute(_COLUMNS, (table,)).fetchall()
    columns = [column for column, _ in info if column in there]
    if not columns:
        return True
    names = ", ".join(columns)
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"
    keys = [column for place, column in sorted((place, column) for column, place in info) if place]
    created = fetch_value(fresh, "SELECT sql FROM sqlite_master WHERE name = ?", (table,))
    without_rowid = "WITHOUT ROWID" in created
    reader = _ByKey(source, table, names, keys) if without_rowid else _ByRowid(source, table, names)
    for row in reader.rows():
        with suppress(sqlite3.Error):  # a row whose bytes became nonsense
            fresh.execute(insert, row)
    return reader.failed


class _ByRowid:
    """Reads a table from both ends of every gap, then halves what is left of the gap."""

    def __init__(self, source: sqlite3.Connection, table: str, names: str) -> None:
        self.failed = False
        self._source = source
        self._select = f"SELECT rowid, {names} FROM {table} NOT INDEXED WHERE rowid BETWEEN ? AND ?"
        self._table = table

    def rows(self) -> Iterator[Sequence[Any]]:
        gaps = deque([(-(2**63), 2**63 - 1)])
        fails = 0
        while gaps and fails < FAILED_READS:
            low, high = gaps.popleft()
            for descending in (False, True):
                edge = None
                for row in self._read(low, high, descending=descending):
                    if row is None:
                        fails += 1
                        break
                    edge, *saved = row
                    yield saved
                else:
                    low, high = 1, 0  # read to its end
                    break
                if edge is not None and descending:
                    high = edge - 1
                elif edge is not None:
                    low = edge + 1
            if low > high:
                continue
            self.failed = True
            # Beyond the last row every number leads to the same page.
            end = 0
            with suppress(sqlite3.DatabaseError):
                rows = self._source.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
                numbers = {name: seq for name, seq in rows if isinstance(seq, int)}
                end = numbers.get(self._table) or 4 * max(numbers.values(), default=0)
            low, high = max(low, 0), min(high, end or UNKNOWN_END)
            if low < high:
                middle = (low + high) // 2
                gaps += [(low, middle), (middle + 1, high)]

    def _read(self, low: int, high: int, *, descending: bool) -> Iterator[Sequence[Any] | None]:
        order = " ORDER BY rowid DESC" if descending else " ORDER BY rowid"
        try:
            yield from self._source.execute(self._select + order, (low, high))
        except sqlite3.DatabaseError:
            yield None


class _ByKey:
    """Reads a table without row numbers from both ends."""

    def __init__(
        self, source: sqlite3.Connection, table: str, names: str, keys: Sequence[str]
    ) -> None:
        self.failed = False
        self._source = source
        self._selects = [
            f"SELECT {names} FROM {table} NOT INDEXED ORDER BY "
            + ", ".join(f"{key} {order}" for key in keys)
            for order in ("ASC", "DESC")
        ]

    def rows(self) -> Iterator[Sequence[Any]]:
        for select in self._selects:
            try:
                yield from self._source.execute(select)
            except sqlite3.DatabaseError:
                self.failed = True
            else:
                return


def _expected_rows(source: sqlite3.Connection, table: str) -> int | None:
    """Count a table by whatever still knows its rows; indexes are trees of their own."""
    counts = []
    names: list[str] = []
    with suppress(sqlite3.DatabaseError):
        names = [name for (name,) in source.execute(_WHOLE_INDEXES, (table,))]
    for hint in ("NOT INDEXED", *(f'INDEXED BY "{name}"' for name in names)):
        with suppress(sqlite3.DatabaseError):
            counts.append(fetch_value(source, f"SELECT count(*) FROM {table} {hint}"))
    return max(counts, default=None)


# Rows that refer to nothing, in the order in which they may orphan others.
_ORPHANS: tuple[LiteralString, ...] = (
    "DELETE FROM memory_tags WHERE memory_key NOT IN (SELECT key FROM memories)",
    "DELETE FROM chunks WHERE memory_key NOT IN (SELECT key FROM memories)",
    "DELETE FROM memory_history WHERE memory_key NOT IN (SELECT key FROM memories)",
    (
        "UPDATE memories SET superseded_by = NULL"
        " WHERE superseded_by NOT IN (SELECT key FROM memories)"
    ),
    (
        "DELETE FROM chunk_vectors WHERE chunk_id NOT IN (SELECT id FROM chunks)"
        " OR space_key NOT IN (SELECT key FROM embedding_spaces)"
    ),
    (
        "DELETE FROM chunk_tokens WHERE chunk_id NOT IN (SELECT id FROM chunks)"
        " OR space_key NOT IN (SELECT key FROM embedding_spaces)"
    ),
    "DELETE FROM chunk_vectors AS v WHERE NOT " + _SOUND_VECTOR,
    "DELETE FROM graph_extractions WHERE chunk_id NOT IN (SELECT id FROM chunks)",
    (
        "DELETE FROM graph_mentions WHERE chunk_id NOT IN (SELECT id FROM chunks)"
        " OR entity_key NOT IN (SELECT key FROM graph_entities)"
    ),
    "UPDATE graph_entities SET root = NULL WHERE root NOT IN (SELECT key FROM graph_entities)",
    (
        "DELETE FROM graph_relationships WHERE source_key NOT IN (SELECT key FROM graph_entities)"
        " OR target_key NOT IN (SELECT key FROM graph_entities)"
    ),
    (
        "DELETE FROM graph_evidence WHERE relationship_key NOT IN"
        " (SELECT key FROM graph_relationships) OR memory_key NOT IN (SELECT key FROM memories)"
        " OR chunk_id NOT IN (SELECT id FROM chunks)"
    ),
    (
        "DELETE FROM graph_relationships WHERE key NOT IN"
        " (SELECT relationship_key FROM graph_evidence)"
    ),
    (
        "UPDATE graph_relationships SET support ="
        " (SELECT count(*) FROM graph_evidence WHERE relationship_key = graph_relationships.key)"
    ),
    (
        "DELETE FROM graph_entities WHERE given = 0"
        " AND key NOT IN (SELECT entity_key FROM graph_mentions)"
        " AND key NOT IN (SELECT source_key FROM graph_relationships)"
        " AND key NOT IN (SELECT target_key FROM graph_relationships)"
    ),
    "DELETE FROM code_files WHERE repository_key NOT IN (SELECT key FROM code_repositories)",
    "DELETE FROM code_file_data WHERE file_key NOT IN (SELECT key FROM code_files)",
    "DELETE FROM code_symbols WHERE file_key NOT IN (SELECT key FROM code_files)",
    "DELETE FROM code_edges WHERE file_key NOT IN (SELECT key FROM code_files)",
    "DELETE FROM project_aliases WHERE project_key NOT IN (SELECT key FROM projects)",
    "DELETE FROM vector_log",
    (
        "UPDATE chunks SET vector_pending = NOT EXISTS (SELECT 1 FROM chunk_vectors v"
        " JOIN embedding_spaces s ON s.key = v.space_key AND s.active = 1"
        " WHERE v.chunk_id = chunks.id)"
    ),
)


def _mend(fresh: sqlite3.Connection) -> int:
    """Make the saved rows fit together; return how many memories have another text than stored."""
    now = time.time_ns() // 1000
    # A text without its memory becomes a new memory; a memory without its text gets its passages'.
    texts = fresh.execute(
        "SELECT memory_key, text FROM memory_texts"
        " WHERE memory_key NOT IN (SELECT key FROM memories)"
    ).fetchall()
    for key, text in texts:
        fresh.execute(
            "INSERT INTO memories (key, id, content_hash, project, source, kind, metadata,"
            " preview, length, created_at, updated_at, occurred_at)"
            " VALUES (?, ?, ?, '', 'salvaged', 'note', '{}', ?, ?, ?, ?, ?)",
            (key, str(uuid.uuid4()), content_hash(text), text[:200], len(text), now, now, now),
        )
    textless = fresh.execute(
        "SELECT key FROM memories WHERE key NOT IN (SELECT memory_key FROM memory_texts)"
    ).fetchall()
    for (key,) in textless:
        _join_passages(fresh, key)
    for statement in _ORPHANS:
        fresh.execute(statement)
    # The digest is made again from what was saved.
    fresh.execute("DELETE FROM memory_digest")
    fresh.execute("DELETE FROM digest_queue")
    fresh.execute("INSERT INTO digest_queue (memory_id) SELECT id FROM memories")
    without = fresh.execute(
        "SELECT memory_key, text FROM memory_texts"
        " WHERE memory_key NOT IN (SELECT memory_key FROM chunks)"
    ).fetchall()
    for key, text in without:
        fresh.execute(
            "INSERT INTO chunks (memory_key, position, start_char, end_char, text, text_hash,"
            " metadata) VALUES (?, 0, 0, ?, ?, ?, '{}')",
            (key, len(text), text, text_hash(text)),
        )
    rows = fresh.execute(
        "SELECT m.content_hash, t.text FROM memories m JOIN memory_texts t ON t.memory_key = m.key"
    )
    return sum(stored != content_hash(text) for stored, text in rows)


def _join_passages(fresh: sqlite3.Connection, key: int) -> None:
    """Put a memory's text together from its passages, or delete the memory if there are none."""
    text = ""
    for start, part in fresh.execute(
        "SELECT start_char, text FROM chunks WHERE memory_key = ? ORDER BY position", (key,)
    ).fetchall():
        # Passages overlap; what lies between two of them is lost.
        text = text[:start] if start <= len(text) else text + "\n"
        text += part
    if text:
        fresh.execute("INSERT INTO memory_texts (memory_key, text) VALUES (?, ?)", (key, text))
    else:
        fresh.execute("DELETE FROM memories WHERE key = ?", (key,))
        fresh.execute("DELETE FROM memory_texts WHERE memory_key = ?", (key,))

"""Storing indexed code: repositories, files, symbols, references and citations."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, LiteralString, NamedTuple

from zapomni_db.code_models import Citation, CodeFile, CodeRepository, EdgeRow, FileData
from zapomni_db.sqlite.connection import fetch_value
from zapomni_db.sqlite.rows import from_json, from_time, to_json
from zapomni_db.symbols import Symbol

__all__ = [
    "begin_changes",
    "begin_files",
    "find_origin",
    "finish_repository",
    "forget_repository",
    "get_citations",
    "get_facts",
    "get_files",
    "list_cited",
    "list_repositories",
    "move_file",
    "note_checks",
    "open_repository",
    "remove_files",
    "set_citations",
    "set_stamps",
    "store_edges",
    "store_files",
]


# The strength of a reference of which only the name is known.
NAME_ALONE = 0.1


# --- Repositories -----------------------------------------------------------------------

_REPOSITORY: LiteralString = """
SELECT key, root, name, project, tag, head, reader, NOT unresolved, indexed_at, files, lines,
    symbols
FROM code_repositories"""

_UPSERT_REPOSITORY: LiteralString = """
INSERT INTO code_repositories (root, name, project, tag) VALUES (?, ?, ?, ?)
ON CONFLICT (root) DO UPDATE SET name = excluded.name, project = excluded.project"""
_BEGIN_CHANGES: LiteralString = "UPDATE code_repositories SET unresolved = 1 WHERE key = ?"
_DELETE_REPOSITORY: LiteralString = "DELETE FROM code_repositories WHERE key = ?"

# What a completed run found: commit, reader and time, and how much there is.
_FINISH_REPOSITORY: LiteralString = """
UPDATE code_repositories SET unresolved = 0, head = ?1, reader = ?2, indexed_at = ?3,
    (files, lines) = (SELECT count(*), coalesce(sum(lines), 0) FROM code_files
        WHERE repository_key = ?4),
    symbols = (SELECT count(*) FROM code_files f JOIN code_symbols s ON s.file_key = f.key
        WHERE f.repository_key = ?4 AND s.kind <> 'module')
WHERE key = ?4"""


def list_repositories(connection: sqlite3.Connection) -> list[CodeRepository]:
    """Return the indexed repositories, by root."""
    return [_to_repository(row) for row in connection.execute(_REPOSITORY + " ORDER BY root")]


def open_repository(
    connection: sqlite3.Connection, root: str, name: str, project: str
) -> CodeRepository:
    """Return a repository by its root, new or known, under its current name."""
    tag = "repo:" + blake2b(root.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    connection.execute(_UPSERT_REPOSITORY, (root, name, project, tag))
    return _to_repository(connection.execute(_REPOSITORY + " WHERE root = ?", (root,)).fetchone())


def _to_repository(row: tuple[Any, ...]) -> CodeRepository:
    key, root, name, project, tag, head, reader, is_resolved, indexed_at, *counts = row
    files, lines, symbols = counts
    return CodeRepository(
        key=key,
        root=root,
        name=name,
        project=project,
        tag=tag,
        commit=head,
        reader=reader,
        is_resolved=bool(is_resolved),
        indexed_at=None if indexed_at is None else from_time(indexed_at),
        files=files,
        lines=lines,
        symbols=symbols,
    )


def begin_changes(connection: sqlite3.Connection, key: int) -> None:
    """Mark that files are about to change, so that references are resolved again."""
    connection.execute(_BEGIN_CHANGES, (key,))


def finish_repository(connection: sqlite3.Connection, key: int, commit: str, reader: str) -> None:
    """Mark a repository as indexed completely just now, its references resolved."""
    connection.execute(_FINISH_REPOSITORY, (commit, reader, time.time_ns() // 1000, key))


def forget_repository(connection: sqlite3.Connection, key: int) -> None:
    """Delete a repository; deleting its memories is up to the caller."""
    connection.execute(_DELETE_REPOSITORY, (key,))


# --- Files ------------------------------------------------------------------------------

_FILE: LiteralString = """
SELECT key, path, memory_id, stamp, content_hash, is_empty FROM code_files"""
# A file without a hash is incomplete: the next run reads it again.
_BEGIN_FILE: LiteralString = """
INSERT INTO code_files (repository_key, path, memory_id) VALUES (?, ?, ?)
ON CONFLICT (repository_key, path) DO UPDATE SET content_hash = '', stamp = ''"""
_MOVE_FILE: LiteralString = """
UPDATE code_files SET path = ?, stamp = '', content_hash = '' WHERE key = ?"""
_STAMP_FILE: LiteralString = "UPDATE code_files SET stamp = ? WHERE key = ?"
_DELETE_FILE: LiteralString = "DELETE FROM code_files WHERE key = ?"
_UPDATE_FILE: LiteralString = """
UPDATE code_files SET stamp = ?, content_hash = ?, language = ?, lines = ?, has_errors = ?,
    is_empty = ?
WHERE key = ?"""
_PUT_FILE_DATA: LiteralString = """
INSERT OR REPLACE INTO code_file_data (file_key, passages, facts, mentions) VALUES (?, ?, ?, ?)"""
_FACTS: LiteralString = """
SELECT file_key, facts FROM code_file_data
WHERE file_key IN (SELECT value FROM json_each(?))"""
_SYMBOL_HASHES: LiteralString = """
SELECT file_key, content_hash FROM code_symbols
WHERE kind <> 'module' AND file_key IN (SELECT value FROM json_each(?))"""


def get_files(connection: sqlite3.Connection, repository: int) -> list[CodeFile]:
    """Return all files of a repository, by path."""
    rows = connection.execute(_FILE + " WHERE repository_key = ? ORDER BY path", (repository,))
    return [CodeFile(*row) for row in rows]


def begin_files(
    connection: sqlite3.Connection, repository: int, paths: Sequence[str]
) -> list[CodeFile]:
    """Mark these files as about to be written; new ones get an id for their memory."""
    connection.executemany(
        _BEGIN_FILE,
        [(repository, path, str(uuid.uuid4())) for path in paths],
    )
    rows = connection.execute(
        _FILE + " WHERE repository_key = ? AND path IN (SELECT value FROM json_each(?))",
        (repository, to_json(list(paths))),
    )
    begun = {file.path: file for file in (CodeFile(*row) for row in rows)}
    return [begun[path] for path in paths]


def move_file(connection: sqlite3.Connection, key: int, path: str) -> None:
    """Give a file another path; it stays the same file, and is begun."""
    connection.execute(_MOVE_FILE, (path, key))


def find_origin(
    connection: sqlite3.Connection, among: Sequence[int], hashes: Sequence[str]
) -> int | None:
    """Return which of these files shares at least half of its symbols, and half of these."""
    rows = connection.execute(_SYMBOL_HASHES, (to_json(list(among)),))
    wanted = set(hashes)
    known: dict[int, set[str]] = {}
    for file_key, content_hash in rows:
        known.setdefault(file_key, set()).add(content_hash)
    shared = {key: len(theirs & wanted) for key, theirs in known.items()}
    best = max(shared, key=lambda key: shared[key], default=None)
    if best is None or 2 * shared[best] < max(len(wanted), len(known[best])):
        return None
    return best


def get_facts(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, str]:
    """Return what files state about others, packed."""
    return dict(connection.execute(_FACTS, (to_json(list(keys)),)).fetchall())


def set_stamps(connection: sqlite3.Connection, stamps: Mapping[int, str]) -> None:
    """Store that files were touched although their contents are the same."""
    connection.executemany(
        _STAMP_FILE,
        [(stamp, key) for key, stamp in stamps.items()],
    )


def remove_files(connection: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Delete files with all their symbols."""
    for key in keys:
        symbols = connection.execute(_STORED_SYMBOLS, (key,)).fetchall()
        _forget_callees(connection, [symbol for symbol, *_ in symbols])
        connection.execute(_DELETE_FILE, (key,))


# --- Symbols ----------------------------------------------------------------------------


def store_files(connection: sqlite3.Connection, files: Sequence[FileData]) -> None:
    """Store what was parsed from files.

    Symbols that are still there, or there under another name, keep their ids. References to symbols
    that are gone keep only their names.
    """
    for file in files:
        connection.execute(
            _UPDATE_FILE,
            (
                file.stamp,
                file.content_hash,
                file.language,
                file.lines,
                int(file.has_errors),
                int(not file.passages),
                file.key,
            ),
        )
        connection.execute(
            _PUT_FILE_DATA,
            (file.key, to_json(file.passages), file.facts, "\n".join(("", *file.mentions, ""))),
        )
        stored = [_StoredSymbol(*row) for row in connection.execute(_STORED_SYMBOLS, (file.key,))]
        keys = _match_symbols(stored, file.symbols)
        matched = set(keys.values())
        gone = [symbol.key for symbol in stored if symbol.key not in matched]
        _forget_callees(connection, gone)
        connection.executemany(_DELETE_SYMBOL, [(key,) for key in gone])
        values = _symbol_values(file.symbols)
        connection.executemany(
            _UPDATE_SYMBOL, [(*values[place], key) for place, key in keys.items()]
        )
        fresh = [(file.key, *row) for place, row in enumerate(values) if place not in keys]
        connection.executemany(_INSERT_SYMBOL, fresh)


_STORED_SYMBOLS: LiteralString = """
SELECT key, qualified_name, kind, body_hash FROM code_symbols WHERE file_key = ?"""
_INSERT_SYMBOL: LiteralString = """
INSERT INTO code_symbols (file_key, position, name, qualified_name, kind, signature, docstring,
    decorators, start_line, end_line, start_byte, end_byte, content_hash, body_hash, depth)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_UPDATE_SYMBOL: LiteralString = """
UPDATE code_symbols SET position = ?, name = ?, qualified_name = ?, kind = ?, signature = ?,
    docstring = ?, decorators = ?, start_line = ?, end_line = ?, start_byte = ?, end_byte = ?,
    content_hash = ?, body_hash = ?, depth = ?
WHERE key = ?"""
_DELETE_SYMBOL: LiteralString = "DELETE FROM code_symbols WHERE key = ?"
# References to a symbol keep only its name.
_FORGET_CALLEE: LiteralString = """
UPDATE code_edges SET callee_key = NULL, strength = ? WHERE callee_key = ?"""


class _StoredSymbol(NamedTuple):
    key: int
    qualified_name: str
    kind: str
    body_hash: str


def _match_symbols(stored: Sequence[_StoredSymbol], symbols: Sequence[Symbol]) -> dict[int, int]:
    """Return the keys of symbols stored before: by name, or by body under another name."""
    by_name = {symbol.qualified_name: symbol.key for symbol in stored}
    keys = {
        place: by_name.pop(symbol.qualified_name)
        for place, symbol in enumerate(symbols)
        if symbol.qualified_name in by_name
    }
    left = set(by_name.values())
    by_body: dict[tuple[str, str], list[int]] = {}
    for old in stored:
        if old.key in left:
            by_body.setdefault((old.kind, old.body_hash), []).append(old.key)
    for place, symbol in enumerate(symbols):
        alike = by_body.get((symbol.kind, symbol.body_hash))
        if place not in keys and alike:
            keys[place] = alike.pop(0)
    return keys


def _symbol_values(symbols: Sequence[Symbol]) -> list[tuple[Any, ...]]:
    depths: list[int] = []
    values = []
    for place, symbol in enumerate(symbols):
        depth = 0 if symbol.parent < 0 else depths[symbol.parent] + 1
        depths.append(depth)
        decorators = to_json(symbol.decorators) if symbol.decorators else "[]"
        name, qualified_name, kind, signature, docstring, _, *span_and_hashes, _ = symbol
        names = (name, qualified_name, kind, signature, docstring)
        values.append((place, *names, decorators, *span_and_hashes, depth))
    return values


def _forget_callees(connection: sqlite3.Connection, symbols: Iterable[int]) -> None:
    connection.executemany(_FORGET_CALLEE, [(NAME_ALONE, key) for key in symbols])


# --- References -------------------------------------------------------------------------


_FILE_KEY: LiteralString = "SELECT key FROM code_files WHERE repository_key = ? AND path = ?"
_SYMBOL_KEYS: LiteralString = "SELECT qualified_name, key FROM code_symbols WHERE file_key = ?"
_DELETE_EDGES: LiteralString = "DELETE FROM code_edges WHERE file_key = ?"
_INSERT_EDGE: LiteralString = """
INSERT INTO code_edges (file_key, position, caller_key, callee_key, kind, name, strength, line)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""


def store_edges(
    connection: sqlite3.Connection, repository: int, edges: Mapping[str, Sequence[EdgeRow]]
) -> None:
    """Store what the symbols of these files refer to, in place of what was stored before."""
    files: dict[str, int | None] = {}
    symbols: dict[str, dict[str, int]] = {}

    def symbols_of(path: str) -> dict[str, int]:
        """Return the keys of a file's symbols by qualified name, read once."""
        if path not in symbols:
            files[path] = fetch_value(connection, _FILE_KEY, (repository, path))
            symbols[path] = dict(connection.execute(_SYMBOL_KEYS, (files[path],)).fetchall())
        return symbols[path]

    for path, rows in edges.items():
        callers = symbols_of(path)
        file_key = files[path]
        if file_key is None:
            continue  # Removed meanwhile, by another process.
        values = []
        for place, row in enumerate(rows):
            caller = callers.get(row.caller)
            if caller is None:
                continue
            callee, strength = None, row.strength
            if row.callee is not None:
                callee_path, qualified_name = row.callee
                callee = symbols_of(callee_path).get(qualified_name)
                strength = NAME_ALONE if callee is None else row.strength
            values.append((file_key, place, caller, callee, row.kind, row.name, strength, row.line))
        connection.execute(_DELETE_EDGES, (file_key,))
        connection.executemany(_INSERT_EDGE, values)


# --- Citations -------------------------------------------------------------------------


# The columns of a Citation, in the order of its fields.
_CITATION: LiteralString = (
    "root, path, symbol, start_line, end_line, given, file_hash, content_hash, body_hash, twins,"
    " head, structure, state"
)
_INSERT_CITATION: LiteralString = (
    "INSERT INTO code_citations (memory_id, " + _CITATION + ")"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DELETE_CITATIONS: LiteralString = "DELETE FROM code_citations WHERE memory_id = ?"
_CITATIONS: LiteralString = (
    "SELECT memory_id, " + _CITATION + " FROM code_citations"
    " WHERE memory_id IN (SELECT value FROM json_each(?)) ORDER BY key"
)
_NOTE_CHECK: LiteralString = """
UPDATE code_citations SET structure = ?, state = ?
WHERE memory_id = ? AND root = ? AND path = ? AND symbol = ? AND start_line = ?
    AND content_hash = ? AND head = ?"""
_CITED: LiteralString = """
SELECT memory_id FROM code_citations GROUP BY memory_id ORDER BY min(key)"""


def set_citations(
    connection: sqlite3.Connection, memory_id: str, citations: Sequence[Citation]
) -> None:
    """Replace all citations of a memory; an empty list deletes them."""
    connection.execute(_DELETE_CITATIONS, (memory_id,))
    connection.executemany(
        _INSERT_CITATION,
        [
            (
                memory_id,
                *(one.root, one.path, one.symbol, one.start_line, one.end_line, int(one.given)),
                *(one.file_hash, one.content_hash, one.body_hash, to_json(one.twins), one.commit),
                *(one.structure, one.state),
            )
            for one in citations
        ],
    )


def get_citations(
    connection: sqlite3.Connection, memory_ids: Sequence[str]
) -> dict[str, list[Citation]]:
    """Return the citations of those memories that have any."""
    rows = connection.execute(_CITATIONS, (to_json(list(memory_ids)),))
    found: dict[str, list[Citation]] = {}
    for memory_id, *row in rows:
        values = dict(zip(Citation.model_fields, row, strict=True))
        values |= {"given": bool(values["given"]), "twins": from_json(values["twins"])}
        found.setdefault(memory_id, []).append(Citation.model_construct(**values))
    return found


def note_checks(
    connection: sqlite3.Connection, checked: Sequence[tuple[str, Citation, Citation]]
) -> None:
    """Keep what checks found out: a structure that was not known, and the last state.

    Args:
        connection: The local file.
        checked: The memory, its citation as it was read, and as it is now. One that was replaced
            meanwhile is left alone.
    """
    connection.executemany(
        _NOTE_CHECK,
        [
            (
                *(new.structure, new.state, memory_id),
                *(old.root, old.path, old.symbol, old.start_line, old.content_hash, old.commit),
            )
            for memory_id, old, new in checked
        ],
    )


def list_cited(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of all memories that cite code."""
    return [memory_id for (memory_id,) in connection.execute(_CITED)]

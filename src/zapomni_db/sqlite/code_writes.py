"""Storing what stands in repositories: functions over one connection."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from zapomni_db.code_models import Citation, CodeFile, CodeRepository, EdgeRow, FileData, SymbolRow
from zapomni_db.sqlite.rows import from_json, from_time, to_json

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
    "open_repository",
    "remove_files",
    "set_citations",
    "set_stamps",
    "store_edges",
    "store_files",
]


# How sure a reference is of which only the name is known.
NAME_ALONE = 0.1

_REPOSITORY = (
    "SELECT key, root, name, project, tag, head, reader, NOT unresolved, indexed_at, files, lines,"
    " symbols"
    " FROM code_repositories"
)
_FILE = "SELECT key, path, memory_id, stamp, content_hash, is_empty FROM code_files"


# --- Repositories -----------------------------------------------------------------------


def list_repositories(connection: sqlite3.Connection) -> list[CodeRepository]:
    """Return the indexed repositories, by root."""
    return [_repository(row) for row in connection.execute(_REPOSITORY + " ORDER BY root")]


def open_repository(
    connection: sqlite3.Connection, root: str, name: str, project: str
) -> CodeRepository:
    """Return a repository by its root, new or known, under its current name."""
    tag = "repo:" + blake2b(root.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    connection.execute(
        "INSERT INTO code_repositories (root, name, project, tag) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (root) DO UPDATE SET name = excluded.name, project = excluded.project",
        (root, name, project, tag),
    )
    row = connection.execute(_REPOSITORY + " WHERE root = ?", (root,)).fetchone()
    return _repository(row)


def _repository(row: tuple[Any, ...]) -> CodeRepository:
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
    connection.execute("UPDATE code_repositories SET unresolved = 1 WHERE key = ?", (key,))


def finish_repository(connection: sqlite3.Connection, key: int, commit: str, reader: str) -> None:
    """Mark a repository as indexed completely just now, its references resolved."""
    connection.execute(
        "UPDATE code_repositories SET unresolved = 0, head = ?1, reader = ?2, indexed_at = ?3,"
        " (files, lines) = (SELECT count(*), coalesce(sum(lines), 0) FROM code_files"
        " WHERE repository_key = ?4), symbols = (SELECT count(*) FROM code_files f"
        " JOIN code_symbols s ON s.file_key = f.key WHERE f.repository_key = ?4"
        " AND s.kind <> 'module') WHERE key = ?4",
        (commit, reader, time.time_ns() // 1000, key),
    )


def forget_repository(connection: sqlite3.Connection, key: int) -> None:
    """Delete a repository; deleting its memories is up to the caller."""
    connection.execute("DELETE FROM code_repositories WHERE key = ?", (key,))


# --- Files ------------------------------------------------------------------------------


def get_files(connection: sqlite3.Connection, repository: int) -> list[CodeFile]:
    """Return all files of a repository, by path."""
    rows = connection.execute(_FILE + " WHERE repository_key = ? ORDER BY path", (repository,))
    return [CodeFile(*row) for row in rows]


def begin_files(
    connection: sqlite3.Connection, repository: int, paths: Sequence[str]
) -> list[CodeFile]:
    """Mark these files as about to be written; new ones get an id for their memory."""
    connection.executemany(
        "INSERT INTO code_files (repository_key, path, memory_id) VALUES (?, ?, ?)"
        " ON CONFLICT (repository_key, path) DO UPDATE SET content_hash = '', stamp = ''",
        [(repository, path, str(uuid.uuid4())) for path in paths],
    )
    rows = connection.execute(
        _FILE + " WHERE repository_key = ? AND path IN (SELECT value FROM json_each(?))",
        (repository, to_json(list(paths))),
    )
    begun = {row[1]: CodeFile(*row) for row in rows}
    return [begun[path] for path in paths]


def move_file(connection: sqlite3.Connection, key: int, path: str) -> None:
    """Give a file another path; it stays the same file, and is begun."""
    connection.execute(
        "UPDATE code_files SET path = ?, stamp = '', content_hash = '' WHERE key = ?", (path, key)
    )


def find_origin(
    connection: sqlite3.Connection, among: Sequence[int], hashes: Sequence[str]
) -> int | None:
    """Return which of these files shares at least half of its symbols, and half of these."""
    rows = connection.execute(
        "SELECT file_key, content_hash FROM code_symbols WHERE kind <> 'module'"
        " AND file_key IN (SELECT value FROM json_each(?))",
        (to_json(list(among)),),
    )
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
    rows = connection.execute(
        "SELECT file_key, facts FROM code_file_data WHERE file_key IN"
        " (SELECT value FROM json_each(?))",
        (to_json(list(keys)),),
    )
    return dict(rows.fetchall())


def set_stamps(connection: sqlite3.Connection, stamps: Mapping[int, str]) -> None:
    """Store that files were touched although their contents are the same."""
    connection.executemany(
        "UPDATE code_files SET stamp = ? WHERE key = ?",
        [(stamp, key) for key, stamp in stamps.items()],
    )


def remove_files(connection: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Delete files with all their symbols."""
    for key in keys:
        rows = connection.execute("SELECT key FROM code_symbols WHERE file_key = ?", (key,))
        _let_go(connection, [symbol for (symbol,) in rows])
        connection.execute("DELETE FROM code_files WHERE key = ?", (key,))


# --- Symbols ----------------------------------------------------------------------------


def store_files(connection: sqlite3.Connection, files: Sequence[FileData]) -> None:
    """Store what was parsed from files.

    Symbols that are still there, or there under another name, keep their ids. References to symbols
    that are gone keep only their names.
    """
    for file in files:
        connection.execute(
            "UPDATE code_files SET stamp = ?, content_hash = ?, language = ?, lines = ?,"
            " has_errors = ?, is_empty = ? WHERE key = ?",
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
            "INSERT OR REPLACE INTO code_file_data (file_key, passages, facts, mentions)"
            " VALUES (?, ?, ?, ?)",
            (file.key, to_json(file.passages), file.facts, "\n".join(("", *file.mentions, ""))),
        )
        _store_symbols(connection, file.key, file.symbols)


_INSERT_SYMBOL = (
    "INSERT INTO code_symbols (file_key, position, name, qualified_name, kind, signature,"
    " docstring, decorators, start_line, end_line, start_byte, end_byte, content_hash, body_hash,"
    " depth) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_SYMBOL = (
    "UPDATE code_symbols SET position = ?, name = ?, qualified_name = ?, kind = ?, signature = ?,"
    " docstring = ?, decorators = ?, start_line = ?, end_line = ?, start_byte = ?, end_byte = ?,"
    " content_hash = ?, body_hash = ?, depth = ? WHERE key = ?"
)


def _store_symbols(
    connection: sqlite3.Connection, file_key: int, symbols: Sequence[SymbolRow]
) -> None:
    rows = connection.execute(
        "SELECT key, qualified_name, kind, body_hash FROM code_symbols WHERE file_key = ?",
        (file_key,),
    ).fetchall()
    keys = _same_symbols(rows, symbols)
    kept = set(keys.values())
    gone = [row[0] for row in rows if row[0] not in kept]
    _let_go(connection, gone)
    connection.executemany("DELETE FROM code_symbols WHERE key = ?", [(key,) for key in gone])
    values = _symbol_values(symbols)
    connection.executemany(_UPDATE_SYMBOL, [(*values[place], key) for place, key in keys.items()])
    fresh = [(file_key, *row) for place, row in enumerate(values) if place not in keys]
    connection.executemany(_INSERT_SYMBOL, fresh)


def _same_symbols(rows: Sequence[tuple[Any, ...]], symbols: Sequence[SymbolRow]) -> dict[int, int]:
    """Return which symbol was there before: by its name, or by its body under another name."""
    by_name = {row[1]: row[0] for row in rows}
    keys = {
        place: by_name.pop(symbol.qualified_name)
        for place, symbol in enumerate(symbols)
        if symbol.qualified_name in by_name
    }
    left = set(by_name.values())
    by_body: dict[tuple[str, str], list[int]] = {}
    for key, _, kind, body_hash in rows:
        if key in left:
            by_body.setdefault((kind, body_hash), []).append(key)
    for place, symbol in enumerate(symbols):
        alike = by_body.get((symbol.kind, symbol.body_hash))
        if place not in keys and alike:
            keys[place] = alike.pop(0)
    return keys


def _symbol_values(symbols: Sequence[SymbolRow]) -> list[tuple[Any, ...]]:
    depths: list[int] = []
    values = []
    for place, symbol in enumerate(symbols):
        depth = 0 if symbol.parent < 0 else depths[symbol.parent] + 1
        depths.append(depth)
        decorators = to_json(symbol.decorators) if symbol.decorators else "[]"
        values.append((place, *symbol[:5], decorators, *symbol[6:12], depth))
    return values


def _let_go(connection: sqlite3.Connection, symbols: Iterable[int]) -> None:
    """Leave those who refer to these symbols with the name alone."""
    connection.executemany(
        "UPDATE code_edges SET callee_key = NULL, strength = ? WHERE callee_key = ?",
        [(NAME_ALONE, key) for key in symbols],
    )


# --- References -------------------------------------------------------------------------


def store_edges(
    connection: sqlite3.Connection, repository: int, edges: Mapping[str, Sequence[EdgeRow]]
) -> None:
    """Store what the symbols of these files refer to, in place of what was stored before."""
    keys = _Keys(connection, repository)
    for path, rows in edges.items():
        file_key = keys.file(path)
        if file_key is None:
            continue  # Removed meanwhile, by another process.
        callers = keys.symbols(path)
        connection.execute("DELETE FROM code_edges WHERE file_key = ?", (file_key,))
        connection.executemany(
            "INSERT INTO code_edges (file_key, position, caller_key, callee_key, kind, name,"
            " strength, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (file_key, place, caller, *_meant(keys, row), row.line)
                for place, row in enumerate(rows)
                if (caller := callers.get(row.caller)) is not None
            ],
        )


def _meant(keys: _Keys, row: EdgeRow) -> tuple[int | None, str, str, float]:
    if row.callee is None:
        return None, row.kind, row.name, row.strength
    path, qualified_name = row.callee
    callee = keys.symbols(path).get(qualified_name)
    return callee, row.kind, row.name, NAME_ALONE if callee is None else row.strength


class _Keys:
    """The keys of files and symbols of a repository, each file's read once."""

    def __init__(self, connection: sqlite3.Connection, repository: int) -> None:
        self._connection = connection
        self._repository = repository
        self._files: dict[str, int | None] = {}
        self._symbols: dict[str, dict[str, int]] = {}

    def file(self, path: str) -> int | None:
        if path not in self._files:
            row = self._connection.execute(
                "SELECT key FROM code_files WHERE repository_key = ? AND path = ?",
                (self._repository, path),
            ).fetchone()
            self._files[path] = None if row is None else int(row[0])
        return self._files[path]

    def symbols(self, path: str) -> dict[str, int]:
        """Return the symbols of a file by their qualified names."""
        known = self._symbols.get(path)
        if known is None:
            rows = self._connection.execute(
                "SELECT qualified_name, key FROM code_symbols WHERE file_key = ?",
                (self.file(path),),
            )
            known = self._symbols[path] = dict(rows.fetchall())
        return known


# --- Citations -------------------------------------------------------------------------


_CITATION = (
    "root, path, symbol, start_line, end_line, given, file_hash, content_hash, body_hash, twins,"
    " head"
)


def set_citations(
    connection: sqlite3.Connection, memory_id: str, wanted: Sequence[Citation]
) -> None:
    """Replace all citations of a memory; an empty list deletes them."""
    connection.execute("DELETE FROM code_citations WHERE memory_id = ?", (memory_id,))
    connection.executemany(
        "INSERT INTO code_citations (memory_id, " + _CITATION + ")"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                memory_id,
                *(one.root, one.path, one.symbol, one.start_line, one.end_line, int(one.given)),
                *(one.file_hash, one.content_hash, one.body_hash, to_json(one.twins), one.commit),
            )
            for one in wanted
        ],
    )


def get_citations(
    connection: sqlite3.Connection, memory_ids: Sequence[str]
) -> dict[str, list[Citation]]:
    """Return the citations of those memories that have any."""
    rows = connection.execute(
        "SELECT memory_id, " + _CITATION + " FROM code_citations WHERE memory_id IN"
        " (SELECT value FROM json_each(?)) ORDER BY key",
        (to_json(list(memory_ids)),),
    )
    found: dict[str, list[Citation]] = {}
    for memory_id, *row in rows:
        values = dict(zip(Citation.model_fields, row, strict=True))
        values |= {"given": bool(values["given"]), "twins": from_json(values["twins"])}
        found.setdefault(memory_id, []).append(Citation.model_construct(**values))
    return found


def list_cited(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of all memories that cite code."""
    rows = connection.execute(
        "SELECT memory_id FROM code_citations GROUP BY memory_id ORDER BY min(key)"
    )
    return [memory_id for (memory_id,) in rows]

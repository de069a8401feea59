"""SqliteCode: repositories, symbols, references and citations in the local file.

Whatever engine holds the memories, code is stored here. A method is a function over a connection
that is run in a transaction; what it does is written where it is defined.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, Self

from zapomni_db.code_models import (
    Citation,
    CodeEdge,
    CodeFile,
    CodeRepository,
    CodeSymbol,
    EdgeRow,
    FailureAfter,
    FileData,
    FileEdit,
    FileSummary,
    IndexedFile,
    PassagePlace,
    SymbolQuery,
)
from zapomni_db.sqlite.connection import connect, fetch_value, translated
from zapomni_db.sqlite.file import SqliteFile, reading, reading_here, writing
from zapomni_db.sqlite.rows import from_json, from_time, in_path, to_json
from zapomni_db.symbols import Symbol

__all__ = ["SqliteCode", "SqliteFacts"]


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


# --- Writing symbols --------------------------------------------------------------------


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


# --- Writing references -----------------------------------------------------------------


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


SUGGESTIONS = 5
# How many names are compared with a misspelled one.
NAMES_COMPARED = 50_000
FAILURES_SHOWN = 3
# How many actions after an edit are searched for failures.
LATER_ACTIONS = 200

# The columns of a CodeSymbol, in the order of its fields, and the tables they come from.
_SYMBOL: LiteralString = (
    "s.key, r.root, f.path, s.name, s.qualified_name, s.kind, s.signature, s.docstring,"
    " s.decorators, s.start_line, s.end_line, s.start_byte, s.end_byte, s.content_hash,"
    " s.body_hash, s.depth"
)
_FROM: LiteralString = (
    " FROM code_symbols s JOIN code_files f ON f.key = s.file_key"
    " JOIN code_repositories r ON r.key = f.repository_key"
)
_SELECT_SYMBOL: LiteralString = "SELECT " + _SYMBOL + _FROM
_AMONG: LiteralString = " IN (SELECT value FROM json_each(?))"

_FILES: LiteralString = """
SELECT r.root, f.key, f.path, f.memory_id, f.stamp, f.content_hash, f.is_empty
FROM code_files f JOIN code_repositories r ON r.key = f.repository_key WHERE """
_SAME_CONTENTS: LiteralString = """
SELECT path FROM code_files WHERE content_hash = ? AND repository_key = ? ORDER BY path"""
_LISTED_FILES: LiteralString = """
SELECT f.path, f.language, f.lines, (SELECT count(*) FROM code_symbols s
    WHERE s.file_key = f.key AND s.kind <> 'module')
FROM code_files f WHERE f.repository_key = ? ORDER BY f.path"""
# The memories that cite a file, or one of its symbols with all that is in it.
_CITING: LiteralString = """
SELECT memory_id FROM code_citations WHERE root = :root AND path = :path
    AND (:symbol = '' OR symbol = :symbol
        OR substr(symbol, 1, length(:symbol) + 1) = :symbol || '.')
GROUP BY memory_id ORDER BY max(key) DESC"""
# The names of symbols, without headings of documents and keys of data files.
_NAMES: LiteralString = """
SELECT DISTINCT s.name FROM code_symbols s JOIN code_files f ON f.key = s.file_key
WHERE s.kind NOT IN ('section', 'key')"""
# The files that memories were made from.
_INDEXED_FILES: LiteralString = """
SELECT f.memory_id, r.root, f.path, f.language, d.passages, f.key FROM code_files f
JOIN code_repositories r ON r.key = f.repository_key
JOIN code_file_data d ON d.file_key = f.key WHERE f.memory_id"""


def _to_symbol(row: Sequence[Any]) -> CodeSymbol:
    values = dict(zip(CodeSymbol.model_fields, row, strict=True))
    values["decorators"] = from_json(values["decorators"])
    return CodeSymbol.model_construct(**values)


# --- Finding symbols and files ----------------------------------------------------------


def find_symbols(connection: sqlite3.Connection, query: SymbolQuery) -> list[CodeSymbol]:
    """Return the symbols that match, the best first."""
    clauses: list[LiteralString] = ["TRUE"]
    values: list[object] = []
    if query.repositories is not None:
        clauses.append("f.repository_key" + _AMONG)
        values.append(to_json(query.repositories))
    if query.name is not None:
        clauses.append("s.name = ? COLLATE NOCASE")
        values.append(_bare(query.name))
    if query.path is not None:
        clause, paths = in_path("f.path", query.path)
        clauses.append(clause)
        values += paths
    if query.kind is not None:
        clauses.append("s.kind = ?")
        values.append(query.kind)
    if query.body_hash is not None:
        clauses.append("s.body_hash = ?")
        values.append(query.body_hash)
    rows = connection.execute(
        _SELECT_SYMBOL + " WHERE " + " AND ".join(clauses) + " ORDER BY f.path, s.position", values
    )
    found = [_to_symbol(row) for row in rows]
    return (found if query.name is None else _best(found, query.name))[: query.limit]


def _bare(name: str) -> str:
    """Return the last part of a dotted name; a heading's dots are its own."""
    return name if " " in name else name.partition("#")[0].rpartition(".")[2]


def _best(found: Sequence[CodeSymbol], name: str) -> list[CodeSymbol]:
    """Keep those that fit best: the whole name, its end, and each of these in any case."""
    for wanted, same in ((name, str), (name.lower(), str.lower)):
        whole = [
            symbol
            for symbol in found
            if wanted in (same(symbol.qualified_name), same(_plain(symbol)))
        ]
        if whole:
            return whole
        ending = [
            s for s in found if same(_plain(s)).endswith("." + wanted) or same(s.name) == wanted
        ]
        if ending:
            return ending
    return []


def _plain(symbol: CodeSymbol) -> str:
    return symbol.qualified_name.partition("#")[0]


def get_symbol(connection: sqlite3.Connection, symbol_id: int) -> CodeSymbol | None:
    """Return a symbol by its id."""
    row = connection.execute(_SELECT_SYMBOL + " WHERE s.key = ?", (symbol_id,)).fetchone()
    return None if row is None else _to_symbol(row)


def suggest_names(
    connection: sqlite3.Connection, repositories: Sequence[int] | None, name: str
) -> list[str]:
    """Return names of symbols that are similar to a name that does not exist."""
    among: LiteralString = "" if repositories is None else " AND f.repository_key" + _AMONG
    values = [] if repositories is None else [to_json(list(repositories))]
    rows = connection.execute(_NAMES + among + " LIMIT ?", [*values, NAMES_COMPARED])
    names = [known for (known,) in rows]
    bare = _bare(name).lower()
    holding = [known for known in names if bare and bare in known.lower()]
    near = get_close_matches(_bare(name), names, n=SUGGESTIONS)
    return list(dict.fromkeys([*near, *sorted(holding, key=len)]))[:SUGGESTIONS]


def find_files(
    connection: sqlite3.Connection, repositories: Sequence[int] | None, path: str
) -> list[tuple[str, CodeFile]]:
    """Return root and file of those with this path, or whose path ends with it."""
    among: LiteralString = "" if repositories is None else " AND f.repository_key" + _AMONG
    values = [] if repositories is None else [to_json(list(repositories))]
    clause, paths = in_path("f.path", path)
    rows = connection.execute(
        _FILES + clause + among + " ORDER BY length(f.path), f.path LIMIT 100", [*paths, *values]
    )
    end = "/" + path.strip("/")
    # The condition also matches folders; here only files are asked for.
    found = [(root, CodeFile(*file)) for root, *file in rows]
    return [(root, file) for root, file in found if f"/{file.path}".endswith(end)]


def list_files(connection: sqlite3.Connection, repository: int) -> list[FileSummary]:
    """Return the files of a repository in the order of their paths."""
    return [
        FileSummary.model_construct(path=path, language=language, lines=lines, symbols=symbols)
        for path, language, lines, symbols in connection.execute(_LISTED_FILES, (repository,))
    ]


def find_citing(connection: sqlite3.Connection, root: str, path: str, symbol: str) -> list[str]:
    """Return the ids of the memories that cite a file or a symbol of it, the newest first."""
    rows = connection.execute(_CITING, {"root": root, "path": path, "symbol": symbol})
    return [memory_id for (memory_id,) in rows]


def find_copies(connection: sqlite3.Connection, repository: int, content_hash: str) -> list[str]:
    """Return the paths of the files with these contents."""
    rows = connection.execute(_SAME_CONTENTS, (content_hash, repository))
    return [path for (path,) in rows]


def get_outline(connection: sqlite3.Connection, file_key: int) -> list[CodeSymbol]:
    """Return a file's symbols in order, the file itself first."""
    rows = connection.execute(
        _SELECT_SYMBOL + " WHERE s.file_key = ? ORDER BY s.position", (file_key,)
    )
    return [_to_symbol(row) for row in rows]


def get_places(connection: sqlite3.Connection, memory_ids: Sequence[str]) -> dict[str, IndexedFile]:
    """Return the files that memories of code were made from, by memory id."""
    rows = connection.execute(_INDEXED_FILES + _AMONG, (to_json(list(memory_ids)),)).fetchall()
    return {
        memory_id: IndexedFile(
            root,
            path,
            language,
            [PassagePlace(*passage) for passage in from_json(passages)],
            get_outline(connection, key),
        )
        for memory_id, root, path, language, passages, key in rows
    }


# --- Reading references -----------------------------------------------------------------


# What refers to symbols: kind, name, strength and line of a reference, then the caller's columns.
_CALLERS: LiteralString = (
    "SELECT e.kind, e.name, e.strength, e.line, " + _SYMBOL + " FROM code_edges e"
    " JOIN code_symbols s ON s.key = e.caller_key JOIN code_files f ON f.key = s.file_key"
    " JOIN code_repositories r ON r.key = f.repository_key"
)
# Those of which it is known that they mean a symbol, and those that only contain its name.
_KNOWN_CALLERS: LiteralString = (
    _CALLERS + " WHERE e.callee_key = ? ORDER BY e.strength DESC, f.path, e.line LIMIT ?"
)
_CALLERS_BY_NAME: LiteralString = (
    _CALLERS + " WHERE e.name = ? AND e.callee_key IS NULL AND r.root = ?"
    " ORDER BY f.path, e.line LIMIT ?"
)
# A symbol and all symbols inside it.
_INNER_SYMBOLS: LiteralString = (
    _SELECT_SYMBOL + " WHERE s.file_key = (SELECT file_key FROM code_symbols WHERE key = ?)"
    " AND s.start_byte >= ? AND s.end_byte <= ?"
)
_CALLEES: LiteralString = (
    "SELECT e.kind, e.name, e.strength, e.line, e.caller_key, e.callee_key FROM code_edges e"
    " WHERE e.file_key = (SELECT file_key FROM code_symbols WHERE key = ?)"
    " AND e.caller_key" + _AMONG + " ORDER BY e.line, e.position LIMIT ?"
)


def get_callers(connection: sqlite3.Connection, symbol: CodeSymbol, limit: int) -> list[CodeEdge]:
    """Return what refers to a symbol, the most certain first; then what contains its name."""
    known = [
        _to_edge(kind, name, strength, line, _to_symbol(caller), symbol)
        for kind, name, strength, line, *caller in connection.execute(
            _KNOWN_CALLERS, (symbol.id, limit)
        )
    ]
    by_name = [
        _to_edge(kind, name, strength, line, _to_symbol(caller), None)
        for kind, name, strength, line, *caller in connection.execute(
            _CALLERS_BY_NAME, (symbol.name, symbol.repository, limit - len(known))
        )
    ]
    return known + by_name


def get_callees(connection: sqlite3.Connection, symbol: CodeSymbol, limit: int) -> list[CodeEdge]:
    """Return what a symbol and the symbols inside it refer to, in order of lines."""
    callers = {symbol.id: symbol}
    # What a file contains is not what the file itself does when it is loaded.
    if symbol.kind != "module":
        inside = (symbol.id, symbol.start_byte, symbol.end_byte)
        rows = connection.execute(_INNER_SYMBOLS, inside)
        callers |= {inner.id: inner for inner in map(_to_symbol, rows)}
    edges = connection.execute(_CALLEES, (symbol.id, to_json(list(callers)), limit)).fetchall()
    meant = {callee for *_, callee in edges if callee is not None}
    rows = connection.execute(_SELECT_SYMBOL + " WHERE s.key" + _AMONG, (to_json(sorted(meant)),))
    callees = {found.id: found for found in map(_to_symbol, rows)}
    return [
        _to_edge(kind, name, strength, line, callers[caller], callees.get(callee))
        for kind, name, strength, line, caller, callee in edges
    ]


def _to_edge(
    kind: str,
    name: str,
    strength: float,
    line: int,
    caller: CodeSymbol,
    callee: CodeSymbol | None,
) -> CodeEdge:
    return CodeEdge.model_construct(
        kind=kind, caller=caller, callee=callee, name=name, strength=strength, line=line
    )


# --- What agents did --------------------------------------------------------------------


# Edits of files, with the prompt they followed.
_EDITS: LiteralString = (
    "SELECT o.id, o.timestamp, o.session_id, o.host, coalesce(o.tool_name, ''), o.content,"
    " coalesce((SELECT p.content FROM observations p WHERE p.id = o.prompt_id), '')"
    " FROM observations o WHERE o.file_path" + _AMONG + " AND o.obs_type IN ('file_edit',"
    " 'file_write') ORDER BY o.timestamp DESC, o.id DESC LIMIT ?"
)
_LATER_IN_SESSION: LiteralString = """
SELECT id, timestamp, content, obs_type, file_path, signature FROM observations
WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?"""


def get_edits(connection: sqlite3.Connection, paths: Sequence[str], limit: int) -> list[FileEdit]:
    """Return the newest edits of a file by agents, the last one first."""
    rows = connection.execute(_EDITS, (to_json(list(paths)), limit)).fetchall()
    return [
        FileEdit(
            observation_id=observation_id,
            timestamp=timestamp,
            session_id=session,
            host=host,
            tool=tool,
            content=content,
            prompt=prompt,
            failures=_failures_after(connection, observation_id, session, paths),
        )
        for observation_id, timestamp, session, host, tool, content, prompt in rows
    ]


def _failures_after(
    connection: sqlite3.Connection, edit: int, session: str, paths: Sequence[str]
) -> list[FailureAfter]:
    """Return what failed in the session until the file was edited again."""
    found: list[FailureAfter] = []
    for later, moment, content, kind, path, signature in connection.execute(
        _LATER_IN_SESSION, (session, edit, LATER_ACTIONS)
    ):
        if kind in ("file_edit", "file_write") and path in paths:
            break
        if kind == "command_error" or signature is not None:
            found.append(FailureAfter(observation_id=later, timestamp=moment, content=content))
            if len(found) == FAILURES_SHOWN:
                break
    return found


# --- The file ---------------------------------------------------------------------------


class SqliteCode(SqliteFile):
    """All that is known about code. The first call opens the file.

    A file is begun before its memory is written and stored after: if the process ends in between,
    `get_files` shows it as incomplete and the next run indexes it again.
    """

    opened_by_first_call = True

    # --- Indexing -----------------------------------------------------------------------

    list_repositories = reading("reading code", list_repositories)
    open_repository = writing("indexing code", open_repository)
    begin_changes = writing("indexing code", begin_changes)
    finish_repository = writing("indexing code", finish_repository)
    forget_repository = writing("forgetting code", forget_repository)
    get_files = reading("reading code", get_files)
    begin_files = writing("indexing code", begin_files)
    move_file = writing("indexing code", move_file)
    find_origin = reading("reading code", find_origin)
    store_files = writing("indexing code", store_files)
    set_stamps = writing("indexing code", set_stamps)
    remove_files = writing("indexing code", remove_files)
    get_facts = reading("reading code", get_facts)
    store_edges = writing("indexing code", store_edges)

    def read_facts(self, repository: int) -> SqliteFacts:
        """Open what files contain about each other, to be read and closed in one thread."""
        return SqliteFacts(self.path, repository)

    # --- Questions about code -----------------------------------------------------------

    find_symbols = reading("reading code", find_symbols)
    get_symbol = reading("reading code", get_symbol)
    suggest_names = reading("reading code", suggest_names)
    find_files = reading("reading code", find_files)
    list_files = reading("reading code", list_files)
    find_citing = reading("reading citations", find_citing)
    find_copies = reading("reading code", find_copies)
    get_outline = reading("reading code", get_outline)
    get_callers = reading("reading code", get_callers)
    get_callees = reading("reading code", get_callees)
    get_places = reading("reading code", get_places)
    get_edits = reading("reading observations", get_edits)

    # --- Citations ----------------------------------------------------------------------

    set_citations = writing("citing code", set_citations)
    get_citations = reading_here("reading citations", get_citations)
    note_checks = writing("keeping what checks found", note_checks)
    list_cited = reading("reading citations", list_cited)


# Searching all files for a name takes a few milliseconds; for many names, all mentions are read.
ONE_BY_ONE = 20

_PATHS: LiteralString = "SELECT path FROM code_files WHERE repository_key = ?"
_FACTS_AT: LiteralString = """
SELECT d.facts FROM code_files f JOIN code_file_data d ON d.file_key = f.key
WHERE f.repository_key = ? AND f.path = ?"""
# Case-sensitive, found by an index that is not.
_SYMBOLS_NAMED: LiteralString = """
SELECT f.path, s.qualified_name FROM code_symbols s JOIN code_files f ON f.key = s.file_key
WHERE s.name = ?1 COLLATE NOCASE AND s.name = ?1 AND f.repository_key = ?2 AND s.kind <> 'module'"""
_MENTIONS: LiteralString = """
SELECT f.path, d.mentions FROM code_files f JOIN code_file_data d ON d.file_key = f.key
WHERE f.repository_key = ?"""
_MENTIONING: LiteralString = """
SELECT f.path FROM code_files f JOIN code_file_data d ON d.file_key = f.key
WHERE f.repository_key = ? AND instr(d.mentions, ?)"""


class SqliteFacts:
    """What the files of a repository state about each other, for one thread at a time.

    The thread that enters it opens its own connection.
    """

    def __init__(self, path: Path, repository: int) -> None:
        self._path = path
        self._repository = repository
        self._opened: sqlite3.Connection | None = None
        self._asked = 0
        self._mentioning: dict[str, list[str]] | None = None

    def __enter__(self) -> Self:
        with translated("reading code"):
            self._opened = connect(self._path)
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()

    def paths(self) -> list[str]:
        """Return the paths of all files."""
        with translated("reading code"):
            return [path for (path,) in self._connection.execute(_PATHS, (self._repository,))]

    def facts(self, path: str) -> str | None:
        """Return what a file states, packed; None if there is no such file."""
        with translated("reading code"):
            facts: str | None = fetch_value(self._connection, _FACTS_AT, (self._repository, path))
        return facts

    def named(self, name: str) -> list[tuple[str, str]]:
        """Return path and qualified name of all symbols of this bare name."""
        with translated("reading code"):
            return self._connection.execute(_SYMBOLS_NAMED, (name, self._repository)).fetchall()

    def mentioning(self, name: str) -> list[str]:
        """Return the files that mention a name."""
        if self._asked < ONE_BY_ONE:
            self._asked += 1
            values = (self._repository, f"\n{name}\n")
            with translated("reading code"):
                return [path for (path,) in self._connection.execute(_MENTIONING, values)]
        if self._mentioning is None:
            mentioning: dict[str, list[str]] = {}
            with translated("reading code"):
                for path, names in self._connection.execute(_MENTIONS, (self._repository,)):
                    for mentioned in names.split():
                        mentioning.setdefault(mentioned, []).append(path)
            self._mentioning = mentioning
        return self._mentioning.get(name, [])

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._opened is not None
        return self._opened

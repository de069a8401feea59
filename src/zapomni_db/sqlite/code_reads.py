"""Reading indexed code: symbols, files, references, and what agents did to a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, LiteralString

from zapomni_db.code_models import (
    CodeEdge,
    CodeFile,
    CodeSymbol,
    FailureAfter,
    FileEdit,
    FileSummary,
    IndexedFile,
    PassagePlace,
    SymbolQuery,
)
from zapomni_db.sqlite.rows import from_json, in_path, to_json

__all__ = [
    "find_citing",
    "find_copies",
    "find_files",
    "find_symbols",
    "get_callees",
    "get_callers",
    "get_edits",
    "get_outline",
    "get_places",
    "get_symbol",
    "list_files",
    "suggest_names",
]

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


# --- Symbols and files ------------------------------------------------------------------


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


# --- References -------------------------------------------------------------------------


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

"""SqliteCode: repositories, symbols, references and citations in the local file.

Whatever engine holds the memories, code is stored here. A method is a function over a connection
that is run in a transaction; what it does is written where it is defined.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import LiteralString, Self

from zapomni_db.sqlite import code_reads, code_writes
from zapomni_db.sqlite.connection import connect, fetch_value, translated
from zapomni_db.sqlite.file import SqliteFile, reading, writing

__all__ = ["SqliteCode", "SqliteFacts"]


class SqliteCode(SqliteFile):
    """All that is known about code. The first call opens the file.

    A file is begun before its memory is written and stored after: if the process ends in between,
    `get_files` shows it as incomplete and the next run indexes it again.
    """

    opened_by_first_call = True

    # --- Indexing -----------------------------------------------------------------------

    list_repositories = reading("reading code", code_writes.list_repositories)
    open_repository = writing("indexing code", code_writes.open_repository)
    begin_changes = writing("indexing code", code_writes.begin_changes)
    finish_repository = writing("indexing code", code_writes.finish_repository)
    forget_repository = writing("forgetting code", code_writes.forget_repository)
    get_files = reading("reading code", code_writes.get_files)
    begin_files = writing("indexing code", code_writes.begin_files)
    move_file = writing("indexing code", code_writes.move_file)
    find_origin = reading("reading code", code_writes.find_origin)
    store_files = writing("indexing code", code_writes.store_files)
    set_stamps = writing("indexing code", code_writes.set_stamps)
    remove_files = writing("indexing code", code_writes.remove_files)
    get_facts = reading("reading code", code_writes.get_facts)
    store_edges = writing("indexing code", code_writes.store_edges)

    def read_facts(self, repository: int) -> SqliteFacts:
        """Open what files contain about each other, to be read and closed in one thread."""
        return SqliteFacts(self.path, repository)

    # --- Questions about code -----------------------------------------------------------

    find_symbols = reading("reading code", code_reads.find_symbols)
    get_symbol = reading("reading code", code_reads.get_symbol)
    suggest_names = reading("reading code", code_reads.suggest_names)
    find_files = reading("reading code", code_reads.find_files)
    list_files = reading("reading code", code_reads.list_files)
    find_citing = reading("reading citations", code_reads.find_citing)
    find_copies = reading("reading code", code_reads.find_copies)
    get_outline = reading("reading code", code_reads.get_outline)
    get_callers = reading("reading code", code_reads.get_callers)
    get_callees = reading("reading code", code_reads.get_callees)
    get_places = reading("reading code", code_reads.get_places)
    get_edits = reading("reading observations", code_reads.get_edits)

    # --- Citations ----------------------------------------------------------------------

    set_citations = writing("citing code", code_writes.set_citations)
    get_citations = reading("reading citations", code_writes.get_citations)
    note_checks = writing("keeping what checks found", code_writes.note_checks)
    list_cited = reading("reading citations", code_writes.list_cited)


# Searching all files for a name takes a few milliseconds; for many names, all mentions are read.
ONE_BY_ONE = 20

_PATHS: LiteralString = "SELECT path FROM code_files WHERE repository_key = ?"
_FACTS: LiteralString = """
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
            facts: str | None = fetch_value(self._connection, _FACTS, (self._repository, path))
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

"""What the files of a repository say about each other, read by one thread."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Self

from zapomni_db.sqlite.connection import connect, translated

__all__ = ["SqliteFacts"]


# Looking through all files for a name costs a few milliseconds; for many, one look at everything.
ONE_BY_ONE = 20

_MENTIONS = (
    "SELECT f.path, d.mentions FROM code_files f JOIN code_file_data d ON d.file_key = f.key"
    " WHERE f.repository_key = ?"
)
_MENTIONING = (
    "SELECT f.path FROM code_files f JOIN code_file_data d ON d.file_key = f.key"
    " WHERE f.repository_key = ? AND instr(d.mentions, ?)"
)


class SqliteFacts:
    """The FactReader on one connection of its own, opened by the thread that enters it."""

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
        return self._column("SELECT path FROM code_files WHERE repository_key = ?")

    def _column(self, statement: str, *values: str) -> list[str]:
        with translated("reading code"):
            rows = self._connection.execute(statement, (self._repository, *values))
            return [value for (value,) in rows]

    def facts(self, path: str) -> str | None:
        """Return what a file says, packed."""
        with translated("reading code"):
            row = self._connection.execute(
                "SELECT d.facts FROM code_files f JOIN code_file_data d ON d.file_key = f.key"
                " WHERE f.repository_key = ? AND f.path = ?",
                (self._repository, path),
            ).fetchone()
        return None if row is None else str(row[0])

    def named(self, name: str) -> list[tuple[str, str]]:
        """Return path and qualified name of all symbols of this bare name."""
        with translated("reading code"):
            rows = self._connection.execute(
                "SELECT f.path, s.qualified_name FROM code_symbols s"
                " JOIN code_files f ON f.key = s.file_key"
                " WHERE s.name = ?1 COLLATE NOCASE AND s.name = ?1 AND f.repository_key = ?2"
                " AND s.kind <> 'module'",
                (name, self._repository),
            )
            return [(path, qualified) for path, qualified in rows]

    def mentioning(self, name: str) -> list[str]:
        """Return the files that mention a name."""
        if self._asked < ONE_BY_ONE:
            self._asked += 1
            return self._column(_MENTIONING, f"\n{name}\n")
        if self._mentioning is None:
            self._mentioning = self._all_mentions()
        return self._mentioning.get(name, [])

    def _all_mentions(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        with translated("reading code"):
            rows = self._connection.execute(_MENTIONS, (self._repository,))
            for path, names in rows:
                for name in names.split():
                    found.setdefault(name, []).append(path)
        return found

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._opened is not None
        return self._opened

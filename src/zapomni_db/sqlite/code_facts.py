"""What the files of a repository say about each other, read by one thread."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Self

from zapomni_db.sqlite.connection import connect, translated

__all__ = ["SqliteFacts"]


class SqliteFacts:
    """The FactReader on one connection of its own, opened by the thread that enters it."""

    def __init__(self, path: Path, repository: int) -> None:
        self._path = path
        self._repository = repository
        self._opened: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        with translated("reading code"):
            self._opened = connect(self._path)
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()

    def paths(self) -> list[str]:
        """Return the paths of all files."""
        return self._column("SELECT path FROM code_files WHERE repository_key = ?")

    def unresolved(self) -> list[str]:
        """Return the files whose references have to be looked at again."""
        return self._column(
            "SELECT path FROM code_files WHERE repository_key = ? AND resolved = 0 ORDER BY path"
        )

    def _column(self, statement: str) -> list[str]:
        with translated("reading code"):
            rows = self._connection.execute(statement, (self._repository,))
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
        """Return path and qualified name of symbols of this bare name; two are enough."""
        with translated("reading code"):
            rows = self._connection.execute(
                "SELECT f.path, s.qualified_name FROM code_symbols s"
                " JOIN code_files f ON f.key = s.file_key"
                " WHERE s.name = ?1 COLLATE NOCASE AND s.name = ?1 AND f.repository_key = ?2"
                " AND s.kind NOT IN ('module', 'section', 'key') LIMIT 2",
                (name, self._repository),
            )
            return [(path, qualified) for path, qualified in rows]

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._opened is not None
        return self._opened

"""Which code memories speak of: functions over one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from zapomni_db.code_models import Citation
from zapomni_db.sqlite.rows import from_json, to_json

__all__ = ["citations", "cited", "set_citations"]

_COLUMNS = (
    "root, path, symbol, start_line, end_line, given, file_hash, content_hash, body_hash, twins,"
    " head"
)


def set_citations(
    connection: sqlite3.Connection, memory_id: str, wanted: Sequence[Citation]
) -> None:
    connection.execute("DELETE FROM code_citations WHERE memory_id = ?", (memory_id,))
    connection.executemany(
        "INSERT INTO code_citations (memory_id, " + _COLUMNS + ")"
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


def citations(
    connection: sqlite3.Connection, memory_ids: Sequence[str]
) -> dict[str, list[Citation]]:
    rows = connection.execute(
        "SELECT memory_id, " + _COLUMNS + " FROM code_citations WHERE memory_id IN"
        " (SELECT value FROM json_each(?)) ORDER BY key",
        (to_json(list(memory_ids)),),
    )
    found: dict[str, list[Citation]] = {}
    for memory_id, *row in rows:
        values = dict(zip(Citation.model_fields, row, strict=True))
        values |= {"given": bool(values["given"]), "twins": from_json(values["twins"])}
        found.setdefault(memory_id, []).append(Citation.model_construct(**values))
    return found


def cited(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT memory_id FROM code_citations GROUP BY memory_id ORDER BY min(key)"
    )
    return [memory_id for (memory_id,) in rows]

"""Reading the recall log: lists, totals, and the questions whose answers were used."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, LiteralString, TypeVar

from zapomni_db.recall_models import (
    AskedQuestion,
    DayTokens,
    LoggedItem,
    LoggedRecall,
    RecallFilter,
    RecallTotals,
    SessionTokens,
)
from zapomni_db.sqlite.connection import connect, read_transaction, translated
from zapomni_db.sqlite.recalls import RECALLS, VERSION

__all__ = ["count_recalls", "list_recalls", "read_questions"]

T = TypeVar("T")

# How many of the latest are counted.
SESSIONS: Final = 5


# Recalls that pass the filters, newest first.
_LIST: Final[LiteralString] = """
SELECT r.id, r.at, r.client, r.session, r.project, r.how, r.query, r.tokens FROM recalls r
WHERE (:session IS NULL OR substr(r.session, 1, length(:session)) = :session)
    AND (:projects IS NULL OR r.project IN (SELECT value FROM json_each(:projects)))
    AND (:how IS NULL OR r.how = :how)
    AND (:since IS NULL OR r.at >= :since)
    AND (:until IS NULL OR r.at < :until)
    AND (:item IS NULL OR EXISTS
        (SELECT 1 FROM recall_items i WHERE i.recall_id = r.id AND i.item = :item))
    AND (:used IS NULL OR :used = EXISTS
        (SELECT 1 FROM recall_items i WHERE i.recall_id = r.id AND i.used_at IS NOT NULL))
ORDER BY r.at DESC, r.id DESC LIMIT :limit OFFSET :offset"""

_ITEMS: Final[LiteralString] = """
SELECT item, kind, tokens, evidence, used_at, used_how FROM recall_items
WHERE recall_id = ? ORDER BY position"""

_TOTALS: Final[LiteralString] = """
SELECT (SELECT count(*) FROM recalls), (SELECT coalesce(sum(tokens), 0) FROM recalls),
    (SELECT count(*) FROM recall_items), (SELECT count(used_at) FROM recall_items)"""

_BY_DAY: Final[LiteralString] = """
SELECT date(at, 'unixepoch', 'localtime') AS day, count(*), sum(tokens) FROM recalls
GROUP BY day ORDER BY day DESC LIMIT ?"""

# With max() SQLite takes the other columns from the row that has it.
_BY_SESSION: Final[LiteralString] = """
SELECT session, client, project, max(at) AS last_at, count(*), sum(tokens) FROM recalls
WHERE session <> '' AND project NOT IN (SELECT value FROM json_each(?))
GROUP BY session ORDER BY last_at DESC LIMIT ?"""

# Questions with an item that was used afterwards, the newest first.
_QUESTIONS: Final[LiteralString] = """
SELECT r.query, r.how, r.project, json_group_array(json_array(i.kind, i.item))
FROM recalls r JOIN recall_items i ON i.recall_id = r.id
WHERE r.query <> '' AND i.used_at IS NOT NULL
    AND (?1 IS NULL OR r.project IN (SELECT value FROM json_each(?1)))
GROUP BY r.id ORDER BY r.at DESC, r.id DESC"""


def list_recalls(home: Path, filters: RecallFilter) -> list[LoggedRecall]:
    """Return recalls with their items, newest first."""
    values = dict(vars(filters))
    values["projects"] = _as_json(filters.projects)

    def read(connection: sqlite3.Connection) -> list[LoggedRecall]:
        found = []
        for key, at, client, session, project, how, query, tokens in connection.execute(
            _LIST, values
        ).fetchall():
            items = [LoggedItem(*one) for one in connection.execute(_ITEMS, (key,))]
            found.append(LoggedRecall(key, at, client, session, project, how, query, tokens, items))
        return found

    return _read(home, read) or []


def count_recalls(home: Path, hidden: Sequence[str], days: int) -> RecallTotals:
    """Return how much was given, and the tokens of so many latest days and of sessions.

    Sessions of hidden projects are not listed.
    """

    def read(connection: sqlite3.Connection) -> RecallTotals:
        recalls, tokens, items, used = connection.execute(_TOTALS).fetchone()
        by_day = [DayTokens(*row) for row in connection.execute(_BY_DAY, (days,))]
        listed = connection.execute(_BY_SESSION, (_as_json(hidden), SESSIONS))
        sessions = [SessionTokens(*row) for row in listed]
        return RecallTotals(recalls, tokens, items, used, by_day, sessions)

    return _read(home, read) or RecallTotals()


def read_questions(home: Path, projects: Sequence[str] | None) -> list[AskedQuestion]:
    """Return the questions whose answers were used, newest first; each question once."""

    def read(connection: sqlite3.Connection) -> list[AskedQuestion]:
        found: dict[str, AskedQuestion] = {}
        for query, how, project, used in connection.execute(_QUESTIONS, (_as_json(projects),)):
            items = [(kind, item) for kind, item in json.loads(used)]
            # The newest use of a question that was asked again counts.
            found.setdefault(query, AskedQuestion(query, how, project, items))
        return list(found.values())

    return _read(home, read) or []


def _as_json(values: Sequence[str] | None) -> str | None:
    return None if values is None else json.dumps(list(values))


def _read(home: Path, function: Callable[[sqlite3.Connection], T]) -> T | None:
    path = home / RECALLS
    if not path.is_file():
        return None
    with translated("reading the recall log", path):
        connection = connect(path, read_only=True, pragmas=())
        try:
            with read_transaction(connection):
                ((version,),) = connection.execute("PRAGMA user_version")
                return function(connection) if version == VERSION else None
        finally:
            connection.close()

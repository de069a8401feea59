"""Search over observations: FTS5 finds, BM25 ranks, and no word is common enough to be slow.

Words that are in tens of thousands of rows say little about any of them: such matches come newest
first, and BM25, which would count every one of them, is left out. Filters are part of every
statement, so a crowd elsewhere never hides a hit.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any, LiteralString

from zapomni_db.exceptions import ValidationError
from zapomni_db.observation_models import (
    ObservationMatch,
    ObservationPreview,
    ObservationQuery,
)
from zapomni_db.sqlite.observation_words import alternatives, plain_words
from zapomni_db.sqlite.rows import in_path, to_json

__all__ = ["MAX_LIMIT", "check", "match", "previews", "search"]

MAX_LIMIT = 100
MAX_OFFSET = 10_000
PREVIEW = 120
HALF_LIFE = 7 * 86_400
WORD_WEIGHT, RECENCY_WEIGHT = 0.7, 0.3

COMMON = 20_000  # More matches than this are not ranked by their words.
RANKED = 5000  # The newest of the others that are.
FEW = 20_000  # Filters that leave fewer rows lead the search, instead of the words.
GAP = 2000  # Reading this many matches costs as much as starting the word index anew.
LATE = 200  # Rows a late event may be out of order by: a spool is drained by the next call.

Hits = dict[int, float]
"""Scores by id, higher is better."""

_MATCH = " FROM observations_fts WHERE observations_fts MATCH ?"
_JOINED = (
    " FROM observations_fts CROSS JOIN observations o ON o.id = observations_fts.rowid"
    " WHERE observations_fts MATCH ?"
)
_FAILED = "(o.obs_type = 'command_error' OR o.signature IS NOT NULL)"
_NEWEST = " ORDER BY observations_fts.rowid DESC LIMIT ?"


class _Filters:
    """The conditions of a query on the table `o`, and those of them an index can lead with."""

    def __init__(self, query: ObservationQuery) -> None:
        self.values: list[object] = []
        self.leads: list[tuple[LiteralString, list[object]]] = []
        # With the pluses no condition but the leading one chooses an index.
        self.where: LiteralString = ""
        within: LiteralString = ""
        moments: list[object] = []
        if query.after is not None:
            within, moments = " AND o.timestamp >= ?", [query.after]
        if query.before is not None:
            within, moments = within + " AND o.timestamp < ?", [*moments, query.before]
        if query.projects is not None:
            projects = to_json(query.projects)
            among: LiteralString = "o.project IN (SELECT value FROM json_each(?))"
            self.leads.append((among + within, [projects, *moments]))
            self._add(" AND +" + among, projects)
        if query.obs_type is not None:
            self.leads.append(("o.obs_type = ?" + within, [query.obs_type, *moments]))
            self._add(" AND +o.obs_type = ?", query.obs_type)
        if within:
            self.leads.append(("TRUE" + within, moments))
            self._add(within.replace("o.", "+o."), *moments)
        if query.session is not None:
            self.leads.append(("o.session_id = ?" + within, [query.session, *moments]))
            self._add(" AND +o.session_id = ?", query.session)
        if query.pinned is not None:
            self._add(" AND o.pinned = ?", int(query.pinned))
        if query.failed is not None:
            self._add(" AND " + _FAILED if query.failed else " AND NOT " + _FAILED)
        # Ids follow time but for late events; a search for the newest may start here.
        self.before = query.before
        if query.file is not None:
            clause, paths = in_path("o.file_path", query.file)
            self._add(" AND " + clause, *paths)

    def _add(self, clause: LiteralString, *values: object) -> None:
        self.where += clause
        self.values.extend(values)


def check(query: ObservationQuery) -> None:
    """Refuse a query that cannot be run.

    Raises:
        ValidationError: Its syntax is wrong, or a limit is broken.
    """
    if query.limit < 1 or not 0 <= query.offset <= MAX_OFFSET:
        raise ValidationError(
            f"limit must be at least 1, offset between 0 and {MAX_OFFSET}", "VAL_003"
        )
    alternatives(query.query)


def search(connection: sqlite3.Connection, query: ObservationQuery) -> list[ObservationPreview]:
    """Return the observations that match, in the order asked for.

    Raises:
        ValidationError: The query's syntax is wrong, or a limit is broken.
    """
    check(query)
    limit = min(query.limit, MAX_LIMIT)
    parts = alternatives(query.query)
    finder = _Finder(connection, query, query.offset + limit)
    try:
        hits = finder.find(parts)
        if not hits and (words := plain_words(query.query)):
            # Nothing has all the words of a question: then what has the rarest of them.
            hits = finder.find([w for w in words if not finder.is_common(w)] or words)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise ValidationError(
            'malformed query. Use words, AND, OR, NOT, "a phrase" and prefix*.', "VAL_004",
            original_exception=error,
        ) from error  # fmt: skip
    return previews(connection, _ordered(connection, hits, query, limit))


def match(
    connection: sqlite3.Connection, terms: Sequence[str], query: ObservationQuery
) -> list[ObservationMatch]:
    """Return observations that have any of these words, best first."""
    finder = _Finder(connection, query, query.limit)
    quoted = ['"' + term.replace("\0", " ").replace('"', '""') + '"' for term in terms]
    hits = finder.find([term for term in quoted if not finder.is_common(term)])
    best = sorted(hits, key=lambda rowid: (hits[rowid], rowid), reverse=True)[: query.limit]
    rows = connection.execute(
        "SELECT id, timestamp, session_id, project, obs_type, content, file_path, pinned"
        " FROM observations WHERE id IN (SELECT value FROM json_each(?))",
        (to_json(best),),
    )
    found = {row[0]: row for row in rows}
    return [_match(found[rowid], hits[rowid]) for rowid in best if rowid in found]


def _match(row: tuple[Any, ...], score: float) -> ObservationMatch:
    return ObservationMatch.model_construct(**dict(zip(_MATCHED, row, strict=True)), score=score)


_MATCHED = (
    "id", "timestamp", "session_id", "project", "obs_type", "content", "file_path", "pinned",
)  # fmt: skip


# --- Finding ----------------------------------------------------------------------------


class _Finder:
    """Runs the expressions of one query."""

    def __init__(
        self, connection: sqlite3.Connection, query: ObservationQuery, wanted: int
    ) -> None:
        self._connection = connection
        self._filters = _Filters(query)
        self._few = _few(connection, self._filters)
        self._wanted = wanted + LATE
        self._scored = query.order_by != "recent"
        self._path = (query.file or "").replace("\0", " ").replace('"', " ")

    def find(self, parts: Sequence[str]) -> Hits:
        """Return what matches any of the expressions."""
        expressions = [self._in_file(part) for part in parts]
        whole = " OR ".join(f"({expression})" for expression in expressions)
        if len(expressions) <= 1 or not self.is_common(whole):
            return self._find(whole) if expressions else {}
        # One common alternative must not push out the others; BM25 of a sum is a sum.
        hits: Hits = {}
        for expression in expressions:
            for rowid, score in self._find(expression).items():
                hits[rowid] = hits.get(rowid, 0.0) + score
        return hits

    def is_common(self, expression: str) -> bool:
        """Say whether more rows match than can be ranked in time."""
        statement: LiteralString = "SELECT rowid" + _MATCH + " LIMIT 1 OFFSET ?"
        return self._connection.execute(statement, (expression, COMMON)).fetchone() is not None

    def _in_file(self, part: str) -> str:
        """Let the word index find the file too; the exact condition is checked on each row."""
        named = any(character.isalnum() for character in self._path)
        return f'({part}) AND file_path : "{self._path}"' if named else part

    def _find(self, expression: str) -> Hits:
        common = self.is_common(expression)
        scored = self._scored and not common
        if self._few is None:
            ceiling = self._newest_id() if common else None
            hits = self._newest(expression, scored, ceiling)
            if ceiling is not None and len(hits) < self._wanted:
                hits = self._newest(expression, scored, None)
            return hits
        if common and "*" not in expression:
            return self._in_runs(expression, self._few)
        return self._among(expression, self._few, scored)

    def _newest_id(self) -> int | None:
        """Return about where ids begin that are too new."""
        if self._filters.before is None:
            return None
        row = self._connection.execute(
            "SELECT id FROM observations WHERE timestamp < ? ORDER BY timestamp DESC LIMIT 1",
            (self._filters.before,),
        ).fetchone()
        return None if row is None else int(row[0]) + LATE

    def _newest(self, expression: str, scored: bool, ceiling: int | None) -> Hits:
        """Return the newest matches that pass the filters."""
        score: LiteralString = "-bm25(observations_fts)" if scored else "0.0"
        where: LiteralString = _JOINED + self._filters.where if self._filters.where else _MATCH
        below: LiteralString = "" if ceiling is None else " AND observations_fts.rowid <= ?"
        values = [*self._filters.values, *([] if ceiling is None else [ceiling])]
        return dict(
            self._connection.execute(
                "SELECT observations_fts.rowid, " + score + where + below + _NEWEST,
                [expression, *values, RANKED if scored else self._wanted],
            ).fetchall()
        )

    def _among(self, expression: str, ids: list[int], scored: bool) -> Hits:
        """Return the newest matches among a few rows."""
        if not ids:
            return {}
        score: LiteralString = "-bm25(observations_fts)" if scored else "0.0"
        # The plus keeps the word index in the lead: with a plain rowid, SQLite would run the
        # whole word query once for every id.
        return dict(
            self._connection.execute(
                "SELECT rowid, " + score + _MATCH + " AND rowid BETWEEN ? AND ?"
                " AND +rowid IN (SELECT value FROM json_each(?))" + _NEWEST,
                (expression, ids[0], ids[-1], to_json(ids), RANKED if scored else self._wanted),
            ).fetchall()
        )

    def _in_runs(self, expression: str, ids: list[int]) -> Hits:
        """Look only where the rows are: a session's observations lie side by side."""
        among, end = set(ids), len(ids)
        hits: Hits = {}
        while end:
            start = end - 1
            while start and ids[start] - ids[start - 1] <= GAP:
                start -= 1
            rows = self._connection.execute(
                "SELECT rowid" + _MATCH + " AND rowid BETWEEN ? AND ? ORDER BY rowid DESC",
                (expression, ids[start], ids[end - 1]),
            )
            for (rowid,) in rows:
                if rowid in among:
                    hits[rowid] = 0.0
                    if len(hits) == self._wanted:
                        return hits
            end = start
        return hits


def _few(connection: sqlite3.Connection, filters: _Filters) -> list[int] | None:
    """Return the ids the filters leave, oldest first; None if they are many."""
    for clause, values in filters.leads:
        count = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM observations o WHERE " + clause + " LIMIT ?)",
            [*values, FEW + 1],
        ).fetchone()[0]
        if count <= FEW:
            rows = connection.execute(
                "SELECT o.id FROM observations o WHERE " + clause + filters.where,
                [*values, *filters.values],
            )
            return sorted(row[0] for row in rows)
    return None


# --- Ordering ---------------------------------------------------------------------------


def _ordered(
    connection: sqlite3.Connection, hits: Hits, query: ObservationQuery, limit: int
) -> list[int]:
    ranks: dict[int, tuple[float, ...]]
    if query.order_by == "relevance":
        ranks = {rowid: (score,) for rowid, score in hits.items()}
    else:
        times = dict(
            connection.execute(
                "SELECT id, timestamp FROM observations WHERE id IN"
                " (SELECT value FROM json_each(?))",
                (to_json(list(hits)),),
            ).fetchall()
        )
        ranks = {rowid: (float(moment),) for rowid, moment in times.items()}
        if query.order_by == "blended":
            best, now = max(hits.values(), default=0.0) or 1.0, time.time()
            for rowid, moment in times.items():
                recency = 0.5 ** (max(now - moment, 0.0) / HALF_LIFE)
                ranks[rowid] = (WORD_WEIGHT * hits[rowid] / best + RECENCY_WEIGHT * recency,)
    order = sorted(ranks, key=lambda rowid: (ranks[rowid], rowid), reverse=True)
    return order[query.offset : query.offset + limit]


def previews(connection: sqlite3.Connection, ids: Sequence[int]) -> list[ObservationPreview]:
    """Return the beginnings of these observations, in order."""
    rows = connection.execute(
        "SELECT id, timestamp, obs_type, substr(content, 1, ?), file_path, session_id"
        " FROM observations WHERE id IN (SELECT value FROM json_each(?))",
        (PREVIEW, to_json(list(ids))),
    )
    found = {row[0]: row for row in rows}
    return [
        ObservationPreview.model_construct(
            id=row[0],
            timestamp=row[1],
            obs_type=row[2],
            content_preview=row[3],
            file_path=row[4],
            session_id=row[5],
        )
        for row in (found[rowid] for rowid in ids if rowid in found)
    ]

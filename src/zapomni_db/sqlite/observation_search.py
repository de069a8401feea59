"""Search over observations: FTS5 finds, BM25 ranks, and no word is common enough to be slow.

AND, OR and NOT in capitals, "a phrase", prefix* and parentheses mean what they do in FTS5. All
else is plain words, whatever it contains: `src/auth.py`, `it's` and `C++` are no syntax here.

Words that are in tens of thousands of rows say little about any of them: such matches come newest
first, and BM25, which would count every one of them, is left out. Filters are part of every
statement, so rows they exclude never displace a hit.
"""

from __future__ import annotations

import re
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
from zapomni_db.sqlite.rows import in_path
from zapomni_db.values import to_json

__all__ = ["MAX_LIMIT", "alternatives", "check", "dict_rows", "match", "previews", "search"]

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

MAX_QUERY = 10_000
MAX_TERMS = 64
MAX_WORDS = 16
MAX_DEPTH = 20
SHORTEST_PREFIX = 2

_OPERATORS = ("AND", "OR", "NOT")
# A parenthesis inside a word, as in main(), belongs to the word.
_TOKEN = re.compile(r'"(?P<phrase>[^"]*)"|(?P<open>\()(?!\s*\))|(?P<word>[^\s"]+)')

# Words that say nothing about what is asked.
_STOP_WORDS = frozenset(
    (
        "a about an and any are as at be been but by can could did do does for from had has have "
        "how i if in into is it its me my of on or our should so than that the their them then "
        "there these they this to us was we were what when where which who why will with would "
        "you your"
    ).split()
)

Hits = dict[int, float]
"""Scores by id, higher is better."""

# What the word index finds, alone or joined with the rows.
_MATCH: LiteralString = " FROM observations_fts WHERE observations_fts MATCH ?"
_JOINED: LiteralString = (
    " FROM observations_fts CROSS JOIN observations o ON o.id = observations_fts.rowid"
    " WHERE observations_fts MATCH ?"
)
_NEWEST: LiteralString = " ORDER BY observations_fts.rowid DESC LIMIT ?"

# Of a row `o`: whether it is a failure.
_FAILED: LiteralString = "(o.obs_type = 'command_error' OR o.signature IS NOT NULL)"

# Whether an expression has more matches than a number.
HAS_MORE: LiteralString = "SELECT rowid" + _MATCH + " LIMIT 1 OFFSET ?"

# Matches in a range of ids, newest first.
IN_RANGE: LiteralString = "SELECT rowid" + _MATCH + " AND rowid BETWEEN ? AND ? ORDER BY rowid DESC"

# The newest observation before a moment.
LAST_BEFORE: LiteralString = """
SELECT id FROM observations WHERE timestamp < ? ORDER BY timestamp DESC LIMIT 1"""

# When some observations were made.
TIMES: LiteralString = """
SELECT id, timestamp FROM observations WHERE id IN (SELECT value FROM json_each(?))"""

# Some observations as search results over everything show them.
MATCHES: LiteralString = """
SELECT id, timestamp, session_id, project, obs_type, content, file_path, pinned
FROM observations WHERE id IN (SELECT value FROM json_each(?))"""

# Some observations as previews.
PREVIEWS: LiteralString = """
SELECT id, timestamp, obs_type, substr(content, 1, ?) AS content_preview, file_path, session_id
FROM observations WHERE id IN (SELECT value FROM json_each(?))"""


def dict_rows(
    connection: sqlite3.Connection, statement: LiteralString, values: Sequence[object] = ()
) -> list[dict[str, Any]]:
    """Run a statement and return its rows by the names of their columns."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    return [dict(row) for row in cursor.execute(statement, values)]


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
        if query.not_projects:
            others = to_json(query.not_projects)
            self._add(" AND +o.project NOT IN (SELECT value FROM json_each(?))", others)
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
    found = {row["id"]: row for row in dict_rows(connection, MATCHES, [to_json(best)])}
    return [
        ObservationMatch.model_construct(**found[rowid], score=hits[rowid])
        for rowid in best
        if rowid in found
    ]


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
        """Return whether more rows match than can be ranked in time."""
        return self._connection.execute(HAS_MORE, (expression, COMMON)).fetchone() is not None

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
        found = self._connection.execute(LAST_BEFORE, (self._filters.before,)).fetchall()
        return next((rowid + LATE for (rowid,) in found), None)

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
        """Query only the ranges of ids the rows are in: a session's observations have near ids."""
        among, end = set(ids), len(ids)
        hits: Hits = {}
        while end:
            start = end - 1
            while start and ids[start] - ids[start - 1] <= GAP:
                start -= 1
            rows = self._connection.execute(IN_RANGE, (expression, ids[start], ids[end - 1]))
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
        (count,) = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM observations o WHERE " + clause + " LIMIT ?)",
            [*values, FEW + 1],
        ).fetchone()
        if count <= FEW:
            rows = connection.execute(
                "SELECT o.id FROM observations o WHERE " + clause + filters.where,
                [*values, *filters.values],
            )
            return sorted(rowid for (rowid,) in rows)
    return None


# --- Ordering ---------------------------------------------------------------------------


def _ordered(
    connection: sqlite3.Connection, hits: Hits, query: ObservationQuery, limit: int
) -> list[int]:
    ranks: dict[int, tuple[float, ...]]
    if query.order_by == "relevance":
        ranks = {rowid: (score,) for rowid, score in hits.items()}
    else:
        times = dict(connection.execute(TIMES, (to_json(list(hits)),)).fetchall())
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
    rows = dict_rows(connection, PREVIEWS, [PREVIEW, to_json(list(ids))])
    found = {row["id"]: ObservationPreview.model_construct(**row) for row in rows}
    return [found[rowid] for rowid in ids if rowid in found]


# --- The search language ----------------------------------------------------------------


def alternatives(query: str) -> list[str]:
    """Return the FTS5 expressions of which a row must match one; none if there is no word.

    Raises:
        ValidationError: The query is empty, or its operators do not fit together.
    """
    if not query.strip():
        raise ValidationError("query must not be empty", "VAL_001")
    if len(query) > MAX_QUERY:
        raise ValidationError(f"query must not be longer than {MAX_QUERY} characters", "VAL_003")
    tokens = _tokens(query.replace("\0", " "))
    return _QueryParser(tokens).either(0) if tokens else []


def plain_words(query: str) -> list[str]:
    """Return a plain question's keywords, quoted; none if it is one word or has syntax."""
    if '"' in query or any(word in _OPERATORS or word.endswith("*") for word in query.split()):
        return []
    words = dict.fromkeys(word.lower() for word in re.findall(r"\w+", query))
    keywords = [word for word in words if word not in _STOP_WORDS and word.strip("_")]
    return [f'"{word}"' for word in keywords[:MAX_WORDS]] if len(words) > 1 else []


def _wrong(what: str) -> ValidationError:
    return ValidationError(
        f'malformed query: {what}. Use words, AND, OR, NOT, "a phrase" and prefix*.', "VAL_004"
    )


def _tokens(query: str) -> list[str]:
    """Cut a query into operators, parentheses and quoted terms."""
    if query.count('"') % 2:
        raise _wrong('unbalanced quotes, a phrase is opened with " and never closed')
    # Without operators there is nothing to group: (int)x is three plain words.
    grouping = any(word.strip("()") in _OPERATORS for word in query.split())
    tokens: list[str] = []
    terms = depth = position = 0
    while found := _TOKEN.search(query, position):
        position = found.end()
        if found["open"]:
            tokens.extend("(" * grouping)
            depth += grouping
            continue
        word = found["word"] or ""
        closing = max(word.count(")") - word.count("("), 0) if grouping else 0
        # Text right after a closing parenthesis, without a space, is part of the word.
        closing = min(closing, len(word) - len(word.rstrip(")")))
        word = word[: len(word) - closing]
        depth -= closing
        if depth < 0:
            raise _wrong("a closing parenthesis has no opening one")
        if word in _OPERATORS:
            tokens.append(word)
        elif term := _term(found["phrase"], word):
            terms += 1
            tokens.extend([term] * (terms <= MAX_TERMS))
        tokens.extend(")" * closing)
    if depth:
        raise _wrong("an opening parenthesis is never closed")
    return tokens


def _term(phrase: str | None, word: str) -> str:
    """Quote a term; one without a letter or digit is none."""
    text = word if phrase is None else phrase
    prefix = phrase is None and text.endswith("*")
    if not any(character.isalnum() for character in text):
        return ""
    if prefix and len(text.rstrip("*")) < SHORTEST_PREFIX:
        raise _wrong(f"a prefix needs at least {SHORTEST_PREFIX} characters before the *")
    return f'"{text.rstrip("*")}" *' if prefix else f'"{text}"'


def _joined(parts: Sequence[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else f"({operator.join(parts)})"


class _QueryParser:
    """NOT binds tighter than AND, AND tighter than OR; words in a row mean AND."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def either(self, depth: int) -> list[str]:
        """Read alternatives, up to the end or to a closing parenthesis."""
        parts = [self._both(depth)]
        while self._next == "OR":
            self._at += 1
            parts.append(self._both(depth))
        return parts

    def _both(self, depth: int) -> str:
        wanted, unwanted = [self._one(depth)], []
        while self._next not in (None, "OR", ")"):
            operator = self._next
            self._at += operator in _OPERATORS
            # `a AND NOT b` is no FTS5, but people write it.
            if operator == "NOT" or (operator == "AND" and self._next == "NOT"):
                self._at += operator == "AND"
                unwanted.append(self._one(depth))
            else:
                wanted.append(self._one(depth))
        both = _joined(wanted, " AND ")
        return f"({both} NOT {_joined(unwanted, ' OR ')})" if unwanted else both

    def _one(self, depth: int) -> str:
        found = self._next
        if found is None or found in (")", *_OPERATORS):
            before = self._tokens[self._at - 1] if self._at else ""
            name = found if found in _OPERATORS else before
            raise _wrong(
                f"{name} needs a term on both sides; put quotes around a word that is meant"
                if name in _OPERATORS
                else "there is nothing between two parentheses"
            )
        self._at += 1
        if found != "(":
            return found
        if depth == MAX_DEPTH:
            raise _wrong(f"parentheses are nested deeper than {MAX_DEPTH}")
        inner = _joined(self.either(depth + 1), " OR ")
        self._at += 1  # The closing one: _tokens has counted them.
        return inner

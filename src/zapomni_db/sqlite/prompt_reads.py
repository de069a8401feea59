"""What a prompt or a failure brings back, read by words alone. Standard library only, for hooks.

None of the statements reads more rows than it names, however large the file is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import LiteralString
else:
    import _sqlite3 as sqlite3  # without `datetime`, which a hook does not need

__all__ = [
    "ALIASES",
    "EVERY_PROJECT",
    "IS_OFF",
    "RECALLED_TYPES",
    "FoundObservation",
    "count_texts",
    "givable_observations",
    "is_prompt_recall_on",
    "last_failure",
    "match_observations",
    "read_switches",
    "switch_prompt_recall",
    "word_frequencies",
]

RECALLED_TYPES = ("assistant_message", "user_answer", "git_commit", "marker", "user_prompt")
"""Observations that say something to someone who was not there."""

EVERY_PROJECT = "*"
"""In place of a project's key: all that have no switch of their own."""

# A word that more texts have says little; to rank all of them would take too long.
MOST_TEXTS = 500
MOST_WORDS = 12

# All other keys of a project.
ALIASES: LiteralString = "SELECT alias FROM project_aliases WHERE project_key = ? ORDER BY alias"

# Whether the context of a project is switched off: then nothing is given there.
IS_OFF: LiteralString = "SELECT 1 FROM projects WHERE key = ? AND injection = 0"

# In how many texts a word occurs, as far as it matters.
FREQUENCY: LiteralString = """
SELECT (SELECT count(*) FROM (SELECT 1 FROM memory_digest_fts WHERE memory_digest_fts MATCH ?1
        LIMIT ?2))
    + (SELECT count(*) FROM (SELECT 1 FROM observations_fts WHERE observations_fts MATCH ?1
        LIMIT ?2))"""

# Ids grow with the number of texts: near enough, and read at once.
TEXTS: LiteralString = """
SELECT coalesce((SELECT max(key) FROM memory_digest), 0)
    + coalesce((SELECT max(id) FROM observations), 0)"""

# Observations that have any of the words, best first; those of the running session are known to it,
# and the history of a repository is not what an agent did.
MATCHING: LiteralString = (
    "SELECT o.id, o.obs_type, o.timestamp, o.content FROM observations_fts"
    " CROSS JOIN observations o ON o.id = observations_fts.rowid"
    " WHERE observations_fts MATCH ? AND o.session_id <> ? AND o.host <> 'git-history'"
)

# One observation of another session, if it is informative.
BY_ID: LiteralString = """
SELECT id, obs_type, timestamp, content, project FROM observations
WHERE id = ? AND session_id <> ? AND host <> 'git-history'"""

# The last failure of a session since the prompt before the latest one.
LAST_FAILURE: LiteralString = """
SELECT signature, event_hash FROM observations WHERE session_id = ?1 AND signature IS NOT NULL
    AND id > coalesce((SELECT id FROM observations
        WHERE session_id = ?1 AND +obs_type = 'user_prompt' ORDER BY id DESC LIMIT 1 OFFSET 1), 0)
ORDER BY id DESC LIMIT 1"""

SWITCHES: LiteralString = "SELECT project, prompts FROM recall_switches"
PUT_SWITCH: LiteralString = """
INSERT INTO recall_switches (project, prompts) VALUES (?, ?)
ON CONFLICT (project) DO UPDATE SET prompts = excluded.prompts"""
DELETE_SWITCHES: LiteralString = "DELETE FROM recall_switches"


class FoundObservation:
    """An observation that has words of a prompt."""

    __slots__ = ("content", "id", "obs_type", "timestamp")

    def __init__(self, observation_id: int, obs_type: str, timestamp: int, content: str) -> None:
        self.id = observation_id
        self.obs_type = obs_type
        self.timestamp = timestamp
        self.content = content


def _phrase(word: str) -> str:
    return '"' + word.replace('"', '""').replace("\0", " ") + '"'


def count_texts(connection: sqlite3.Connection) -> int:
    """Return about how many memories and observations there are."""
    ((total,),) = connection.execute(TEXTS)
    return int(total)


def word_frequencies(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """Return in how many texts each word occurs, at most `MOST_TEXTS` of each kind."""
    found = {}
    for word in words:
        ((number,),) = connection.execute(FREQUENCY, (_phrase(word), MOST_TEXTS))
        found[word] = int(number)
    return found


def match_observations(
    connection: sqlite3.Connection,
    frequencies: dict[str, int],
    projects: Sequence[str],
    session: str,
    limit: int,
) -> list[FoundObservation]:
    """Return informative observations of other sessions that have any of the rare words.

    Args:
        connection: The local file.
        frequencies: The words, and in how many texts each occurs.
        projects: The keys of the project.
        session: The running one.
        limit: How many at most.
    """
    rare = [word for word, number in frequencies.items() if 0 < number < MOST_TEXTS]
    rare.sort(key=frequencies.__getitem__)
    if not rare or not projects:
        return []
    types: LiteralString = ", ".join(["?"] * len(RECALLED_TYPES))
    keys: LiteralString = ", ".join(["?"] * len(projects))
    rows = connection.execute(
        MATCHING + " AND o.obs_type IN (" + types + ") AND o.project IN (" + keys + ")"
        " ORDER BY bm25(observations_fts) LIMIT ?",
        (
            " OR ".join(map(_phrase, rare[:MOST_WORDS])),
            session,
            *RECALLED_TYPES,
            *projects,
            limit,
        ),
    )  # fmt: skip
    return [FoundObservation(*row) for row in rows]


def givable_observations(
    connection: sqlite3.Connection, ids: Iterable[int], projects: Sequence[str], session: str
) -> dict[int, FoundObservation]:
    """Return those of some observations that a prompt of a project may bring back."""
    found = {}
    for key in ids:
        for number, obs_type, moment, content, project in connection.execute(BY_ID, (key, session)):
            if obs_type in RECALLED_TYPES and project in projects:
                found[number] = FoundObservation(number, obs_type, moment, content)
    return found


def last_failure(connection: sqlite3.Connection, session: str) -> tuple[str, str] | None:
    """Return signature and event of a session's last failure that no prompt followed before."""
    found = connection.execute(LAST_FAILURE, (session,)).fetchone()
    return None if found is None else (str(found[0]), bytes(found[1]).hex())


def is_prompt_recall_on(connection: sqlite3.Connection, projects: Iterable[str]) -> bool:
    """Return whether prompts and failures of a project bring back memories."""
    switches = read_switches(connection)
    for key in projects:
        if key in switches:
            return switches[key]
    return switches.get(EVERY_PROJECT, True)


def read_switches(connection: sqlite3.Connection) -> dict[str, bool]:
    """Return the switches of projects, and of every project, by key."""
    try:
        return {key: bool(on) for key, on in connection.execute(SWITCHES)}
    except sqlite3.OperationalError:
        return {}  # An older file.


def switch_prompt_recall(connection: sqlite3.Connection, project: str, *, on: bool) -> None:
    """Switch it for a project, or for every project, those with switches of their own included."""
    if project == EVERY_PROJECT:
        connection.execute(DELETE_SWITCHES)
    connection.execute(PUT_SWITCH, (project, int(on)))

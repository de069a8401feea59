"""Which of the items a session was given its agent used: the agent's answer cites or names them.

Standard library only: a hook imports this when an agent has answered.
"""

from __future__ import annotations

from zapomni_db.sqlite.digest import memory_texts
from zapomni_db.sqlite.recalls import RecallUse, adopt_recalls, record_batch, unused_items

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from typing import LiteralString

__all__ = ["find_uses", "record_answer"]

_CONTENT: LiteralString = "SELECT ?, content FROM observations WHERE id = ?"

# So many words in a row are no coincidence if so many are longer than three letters, and all have
# so many letters together: "in the middle of the" is one.
RUN, LONG_WORDS, LETTERS = 5, 2, 18
# Of a text with fewer words all must be there, and it must have so many characters.
SHORTEST_TEXT = 12
# The beginning of a memory's id that people and agents write.
ID_CHARS = 8
MOST_MESSAGE_CHARS = 100_000


def record_answer(
    connection: sqlite3.Connection,
    home: str,
    host: str,
    session: str,
    project: str,
    message: str,
    now: float,
) -> None:
    """Count what the session was given and its agent's answer cites or names. Never raises.

    Tools do not know the session they are called from: what this host's tools gave in the project
    is first taken to be given in this session.

    Args:
        connection: The local file.
        home: The home folder.
        host: The host's name.
        session: The session's id.
        project: The project's key.
        message: The agent's answer.
        now: Seconds since 1970.
    """
    import sqlite3

    adopt_recalls(home, host, session, project, now)
    given = unused_items(home, session, now)
    if not given or not message:
        return
    memories = [item for item, kind in given if kind == "memory"]
    try:
        texts = memory_texts(connection, memories)
        for item, kind in given:
            if kind == "observation":
                texts.update(connection.execute(_CONTENT, (item, item)))
    except sqlite3.Error:
        texts = {}
    used = find_uses(message, {item: texts.get(item, "") for item, _ in given})
    uses = [RecallUse(now, session, how, items) for how, items in used.items()]
    record_batch(home, uses, lambda text: (text, 0))


def find_uses(message: str, given: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the ids that a message cites, and those of items that it names otherwise.

    Args:
        message: What the agent said.
        given: The texts of items by their ids.
    """
    message = message[:MOST_MESSAGE_CHARS].casefold()
    words = _words(message)
    flat = f" {' '.join(words)} "
    runs = {tuple(words[n : n + RUN]) for n in range(len(words) - RUN + 1)}
    used: dict[str, list[str]] = {"cited": [], "named": []}
    for item, text in given.items():
        if _cites(message, item):
            used["cited"].append(item)
        elif text and _names(runs, flat, _words(text.casefold())):
            used["named"].append(item)
    return used


def _cites(message: str, item: str) -> bool:
    if not item.isdecimal():
        return item.casefold()[:ID_CHARS] in message
    start = message.find(f"#{item}")
    while start >= 0:
        after = message[start + 1 + len(item) : start + 2 + len(item)]
        if not after.isdecimal():
            return True
        start = message.find(f"#{item}", start + 1)
    return False


def _names(runs: set[tuple[str, ...]], flat: str, words: list[str]) -> bool:
    if len(words) < RUN:
        whole = " ".join(words)
        return len(whole) >= SHORTEST_TEXT and f" {whole} " in flat
    for start in range(len(words) - RUN + 1):
        run = tuple(words[start : start + RUN])
        long = sum(len(word) > 3 for word in run)
        if run in runs and long >= LONG_WORDS and sum(map(len, run)) >= LETTERS:
            return True
    return False


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text).split()

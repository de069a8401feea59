"""What every engine decides alike: when names are equal or alike, and when a fact is replaced."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["EVER", "Statement", "fold", "likeness", "weigh", "when_replaced"]

# Somebody may state the same fact in every note; the newest changes are enough to look at.
MAX_CHANGES = 200
EVER = -62_135_596_800_000_000  # the first day of the year 1: since anybody can tell


def fold(name: str) -> str:
    """Return a name without regard to case, width and blanks."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def likeness(first: str, second: str) -> float:
    """Say how alike two folded names are, 0 to 1: the share of letter pairs they have in common."""
    ours, theirs = _pairs(first), _pairs(second)
    if not ours or not theirs:
        return float(first == second)
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


def _pairs(name: str) -> set[str]:
    padded = f" {name} "
    return {padded[i : i + 2] for i in range(len(padded) - 1)} if name else set()


def weigh(strength: float, support: int) -> float:
    """Return strength and support as one number: each further sentence adds a little."""
    return 1 - (1 - strength) / (1 + 0.1 * (support - 1))


class Statement(NamedTuple):
    """That a subject has a relationship to an object; times in microseconds since 1970."""

    target: str
    said: int
    since: int
    """`EVER` if nobody knows."""
    until: int | None


def when_replaced(statements: Sequence[Statement]) -> list[int | None]:
    """Say until when each statement holds, if a subject has one such relationship at a time.

    What is said later wins from the moment it begins. What was said before ends nothing, unless
    it announced a change that was still to come. Of one text, the later beginning ends the earlier
    one. Statements about the same object do not end each other.
    """
    changes = _changes(statements)
    return [_end_of(statement, changes) for statement in statements]


def _changes(statements: Iterable[Statement]) -> list[Statement]:
    """Leave out repetitions: saying again what was said last changes nothing.

    The second time is kept: the first may have been said together with something else.
    """
    changes: list[Statement] = []
    target, times = "", 0
    for statement in sorted(set(statements), key=lambda s: (s.said, s.since, s.target)):
        if statement.until is not None and statement.until <= statement.since:
            continue
        if statement.target != target:
            target, times = statement.target, 0
        dated = statement.since != statement.said
        times += not dated
        if dated or times <= 2:
            changes.append(statement)
    return changes[-MAX_CHANGES:]


def _end_of(statement: Statement, changes: Sequence[Statement]) -> int | None:
    ends = [] if statement.until is None else [statement.until]
    for other in changes:
        if other.target == statement.target:
            continue
        moment = other.since
        if other.said > statement.said and other.since <= statement.since:
            moment = other.said
        elif other.said < statement.said and other.since <= statement.said:
            continue
        # What was over by then, or began no later, replaces nothing.
        if moment > statement.since and (other.until is None or moment < other.until):
            ends.append(moment)
    return min(ends, default=None)

"""What every engine decides alike: which names are equal or alike, and when a fact is replaced."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from zapomni_db.graph_models import Edge, EdgeKey
from zapomni_db.models import EntityData

__all__ = [
    "ALIASES_SHOWN",
    "EVER",
    "LEAST_LIKENESS",
    "Statement",
    "Told",
    "alias_of",
    "beginning",
    "choose_aliases",
    "find_root",
    "fold",
    "join_edges",
    "likeness",
    "most_certain",
    "spans",
    "told_beginning",
    "weigh",
    "when_replaced",
]

R = TypeVar("R", bound=Hashable)
S = TypeVar("S", bound=Hashable)

# Somebody may state the same fact in every note; the newest changes are enough to look at.
MAX_CHANGES = 200
LEAST_LIKENESS = 0.45
ALIASES_SHOWN = 10
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


class Told(NamedTuple, Generic[R, S]):
    """A statement about a subject, and which relationship and sentence it is from."""

    subject: Hashable
    type: str
    relationship: R
    sentence: S
    statement: Statement


def spans(told: Iterable[Told[R, S]]) -> Iterator[tuple[R, S, int, int | None]]:
    """Yield the relationship, sentence, beginning and end of what is told, one at a time.

    All that is told of a subject with one type competes.
    """
    groups: dict[tuple[Hashable, str], list[Told[R, S]]] = {}
    for one in told:
        groups.setdefault((one.subject, one.type), []).append(one)
    for group in groups.values():
        ends = when_replaced([one.statement for one in group])
        for one, end in zip(group, ends, strict=True):
            yield one.relationship, one.sentence, one.statement.since, end


def beginning(said: int, valid_from: int | None, valid_to: int | None) -> int:
    """Say since when a sentence holds that was told at a time and may name its own dates."""
    if valid_from is not None:
        return valid_from
    # It was over when it was told, and nobody said when it began.
    return EVER if valid_to is not None and valid_to <= said else said


def told_beginning(said: int, since: int, valid_to: int | None) -> int | None:
    """Return the date a sentence named for its beginning, if it did: the way back."""
    return None if since == beginning(said, None, valid_to) else since


# --- Entities ---------------------------------------------------------------------------


def most_certain(mentions: Iterable[EntityData]) -> dict[str, EntityData]:
    """Return of each entity the mention that is most certain, by id."""
    best: dict[str, EntityData] = {}
    for mention in mentions:
        known = best.get(mention.entity_id)
        if known is None or mention.confidence > known.confidence:
            best[mention.entity_id] = mention
    return best


def alias_of(mention: EntityData) -> tuple[str, str] | tuple[None, None]:
    """Return the words of a mention, as they are and folded, if they are not the name."""
    folded = fold(mention.surface)
    if not folded or folded == fold(mention.name):
        return None, None
    return " ".join(mention.surface.split()), folded


def choose_aliases(name: str, merged: Sequence[str], written: Sequence[str]) -> list[str]:
    """Return other names to show, the first spelling of each: of merged entities, then texts."""
    distinct = {fold(alias): alias for alias in reversed([*merged, *written])}
    distinct.pop(fold(name), None)
    return list(reversed(distinct.values()))[:ALIASES_SHOWN]


def find_root(
    entity_id: str, target_of: Callable[[str], str | None], exists: Callable[[str], bool]
) -> str | None:
    """Follow merges to the last entity that exists; None: it stands for itself."""
    root: str | None = None
    seen = {entity_id}
    while (target := target_of(entity_id)) is not None:
        if target in seen:
            # Merges made while one of them was gone may close a circle: then each is itself.
            return None
        entity_id = target
        seen.add(entity_id)
        root = entity_id if exists(entity_id) else root
    return root


def join_edges(edges: Iterable[tuple[EdgeKey, float, int]]) -> list[Edge]:
    """Join what is said of merged entities, and leave out what they say of each other."""
    joined: dict[EdgeKey, tuple[float, int]] = {}
    for key, strength, support in edges:
        if key.source_id != key.target_id:
            known = joined.get(key, (0.0, 0))
            joined[key] = max(known[0], strength), known[1] + support
    return [Edge(key, *both, weigh(*both)) for key, both in joined.items()]

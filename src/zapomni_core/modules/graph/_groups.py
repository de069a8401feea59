"""Names in a sentence: which are listed together, which stand near, and when it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from zapomni_core.modules.graph._dates import window_of
from zapomni_core.modules.graph._tokens import Sentence
from zapomni_db.models import EntityData

__all__ = [
    "Group",
    "Reading",
    "Statement",
    "groups",
    "together",
    "validity",
    "versions",
    "words_of",
]

# How many names may stand between two that belong together.
NEAREST = 3
# Nobody states something about more things at once.
MOST_LISTED = 12

_WORD = re.compile(r"'s\b|[^\s,\"'`*_.]+(?:['._][^\s,\"'`*.]+)*")
_NOT_LINKED = frozenset({"DATE", "SELF", "VERSION"})
_VERSIONED = frozenset({"TECHNOLOGY", "PACKAGE"})
_AND = frozenset({",", "and", "or", "&", ", and", ", or", "/", "+", "und", "et", "y", "\u0438"})
_UNTIL = frozenset({"until", "till", "through"})


class Group(NamedTuple):
    """Names that are listed together, and the stretch they take."""

    members: list[EntityData]
    start: int
    end: int


class Reading(NamedTuple):
    """A sentence, ready to be read."""

    text: str
    sentence: Sentence
    groups: list[Group]


class Statement(NamedTuple):
    """Who, what and to whom."""

    subject: EntityData
    object: EntityData
    type: str
    strength: float
    source: str = "rules"


def groups(text: str, entities: Sequence[EntityData]) -> list[Group]:
    """Names in order; those of a list (`A, B and C`) as one, versions with what they belong to."""
    found: list[Group] = []
    for entity in entities:
        if entity.type == "DATE":
            continue
        last = found[-1] if found else None
        between = text[last.end : entity.start_char].strip() if last else ""
        kind = last.members[-1].type if last else ""
        if last and entity.type == "VERSION" and kind in _VERSIONED and not between:
            found[-1] = last._replace(end=entity.end_char)
        elif last and entity.type == kind and between in _AND and len(last.members) < MOST_LISTED:
            found[-1] = Group([*last.members, entity], last.start, entity.end_char)
        else:
            found.append(Group([entity], entity.start_char, entity.end_char))
    return found


def versions(entities: Sequence[EntityData]) -> Iterator[Statement]:
    """A version carries the name of what it is one of."""
    thing: EntityData | None = None
    for entity in entities:
        if entity.type in _VERSIONED:
            thing = entity
        elif entity.type == "VERSION" and thing and entity.name.startswith(f"{thing.name} "):
            yield Statement(thing, entity, "HAS_VERSION", 0.9)


def together(entities: Sequence[EntityData], stated: set[frozenset[str]]) -> Iterator[Statement]:
    """Names that stand near each other; nothing more is said about them."""
    linked = [entity for entity in entities if entity.type not in _NOT_LINKED]
    seen = set(stated)
    for index, first in enumerate(linked):
        for gap, second in enumerate(linked[index + 1 : index + 1 + NEAREST]):
            pair = frozenset((first.entity_id, second.entity_id))
            if len(pair) == 2 and pair not in seen:
                seen.add(pair)
                # The same two always in the same order: nothing says who does what.
                low, high = sorted((first, second), key=lambda entity: entity.entity_id)
                yield Statement(low, high, "RELATED_TO", (0.4, 0.3, 0.2)[gap], "cooccurrence")


def validity(text: str, entities: Sequence[EntityData]) -> tuple[datetime | None, datetime | None]:
    """Since when and until when, if the sentence says so."""
    dates = [(entity, window_of(entity.name)) for entity in entities if entity.type == "DATE"]
    known = [(entity, window) for entity, window in dates if window is not None]
    if not known or len(known) != len(dates):
        return None, None
    entity, (since, until) = known[0]
    lead = words_of(text[max(0, entity.start_char - 20) : entity.start_char])[-1:]
    if len(known) == 2 and lead and lead[0] in ("between", "from"):
        return since, known[1][1][1]
    if len(known) > 1:
        return None, None
    if lead and lead[0] in _UNTIL:
        return None, until
    return since, None


def words_of(text: str) -> list[str]:
    """Return the words of a stretch, in lower case, without marks around them."""
    return [word.lower() for word in _WORD.findall(text)]

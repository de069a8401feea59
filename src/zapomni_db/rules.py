"""Rules that both storage engines share.

Which names are equal or alike, when a statement is replaced by another one, how merges are
followed, and which versions a memory had.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from zapomni_db.exceptions import NotFoundError, ValidationError, ZapomniError
from zapomni_db.values import write_time

# A search imports this file for `fold`, and needs no model of the graph.
if TYPE_CHECKING:
    from zapomni_db.graph_models import Edge, EdgeKey, MemoryVersion
    from zapomni_db.models import EntityData, MemoryPatch

__all__ = [
    "ALIASES_SHOWN",
    "COOCCURRENCE",
    "EVER",
    "FACTS",
    "FIELDS",
    "FORMS",
    "HOME_FIELDS",
    "LEAST_LIKENESS",
    "RELATED",
    "SHOWN",
    "Replaced",
    "Statement",
    "SubjectStatement",
    "alias_of",
    "beginning",
    "choose_aliases",
    "find_root",
    "fold",
    "join_edges",
    "last_ended",
    "likeness",
    "most_certain",
    "refuse_superseding",
    "replaced_fields",
    "sort_versions",
    "spans",
    "stated_beginning",
    "versions_of",
    "weigh",
    "when_replaced",
]


R = TypeVar("R", bound=Hashable)
S = TypeVar("S", bound=Hashable)

# The same fact may be stated in every note; only the newest changes are compared.
MAX_CHANGES = 200
LEAST_LIKENESS = 0.45
FACTS = ("DATE", "REFERENCE", "SELF", "URL", "VERSION")
"""Types of what is said about things: found and read, but no nodes of the picture."""
FORMS = (
    "CODEOWNERS", "Cargo.lock", "Cargo.toml", "Gemfile", "Gemfile.lock", "composer.json", "go.mod",
    "package-lock.json", "package.json", "poetry.lock", "pyproject.toml", "requirements-dev.txt",
    "requirements.txt", "uv.lock", "yarn.lock",
)  # fmt: skip
"""Files that state relationships by their form. Of other indexed code only its first passages
are read into the graph, for what they import: the rest has a graph of its own."""
SHOWN = 0.5
"""A name is a node when the confidences of its mentions add up to this: one sure mention does, and
so do several of a word that is only written like a name."""
ALIASES_SHOWN = 10
EVER = -62_135_596_800_000_000  # the first day of the year 1: the beginning is not known


def fold(name: str) -> str:
    """Return a name without regard to case, width and blanks."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    return " ".join(name.casefold().split())


def likeness(first: str, second: str) -> float:
    """Return how alike two folded names are, 0 to 1: their share of common letter pairs."""
    ours, theirs = _pairs(first), _pairs(second)
    if not ours or not theirs:
        return float(first == second)
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


def _pairs(name: str) -> set[str]:
    padded = f" {name} "
    return {padded[i : i + 2] for i in range(len(padded) - 1)} if name else set()


COOCCURRENCE = "cooccurrence"
"""The source of evidence that only names two entities together."""
RELATED = "RELATED_TO"
"""The type of relationships of which no more than that is known."""


def weigh(strength: float, support: int) -> float:
    """Return strength and support as one number: each further sentence adds a little."""
    return 1 - (1 - strength) / (1 + 0.1 * (support - 1))


class Statement(NamedTuple):
    """That a subject has a relationship to an object; times in microseconds since 1970."""

    target: str
    said: int
    since: int
    """`EVER` if it is not known."""
    until: int | None


def when_replaced(statements: Sequence[Statement]) -> list[int | None]:
    """Return until when each statement holds, if a subject has one such relationship at a time.

    A later statement wins from the moment it begins. An earlier one ends nothing, unless it
    announced a change that was still to come. Of one text, the later beginning ends the earlier
    one. Statements about the same object do not end each other.
    """
    changes = _changes(statements)
    return [_end_of(statement, changes) for statement in statements]


def _changes(statements: Iterable[Statement]) -> list[Statement]:
    """Drop repetitions: stating the last statement again changes nothing.

    The second time remains: the first may have been stated together with something else.
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
        # A statement that had ended by then, or began no later, replaces nothing.
        if moment > statement.since and (other.until is None or moment < other.until):
            ends.append(moment)
    return min(ends, default=None)


class SubjectStatement(NamedTuple, Generic[R, S]):
    """A statement about a subject, and which relationship and sentence it is from."""

    subject: Hashable
    type: str
    relationship: R
    sentence: S
    statement: Statement


def spans(statements: Iterable[SubjectStatement[R, S]]) -> Iterator[tuple[R, S, int, int | None]]:
    """Yield the relationship, sentence, beginning and end of each statement.

    All statements about a subject with one type compete.
    """
    groups: dict[tuple[Hashable, str], list[SubjectStatement[R, S]]] = {}
    for one in statements:
        groups.setdefault((one.subject, one.type), []).append(one)
    for group in groups.values():
        ends = when_replaced([one.statement for one in group])
        for one, end in zip(group, ends, strict=True):
            yield one.relationship, one.sentence, one.statement.since, end


def beginning(said: int, valid_from: int | None, valid_to: int | None) -> int:
    """Return since when a sentence holds that was said at a time and may name its own dates."""
    if valid_from is not None:
        return valid_from
    # It had ended when it was said, and when it began is not known.
    return EVER if valid_to is not None and valid_to <= said else said


def stated_beginning(said: int, since: int, valid_to: int | None) -> int | None:
    """Return the date a sentence named for its beginning, if it did: the inverse of `beginning`."""
    return None if since == beginning(said, None, valid_to) else since


# --- Entities ---------------------------------------------------------------------------


def most_certain(mentions: Iterable[EntityData]) -> dict[str, EntityData]:
    """Return the most certain mention of each entity, by id."""
    best: dict[str, EntityData] = {}
    for mention in mentions:
        known = best.get(mention.entity_id)
        if known is None or mention.confidence > known.confidence:
            best[mention.entity_id] = mention
    return best


def alias_of(mention: EntityData) -> tuple[str, str] | tuple[None, None]:
    """Return the words of a mention, unchanged and folded, if they are not the name."""
    if mention.surface == mention.name:  # most are
        return None, None
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
    """Follow merges to the last entity that exists; None: the entity is a root."""
    root: str | None = None
    seen = {entity_id}
    while (target := target_of(entity_id)) is not None:
        if target in seen:
            # Merges made while one of them was missing may close a circle: then each is a root.
            return None
        entity_id = target
        seen.add(entity_id)
        root = entity_id if exists(entity_id) else root
    return root


def join_edges(edges: Iterable[tuple[EdgeKey, float, int]]) -> list[Edge]:
    """Join the relationships of merged entities, without those between them."""
    from zapomni_db.graph_models import Edge

    joined: dict[EdgeKey, tuple[float, int]] = {}
    for key, strength, support in edges:
        if key.source_id != key.target_id:
            known = joined.get(key, (0.0, 0))
            joined[key] = max(known[0], strength), known[1] + support
    # The strength of an association counts the sentences already.
    return [
        Edge(key, *both, both[0] if key.type == RELATED else weigh(*both))
        for key, both in joined.items()
    ]


def last_ended(
    statements: Iterable[tuple[EdgeKey, int | None, S]],
    holding: Collection[EdgeKey],
    now: int,
    limit: int,
) -> list[tuple[EdgeKey, int, S]]:
    """Return relationships that no longer hold, the last to end first: each by its last statement.

    Args:
        statements: A relationship, when this statement of it ended, and the statement; the
            strongest first.
        holding: The relationships that hold.
        now: Until when something may have ended.
        limit: How many to return.
    """
    last: dict[EdgeKey, tuple[int, S]] = {}
    for key, end, statement in statements:
        if end is None or end > now or key in holding or key.source_id == key.target_id:
            continue
        if key not in last or end > last[key][0]:
            last[key] = end, statement
    order = sorted(last.items(), key=lambda item: (-item[1][0], item[0]))
    return [(key, *ended) for key, ended in order[:limit]]


# --- Replaced memories ------------------------------------------------------------------


def refuse_superseding(*, is_known: bool) -> ZapomniError:
    """Return why a memory cannot be replaced: it is missing, or was stored later."""
    if not is_known:
        return NotFoundError("No memory has the id given in supersedes; nothing was stored.")
    return ValidationError(
        "A memory replaces only what was stored before it; nothing was changed. Let the later one "
        "replace this one, or forget it.",
        "VAL_004",
    )


# --- Versions of memories ---------------------------------------------------------------


# The fields that have a history, and those whose history is this home's own: other devices decide
# for themselves.
FIELDS = ("metadata", "project", "source", "kind", "tags", "pinned", "expires_at")
HOME_FIELDS = ("trusted",)


class Replaced(NamedTuple):
    """What a change replaced: the changed fields before it, and the text if it changed."""

    replaced_at: datetime
    fields: dict[str, Any]
    text: str | None


def replaced_fields(
    before: Mapping[str, Any], patch: MemoryPatch
) -> tuple[dict[str, Any], str | None] | None:
    """Return the fields, and the text, that a patch replaces; None if it changes nothing."""
    fields = {
        name: before[name]
        for name in (*FIELDS, *HOME_FIELDS)
        if (given := getattr(patch, name)) is not None and _as_kept(name, given) != before[name]
    }
    text = before["text"] if patch.text is not None and patch.text != before["text"] else None
    return (fields, text) if fields or text is not None else None


def _as_kept(name: str, given: Any) -> Any:
    """Return a value of a patch as the state of a memory has it."""
    if name == "tags":
        return sorted(set(given))
    if name == "expires_at":
        from zapomni_db.models import NEVER

        return None if given == NEVER else write_time(given)
    return given


def versions_of(
    memory_id: str,
    state: Mapping[str, Any],
    changes: Iterable[Replaced],
    created: datetime,
    superseded: datetime | None,
    superseded_by: str | None,
) -> Iterator[MemoryVersion]:
    """Yield the versions of a memory from its state and its changes, both newest first."""
    from zapomni_db.graph_models import MemoryVersion

    current = dict(state)
    until = superseded
    for replaced_at, before, text in [*changes, Replaced(created, {}, None)]:
        yield MemoryVersion(
            memory_id=memory_id,
            text=current["text"],
            fields={name: current[name] for name in (*FIELDS, *HOME_FIELDS)},
            valid_from=replaced_at,
            valid_to=until,
            changed=[*before, *(["text"] if text is not None else [])],
            superseded_by=superseded_by if until == superseded else None,
        )
        current |= before
        current["text"] = text if text is not None else current["text"]
        until = replaced_at


def sort_versions(versions: Iterable[MemoryVersion]) -> list[MemoryVersion]:
    """Return versions, oldest first; of two that begin at once, the one that ended first."""
    return sorted(versions, key=lambda v: (v.valid_from, v.valid_to is None, v.valid_to))

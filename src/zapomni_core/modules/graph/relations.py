"""What a text states about the things it names, sentence by sentence.

The phrases that state something are in `phrases.txt`, read once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple

from zapomni_core.modules.graph.words import TextSentence, sentences
from zapomni_core.shared.dates import window_of
from zapomni_db.models import EntityData, RelationshipData

__all__ = [
    "ADVERBS",
    "AUXILIARIES",
    "BARE",
    "BLOCKERS",
    "CONDITIONS",
    "DETERMINERS",
    "HOLDING",
    "IN_FRONT",
    "PARTS",
    "PRODUCTS",
    "QUESTION_STARTS",
    "SINGLE_VALUED",
    "UNCERTAIN",
    "WEAK",
    "Group",
    "SentenceReading",
    "StatedRelation",
    "Wording",
    "groups",
    "relate",
    "statements",
    "table",
    "together",
    "validity",
    "versions",
    "with_evidence",
    "words_of",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SINGLE_VALUED = frozenset({"WORKS_AT", "LOCATED_IN", "REPLACED_BY", "DEFINED_IN"})
"""Of these, a newer statement about the same subject ends the older one; others add up."""

_STATEMENT = re.compile(
    r"(?P<type>[A-Z_]+): (?P<first>.+) (?P<way>->|<-) (?P<second>[^\d]+?)(?: (?P<strength>[\d.]+))?"
)
_GROUP = re.compile(r"# (?P<name>[a-z]+) +(?P<types>[A-Z]+(?: [A-Z]+)*)")


class Wording(NamedTuple):
    """A statement: its type, what may be first and second, and which of them is the subject."""

    type: str
    first: frozenset[str]
    second: frozenset[str]
    reverse: bool
    strength: float


@lru_cache(maxsize=1)
def table() -> dict[str, list[Wording]]:
    """Return what each phrase may state, most likely first."""
    found: dict[str, list[Wording]] = {}
    groups: dict[str, frozenset[str]] = {}
    phrase: Wording | None = None
    file = resources.files(__package__).joinpath("phrases.txt")
    for line in file.read_text(encoding="utf-8").splitlines():
        if group := _GROUP.fullmatch(line):
            groups[group["name"]] = _words(group["types"])
        elif statement := _STATEMENT.fullmatch(line):
            first, second = (
                frozenset().union(*(groups.get(name, {name}) for name in statement[side].split()))
                for side in ("first", "second")
            )
            strength = float(statement["strength"] or 0.9)
            phrase = Wording(statement["type"], first, second, statement["way"] == "<-", strength)
        elif phrase is not None:
            for text in line.strip().removesuffix(",").split(", "):
                found.setdefault(text, []).append(phrase)
    return found


# Words in front of the first name, right before it, and between it and the second.
IN_FRONT = (
    (
        _words(
            "moved move moves moving switched switch switches switching migrated migrate "
            "migrates migrating changed change changing converted convert converting ported "
            "port porting went transition transitioned upgraded upgrade updated update bump "
            "перешли"
        ),
        _words("from \u0441"),
        _words("to \u043d\u0430"),
        "REPLACED_BY",
    ),
    (
        _words("replaced replace replaces replacing swap swapped substitute"),
        frozenset[str](),
        _words("with by"),
        "REPLACED_BY",
    ),
    (
        _words("prefers prefer preferred chose choose chosen picked favors recommend recommends"),
        frozenset[str](),
        _words("over"),
        "PREFERRED_OVER",
    ),
    (_words("rename renamed renames renaming"), frozenset[str](), _words("to"), "REPLACED_BY"),
    (
        _words("convert converts converting translate compile"),
        frozenset[str](),
        _words("to into"),
        "CONVERTED_TO",
    ),
    (
        _words("connect connects connected connecting"),
        frozenset[str](),
        _words("to with"),
        "CONNECTS_TO",
    ),
    (
        _words("run running runs install installed installing deploy deployed deploying"),
        frozenset[str](),
        _words("on"),
        "RUNS_ON",
    ),
)

# With one thing for a subject these are commands or wishes: "let Django use Redis".
BARE = frozenset(
    (
        "use|depend on|rely on|require|prefer|like|love|avoid|dislike|hate|choose|go with|fix"
        "|never use|do not use|don't use|no longer use|make use of|run|work with|recommend"
        "|support|raise|throw|live in|develop in|program in|code in|using|running"
    ).split("|")
)
AUXILIARIES = _words("is are was were has have had been being be am 'm 're 've it's can")
ADVERBS = _words(
    "also now currently already still always only mainly mostly primarily heavily directly "
    "internally usually just both basically simply really recently finally then actually often "
    "originally officially therefore automatically again fully natively later eventually widely "
    "commonly largely partly out"
)
DETERMINERS = _words(
    "the a an our its their his her my your this these those new old latest own same local "
    "existing current official popular simple open-source standard built-in default some any "
    "both all other another whole entire underlying"
)
# What belongs to a thing so closely that a statement about it is one about the thing.
PARTS = _words(
    "admin api app application service server client backend frontend module library framework "
    "package plugin project codebase repo cli sdk core engine runtime compiler integration "
    "extension implementation cluster container image code script tool tests docs documentation "
    "itself"
)
PRODUCTS = _words(
    "library libraries framework package module plugin extension client wrapper binding "
    "bindings driver sdk tool toolkit interface adapter backend linter formatter parser server "
    "implementation port integration support api app cli checker runner compiler interpreter "
    "editor ide orm"
)
# Behind the verb these mean that the name is not its object.
BLOCKERS = _words(
    "of for in with from to by on via using like than as into about between without against per "
    "through and or but that which who when while if because is are was were be been not no it "
    "they we you he she i at so then where what how outside inside over under after before "
    "during until"
    " avoiding removing dropping"
)
# So short that nothing but an article may follow, and the name must be meant by itself.
WEAK = _words("in from of at to 's")
# What is held is the name itself, not something called after it.
HOLDING = _words("contains includes bundles ships provides exposes offers") | {
    "ships with",
    "comes with",
}
# A sentence with one of these in front of the statement does not claim it.
UNCERTAIN = _words(
    "if whether unless should could would might maybe perhaps suppose imagine wish not never "
    "don't didn't doesn't won't can't cannot isn't wasn't wouldn't shouldn't no nobody none "
    "neither nor without consider considering n't dont doesnt didnt cant wont isnt unlike "
    "avoid avoids avoiding attempt attempting remove removes removed removing delete deleted "
    "prevent prevents let's lets may ought hopefully ideally need wants want wanted plan plans "
    "planned planning try tried trying"
)
CONDITIONS = _words("if whether unless suppose imagine")
QUESTION_STARTS = _words(
    "who what when where why how which is are was were do does did can could should would will "
    "has have may shall anyone didn't isn't aren't don't"
)


# --- What a text states about the things it names, sentence by sentence ---------------


def relate(text: str, entities: Sequence[EntityData]) -> list[RelationshipData]:
    """Return what each sentence states, and which names merely occur together in one."""
    found: list[RelationshipData] = []
    ordered = sorted(entities, key=lambda entity: (entity.start_char, -entity.end_char))
    at = 0
    for sentence in sentences(text):
        inside: list[EntityData] = []
        while at < len(ordered) and ordered[at].start_char < sentence.end:
            if ordered[at].start_char >= sentence.start:
                inside.append(ordered[at])
            at += 1
        if len(inside) > 1:
            found += _of_sentence(text, sentence, inside)
    return found


def with_evidence(
    text: str, entities: Sequence[EntityData], relationships: Sequence[RelationshipData]
) -> list[RelationshipData]:
    """Add to a model's relationships the sentence that names both, else the one of the first."""
    named: list[tuple[TextSentence, set[str]]] = [
        (s, {e.entity_id for e in entities if s.start <= e.start_char < s.end})
        for s in sentences(text)
    ]
    found: list[RelationshipData] = []
    for relationship in relationships:
        source, target = relationship.source_entity_id, relationship.target_entity_id
        both = (sentence for sentence, ids in named if source in ids and target in ids)
        first = (sentence for sentence, ids in named if source in ids)
        sentence = next(both, None) or next(first)
        place = {"start_char": sentence.start, "end_char": sentence.end}
        evidence = {"evidence": text[sentence.start : sentence.end], **place}
        found.append(relationship.model_copy(update=evidence))
    return found


def _of_sentence(
    text: str, sentence: TextSentence, entities: Sequence[EntityData]
) -> Iterator[RelationshipData]:
    reading = SentenceReading(text, sentence, groups(text, entities))
    since, until = validity(text, entities)
    stated: set[frozenset[str]] = set()
    for statement in (*versions(entities), *statements(reading)):
        pair = frozenset((statement.subject.entity_id, statement.object.entity_id))
        if len(pair) == 2:
            stated.add(pair)
            yield _relationship(reading, statement, since, until)
    for statement in together(entities, stated):
        yield _relationship(reading, statement)


def _relationship(
    reading: SentenceReading,
    statement: StatedRelation,
    since: datetime | None = None,
    until: datetime | None = None,
) -> RelationshipData:
    start, end = reading.sentence.start, reading.sentence.end
    return RelationshipData.model_construct(
        source_entity_id=statement.subject.entity_id,
        target_entity_id=statement.object.entity_id,
        relationship_type=statement.type,
        strength=statement.strength,
        evidence=reading.text[start:end],
        start_char=start,
        end_char=end,
        source=statement.source,
        valid_from=since,
        valid_to=until,
    )


# --- Groups of names in a sentence, and when a statement holds ---------------------------------


# How many names may be between two that belong together.
NEAREST = 3
# No sentence states something about more things at once.
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


class SentenceReading(NamedTuple):
    """A sentence, ready to be read."""

    text: str
    sentence: TextSentence
    groups: list[Group]


class StatedRelation(NamedTuple):
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


def versions(entities: Sequence[EntityData]) -> Iterator[StatedRelation]:
    """A version carries the name of what it is one of."""
    thing: EntityData | None = None
    for entity in entities:
        if entity.type in _VERSIONED:
            thing = entity
        elif entity.type == "VERSION" and thing and entity.name.startswith(f"{thing.name} "):
            yield StatedRelation(thing, entity, "HAS_VERSION", 0.9)


def together(
    entities: Sequence[EntityData], stated: set[frozenset[str]]
) -> Iterator[StatedRelation]:
    """Yield pairs of names near each other; nothing more is stated about them."""
    linked = [entity for entity in entities if entity.type not in _NOT_LINKED]
    seen = set(stated)
    for index, first in enumerate(linked):
        for gap, second in enumerate(linked[index + 1 : index + 1 + NEAREST]):
            pair = frozenset((first.entity_id, second.entity_id))
            if len(pair) == 2 and pair not in seen:
                seen.add(pair)
                # The same two always in the same order: nothing says who does what.
                low, high = sorted((first, second), key=lambda entity: entity.entity_id)
                yield StatedRelation(low, high, "RELATED_TO", (0.4, 0.3, 0.2)[gap], "cooccurrence")


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


# --- What the words of a sentence state about the names in it -------------------------


LONGEST_PHRASE = 5
MOST_FILLERS = 4

_BREAK = re.compile(r"[;:()\[\]{}|?!\u2014]")
_PREPOSITIONS = frozenset(
    "of for in with from to by on via using like than as into about between without against per "
    "through".split()
)
_REPLACEABLE = frozenset({"TECHNOLOGY", "PACKAGE", "CODE", "VERSION"})
_THINGS = _REPLACEABLE | {"FILE"}
# What follows a comma and is still about the name before it.
_RELATIVE = re.compile(
    r"\s*,? (?:which|who|that|(?:originally )?(?:written|developed|created|built|designed|founded"
    r"|maintained|based|owned|powered|published|released|located|headquartered)) [^,]*$"
)
_FIXING = frozenset("fix fixes fixed close closes closed resolve resolves resolved".split())
_POSSESSIVE = re.compile(r"`?['\u2019]s\b")
_AHEAD = re.compile(r" ([a-z]{2,})")
_CLAUSE = re.compile(r"[,;:(]")
_DEFINITE = frozenset({"the", "our", "this", "my", "your"})


def statements(reading: SentenceReading) -> Iterator[StatedRelation]:
    """Return what is stated; nothing that is asked, denied, wished for or only possible."""
    if _is_question(reading):
        return
    for index, (first, second) in enumerate(pairwise(reading.groups)):
        between = reading.text[first.end : second.start]
        if _BREAK.search(between):
            continue
        front = words_of(reading.text[reading.sentence.start : first.start])
        if _is_uncertain(reading, first, front):
            continue
        words = [word for word in words_of(between) if word not in ADVERBS]
        # The words before a name that may be meant with it begin at the name before that one.
        lead = front
        if index and first.members[0].type != "VERSION":  # updated X from 1 to 2
            lead = words_of(reading.text[reading.groups[index - 1].end : first.start])
        yield from _in_front(first, second, lead, words)
        # In `the Rust HTTP server uses Python dicts` neither HTTP nor Python is meant.
        is_named = not _touch(reading, index - 1) and not _touch(reading, index + 1)
        if is_named and ("," not in between or _RELATIVE.match(between)):
            yield from _between(reading, first, second, front, words)
            yield from _made_for(reading, first, second, words)


def _touch(reading: SentenceReading, index: int) -> bool:
    """Return whether only a blank separates this group from the next."""
    if not 0 <= index < len(reading.groups) - 1:
        return False
    end, start = reading.groups[index].end, reading.groups[index + 1].start
    return start - end <= 2 and not reading.text[end:start].strip(" `")


def _is_uncertain(reading: SentenceReading, first: Group, front: Sequence[str]) -> bool:
    """Whether what comes before takes back what is said: not, if, should."""
    if any(word in CONDITIONS for word in front):
        return True
    clause = words_of(_CLAUSE.split(reading.text[reading.sentence.start : first.start])[-1])[-8:]
    # With a condition, a person still does it; a thing may never do it.
    if any(word in ("when", "whenever") for word in clause) and first.members[0].type != "SELF":
        return True
    return any(word in UNCERTAIN for word in clause)


def _between(
    reading: SentenceReading,
    first: Group,
    second: Group,
    front: Sequence[str],
    words: Sequence[str],
) -> Iterator[StatedRelation]:
    """A uses B."""
    # In `fixes #1 fixes #2` the first name belongs to the words before it.
    if front and (
        front[-1] in _PREPOSITIONS
        or (first.members[0].type == "REFERENCE" and front[-1] in _FIXING)
    ):
        return
    if _POSSESSIVE.match(reading.text, second.end):
        return
    head, rest = _after_head(words)
    if head and front and front[-1] not in _DEFINITE:
        return
    known = table()
    for size in range(min(LONGEST_PHRASE, len(rest)), 0, -1):
        text = " ".join(rest[:size])
        if text in known and _leads_to(reading, second, text, rest[size:]):
            # `use` can be said of several things and of us; else it `is using`.
            is_plural = len(first.members) > 1 or first.members[0].type == "SELF"
            skipped = words[: -len(rest)]
            if text in BARE and not is_plural and not {"is", "was", "are"} & set(skipped):
                return
            for phrase in known[text]:
                found = list(_stated(first, second, phrase, 0.8 if head else 1.0))
                if found:
                    yield from found
                    return
            return


def _leads_to(reading: SentenceReading, second: Group, phrase: str, words: Sequence[str]) -> bool:
    """Whether the words behind a phrase only lead up to the name: `the`, `our new`."""
    if phrase in WEAK and any(word not in DETERMINERS for word in words):
        return False
    if phrase in WEAK or phrase in HOLDING:
        behind = _AHEAD.match(reading.text, second.end)
        # In `Rust port` the noun behind the name is meant, in `foo() function` the name.
        if (
            behind
            and behind[1].lower() not in BLOCKERS
            and second.members[-1].type in ("TECHNOLOGY", "PLACE")
        ):
            return False
    if len(words) > MOST_FILLERS:
        return False
    return all(word in DETERMINERS or (word.isalpha() and word not in BLOCKERS) for word in words)


def _after_head(words: Sequence[str]) -> tuple[int, list[str]]:
    """Skip what still belongs to the subject, and auxiliaries; say how much belonged to it."""
    head = 0
    while head < min(2, len(words)) and words[head] in PARTS:
        head += 1
    rest = list(words[head:])
    if rest and rest[0] in ("which", "who", "that"):
        rest = rest[1:]
    while rest and rest[0] in AUXILIARIES and rest[1:2] != ["support"]:
        rest = rest[1:]
    return head, rest


def _stated(
    first: Group, second: Group, phrase: Wording, factor: float
) -> Iterator[StatedRelation]:
    strength = round(phrase.strength * factor, 2)
    for one in first.members:
        for other in second.members:
            if one.type in phrase.first and other.type in phrase.second:
                subject, target = (other, one) if phrase.reverse else (one, other)
                yield StatedRelation(subject, target, phrase.type, strength)


def _in_front(
    first: Group, second: Group, front: Sequence[str], words: Sequence[str]
) -> Iterator[StatedRelation]:
    """Moved from A to B; replaced A with B; prefers A over B."""
    link = [word for word in words if word not in DETERMINERS]
    lead = [word for word in front if word not in DETERMINERS]
    if len(link) != 1 or not lead:
        return
    for verbs, marks, links, kind in IN_FRONT:
        if link[0] not in links or (marks and lead[-1] not in marks):
            continue
        if any(word in verbs for word in (lead[-6:] if marks else lead[-1:])):
            for subject in first.members:
                for target in second.members:
                    if _is_replaceable(subject) and _is_replaceable(target):
                        yield StatedRelation(subject, target, kind, 0.8)


def _is_replaceable(entity: EntityData) -> bool:
    # A version of an unknown thing may be any number.
    return entity.type in _REPLACEABLE and (entity.type != "VERSION" or " " in entity.name)


def _made_for(
    reading: SentenceReading, first: Group, second: Group, words: Sequence[str]
) -> Iterator[StatedRelation]:
    """A is a plugin for B; A is a B plugin."""
    if not 2 <= len(words) <= 8 or any(word in BLOCKERS for word in words[1:-1]):
        return
    if words[0] not in ("is", "are") or words[1] not in ("a", "an", "the"):
        return
    behind = words_of(reading.text[second.end : second.end + 30])[:1]
    for_it = words[-1] == "for" and words[-2] in PRODUCTS
    of_it = behind and behind[0] in PRODUCTS and words[-1] not in BLOCKERS
    if for_it or of_it:
        for subject in first.members:
            for target in second.members:
                if subject.type in _THINGS and target.type == "TECHNOLOGY":
                    yield StatedRelation(subject, target, "IS_FOR", 0.8)


def _is_question(reading: SentenceReading) -> bool:
    begin, end = reading.sentence.start, reading.sentence.end
    last = reading.text[max(begin, end - 5) : end].rstrip("*_`\"')")
    if reading.sentence.question or last.endswith("?"):
        return True
    first = reading.text[begin : begin + 20].split(maxsplit=1)
    return bool(first) and first[0].lower() in QUESTION_STARTS

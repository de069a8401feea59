"""What a text states about the things it names, sentence by sentence.

The phrases that state something are in `phrases.txt`, read once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple

from zapomni_core.modules.graph.names import canonical_name, entity_id
from zapomni_core.modules.graph.words import TextSentence, sentences
from zapomni_core.shared.dates import window_of
from zapomni_db.models import EntityData, RelationshipData
from zapomni_db.rules import COOCCURRENCE, FACTS, RELATED, SHOWN

__all__ = [
    "SINGLE_VALUED",
    "StatedRelations",
    "relate",
    "table",
    "with_evidence",
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


@lru_cache(maxsize=1)
def _first_words() -> frozenset[str]:
    """Return the words that phrases begin with: most words begin none."""
    return frozenset(phrase.partition(" ")[0] for phrase in table())


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
_LINKS = frozenset[str]().union(*(links for _, _, links, _ in IN_FRONT))

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
    "itself corp inc ltd llc gmbh"
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
    " avoiding removing dropping every each"
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
    "planned planning try tried trying ability possible having dropping enabling "
    "revert reverts reverted reverting"
)
CONDITIONS = _words("if whether unless suppose imagine")
QUESTION_STARTS = _words(
    "who what when where why how which is are was were do does did can could should would will "
    "has have may shall anyone didn't isn't aren't don't"
)


# --- What a text states about the things it names, sentence by sentence ---------------


_RULES = "rules"


class StatedRelations(NamedTuple):
    """What the sentences of a text state."""

    relationships: list[RelationshipData]
    added: list[EntityData]
    """Things that have no name of their own, and unknown names: mentions that sentences need."""


def relate(
    text: str,
    entities: Sequence[EntityData],
    said_at: datetime | None = None,
    removed: Collection[str] = (),
) -> StatedRelations:
    """Return what each sentence states, and which names merely occur together in one.

    Args:
        text: The text.
        entities: The mentions in it.
        said_at: When it was said: until then held what it says is over. Without it nothing that
            is over is returned.
        removed: Names in lower case that the user does not want.
    """
    found: list[RelationshipData] = []
    added: dict[tuple[str, int], EntityData] = {}
    prose = _without_targets(text)
    if prose is not text:
        entities = [e for e in entities if not prose[e.start_char : e.end_char].isspace()]
    ordered = sorted(entities, key=lambda entity: (entity.start_char, -entity.end_char))
    at = 0
    for sentence in sentences(text):
        inside: list[EntityData] = []
        while at < len(ordered) and ordered[at].start_char < sentence.end:
            if ordered[at].start_char >= sentence.start:
                inside.append(ordered[at])
            at += 1
        unnamed = [
            one for one in _unnamed(prose, sentence, inside) if one.name.lower() not in removed
        ]
        if len(inside) + len(unnamed) < 2:
            continue
        evidence = text[sentence.start : sentence.end]
        reading = _SentenceReading(prose, sentence, evidence, _groups(prose, inside, unnamed))
        for relationship, needed in _of_sentence(reading, inside, said_at):
            found.append(relationship)
            for one in needed:
                added[one.entity_id, one.start_char] = one
    return StatedRelations(found, sorted(added.values(), key=lambda one: one.start_char))


# A link in Markdown, and a role in reStructuredText.
_LINK = re.compile(
    r"\[([^\[\]\n]{1,200})\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\[\]\n]*\])"
)
_ROLE = re.compile(r":[a-z]{2,12}:(?=`)")


def _without_targets(text: str) -> str:
    """Return a text with blanks in the place of what links lead to; places remain the same."""
    if "](" in text or "][" in text:
        text = _LINK.sub(lambda link: f" {link[1]}".ljust(len(link[0])), text)
    if ":`" in text:
        text = _ROLE.sub(lambda role: " " * len(role[0]), text)
    return text


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
    reading: _SentenceReading, entities: Sequence[EntityData], said_at: datetime | None
) -> Iterator[tuple[RelationshipData, list[EntityData]]]:
    """Yield what a sentence states, each with the unnamed things it is about."""
    since, until = _validity(reading.text, entities)
    known = set(map(id, entities))
    stated: set[frozenset[str]] = set()
    for statement in (*_versions(entities), *_statements(reading)):
        pair = frozenset((statement.subject.entity_id, statement.object.entity_id))
        if len(pair) < 2:
            continue
        stated.add(pair)
        begin, end = since, until
        if statement.ended:
            if said_at is None:
                continue
            begin, end = None, until or since or said_at
        needed = [one for one in statement[:2] if id(one) not in known]
        yield _relationship(reading, statement, begin, end), needed
    for statement in _together(entities, stated):
        yield _relationship(reading, statement), []


def _relationship(
    reading: _SentenceReading,
    statement: _StatedRelation,
    since: datetime | None = None,
    until: datetime | None = None,
) -> RelationshipData:
    start, end = reading.sentence.start, reading.sentence.end
    return RelationshipData.from_fields(
        source_entity_id=statement.subject.entity_id,
        target_entity_id=statement.object.entity_id,
        relationship_type=statement.type,
        strength=statement.strength,
        evidence=reading.evidence,
        start_char=start,
        end_char=end,
        source=statement.source,
        valid_from=since,
        valid_to=until,
        exclusive=statement.type in SINGLE_VALUED,
    )


# --- Things without a name of their own, and names that only their sentence makes known ---


# `the billing service`: what a noun phrase with one of these at its end is about, is a thing.
_HEADS = (
    "service|services|module|app|application|team|library|server|client|backend|frontend"
    "|pipeline|worker|job|database|cluster|api|gateway|dashboard|plugin|package|component"
    "|daemon|scheduler|website|site|repository|repo|platform|system|tool|bot|agent|sdk|cli"
    "|crawler|parser|proxy|queue|registry|portal|broker|store|engine"
)
# A set of characters first: the search skips the others.
_THE = (
    r"[EIMOTYeimoty](?<!\w.)(?:(?<=[Tt])(?:he|heir|his)|(?<=[Oo])ur|(?<=[Ii])ts|(?<=[Mm])y"
    r"|(?<=[Yy])our|(?<=[Ee])(?:ach|very))"
)
_UNNAMED = re.compile(rf"{_THE} +((?:[a-z][\w-]* ){{1,4}}?)({_HEADS}|API|SDK|CLI|UI)\b(?![\w-])")
# These say which one, not what it is called.
_QUALIFIERS = DETERMINERS | _words(
    "simplest best fastest smallest largest newest oldest "
    "more most less least main first second third next last previous whole entire following above "
    "below given various "
    "different many several few only very single particular specific certain said former legacy "
    "public private internal external central primary secondary real actual future shared common "
    "remote global small large big separate dedicated running available necessary required "
    "respective corresponding relevant appropriate correct wrong right original target source "
    "operating python java managed hosted upstream downstream production staging test of in on "
    "for to and or with from by at as per is are was were be that which who it its using used"
)
_CAPITAL = re.compile(r" [A-Z][a-z]")
_OWN_NAME = r"(?P<name>[A-Z][a-z]+[A-Za-z0-9]*(?: [A-Z][a-z]+[A-Za-z0-9]*){%s})"
# Verbs after which an unknown capitalised word is a thing: what is created or used has a name.
_NAMED_THING = re.compile(
    r"\b(?:created|wrote|built|developed|designed|launched|released|open-sourced|maintains"
    r"|maintained|uses|using|use|adopted|depends on|depend on|replaced by|replaced with"
    r"|superseded by|based on|built on|powered by|migrated to|switched to|moved to|runs on)"
    rf" (?:the |our |a |an )?{_OWN_NAME % '0,2'}(?![\w'\u2019/]| \d)"
)
_NAMED_PERSON = re.compile(
    r"\b(?:created|written|built|developed|designed|invented|founded|authored|maintained|reviewed"
    rf"|reported|contributed) by {_OWN_NAME % '1,2'}"
)


def _unnamed(text: str, sentence: TextSentence, entities: Sequence[EntityData]) -> list[EntityData]:
    """Return definite noun phrases and capitalised words that may be what a sentence is about."""
    found: list[EntityData] = []
    start, end = sentence.start, sentence.end
    taken = [(one.start_char, one.end_char) for one in entities]
    has_end = text.find("#", start, end) > 0
    if entities and has_end and (closing := _REFERENCE.search(text, start, end)):
        begin, stop = closing.span(1)
        if all(other <= begin or stop <= first for first, other in taken):
            found.append(_mention(text, begin, stop, "REFERENCE"))
    for match in _UNNAMED.finditer(text, start, end):
        words = [word for word in match[1].split() if word.lower() not in _QUALIFIERS]
        begin = match.start(2) - len(" ".join(words)) - 1
        if not words or not text.startswith(f"{' '.join(words)} ", begin):
            continue
        if all(stop <= begin or match.end() <= first for first, stop in taken):
            found.append(_mention(text, begin, match.end(), "COMPONENT"))
    if not entities:
        return found
    taken += [(one.start_char, one.end_char) for one in found]
    # Most sentences have no capital outside of the names that are known: looking for one is cheap.
    capitals = {match.start() + 1 for match in _CAPITAL.finditer(text, start, end)}
    capitals.difference_update(begin for begin, _ in taken)
    if all(any(first <= at < stop for first, stop in taken) for at in capitals):
        return found
    for pattern, kind in ((_NAMED_PERSON, "PERSON"), (_NAMED_THING, "TECHNOLOGY")):
        for match in pattern.finditer(text, start, end):
            begin, stop = match.span("name")
            if all(other <= begin or stop <= first for first, other in taken):
                found.append(_mention(text, begin, stop, kind))
                taken.append((begin, stop))
    return found


# The pull request or issue at the end of an entry of a changelog.
_REFERENCE = re.compile(
    r"\(\s*(?:[Ii]ssues? |[Pp][Rr] |[Cc]loses |[Ff]ixes )?\s*(#\d{1,7})\b[^()]*\)\W*$"
)


def _mention(text: str, start: int, end: int, kind: str) -> EntityData:
    name = canonical_name(text[start:end], kind)
    return EntityData.from_fields(
        entity_id=entity_id(name, kind),
        name=name,
        type=kind,
        description="",
        confidence=0.5,
        source=_RULES,
        surface=text[start:end],
        start_char=start,
        end_char=end,
        aliases=[],
    )


# --- Groups of names in a sentence, and when a statement holds ---------------------------------


# How many names may be between two that belong together.
NEAREST = 2
# No sentence states something about more things at once.
MOST_LISTED = 12

_WORD = re.compile(r"'s\b|[^\s,\"'`*_.]+(?:['._][^\s,\"'`*.]+)*")
_NOT_LINKED = frozenset(FACTS)
_VERSIONED = frozenset({"TECHNOLOGY", "PACKAGE"})
_AND = re.compile(
    r"(?:\s*,)?\s*(?:,|and|or|&|/|\+|as well as|und|et|y|\u0438)?\s*"
    r"(?:(?:the|our|a|an|its|their|also|both|then) )?\s*"
)
_LISTED = frozenset({"TECHNOLOGY", "PACKAGE", "COMPONENT", "CONCEPT"})
_UNTIL = frozenset({"until", "till", "through"})


class _NameGroup(NamedTuple):
    """Names that are listed together, and the stretch they take."""

    members: list[EntityData]
    start: int
    end: int
    version: EntityData | None = None
    """The version that is named with the last of them."""


class _SentenceReading(NamedTuple):
    """A sentence, ready to be read."""

    text: str
    sentence: TextSentence
    evidence: str
    """The sentence as it is written, with what links lead to."""
    groups: list[_NameGroup]


class _StatedRelation(NamedTuple):
    """Subject, object and what is stated; `ended` if it is said to be over."""

    subject: EntityData
    object: EntityData
    type: str
    strength: float
    source: str = _RULES
    ended: bool = False


def _groups(
    text: str, entities: Sequence[EntityData], unnamed: Sequence[EntityData]
) -> list[_NameGroup]:
    """Names in order; those of a list (`A, B and C`) as one, versions with what they belong to."""
    found: list[_NameGroup] = []
    every = sorted([*entities, *unnamed], key=lambda one: one.start_char) if unnamed else entities
    for entity in every:
        if entity.type == "DATE":
            continue
        last = found[-1] if found else None
        between = text[last.end : entity.start_char].strip("` *\n") if last else ""
        kind = last.members[-1].type if last else ""
        alike = entity.type == kind or (entity.type in _LISTED and kind in _LISTED)
        if last and entity.type == "VERSION" and kind in _VERSIONED and not between:
            found[-1] = last._replace(end=entity.end_char, version=entity)
        elif (
            last
            and between
            and alike
            and _lists(between, len(last.members))
            # In `to support IE11, Ember's proxies` another clause begins.
            and not (between == "," and _POSSESSIVE.match(text, entity.end_char))
        ):
            found[-1] = _NameGroup([*last.members, entity], last.start, entity.end_char)
        else:
            found.append(_NameGroup([entity], entity.start_char, entity.end_char))
    return found


def _lists(between: str, listed: int) -> bool:
    """Return whether words continue a list; in `A, and B` of two, another clause begins."""
    if listed >= MOST_LISTED or (listed == 1 and between.startswith(",") and len(between) > 1):
        return False
    return len(between) < 20 and _AND.fullmatch(f"{between} ") is not None


def _versions(entities: Sequence[EntityData]) -> Iterator[_StatedRelation]:
    """A version carries the name of what it is one of."""
    thing: EntityData | None = None
    for entity in entities:
        if entity.type in _VERSIONED:
            thing = entity
        elif entity.type == "VERSION" and thing and entity.name.startswith(f"{thing.name} "):
            yield _StatedRelation(thing, entity, "HAS_VERSION", 0.9)


def _together(
    entities: Sequence[EntityData], stated: set[frozenset[str]]
) -> Iterator[_StatedRelation]:
    """Yield pairs of names near each other, about which nothing more is stated.

    They have no strength: whether two names occur together more often than by chance is known
    when all memories are read. A word that may be a name is in no pair until a sentence states
    something about it.
    """
    linked = [e for e in entities if e.type not in _NOT_LINKED and e.confidence >= SHOWN]
    seen = set(stated)
    for index, first in enumerate(linked):
        for second in linked[index + 1 : index + 1 + NEAREST]:
            pair = frozenset((first.entity_id, second.entity_id))
            if len(pair) == 2 and pair not in seen:
                seen.add(pair)
                # The same two always in the same order: nothing says who does what.
                is_ordered = first.entity_id < second.entity_id
                low, high = (first, second) if is_ordered else (second, first)
                yield _StatedRelation(low, high, RELATED, 0.0, COOCCURRENCE)


def _validity(text: str, entities: Sequence[EntityData]) -> tuple[datetime | None, datetime | None]:
    """Since when and until when, if the sentence says so."""
    dates = [(entity, window_of(entity.name)) for entity in entities if entity.type == "DATE"]
    known = [(entity, window) for entity, window in dates if window is not None]
    if not known or len(known) != len(dates):
        return None, None
    entity, (since, until) = known[0]
    lead = _words_of(text[max(0, entity.start_char - 20) : entity.start_char])[-1:]
    if len(known) == 2 and lead and lead[0] in ("between", "from"):
        return since, known[1][1][1]
    if len(known) > 1:
        return None, None
    if lead and lead[0] in _UNTIL:
        return None, until
    return since, None


def _words_of(text: str) -> list[str]:
    """Return the words of a stretch, in lower case, without marks around them."""
    return _WORD.findall(text.lower())


# --- What the words of a sentence state about the names in it -------------------------


LONGEST_PHRASE = 5
# No words between two names that are further apart state anything about them.
FURTHEST = 100
MOST_FILLERS = 4

_BREAK = re.compile(r"[;:()\[\]{}|?!\u2014]")
_PREPOSITIONS = frozenset(
    "of for in with from to by on via using like than as into about between without against per "
    "through".split()
)
_REPLACEABLE = frozenset({"TECHNOLOGY", "PACKAGE", "CODE", "VERSION", "COMPONENT", "REFERENCE"})
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
# Words between two names that are about the first one, and may be left out: (see there), , ours,
_ASIDE = re.compile(r"^\s*(?:\([^()]{0,80}\)|\[[^\]]{0,80}\]\([^()\s]*\)|,[^,]{1,60},)")
# Who catches an error does not raise it.
_CATCHING = _words(
    "catch catches caught catching handle handles handled handling swallow swallows suppress "
    "suppresses ignore ignores ignored except expect expects"
)
# What is over: the words that say so, before the words that say what.
_NO_LONGER = ("no longer", "not any more", "formerly", "previously", "used to", "once")
_STOPPED = _words("stopped stops quit ceased discontinued ceases abandoned")
_ENDING_SUPPORT = re.compile(
    r"(?:drop|drops|dropped|remove|removes|removed|end|ends|ended|discontinued|stopped|stops) "
    r"(?:all )?(?:support|supporting)(?: for)?"
)
# What these begin with.
_ENDINGS = _STOPPED | _words(
    "drop drops dropped remove removes removed end ends ended no not formerly previously used once"
)
_SUPPORT_OVER = re.compile(
    r"\b(?:was|is|has been|got|were|are)? ?(?:now )?(?:dropped|removed|deprecated|discontinued"
    r"|no longer|gone|ended|missing|broken)\b"
)
_GERUNDS = {
    "using": "uses", "supporting": "supports", "requiring": "requires", "running": "runs on",
    "maintaining": "maintains", "depending": "depends", "relying": "relies",
}  # fmt: skip
_BASES = {
    "use": "uses", "support": "supports", "require": "requires", "depend": "depends",
    "rely": "relies", "run": "runs", "work": "works", "maintain": "maintains", "need": "needs",
    "live": "lives", "own": "owns", "be": "",
}  # fmt: skip


def _statements(reading: _SentenceReading) -> Iterator[_StatedRelation]:
    """Return what is stated; nothing that is asked, denied, wished for or only possible."""
    if _is_question(reading):
        return
    yield from _changed(reading)
    subject: _NameGroup | None = None
    for index, (first, second) in enumerate(pairwise(reading.groups)):
        between = reading.text[first.end : second.start]
        if "(" in between or "," in between or "called" in between or "as" in between:
            yield from _renamed(reading, first, second)
            between = _ASIDE.sub("", between, count=1)
        if len(between) > FURTHEST or _BREAK.search(between):
            subject = None
            continue
        found = _of_pair(reading, index, between, subject)
        # What comes before may take back what is said; few pairs state anything.
        if found and not _is_uncertain(reading, first) and not _is_taken_back(reading, second):
            yield from found
            about = found[-1].subject
            subject = next(
                (g for g in reading.groups if any(about is one for one in g.members)), first
            )


def _of_pair(
    reading: _SentenceReading, index: int, between: str, subject: _NameGroup | None
) -> list[_StatedRelation]:
    """Return what the words between two groups of names, and right before them, state."""
    first, second = reading.groups[index : index + 2]
    words = [word for word in _words_of(between) if word not in ADVERBS]
    link = [word for word in words if word not in DETERMINERS]
    front = _before(reading, first)
    # The words before a name that may be meant with it begin at the name before that one.
    lead = front
    if index and first.members[0].type != "VERSION":  # updated X from 1 to 2
        gap = reading.text[reading.groups[index - 1].end : first.start]
        lead = _words_of(_ASIDE.sub("", gap) if "(" in gap or "," in gap else gap)
    found = [*_examples(first, second, between), *_moved(reading, index, lead, link)]
    is_followed = _touch(reading, index + 1)
    if not found and not is_followed:
        found += _in_front(first, second, lead, link)
    found += _belongs(reading, first, second, lead, link)
    # In `the Rust HTTP server uses Python dicts` neither HTTP nor Python is meant, and AWS is not
    # in `uses AWS Secrets Manager`.
    if is_followed or _touch(reading, index - 1) or _is_longer(reading, second):
        return found
    stated: list[_StatedRelation] = []
    if "," not in between or _RELATIVE.match(between):
        stated += _between(reading, first, second, front, words)
        stated += _made_for(reading, first, second, words)
    if not stated and words[:1] and words[0] in ("and", "but", "then") and subject is not None:
        # X uses A and depends on B.
        stated += _between(reading, subject, second, _before(reading, subject), words[1:])
    elif not stated and index and (end := _end_of_aside(reading, index)):
        # X, a tool by A, uses B; X, which A maintains, uses B.
        about = reading.groups[index - 1]
        rest = reading.text[end : second.start]
        meant = [word for word in _words_of(rest) if word not in ADVERBS]
        stated += _between(reading, about, second, _before(reading, about), meant)
    return found + stated


def _before(reading: _SentenceReading, group: _NameGroup) -> list[str]:
    """Return the last words before a group of names."""
    begin = max(reading.sentence.start, group.start - FURTHEST)
    return _words_of(reading.text[begin : group.start])


_ASIDE_END = re.compile(r"[`*]*[,)]")
_CLAUSE_END = re.compile(r"[^,()]{0,40},")


def _end_of_aside(reading: _SentenceReading, index: int) -> int:
    """Return where commas or parentheses around the first of a pair close; 0 if there are none."""
    before, first = reading.groups[index - 1], reading.groups[index]
    opening = reading.text[before.end : first.start].lstrip("`* ")
    relative = _WHICH.match(opening) is not None
    closing = (_CLAUSE_END if relative else _ASIDE_END).match(reading.text, first.end)
    if closing is None or opening[:1] != ("," if closing[0][-1] == "," else "("):
        return 0
    return closing.end()


_WHICH = re.compile(r", (?:which|who|whose|that)\b[^,()]*$")


def _touch(reading: _SentenceReading, index: int) -> bool:
    """Return whether only a blank separates this group from the next."""
    if not 0 <= index < len(reading.groups) - 1:
        return False
    end, start = reading.groups[index].end, reading.groups[index + 1].start
    return start - end <= 2 and not reading.text[end:start].strip(" `")


_GOES_ON = re.compile(r" [A-Z][a-z]{2,}")


def _is_longer(reading: _SentenceReading, group: _NameGroup) -> bool:
    """Return whether a name goes on behind what is known of it."""
    last = group.members[-1]
    return last.type in _LISTED and _GOES_ON.match(reading.text, group.end) is not None


_TROUBLE = _words("issue issues error errors bug bugs problem problems regression case cases")


def _is_uncertain(reading: _SentenceReading, first: _NameGroup) -> bool:
    """Whether what comes before takes back what is said: not, if, should."""
    before = reading.text[reading.sentence.start : first.start]
    front = _words_of(before)
    if any(word in CONDITIONS for word in front):
        return True
    # An issue where X uses the wrong Y: what went wrong is no fact.
    if any(one in _TROUBLE and other in ("where", "when") for one, other in pairwise(front)):
        return True
    clause = _words_of(_CLAUSE.split(before)[-1])[-14:]
    # With a condition, a person still does it; a thing may never do it.
    if any(word in ("when", "whenever") for word in clause) and first.members[0].type != "SELF":
        return True
    return any(word in UNCERTAIN for word in clause)


_TAKEN_BACK = re.compile(
    r"\b(?:but|and)\b[^.;]{0,60}\b(?:no longer|not any ?more)\b[^.;]*\b(?:it|them)\b"
)


def _is_taken_back(reading: _SentenceReading, second: _NameGroup) -> bool:
    """X was built using Y, but is no longer dependent on it."""
    return _TAKEN_BACK.search(reading.text, second.end, reading.sentence.end) is not None


def _between(
    reading: _SentenceReading,
    first: _NameGroup,
    second: _NameGroup,
    front: Sequence[str],
    words: Sequence[str],
) -> Iterator[_StatedRelation]:
    """A uses B; A no longer uses B."""
    # In `fixes #1 fixes #2` the first name belongs to the words before it.
    # In `a component in the billing service written in Rust` the component is.
    led = next((word for word in reversed(front) if word not in DETERMINERS), "")
    if led in _PREPOSITIONS or (first.members[0].type == "REFERENCE" and led in _FIXING):
        return
    if _POSSESSIVE.match(reading.text, second.end):
        return
    head, rest, ended = _after_head(words)
    if head and front and front[-1] not in _DEFINITE:
        return
    factor = 0.8 if head else 1.0
    found = list(_by_phrase(reading, first, second, front, words, rest, factor, ended=ended))
    if ended:
        # `no longer uses` also says what is avoided now.
        _, plain = _without_head(words)
        found += _by_phrase(reading, first, second, front, words, plain, factor, ended=False)
    yield from found or _with_object(first, second, rest, ended=ended)


def _by_phrase(
    reading: _SentenceReading,
    first: _NameGroup,
    second: _NameGroup,
    front: Sequence[str],
    words: Sequence[str],
    rest: Sequence[str],
    factor: float,
    *,
    ended: bool,
) -> Iterator[_StatedRelation]:
    """Yield what the longest known phrase that leads to the second name states."""
    known = table()
    if not rest or rest[0] not in _first_words():
        return
    for size in range(min(LONGEST_PHRASE, len(rest)), 0, -1):
        text = " ".join(rest[:size])
        if text not in known or not _leads_to(reading, second, text, rest[size:]):
            continue
        # `use` can be said of several things and of us; else it `is using`.
        is_plural = len(first.members) > 1 or first.members[0].type == "SELF"
        skipped = words[: -len(rest)]
        if text in BARE and not is_plural and not {"is", "was", "are"} & set(skipped):
            return
        for phrase in known[text]:
            if phrase.type == "RAISES" and front and front[-1] in _CATCHING:
                continue
            if phrase.type == "SUPPORTS" and _is_support_over(reading, front, second):
                continue
            # Moved A from B; fix A instead of B, which was the fault.
            if phrase.type == "APPEARS_IN" and text in ("from", "to") and _is_moved(front):
                continue
            if phrase.type == "INSTEAD_OF" and front and front[-1] in _FIXED:
                continue
            # Calling A instead of allocating B: two actions are compared, not two things.
            if phrase.type == "INSTEAD_OF":
                acts = [word for word in (*front[-1:], *rest[size:]) if _is_action(word)]
                if len(acts) > 1:
                    continue
            # Can be replaced; replaces A with B.
            if phrase.type == "REPLACED_BY" and (
                "can" in skipped or (phrase.reverse and _goes_on(reading, second))
            ):
                continue
            found = list(_stated(first, second, phrase, factor, ended=ended))
            if found:
                yield from found
                return
        return


_MOVED = _words("move moved moves copy copied copies rename renamed hoist hoisted")


def _is_moved(front: Sequence[str]) -> bool:
    return not _MOVED.isdisjoint(front)


def _is_action(word: str) -> bool:
    return word.endswith("ing") and word not in ("using", "existing")


# A verb, its object, a preposition: stores the uploads in B.
_WITH_OBJECT = (
    (_words("stores saves keeps persists uploads writes stored"), _words("in on to into"), "USES"),
    (_words("sends posts publishes forwards pushes ships exports streams"), _words("to into"),
     "CONNECTS_TO"),
    (_words("reads fetches pulls gets loads receives retrieves imports"), _words("from"),
     "CONNECTS_TO"),
    (_words("manages builds deploys provisions configures renders tests hosts runs"),
     _words("with via using through"), "USES"),
    (_words("deploys hosts runs"), _words("on in to"), "RUNS_ON"),
    (_words("migrated moved switched transitioned ported"), _words("to onto"), "USES"),
)  # fmt: skip
_OBJECT_VERBS = frozenset[str]().union(*(verbs for verbs, _, _ in _WITH_OBJECT))
_NOT_AN_OBJECT = BLOCKERS - {"of", "and", "for"}


def _with_object(
    first: _NameGroup, second: _NameGroup, rest: Sequence[str], *, ended: bool
) -> Iterator[_StatedRelation]:
    """A stores its uploads in B."""
    if len(rest) < 3 or rest[0] not in _OBJECT_VERBS:
        return
    link = list(rest)
    while link and link[-1] in DETERMINERS:
        link.pop()
    if not 3 <= len(link) <= 9 or any(word in _NOT_AN_OBJECT for word in link[1:-1]):
        return
    for verbs, prepositions, kind in _WITH_OBJECT:
        if link[0] in verbs and link[-1] in prepositions:
            for one in first.members:
                for other in second.members:
                    if one.type in _ACTING and other.type in _HAVING:
                        yield _StatedRelation(one, other, kind, 0.7, ended=ended)
            return


_ACTING = frozenset({"CODE", "COMMAND", "COMPONENT", "ORG", "PACKAGE", "SELF", "TECHNOLOGY"})


def _goes_on(reading: _SentenceReading, second: _NameGroup) -> bool:
    return "with" in _words_of(reading.text[second.end : second.end + 80])[:8]


def _is_support_over(reading: _SentenceReading, front: Sequence[str], second: _NameGroup) -> bool:
    if any(word in _ENDED_BEFORE for word in front[-4:]):
        return True
    return _SUPPORT_OVER.match(reading.text[second.end : second.end + 40].lstrip("` ")) is not None


_ENDED_BEFORE = _words("drop drops dropped dropping remove removes removed end ends ended lacks no")


def _leads_to(
    reading: _SentenceReading, second: _NameGroup, phrase: str, words: Sequence[str]
) -> bool:
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


def _after_head(words: Sequence[str]) -> tuple[int, list[str], bool]:
    """Skip what still belongs to the subject, and auxiliaries.

    Returns how much belonged to it, the rest, and whether that is said to be over.
    """
    head, rest = _without_head(words)
    if not rest or rest[0] not in _ENDINGS:
        return head, rest, False
    joined = " ".join(rest)
    if found := _ENDING_SUPPORT.match(joined):
        return head, ["supports", *joined[found.end() :].split()], True
    if rest[0] in _STOPPED and len(rest) > 1 and rest[1] in _GERUNDS:
        return head, [*_GERUNDS[rest[1]].split(), *rest[2:]], True
    for mark in _NO_LONGER:
        if joined.startswith(f"{mark} "):
            rest = joined[len(mark) + 1 :].split()
            first = _BASES.get(rest[0], rest[0]) if rest else ""
            return head, [*filter(None, [first]), *rest[1:]], True
    return head, rest, False


def _without_head(words: Sequence[str]) -> tuple[int, list[str]]:
    head = 0
    while head < min(2, len(words)) and words[head] in PARTS:
        head += 1
    rest = list(words[head:])
    if rest and rest[0] in ("which", "who", "that"):
        rest = rest[1:]
    if rest and rest[0] == "be":
        return head, []  # It is suggested that it be written in Rust.
    while rest and rest[0] in AUXILIARIES and rest[1:2] != ["support"]:
        rest = rest[1:]
    return head, rest


def _stated(
    first: _NameGroup, second: _NameGroup, phrase: Wording, factor: float, *, ended: bool
) -> Iterator[_StatedRelation]:
    strength = round(phrase.strength * factor, 2)
    others = second.members
    if ended and second.version is not None:
        # Python 2.7 is no longer supported, Python is.
        others = [*others[:-1], second.version]
    for one in first.members:
        for other in others:
            if _acting_as(one) in phrase.first and _acting_as(other) in phrase.second:
                subject, target = (other, one) if phrase.reverse else (one, other)
                yield _StatedRelation(subject, target, phrase.type, strength, ended=ended)


def _acting_as(entity: EntityData) -> str:
    """Return an entity's type; a team is people."""
    is_team = entity.type == "COMPONENT" and entity.name.endswith(" team")
    return "ORG" if is_team else entity.type


_MOVING = IN_FRONT[0][0]
_MOVED_TO = frozenset({"to", "onto", "\u043d\u0430"})
_USERS = frozenset({"COMPONENT", "ORG", "PERSON", "PACKAGE", "TECHNOLOGY"})


def _moved(
    reading: _SentenceReading, index: int, lead: Sequence[str], link: Sequence[str]
) -> list[_StatedRelation]:
    """The billing service moved from A to B; we moved the billing service from A to B."""
    if not index or len(link) != 1 or link[0] not in _MOVED_TO or not lead or lead[-1] != "from":
        return []
    first, second = reading.groups[index : index + 2]
    user = reading.groups[index - 1]
    earlier = reading.groups[index - 2].end if index > 1 else reading.sentence.start
    before = _words_of(reading.text[earlier : user.start])
    did = any(word in _MOVING for word in lead[:-1]) and len(lead) <= 4
    if not did and not (lead == ["from"] and any(word in _MOVING for word in before[-4:])):
        return []
    every = [*user.members, *first.members, *second.members]
    if any(one.type not in _USERS for one in user.members) or not all(
        _is_replaceable(one) or one in user.members for one in every
    ):
        return []
    return [
        _StatedRelation(one, other, "USES", 0.8, ended=ended)
        for one in user.members
        for group, ended in ((first, True), (second, False))
        for other in group.members
        if other.type not in ("CODE", "VERSION")
    ]


def _in_front(
    first: _NameGroup, second: _NameGroup, front: Sequence[str], link: Sequence[str]
) -> Iterator[_StatedRelation]:
    """Moved from A to B; replaced A with B; prefers A over B."""
    if len(link) != 1 or link[0] not in _LINKS:
        return
    lead = [word for word in front if word not in DETERMINERS]
    if not lead:
        return
    for verbs, marks, links, kind in IN_FRONT:
        if link[0] not in links or (marks and lead[-1] not in marks):
            continue
        near = lead[-6:] if marks else lead[-1:]
        said = [at for at, word in enumerate(near) if word in verbs]
        # `Migrating from A to B` is how to do it, `we are migrating` that it is done.
        is_title = said and near[said[-1]].endswith("ing") and near[:-1] and marks
        if is_title and not AUXILIARIES.intersection(lead):
            continue
        if said:
            for subject in first.members:
                for target in second.members:
                    # What changes from `live` to `draft` is a value.
                    is_value = marks and "CODE" in (subject.type, target.type)
                    if _is_replaceable(subject) and _is_replaceable(target) and not is_value:
                        yield _StatedRelation(subject, target, kind, 0.8)


def _is_replaceable(entity: EntityData) -> bool:
    # A version of an unknown thing may be any number.
    return entity.type in _REPLACEABLE and (entity.type != "VERSION" or " " in entity.name)


def _made_for(
    reading: _SentenceReading, first: _NameGroup, second: _NameGroup, words: Sequence[str]
) -> Iterator[_StatedRelation]:
    """A is a plugin for B; A is a B plugin."""
    if not 2 <= len(words) <= 8 or any(word in BLOCKERS for word in words[1:-1]):
        return
    if words[0] not in ("is", "are") or words[1] not in ("a", "an", "the"):
        return
    behind = _words_of(reading.text[second.end : second.end + 30])[:1]
    for_it = words[-1] == "for" and words[-2] in PRODUCTS
    of_it = behind and behind[0] in PRODUCTS and words[-1] not in BLOCKERS
    if for_it or of_it:
        for subject in first.members:
            for target in second.members:
                if subject.type in _THINGS and target.type == "TECHNOLOGY":
                    yield _StatedRelation(subject, target, "IS_FOR", 0.8)


# Entries of a changelog: what they begin with, and what may be before the name they are about.
_FIXED = _words("fix fixed fixes bugfix hotfix correct corrected")
_ADDED = _words("add added adds introduce introduced introduces implement implemented new")
_ABOUT = _words(
    "a an the issue issues error errors bug bugs problem problems regression crash where when with "
    "in of that handling parsing support for possible potential incorrect wrong missing some "
    "possibility rare edge case broken new optional experimental command option setting"
)


_AS_WRITTEN = frozenset({"CODE", "COMMAND", "ERROR", "FILE"})
_CHANGED = _AS_WRITTEN | {"COMPONENT", "TECHNOLOGY"}
_DOING = BLOCKERS | _words(
    "could would cannot can does doesn did didn fails failed crashes crashed hangs freezes wrote "
    "ignored ignores attempted tried tries considered has had always silently incorrectly wrongly"
)


def _changed(reading: _SentenceReading) -> Iterator[_StatedRelation]:
    """Fixed `init` on Windows (#12): the pull request fixes it."""
    if len(reading.groups) < 2 or reading.groups[-1].members[0].type != "REFERENCE":
        return
    change = reading.groups[-1].members[0]
    opening = reading.text[reading.groups[-2].end : change.start_char]
    behind = reading.text[reading.groups[-1].end : reading.sentence.end]
    if "(" not in opening or behind.strip(" )].`*\n"):
        return
    about = reading.groups[0]
    front = _words_of(reading.text[reading.sentence.start : about.start].lstrip("-*+ "))
    if front and len(front) > 1 and front[0].endswith(":"):
        front = front[1:]
    kind = {**dict.fromkeys(_FIXED, "FIXES"), **dict.fromkeys(_ADDED, "ADDS")}.get(
        front[0] if front else ""
    )
    if kind is None or any(word not in _ABOUT for word in front[1:]):
        return
    after = _AHEAD.match(reading.text, about.end + reading.text.startswith("`", about.end))
    # In `git dependencies` git is not meant, in `a pyproject.toml example` the file is not.
    is_meant = not after or after[1] in _CODE_NOUNS or after[1] in _DOING
    for one in about.members:
        if one.type in _CHANGED and (is_meant or (kind == "FIXES" and one.type in _AS_WRITTEN)):
            yield _StatedRelation(change, one, kind, 0.7)


_CODE_NOUNS = _words(
    "option options flag flags argument arguments parameter parameters setting settings method "
    "attribute attributes field fields function property key keys section command commands"
)
_ADDING = _ADDED - {"new", "implement", "implemented"}
_HAVING = frozenset({"CODE", "COMMAND", "PACKAGE", "TECHNOLOGY", "COMPONENT"})


def _belongs(
    reading: _SentenceReading,
    first: _NameGroup,
    second: _NameGroup,
    lead: Sequence[str],
    link: Sequence[str],
) -> Iterator[_StatedRelation]:
    """Added the `--all` option to `list`; the `--all` option of `list`."""
    if first.members[0].type != "CODE":
        return
    behind = _AHEAD.match(reading.text, second.end)
    if behind and second.members[-1].type == "TECHNOLOGY" and behind[1] not in BLOCKERS:
        return
    named = [word for word in link if word not in _CODE_NOUNS]
    has_noun = len(named) < len(link)
    verb = next((word for word in lead if word not in DETERMINERS), "")
    is_added = named == ["to"] and verb in _ADDING and len(lead) <= 4
    is_part = has_noun and named in (["of"], ["in"])
    if is_added or is_part:
        for one in first.members:
            for other in second.members:
                if one.type == "CODE" and other.type in _HAVING:
                    yield _StatedRelation(one, other, "PART_OF", 0.8)


_NAMED_AGAIN = re.compile(
    r"[`*\"\u201d]?\s*\((?:also (?:called|known as) |aka |or |abbreviated )?[`*\"\u201c]?\s*"
)
_CALLED = re.compile(
    r"[\s`*]*[,(]?\s*(?:(?:also|often|sometimes|better|formerly|previously|commonly) "
    r"(?:called|known as|referred to as)|abbreviated(?: as)?|a\.?k\.?a\.?|short for)"
    r"\s+(?:the )?[\"'\u201c`*]?\s*"
)


def _renamed(
    reading: _SentenceReading, first: _NameGroup, second: _NameGroup
) -> Iterator[_StatedRelation]:
    """Long Short-Term Memory (LSTM); X, also known as Y: two names of one thing."""
    long, short = first.members[-1], second.members[0]
    if long.name in short.aliases or short.name in long.aliases:
        return  # They are merged.
    between = reading.text[first.end : second.start]
    if first.version is not None:
        return  # ECMAScript 2015 (also known as ES6) is one of its versions.
    if _CALLED.fullmatch(between):
        yield _StatedRelation(long, short, "ALSO_CALLED", 0.8)
    elif _NAMED_AGAIN.fullmatch(between) and _abbreviates(long.surface, short.surface):
        yield _StatedRelation(long, short, "ALSO_CALLED", 0.9)


def _abbreviates(first: str, second: str) -> bool:
    """Return whether one of two is made of the first letters of the other's words."""
    short, long = sorted((first, second), key=len)
    letters = "".join(c for c in short if c.isalpha()).lower().removesuffix("s")
    words = re.findall(r"[^\W\d_]+", long.lower())
    if not 2 <= len(letters) <= 8 or len(words) < 2:
        return False
    # Every letter begins a word or continues one, in their order, and the first begins the first.
    return words[0][0] == letters[0] and _spelled(letters, words)


def _spelled(letters: str, words: Sequence[str]) -> bool:
    at = 0
    initials = 0
    for word in words:
        if at < len(letters) and word[0] == letters[at]:
            initials += 1
            at += 1
            for letter in word[1:]:
                if at < len(letters) and letter == letters[at] and len(words) < len(letters):
                    at += 1
    return at >= len(letters) and initials >= 2


_SUCH_AS = re.compile(
    r"[\s,(]*(?:such as|including|e\.g\.,?|for example,?|like|especially)\s+"
    r"(?:the |its |our )?[`*]?"
)


def _examples(first: _NameGroup, second: _NameGroup, between: str) -> Iterator[_StatedRelation]:
    """Databases such as A and B: each of them is one."""
    what = first.members[-1]
    if what.type in _KINDS and _SUCH_AS.fullmatch(between):
        for one in second.members:
            yield _StatedRelation(one, what, "IS_A", 0.7)


_KINDS = frozenset({"CONCEPT"})


def _is_question(reading: _SentenceReading) -> bool:
    begin, end = reading.sentence.start, reading.sentence.end
    last = reading.text[max(begin, end - 5) : end].rstrip("*_`\"')")
    if reading.sentence.question or last.endswith("?"):
        return True
    first = reading.text[begin : begin + 20].split(maxsplit=1)
    return bool(first) and first[0].lower() in QUESTION_STARTS

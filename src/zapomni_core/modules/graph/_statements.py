"""What the words of a sentence state about the names in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from zapomni_core.modules.graph import _phrases as phrases
from zapomni_core.modules.graph._groups import Group, Reading, Statement, words_of
from zapomni_db.models import EntityData

__all__ = ["statements"]

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


def statements(reading: Reading) -> Iterator[Statement]:
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
        words = [word for word in words_of(between) if word not in phrases.ADVERBS]
        yield from _in_front(first, second, _lead(reading, index, front), words)
        # In `the Rust HTTP server uses Python dicts` neither HTTP nor Python is meant.
        is_named = not _touch(reading, index - 1) and not _touch(reading, index + 1)
        if is_named and ("," not in between or _RELATIVE.match(between)):
            yield from _between(reading, first, second, front, words)
            yield from _made_for(reading, first, second, words)


def _lead(reading: Reading, index: int, front: list[str]) -> list[str]:
    """The words before a name that may be meant with it: up to the name before that one."""
    first = reading.groups[index]
    if not index or first.members[0].type == "VERSION":  # updated X from 1 to 2
        return front
    return words_of(reading.text[reading.groups[index - 1].end : first.start])


def _touch(reading: Reading, index: int) -> bool:
    """Whether nothing but a blank stands between this group and the next."""
    if not 0 <= index < len(reading.groups) - 1:
        return False
    end, start = reading.groups[index].end, reading.groups[index + 1].start
    return start - end <= 2 and not reading.text[end:start].strip(" `")


def _is_uncertain(reading: Reading, first: Group, front: Sequence[str]) -> bool:
    """Whether what comes before takes back what is said: not, if, should."""
    if any(word in phrases.CONDITIONS for word in front):
        return True
    clause = words_of(_CLAUSE.split(reading.text[reading.sentence.start : first.start])[-1])[-8:]
    # What somebody does when they say when, they do; what a thing does then, it may never do.
    if any(word in ("when", "whenever") for word in clause) and first.members[0].type != "SELF":
        return True
    return any(word in phrases.UNCERTAIN for word in clause)


def _between(
    reading: Reading, first: Group, second: Group, front: Sequence[str], words: Sequence[str]
) -> Iterator[Statement]:
    """A uses B."""
    if front and (front[-1] in _PREPOSITIONS or _is_object(first, front[-1])):
        return
    if _POSSESSIVE.match(reading.text, second.end):
        return
    head, told = _after_head(words)
    if head and front and front[-1] not in _DEFINITE:
        return
    known = phrases.table()
    for size in range(min(LONGEST_PHRASE, len(told)), 0, -1):
        text = " ".join(told[:size])
        if text in known and _leads_to(reading, second, text, told[size:]):
            if text in phrases.BARE and not _may_be_plural(first, words[: -len(told)]):
                return
            for phrase in known[text]:
                found = list(_stated(first, second, phrase, 0.8 if head else 1.0))
                if found:
                    yield from found
                    return
            return


def _is_object(group: Group, before: str) -> bool:
    """Whether the name belongs to what came before: `fixes #1 fixes #2`."""
    return group.members[0].type == "REFERENCE" and before in _FIXING


def _leads_to(reading: Reading, second: Group, phrase: str, words: Sequence[str]) -> bool:
    """Whether the words behind a phrase only lead up to the name: `the`, `our new`."""
    if phrase in phrases.WEAK and any(word not in phrases.DETERMINERS for word in words):
        return False
    if phrase in phrases.WEAK or phrase in phrases.HOLDING:
        behind = _AHEAD.match(reading.text, second.end)
        if behind and behind[1].lower() not in phrases.BLOCKERS and _is_modifier(second):
            return False
    if len(words) > MOST_FILLERS:
        return False
    return all(
        word in phrases.DETERMINERS or (word.isalpha() and word not in phrases.BLOCKERS)
        for word in words
    )


def _after_head(words: Sequence[str]) -> tuple[int, list[str]]:
    """Skip what still belongs to the subject, and auxiliaries; say how much belonged to it."""
    head = 0
    while head < min(2, len(words)) and words[head] in phrases.PARTS:
        head += 1
    rest = list(words[head:])
    if rest and rest[0] in ("which", "who", "that"):
        rest = rest[1:]
    while rest and rest[0] in phrases.AUXILIARIES and rest[1:2] != ["support"]:
        rest = rest[1:]
    return head, rest


def _may_be_plural(first: Group, skipped: Sequence[str]) -> bool:
    """Whether `use` can be said of the subject: of several things, of us; or it `is using`."""
    if len(first.members) > 1 or first.members[0].type == "SELF":
        return True
    return any(word in ("is", "was", "are") for word in skipped)


def _stated(
    first: Group, second: Group, phrase: phrases.Wording, factor: float
) -> Iterator[Statement]:
    strength = round(phrase.strength * factor, 2)
    for one in first.members:
        for other in second.members:
            if one.type in phrase.first and other.type in phrase.second:
                subject, target = (other, one) if phrase.reverse else (one, other)
                yield Statement(subject, target, phrase.type, strength)


def _in_front(
    first: Group, second: Group, front: Sequence[str], words: Sequence[str]
) -> Iterator[Statement]:
    """Moved from A to B; replaced A with B; prefers A over B."""
    link = [word for word in words if word not in phrases.DETERMINERS]
    lead = [word for word in front if word not in phrases.DETERMINERS]
    if len(link) != 1 or not lead:
        return
    for verbs, marks, links, kind in phrases.IN_FRONT:
        if link[0] not in links or (marks and lead[-1] not in marks):
            continue
        if any(word in verbs for word in (lead[-6:] if marks else lead[-1:])):
            yield from _pairs(first, second, kind)


def _pairs(first: Group, second: Group, kind: str) -> Iterator[Statement]:
    for subject in first.members:
        for target in second.members:
            if _is_replaceable(subject) and _is_replaceable(target):
                yield Statement(subject, target, kind, 0.8)


def _is_replaceable(entity: EntityData) -> bool:
    # A version of nobody knows what may be any number.
    return entity.type in _REPLACEABLE and (entity.type != "VERSION" or " " in entity.name)


def _made_for(
    reading: Reading, first: Group, second: Group, words: Sequence[str]
) -> Iterator[Statement]:
    """A is a plugin for B; A is a B plugin."""
    if not 2 <= len(words) <= 8 or any(word in phrases.BLOCKERS for word in words[1:-1]):
        return
    if words[0] not in ("is", "are") or words[1] not in ("a", "an", "the"):
        return
    behind = words_of(reading.text[second.end : second.end + 30])[:1]
    for_it = words[-1] == "for" and words[-2] in phrases.PRODUCTS
    of_it = behind and behind[0] in phrases.PRODUCTS and words[-1] not in phrases.BLOCKERS
    if for_it or of_it:
        for subject in first.members:
            for target in second.members:
                if subject.type in _THINGS and target.type == "TECHNOLOGY":
                    yield Statement(subject, target, "IS_FOR", 0.8)


def _is_question(reading: Reading) -> bool:
    begin, end = reading.sentence.start, reading.sentence.end
    last = reading.text[max(begin, end - 5) : end].rstrip("*_`\"')")
    if reading.sentence.question or last.endswith("?"):
        return True
    first = reading.text[begin : begin + 20].split(maxsplit=1)
    return bool(first) and first[0].lower() in phrases.QUESTION_STARTS


def _is_modifier(group: Group) -> bool:
    """Whether a noun behind the name would be what is meant: `Rust port`, not `foo() function`."""
    return group.members[-1].type in ("TECHNOLOGY", "PLACE")

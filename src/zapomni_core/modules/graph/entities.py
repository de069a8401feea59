"""Entities in a text, by rules: one pass over its words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from zapomni_core.modules.graph import cues
from zapomni_core.modules.graph.cues import PACKAGE_CUES
from zapomni_core.modules.graph.names import Entry, Gazetteer, record_name
from zapomni_core.modules.graph.words import (
    DATE_CONTINUED,
    DATE_WORDS,
    PlainText,
    Token,
    date_at,
    is_acronym,
    is_ordinary,
    is_placeholder,
    is_status,
    is_technical,
    is_version,
    may_begin_date,
    read_plain,
    shape_of,
    tokens,
)

__all__ = [
    "NamedSpan",
    "Quoted",
    "Walk",
    "command",
    "date",
    "handle",
    "known_name",
    "named_error",
    "numbered_reference",
    "package",
    "parts",
    "quoted",
    "scan",
    "shaped",
    "speaker",
    "unknown_name",
    "version",
]


def scan(text: str, gazetteer: Gazetteer, reference: datetime | None = None) -> list[NamedSpan]:
    """Return what the text names, in order; no two overlap."""
    walk = Walk(read_plain(text), gazetteer, reference)
    walk.introduced = introduced_names(walk)
    stretches = sorted([*quoted(walk), *_addresses(walk)], key=lambda stretch: stretch[0])
    done, last = 0, len(walk.tokens)
    while walk.at < last:
        if done < len(stretches):
            start = walk.token.start
            while done < len(stretches) and stretches[done][1] <= start:
                _note(walk, stretches[done][2])
                done += 1
            if done < len(stretches) and stretches[done][0] <= start:
                walk.at += 1
                continue
        if not _read(walk):
            walk.at += 1
    for stretch in stretches[done:]:
        _note(walk, stretch[2])
    return agree(walk)


def _addresses(walk: Walk) -> list[Quoted]:
    """Return where links lead."""
    return [
        (start, end, NamedSpan(start, end, "URL", walk.page.source[start:end], 0.95))
        for start, end in walk.page.addresses
    ]


def _note(walk: Walk, mention: NamedSpan | None) -> None:
    if mention is not None:
        walk.mentions.append(mention)


def _read(walk: Walk) -> bool:
    """Try the rules on the current word; the first that finds something wins."""
    word, lower = walk.tokens[walk.at].text, walk.lower[walk.at]
    if walk.introduced and introduced(walk):
        return True
    if word.isalpha() and word.islower():
        # Most words: nothing begins with them.
        if lower in _FIRST_WORDS or lower in walk.gazetteer.longest or not lower.isascii():
            return _by_first_word(walk, word, lower)
        if walk.names_packages and package(walk):
            return True
        if lower in cues.ELEMENTS and walk.after() not in ("of", "to"):
            return walk.add(walk.token.start, walk.token.end, "CODE", NEVER, walk.at)
        return walk.after_is_number() and versioned(walk)
    if word[0].isupper() and longer_name(walk):
        return True
    if _by_first_word(walk, word, lower):
        return True
    if word.isalpha() and word.istitle():
        return (word.endswith("file") and shaped(walk)) or unknown_name(walk) or learned(walk)
    if word[0].isdigit() and version(walk):
        return True
    return package(walk) or shaped(walk) or unknown_name(walk) or parts(walk) or learned(walk)


_FIRST_WORDS = (
    DATE_WORDS
    | cues.COMMANDS.keys()
    | cues.NAMED_ERRORS.keys()
    | cues.NUMBERED_REFERENCES
    | cues.SPEAKERS
)


def _by_first_word(walk: Walk, word: str, lower: str) -> bool:
    """Rules for what is known by the word it begins with."""
    if may_begin_date(lower) and _may_go_on(walk, lower) and date(walk):
        return True
    if word in cues.COMMANDS and command(walk):
        return True
    if lower in cues.NUMBERED_REFERENCES and numbered_reference(walk):
        return True
    if lower in cues.SPEAKERS and speaker(walk):
        return True
    if lower in cues.NAMED_ERRORS and named_error(walk):
        return True
    if word[0] == "@" and handle(walk):
        return True
    if walk.names_packages and word.islower() and package(walk):
        return True
    return lower in walk.gazetteer.longest and known_name(walk)


def _may_go_on(walk: Walk, word: str) -> bool:
    """Return whether a date may go on behind a word such as `the`, which most often begins none."""
    following = DATE_CONTINUED.get(word)
    if following is None:
        return True
    after = walk.lower[walk.at + 1] if walk.at + 1 < len(walk.tokens) else ""
    return after in following or after[:1].isdigit()


# --- A walk through the words of a text: position, neighbors, entities found so far ---


class NamedSpan(NamedTuple):
    """Words that name something."""

    start: int
    end: int
    type: str
    name: str
    confidence: float
    source: str = "rules"
    aliases: tuple[str, ...] = ()
    description: str = ""


class Introduced(NamedTuple):
    """A name that the text itself says is one: by a label, a link, a title, an abbreviation."""

    words: tuple[str, ...]
    type: str
    name: str
    confidence: float
    aliases: tuple[str, ...] = ()
    description: str = ""


SHORT_TEXT = 40
LEGAL_WORDS = 2
_LEGAL_WORD = re.compile(
    r"\b(?:hereby|herein|hereunder|thereof|therein|pursuant|notwithstanding|indemnif\w+|licensors?"
    r"|licensees?|sublicens\w+|warranties|licensed (?:material|rights|work)|public license"
    r"|applicable law)\b",
    re.IGNORECASE,
)
_CODE_MARK = re.compile(
    r"`|\w_\w|\w\(\)|\w::\w|\w\.\w+\(|[a-z]/[a-z]\w*\.[a-z]{1,4}\b|\b(?:class|classes|method|methods"
    r"|function|functions|variable|variables|object|objects|code|exception|compile|script|array)\b"
)


_OF_A_THING = re.compile(
    r"\b(?:(?:[Tt]he|[Ee]ach|[Ee]very|[Aa]n?) )?(?P<name>[A-Z][a-z]+) "
    r"(?:API|CLI|SDK|UI|(?:api|backend|cells?|cli|clients?|clusters?|components?|daemon|endpoints?"
    r"|framework|library|plugins?|pods?|sdk|servers?)\b)"
)


class Walk:
    """The state every rule sees. A rule that finds something adds it and moves `at` behind it."""

    def __init__(self, page: PlainText, gazetteer: Gazetteer, reference: datetime | None) -> None:
        self.page = page
        self.text = page.text
        self.gazetteer = gazetteer
        self.reference = reference
        self.tokens: list[Token] = tokens(page.text)
        self.lower = [token.text.lower() for token in self.tokens]
        self._joined = [not one.comma and not other.first for one, other in pairwise(self.tokens)]
        self._joined.append(False)
        self.introduced: dict[str, list[Introduced]] = {}
        """Names the text introduces, by their first word."""
        self._titles: dict[int, bool] = {}
        self.names_packages = not PACKAGE_CUES.isdisjoint(self.lower)
        """Whether any word here could make another one the name of a package."""
        self.mentions: list[NamedSpan] = []
        self.at = 0

    @cached_property
    def written(self) -> frozenset[str]:
        """The words that the text also writes in lower case."""
        return frozenset(token.text for token in self.tokens if token.text.islower())

    @cached_property
    def things(self) -> frozenset[str]:
        """The words that the text uses as the names of things: the Diego cells, Diego API."""
        times = Counter(match["name"] for match in _OF_A_THING.finditer(self.text))
        return frozenset(name for name, count in times.items() if count > 1)

    @cached_property
    def _headings(self) -> list[tuple[int, int]]:
        """Where titles are, and links to titles of the same page: a table of contents."""
        links = [(one.start, one.end) for one in self.page.links if one.target.startswith("#")]
        return sorted([*self.page.titles, *links]) if links else self.page.titles

    @cached_property
    def sections(self) -> frozenset[str]:
        """The headings of its own page that the text links to."""
        links = (link for link in self.page.links if link.target.startswith("#"))
        return frozenset(self.text[link.start : link.end].strip() for link in links)

    @cached_property
    def is_legal(self) -> bool:
        """Whether the text is a contract or licence, where capitals mark the words it defines."""
        return sum(1 for _ in _LEGAL_WORD.finditer(self.text)) >= LEGAL_WORDS

    @cached_property
    def has_code(self) -> bool:
        """Whether the text has code in it, or is too short to say."""
        return len(self.tokens) < SHORT_TEXT or _CODE_MARK.search(self.text) is not None

    @property
    def token(self) -> Token:
        """The word we stand at."""
        return self.tokens[self.at]

    def joined(self, index: int) -> bool:
        """Whether nothing divides this word from the next one."""
        return index < len(self._joined) and self._joined[index]

    def before(self, index: int | None = None) -> str:
        """The word before, in lower case; nothing at the start of a sentence or after a comma."""
        index = self.at if index is None else index
        return self.lower[index - 1] if index and self._joined[index - 1] else ""

    def after(self, index: int | None = None) -> str:
        """The word after, in lower case; nothing at the end of a sentence or before a comma."""
        index = self.at if index is None else index
        return self.lower[index + 1] if self.joined(index) else ""

    def after_is_number(self) -> bool:
        """Return whether the next word begins with a digit. Cheap: every word is asked."""
        return self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].text[0].isdigit()

    def is_title(self, token: Token) -> bool:
        """Return whether a word is in a title or a line like one, where capitals say little."""
        for start, end in self._headings:
            if start <= token.start < end:
                return True
            if start > token.start:
                break
        begin = self.text.rfind("\n", 0, token.start) + 1
        if begin not in self._titles:
            end = self.text.find("\n", token.start)
            line = self.text[begin : min(end if end >= 0 else len(self.text), begin + 400)]
            words = [w for w in line.split() if len(w) > 3 and w[0].isalpha()]
            large = sum(w[0].isupper() for w in words)
            is_other = line.rstrip().endswith(".") or line.startswith("|")  # a sentence, a table
            is_title = len(words) > 3 and large > 0.8 * len(words) and not is_other
            is_marked = line[:1] == "=" == line.rstrip()[-1:]  # == Motivation ==
            self._titles[begin] = is_title or is_marked
        return self._titles[begin]

    def last(self, distance: int = 1) -> NamedSpan | None:
        """What was found right before the current word."""
        if self.mentions and self.token.start - self.mentions[-1].end <= distance:
            return self.mentions[-1]
        return None

    def add(self, start: int, end: int, kind: str, confidence: float, upto: int) -> bool:
        """Note what was found, and go on behind the word at `upto`."""
        name = self.text[start:end]
        self.mentions.append(NamedSpan(start, end, kind, name, confidence))
        self.at = upto + 1
        return True

    def add_known(self, kind: str, entry: Entry, upto: int) -> bool:
        """Note a name of the gazetteer that ends with the word at `upto`."""
        if kind == "TECHNOLOGY" and self.after(upto) in cues.OF_A_PRODUCT:
            upto += 1  # The Stripe API is Stripe.
        start, end = self.token.start, self.tokens[upto].end
        before = self.last()
        if kind == "TECHNOLOGY" and before and before.type == "ORG" and self.joined(self.at - 1):
            # Microsoft Internet Explorer is one thing.
            start = self.mentions.pop().start
        confidence = 0.8 if entry.exact else 0.9
        if entry.name in cues.EVERYWHERE and not entry.own:
            confidence = NEVER
        self.mentions.append(
            NamedSpan(start, end, kind, entry.name, confidence, "gazetteer", entry.aliases)
        )
        self.at = upto + 1
        return True


# --- Rules for what has a name: technologies, people, organizations, places -----------


MOST_SURNAMES = 3
# Not 104.1, which is a radio station.
_VERSION_LIKE = re.compile(r"v?\d{1,2}(?:\.\d{1,3}){1,3}")
QUOTES = "\"'\u201c\u2018"


def known_name(walk: Walk) -> bool:
    """A name of the gazetteer, the longest that fits."""
    start = walk.token.start
    for size in range(walk.gazetteer.longest[walk.lower[walk.at]], 0, -1):
        upto = walk.at + size - 1
        if upto >= len(walk.tokens):
            continue
        surface = walk.text[start : walk.tokens[upto].end]
        if size > 1:
            surface = " ".join(surface.split())
        entries = walk.gazetteer.find(surface)
        if not entries and surface.islower() and walk.before() in cues.BEFORE_TOOL:
            entries = walk.gazetteer.find_tool(surface)
        if entries and _chosen(walk, upto, {entry.kind: entry for entry in entries}):
            return True
    return False


def _chosen(walk: Walk, upto: int, kinds: dict[str, Entry]) -> bool:
    """Several things may have one name; the words around it decide."""
    before, after = walk.before(), walk.after(upto)
    if "PLACE" in kinds and "TECHNOLOGY" in kinds and before not in cues.BEFORE_PLACE:
        is_used = before in cues.BEFORE_PRODUCT or after in ("app", "framework")
        if is_used or walk.tokens[walk.at].text in walk.things:
            return walk.add_known("TECHNOLOGY", kinds["TECHNOLOGY"], upto)
    if "PLACE" in kinds and ("PERSON" not in kinds or before in cues.BEFORE_PLACE):
        return walk.add_known("PLACE", kinds["PLACE"], upto)
    if "PERSON" in kinds and _person(walk, kinds["PERSON"], shared=len(kinds) > 1):
        return True
    entry = kinds.get("SERVICE") or kinds.get("ORG") or kinds.get("TECHNOLOGY")
    if entry is None or (entry.exact and not _is_meant(walk, entry, upto)):
        return False
    if entry.kind == "SERVICE":
        is_company = (
            before in cues.BEFORE_COMPANY
            or (before == "by" and walk.before(walk.at - 1) in cues.MADE)
            or after in cues.AFTER_COMPANY
            or _is_employer(walk, before)
        )
        return walk.add_known("ORG" if is_company else "TECHNOLOGY", entry, upto)
    return walk.add_known(entry.kind, entry, upto)


_DETERMINERS = frozenset({"the", "a", "an", "this", "our", "your", "my", "their"})


def _is_meant(walk: Walk, entry: Entry, upto: int) -> bool:
    """Whether a word that may be an ordinary one is a name here."""
    token, after = walk.token, walk.after(upto)
    if walk.is_title(token) and not after[:1].isdigit():
        return False
    if walk.joined(walk.at - 1) and walk.at and not walk.tokens[walk.at - 1].first:
        before = walk.tokens[walk.at - 1].text
        if before.istitle() and _is_surname(walk, before):
            return False
    if walk.at and walk.joined(walk.at - 1) and is_ordinary(walk.lower[walk.at]) and not entry.own:
        before = walk.tokens[walk.at - 1].text
        if before.istitle() and before not in cues.NOT_NAMES and not walk.gazetteer.find(before):
            return False  # Pull Requests, Spellchecking Guidance
    if token.end - token.start == 1:  # C and R
        if f"`{token.text}`" in walk.text or f"{token.text} = " in walk.text:
            return False  # a variable
        if walk.at and len(walk.tokens[walk.at - 1].text) == 1 and walk.tokens[walk.at - 1].comma:
            return False  # A, B, D
        return (
            not token.first and bool(after) and walk.before() not in ("", "a", "an", "the", "and")
        )
    is_lone = not after[:1].isdigit() and after not in cues.AFTER_PRODUCT
    is_word = is_ordinary(walk.lower[walk.at]) and walk.lower[walk.at] in walk.written
    if is_lone and is_word and not entry.own:
        return False  # Teams, where there are teams
    is_named = entry.own or after in cues.AFTER_PRODUCT or after in cues.PRODUCT_HEADS
    if walk.before() in _DETERMINERS and is_ordinary(walk.lower[walk.at]) and not is_named:
        return False  # the Guidance
    if after in _DETERMINERS and is_ordinary(walk.lower[walk.at]) and not entry.own:
        return False  # Click the button
    is_many = (
        token.text.endswith("s") and not after.endswith("s") and is_ordinary(walk.lower[walk.at])
    )
    if token.first and is_many:
        return is_named or after[:1].isdigit()  # Teams can do it; Requests is one thing
    if token.first and after in ("and", "or") and is_ordinary(walk.lower[walk.at]):
        return False  # Guidance and Regulation
    if not token.first or after in cues.SUBJECT_VERBS or after in cues.AFTER_COMPANY:
        return True
    return after[:1].isdigit()


def _person(walk: Walk, entry: Entry, *, shared: bool) -> bool:
    """A given name and what follows of the full one."""
    token = walk.token
    if _is_quoted(walk):
        return False
    upto = _full_name(walk)
    is_word = is_ordinary(walk.lower[walk.at])  # Trace
    if is_word and upto == walk.at + 1 and is_ordinary(walk.lower[upto]):
        return False  # Max Version
    if upto == walk.at and token.text in walk.things and not is_word:
        return _learn(walk, upto, "TECHNOLOGY", 0.5)
    before, after = walk.before(), walk.after(upto)
    speaks = token.first and walk.text.startswith(": ", walk.tokens[upto].end)
    strong = speaks or before in cues.STRONG_BEFORE_PERSON or after in cues.STRONG_AFTER_PERSON
    weak = before in cues.BEFORE_PERSON or after in cues.AFTER_PERSON
    # Jan may be a month.
    if shared or entry.exact or is_word or may_begin_date(walk.lower[walk.at]):
        certain = strong or (upto > walk.at and not entry.exact) or (weak and not shared)
        if is_word and upto == walk.at and after not in cues.DONE_BY_PERSON:
            certain = strong
        if not certain:
            return False
    confidence = 0.9 if strong or weak or upto > walk.at else 0.7
    return walk.add(token.start, walk.tokens[upto].end, "PERSON", confidence, upto)


def _is_quoted(walk: Walk) -> bool:
    start, end = walk.token.start, walk.token.end
    before = walk.text[max(0, start - 2) : start].strip()
    return (
        before[-1:] in QUOTES
        and before != ""
        and walk.text[end : end + 2].strip()[:1] in "\"'\u201d\u2019"
    )


def _full_name(walk: Walk) -> int:
    upto = walk.at
    while upto - walk.at < MOST_SURNAMES and walk.joined(upto):
        word = walk.tokens[upto + 1].text
        if word in cues.NAME_PARTICLES and walk.joined(upto + 1):
            if not _is_surname(walk, walk.tokens[upto + 2].text):
                break
            upto += 2
        elif _is_surname(walk, word) or (upto == walk.at and _may_be_surname(walk, upto + 1)):
            upto += 1
        else:
            break
    return upto


def _is_surname(walk: Walk, word: str) -> bool:
    if word in cues.NOT_NAMES or not word[0].isupper():
        return False
    if not word[1:].islower() and not _SCOTTISH.fullmatch(word):
        return False
    lower = word.lower()
    if not word.replace("-", "").isalpha() or may_begin_date(lower) or lower in cues.PRODUCT_HEADS:
        return False
    return all(entry.kind == "PERSON" for entry in walk.gazetteer.find(word))


_SCOTTISH = re.compile(r"Ma?c[A-Z][a-z]+")


def _may_be_surname(walk: Walk, index: int) -> bool:
    """Return whether a name of something else is a surname behind a given name: Alex Jackson."""
    word = walk.tokens[index].text
    kinds = {entry.kind for entry in walk.gazetteer.find(word)}
    return word.istitle() and word.isalpha() and kinds <= {"PLACE", "TECHNOLOGY"} and len(word) > 3


_DECORATED = re.compile(  # @inlinable public func
    r"(?:\([^()\n]*\))?\s+(?:(?:abstract|async|default|export|final|internal|private|public|static)\s+)*"
    r"(?:actor|class|def|enum|extension|fn|func|function|interface|let|struct|var)\s+\w"
)


_NEXT_HANDLE = re.compile(r",? (?:and |& )?")


def handle(walk: Walk) -> bool:
    """Read a handle such as @alice; `@Override` and `@media` are code."""
    token = walk.token
    name = token.text[1:]
    if not name or not name[0].isalpha() or not name.replace("_", "").replace("-", "").isalnum():
        return False
    if name in cues.EVERYONE or walk.after() in ("team", "teams", "group"):
        walk.at += 1
        return True
    if _DECORATED.match(walk.text, token.end):
        return walk.add(token.start, token.end, "CODE", 0.1, walk.at)
    before, after = walk.before(), walk.after()
    last = walk.mentions[-1] if walk.mentions else None
    if last and last.type == "PERSON" and _NEXT_HANDLE.fullmatch(walk.text, last.end, token.start):
        before = "by"  # by @AdaByron and @TheEssem
    addressed = token.first or before in cues.BEFORE_PERSON or after in cues.AFTER_HANDLE
    is_name = any(entry.kind == "PERSON" for entry in walk.gazetteer.find(name))
    is_decorator = name[0].islower() and name.isalpha() and not name.islower()  # @belongsTo
    # No annotation has a number or a dash in it, and there is none in a text without code.
    is_person = any(c.isdigit() or c == "-" for c in name) or not walk.has_code
    # What code is marked with is called by a word: @Service, not @Thomvaill.
    is_person = is_person or (name.istitle() and len(name) > 6 and not is_technical(name.lower()))
    if (name[0].isupper() or is_decorator) and not (is_name or is_person):
        addressed = before in cues.STRONG_BEFORE_PERSON or after in cues.STRONG_AFTER_PERSON
    is_code = (name[0].isupper() or is_decorator) and not (addressed or is_person)
    is_code = is_code or ("_" in name and walk.has_code and not addressed)
    if name in cues.ANNOTATIONS or is_code:
        return walk.add(token.start, token.end, "CODE", 0.7, walk.at)
    return walk.add(token.start, token.end, "PERSON", 0.8, walk.at)


def unknown_name(walk: Walk) -> bool:
    """Read an unknown capitalised word; the words next to it say what it is."""
    word, before, after = walk.token.text, walk.before(), walk.after()
    if word in cues.NOT_NAMES or not word[0].isupper() or len(word) < 2:
        return False
    if word in cues.ORG_HEADS and walk.after() == "of" and _add_organization(walk, walk.at):
        return True
    if _organization(walk):
        return True
    if word.isupper():
        return False
    kind = None
    if not walk.token.first and _is_employer(walk, before):
        kind = "ORG"
    elif _is_person_by_cue(walk, before, after):
        kind = "PERSON"
    elif not walk.token.first and not is_ordinary(word.lower()) and _is_whereabouts(walk, before):
        kind = "PLACE"
    if kind is not None:
        upto = _full_name(walk)
        return walk.add(walk.token.start, walk.tokens[upto].end, kind, 0.6, upto)
    if word not in cues.NUMBERED and _VERSION_LIKE.fullmatch(after) and not walk.token.first:
        return walk.add(walk.token.start, walk.token.end, "TECHNOLOGY", 0.6, walk.at)
    return False


def versioned(walk: Walk) -> bool:
    """Read an unknown word in lower case with a version behind it: chardet 5.0.0."""
    after = walk.after()
    if not after[:1].isdigit() or after.count(".") < 2 or not is_version(after):
        return False
    word = walk.token.text
    if len(word) < 3 or is_ordinary(word) or word in cues.ORDINARY:
        return False
    return walk.add(walk.token.start, walk.token.end, "TECHNOLOGY", 0.6, walk.at)


def _organization(walk: Walk) -> bool:
    if walk.token.first and walk.token.text.endswith("ing") and is_ordinary(walk.lower[walk.at]):
        return False  # Removing Coordination Committee members
    upto = walk.at
    while upto - walk.at < MOST_SURNAMES and walk.joined(upto):
        upto += 1
        word = walk.tokens[upto].text
        if word.rstrip(".") in cues.ORG_ENDINGS:
            return _add_organization(walk, upto)
        if not word[0].isupper():
            return False
    return False


def _add_organization(walk: Walk, upto: int) -> bool:
    while walk.joined(upto) and walk.tokens[upto + 1].text.rstrip(".") in cues.ORG_ENDINGS:
        upto += 1
    if walk.after(upto) == "of" and walk.joined(upto + 1):
        word = walk.tokens[upto + 2].text
        if word[0].isupper():
            upto += 2
            if walk.joined(upto) and _is_name_word(walk.tokens[upto + 1].text):
                upto += 1  # of North Carolina
    return walk.add(walk.token.start, walk.tokens[upto].end, "ORG", 0.8, upto)


_JOINED_NAME = re.compile(r"Mc|Mac|De|La|Le|O['\u2019]|[^\W\d_]+-")


def _is_person_by_cue(walk: Walk, before: str, after: str) -> bool:
    word = walk.token.text
    if is_ordinary(word.lower()) or (word[1:] != word[1:].lower() and not _JOINED_NAME.match(word)):
        return False  # ask PeopleOps
    if after in cues.STRONG_AFTER_PERSON and before not in _DETERMINERS:
        return True
    owned = walk.text.startswith(("'s ", "\u2019s ", " 's "), walk.token.end)
    following = walk.lower[walk.at + 1 : walk.at + 3]
    if owned and any(word in cues.OWNED_BY_PERSON for word in following):
        return True
    if before == "let" and after == "know":
        return True
    if before == "by" and walk.before(walk.at - 1) in cues.BY_PEOPLE:
        return not walk.gazetteer.find(walk.token.text)
    closing = walk.lower[max(0, walk.at - 2) : walk.at]
    signed = walk.token.first or walk.token.comma or not walk.joined(walk.at)
    return signed and any(word in cues.CLOSINGS for word in closing) and before not in ("to", "for")


def _is_employer(walk: Walk, before: str) -> bool:
    earlier = walk.lower[max(0, walk.at - 3) : walk.at - 1]
    if before in ("at", "for", "from") and any(word in cues.EMPLOYMENT for word in earlier):
        # It works for Keras, too.
        is_said_of_all = before == "for" and earlier[-1] in ("works", "worked", "working")
        return not is_said_of_all or _is_someone(walk, walk.at - 3)
    if before == "from" and walk.after(_full_name(walk)) in cues.AFTER_PERSON:
        last = walk.mentions[-1] if walk.mentions else None
        return last is not None and last.type == "PERSON" and walk.token.start - last.end == 6
    return before == "joined"


_SOMEONE = frozenset("i he she who they and have has been is am was now currently".split())


def _is_someone(walk: Walk, index: int) -> bool:
    if index < 0:
        return False
    word = walk.tokens[index].text
    # This works for Datasette's pages.
    return walk.lower[index] in _SOMEONE or (word[0].isupper() and word not in cues.NOT_NAMES)


def _is_whereabouts(walk: Walk, before: str) -> bool:
    earlier = walk.lower[max(0, walk.at - 3) : walk.at - 1]
    return before in ("in", "to", "near", "from") and any(w in cues.WHEREABOUTS for w in earlier)


def speaker(walk: Walk) -> bool:
    """Read we, I or the user, followed by what they use, prefer, avoid or decided."""
    index = walk.at
    if walk.lower[index] == "team" and walk.before() not in ("the", "our"):
        return False
    for _ in range(3):
        if not walk.joined(index):
            return False
        index += 1
        if walk.lower[index] in cues.SPEAKER_VERBS:
            start = walk.token.start
            walk.add(start, walk.token.end, "SELF", 0.8, walk.at)
            return True
        if walk.lower[index] not in cues.BEFORE_SPEAKER_VERB:
            return False
    return False


# --- Names the text itself introduces -----------------------------------------------------


_FIELD = re.compile(
    r"^[ \t>*_:+-]{0,6}(?P<label>[^\W\d_][^\n:|<>\[\]`*]{0,50}?)[*_]{0,2}:[*_]{0,2}[ \t]+(?=\S)",
    re.MULTILINE,
)
_PERSON_NAME = re.compile(
    r"[^\W\d_][\w.'\u2019-]*(?: (?:[^\W\d_][\w.'\u2019-]*|\([^\W\d_]\w*\))){0,4}"
)
_WITH_ADDRESS = re.compile(
    r"(?<!\w)(?P<name>[^\W\d_][\w.'\u2019-]{0,40}(?: [^\W\d_][\w.'\u2019-]{0,40}){0,3})"
    r" <(?P<account>[^<>\s@]+)@[^<>\s]+>"
)
_BOT_NAME = re.compile(r"(?:[a-z]|\b)(?:bot|Bot)\Z|[ -](?:Account|Actions?|Automation|CI)\Z")
_WITH_HANDLE = re.compile(  # Nate Prewitt (@nateprewitt), Antoine du Hamel @aduh95
    r"(?<!\w)(?P<name>[^\W\d_a-z][\w'\u2019-]{1,40}"
    r"(?: (?:[a-z]{2,3} ){0,2}[^\W\d_a-z][\w.'\u2019-]{0,40}){1,2})"
    r"[*_]{0,2} \\?\(?(?P<handle>@[A-Za-z][\w-]*)"
)
_BOT = re.compile(r"(?<![\w-])(?P<name>[\w-]{1,60})\[bot\]")
_SHORT_FORM = re.compile(r"\([A-Z][A-Za-z&]{1,7}\)")
_LONG_FORM = re.compile(
    r"(?P<long>(?:[A-Z][\w&.-]*[ ](?:(?:of|for|and|the|to|in|on)[ ]){0,2}){1,6}[A-Z]?[\w-]*)[ ]?"
    r"\((?P<short>[A-Z][A-Za-z&]{1,7})\)"
)
_INITIAL = re.compile(r"[A-Z]\.?")
_SMALL_WORDS = frozenset("of for and the to in on a".split())
_RECORD = re.compile(
    # RFC 2119 is a standard; RFC-0012 and RFC #12 are a project's own.
    r"(?<![\w/])(?P<word>ADR|Adr|adr|RFD|MADR|RFC(?=[ \u2011_-]?#|[ \u2011_-]?0))"
    r"[ \u2011_#-]{0,2}0{0,3}(?P<number>\d{1,4})\b(?!\.\d)"
)
_RECORD_WORDS = ("ADR", "Adr", "adr", "RFD", "MADR", "RFC")
_RECORD_FILE = re.compile(
    r"(?:[\w.~@-]*/)*(?:adrs?|(?P<word>rfc)s?|decisions?"
    r"|(?:architecture[-_]decision|decision[-_]record)[\w-]*)"
    r"/(?:(?:adr|rfc)[-_]?)?0{0,3}(?P<number>\d{1,4})[-_][\w.-]+",
    re.IGNORECASE,
)
_NUMBERED_TITLE = re.compile(
    r"(?:(?P<word>ADR|RFD|MADR|RFC)[ _#-]{0,2})?0{0,3}(?P<number>\d{1,4})"
    r"(?:[.:)]|[ ]+[-\u2013\u2014:])?[ ]+(?P<title>\S.{2,120})",
    re.IGNORECASE,
)
_RECORD_PARTS = re.compile(
    r"^(?:#{1,4}[ ]+|\*\*)?(?:status|decision|decision outcome|considered options"
    r"|context and problem statement)"
    r"(?:\*\*)?:?[ \t]*(?:\n|$|:|\w+$)",
    re.IGNORECASE | re.MULTILINE,
)
_AFTER_NUMBER = re.compile(r":[ ]+(?P<title>[^\n]{3,120})")
_NUMBER_FIRST = re.compile(r"(?:ADR|RFC|RFD)?[ _#-]*\d", re.IGNORECASE)
LONGEST_TITLE = 12


_CREDIT = re.compile(r"\b(?:h/t|thanks(?: to)?|kudos to)[ \[]+\Z", re.IGNORECASE)


def introduced_names(walk: Walk) -> dict[str, list[Introduced]]:
    """Return names by their first word: what labels, links, titles and abbreviations introduce."""
    text, page = walk.text, walk.page
    found: list[Introduced] = []
    if ":" in text:
        found += _labelled(walk)
    if "@" in text:
        for match in _WITH_ADDRESS.finditer(text):
            # Not `get in touch with us at <address>` nor `GitHub <noreply@github.com>`.
            if not _has_prose(match["name"]) and not _is_company(walk, match["name"]):
                signed = _introduce(match["name"], 0.8)
                if _BOT_NAME.search(match["name"]) or _BOT_NAME.search(match["account"]):
                    signed = signed._replace(type="TECHNOLOGY", confidence=0.85)
                found.append(signed)
        for match in _WITH_HANDLE.finditer(text):
            words = match["name"].split()
            # Khahil White (@theheels)
            is_name = len(words) == 2 and _is_full_name(walk, words[:1])
            if is_name or _is_full_name(walk, words):
                found.append(_introduce(match["name"], 0.8))
                found.append(_introduce(match["handle"], 0.8))
    if _ACCOUNT_LABEL in text:
        found += _listed_accounts(text)
    if "[bot]" in text:
        for match in _BOT.finditer(text):
            found.append(Introduced((match[0],), "TECHNOLOGY", match["name"], 0.7))
    if "(" in text and _SHORT_FORM.search(text):
        found += _abbreviated(walk)
    accounts = [_account(walk, text[link.start : link.end], link.target) for link in page.links]
    is_roster = len(accounts) - accounts.count(None) > 2
    for link, account in zip(page.links, accounts, strict=True):
        if account is not None and is_roster:
            found.append(account)
        elif name := _linked(walk, text[link.start : link.end], link.target):
            is_thanked = _CREDIT.search(text, max(0, link.start - 12), link.start) is not None
            if is_thanked and name.type == "CONCEPT" and _is_full_name(walk, name.words):
                name = name._replace(type="PERSON")
            found.append(name)
    if page.titles:
        found += _record_titles(walk)
    by_first: dict[str, list[Introduced]] = {}
    for name in found:
        if name.words:
            by_first.setdefault(name.words[0], []).append(name)
            if name.type == "PERSON" and len(name.words) > 1 and len(name.words[0]) > 2:
                # Nate is Nate Prewitt, as long as he is named here.
                given = name._replace(words=name.words[:1])
                by_first[name.words[0]].append(given)
    for names in by_first.values():
        names.sort(key=lambda name: (-len(name.words), -name.confidence))
    return by_first


def introduced(walk: Walk) -> bool:
    """Read a name that the text introduces somewhere."""
    for name in walk.introduced.get(walk.token.text, ()):
        upto = walk.at + len(name.words) - 1
        if upto >= len(walk.tokens):
            continue
        if any(walk.tokens[walk.at + n].text != word for n, word in enumerate(name.words)):
            continue
        # A title may have marks within it, a name has none.
        apart = "\n" in walk.text[walk.token.start : walk.tokens[upto].end]
        if name.type != "DECISION":
            # In David A. Harding a dot ends no sentence.
            apart = any(
                not walk.joined(n) and not _INITIAL.fullmatch(walk.tokens[n].text)
                for n in range(walk.at, upto)
            )
        if apart:
            continue
        longer = walk.joined(upto) and walk.tokens[upto + 1].text[:1].isupper()
        if len(name.words) == 1 and longer and name.type in ("PERSON", "CONCEPT"):
            continue  # another one's surname, or a longer name
        start, end = walk.token.start, walk.tokens[upto].end
        walk.mentions.append(
            NamedSpan(
                start,
                end,
                name.type,
                name.name,
                name.confidence,
                "learned",
                name.aliases,
                name.description,
            )
        )
        walk.at = upto + 1
        return True
    return False


def _words_of(name: str) -> tuple[str, ...]:
    return tuple(token.text for token in tokens(name))


def _introduce(name: str, confidence: float) -> Introduced:
    words = _words_of(name)
    return Introduced(words, "PERSON", " ".join(words).removeprefix("@"), confidence)


def _is_full_name(walk: Walk, words: Sequence[str]) -> bool:
    """Return whether words may be someone's name: a given name first, or no word of texts."""
    if any(entry.kind == "PERSON" for entry in walk.gazetteer.find(words[0])):
        return words[0] not in cues.NOT_NAMES
    plain = (is_ordinary(word.lower()) for word in words if word not in cues.NAME_PARTICLES)
    return not any(plain) and not any(walk.gazetteer.find(word) for word in words)


def _labelled(walk: Walk) -> Iterator[Introduced]:
    """Who says or wrote something: `Nate Prewitt: ...`, `Author: ...`, `Signed-off-by: ...`."""
    text = walk.text
    linked = {link.start for link in walk.page.links}
    fields = [
        (match, _SAYING.sub("", match["label"]))
        for match in _FIELD.finditer(text)
        if match.start("label") not in linked
    ]
    if not fields:
        return
    labels = Counter(label for _, label in fields)
    for match, label in fields:
        if label.lower().strip() in cues.AUTHOR_FIELDS:
            end = text.find("\n", match.end())
            value = text[match.end() : end if end >= 0 else len(text)][:200]
            for one in re.split(r",|;| and | & ", re.sub(r"<[^<>]*>|\([^()]*\)", "", value)):
                name = one.strip(" *_.@`")
                if (
                    name
                    and "[bot]" not in one
                    and name not in cues.ROLES
                    and _PERSON_NAME.fullmatch(name)
                    and not _says_ordinary(name)
                    and not _has_prose(name)
                    and not _is_company(walk, name)
                ):
                    yield _introduce(name, 0.8)
        elif _is_speaker(walk, label, match.start() == 0, labels[label]):
            yield _introduce(label, 0.8 if match.start() == 0 or labels[label] > 1 else 0.6)


_ACCOUNT_LABEL = "github: "
_ACCOUNT = r"[ \t]*(?:-[ \t]+)?github: @?(?P<handle{0}>[\w-]+)[ \t]*"
_CALLED = r"[ \t]*(?:-[ \t]+)?name: (?P<name{0}>[^\n:]{{3,60}}?)[ \t]*"
_LIST_LABEL = re.compile(r"^[ \t]*(\w+):[ \t]*$", re.MULTILINE)
_LISTED_ACCOUNT = re.compile(
    rf"^(?:{_CALLED.format(1)}\n{_ACCOUNT.format(1)}"
    rf"|[ \t]*-[ \t]+github: @?(?P<handle2>[\w-]+)[ \t]*\n{_CALLED.format(2)})$",
    re.MULTILINE,
)


def _listed_accounts(text: str) -> Iterator[Introduced]:
    """Yield who is listed with a name and an account, and the bots among them."""
    for match in _LISTED_ACCOUNT.finditer(text):
        name, handle = match["name1"] or match["name2"], match["handle1"] or match["handle2"]
        lists = _LIST_LABEL.findall(text, 0, match.start())
        is_bot = "bot" in re.split(r"[ -]", f"{name} {handle}".lower()) or lists[-1:] == ["bots"]
        kind = "TECHNOLOGY" if is_bot else "PERSON"
        for one in (name, handle):
            yield Introduced(_words_of(one), kind, name, 0.8, (handle,))


_INITIALS = re.compile(r"[A-Z]{2,4}")
_SAYING = re.compile(r" (?:asks|asked|says|said|writes|wrote|replies|replied|answers|answered)$")


def _has_prose(name: str) -> bool:
    return any(
        word.islower() and (is_ordinary(word) or word in cues.STARTERS) for word in name.split()
    )


def _is_company(walk: Walk, name: str) -> bool:
    """Return whether a field of authors has whom one works for: Ada Byron, Initech Inc."""
    kinds = {entry.kind for entry in walk.gazetteer.find(name)}
    is_known = bool(kinds) and "PERSON" not in kinds
    return is_known or name.rsplit(maxsplit=1)[-1].lower() in cues.LEGAL_FORMS


def _says_ordinary(name: str) -> bool:
    return all(is_ordinary(word.lower().strip(".")) for word in name.split())


def _is_speaker(walk: Walk, label: str, begins: bool, times: int) -> bool:
    """Return whether a line begins with who says it, and not with what it is about."""
    words = label.split()
    if (
        not 1 <= len(words) <= 5
        or not _PERSON_NAME.fullmatch(label)
        or label.lower() in cues.PREFIXES
        or (len(words) > 1 and label.isupper())
    ):
        return False
    if any(is_ordinary(word.lower().strip("().")) or word in cues.NOT_NAMES for word in words):
        if any(word.islower() and word not in cues.NAME_PARTICLES for word in words):
            return False
        return (
            bool(walk.gazetteer.find(words[0]))
            and words[0][0].isupper()
            and len(words) > 1
            and (walk.gazetteer.find(words[0])[0].kind == "PERSON")
            and not is_ordinary(words[0].lower())
        )
    kinds = {entry.kind for entry in (*walk.gazetteer.find(label), *walk.gazetteer.find(words[0]))}
    if kinds and "PERSON" not in kinds:
        return False
    if "PERSON" in kinds:
        return words[0][0].isupper()
    if len(words) == 1:
        if _INITIALS.fullmatch(label):
            return times > 1 and label not in cues.COMMON_ACRONYMS
        if not label[0].isupper() or label.isupper():
            # A handle: a bare word may be anything, so it needs digits or a change.
            is_handle = len(label) > 4 and bool(re.search(r"\d|-", label)) and label.islower()
            parts = label.split("-")
            if parts[-1] in cues.PRODUCT_HEADS or any(part.isdigit() for part in parts):
                return False  # kustomize-controller: ..., status-204: ...
            return begins and is_handle and not all(map(is_ordinary, parts))
        return (begins or times > 1) and label.isalpha()
    return all(
        word.strip("(")[0].isupper() for word in words if word.lower() not in cues.NAME_PARTICLES
    ) and (begins or times > 1)


def _abbreviated(walk: Walk) -> Iterator[Introduced]:
    """Yield long names and their abbreviations: Government Digital Service (GDS)."""
    matches = list(_LONG_FORM.finditer(walk.text))
    known = sum(
        any(entry.kind == "PERSON" for entry in walk.gazetteer.find(match["long"].split()[0]))
        for match in matches
    )
    # Who was there: Ada Byron (AB), Yehuda Katz (YK), Allen Wirfs-Brock (AWB).
    is_roster = len(matches) > 2 and 2 * known > len(matches)
    for match in matches:
        short, words = match["short"], match["long"].split()
        initials = [c for c in short if c.isupper()]
        # The longest run of words at the end whose first letters are the abbreviation.
        for begin in range(len(words)):
            run = words[begin:]
            if run[0].lower() in _SMALL_WORDS or not run[0][0].isupper():
                continue
            if _initials(run) == "".join(initials) or _initials(run, small=True) == short.upper():
                kind = _kind(walk, run, "", "") or "CONCEPT"
                is_role = run[-1].lower() in cues.POSITIONS
                is_sold = begin and words[begin - 1].lower() in cues.VENDORS
                if kind == "CONCEPT" and is_sold and not is_role:
                    kind = "TECHNOLOGY"  # Amazon Simple Email Service (SES)
                if kind == "CONCEPT" and not is_role and _is_technology(walk, short):
                    kind = "TECHNOLOGY"
                if is_roster and 1 < len(run) < 5 and _is_full_name(walk, run):
                    kind = "PERSON"
                bodies = walk.gazetteer.find(short)
                if kind == "CONCEPT" and bodies and all(one.kind == "ORG" for one in bodies):
                    kind = "ORG"
                long = " ".join(run)
                if entries := walk.gazetteer.find(long):
                    kind, long = _plain_kind(entries[0]), entries[0].name
                yield Introduced(_words_of(" ".join(run)), kind, long, 0.8)
                if walk.gazetteer.find(short):
                    # Alternate Work Schedule (AWS): here, and nowhere else, this is what it means.
                    yield Introduced((short,), kind, long, 0.8)
                else:
                    yield Introduced((short,), "CONCEPT", short, 0.5, (long,))
                break


def _is_technology(walk: Walk, short: str) -> bool:
    """Return whether an abbreviation is known, and has no other long form: TLS, not AWS."""
    entries = walk.gazetteer.find(short)
    return any(
        entry.kind == "TECHNOLOGY"
        and entry.name == short
        and all(alias.lower() == short.lower() for alias in entry.aliases)
        for entry in entries
    )


def _plain_kind(entry: Entry) -> str:
    return "TECHNOLOGY" if entry.kind == "SERVICE" else entry.kind


def _initials(words: Sequence[str], *, small: bool = False) -> str:
    return "".join(
        part[0].upper()
        for word in words
        if small or word.lower() not in _SMALL_WORDS
        for part in word.split("-")
        if part
    )


_PROJECT_HOSTS = ("github.com", "gitlab.com", "pypi.org", "npmjs.com", "crates.io", "rubygems.org")
_PROFILE = re.compile(r"https?://(?:www\.)?(?:github|gitlab|twitter|x)\.com/(?P<handle>[\w-]+)/?")
_LINK_WORD = re.compile(r"[A-Za-z][\w.+:-]{1,40}")
_OF_AN_OFFICE = re.compile(r"(?:^|\.)(?:gov|edu|mil|ac|int)(?:\.[a-z]{2})?$")


def _linked(walk: Walk, words: str, target: str) -> Introduced | None:
    """Return what the words of a link name: a record, or a project they lead to."""
    shown = words.strip(" *_`")
    file = _RECORD_FILE.search(target)
    called = _RECORD.search(shown) or (file if _NUMBER_FIRST.match(shown) else None)
    if called is not None and len(shown) < 200:
        title = _NUMBERED_TITLE.fullmatch(shown)
        return Introduced(
            _words_of(shown),
            "DECISION",
            record_name(called["word"], called["number"]),
            0.8,
            description=title["title"] if title else "",
        )
    if not shown or len(shown.split()) > 5 or walk.gazetteer.find(shown):
        return None
    if profile := _PROFILE.fullmatch(target):
        run = shown.split()
        is_handle = shown.lower() == f"@{profile['handle'].lower()}"
        if is_handle or (
            1 < len(run) < 5
            and all(word.istitle() or word in cues.NAME_PARTICLES for word in run)
            and _is_full_name(walk, run)
        ):
            return _introduce(shown, 0.8)
    if _TICKET_LIKE.fullmatch(shown):
        return None
    if "wikipedia.org" in target:
        return None
    if not target:
        is_name = _LINK_WORD.fullmatch(shown) and not is_ordinary(shown.lower())
        is_name = is_name and not all(is_ordinary(part) for part in shown.lower().split("-"))
        return Introduced((shown,), "TECHNOLOGY", shown, 0.5) if is_name else None
    host, _, rest = target.partition("://")[2].partition("/")
    key = _loose(shown)
    # A folder of a repository may be called anything.
    depth = 2 if host.removeprefix("www.") in _PROJECT_HOSTS else 3
    labels = {_loose(part) for part in (*host.split("."), *rest.split("/")[:depth])}
    same = key in labels or f"python{key}" in labels
    if (
        _LINK_WORD.fullmatch(shown)
        and same
        and target.count("/") <= 5
        and not is_ordinary(shown.lower())
    ):
        return Introduced((shown,), "TECHNOLOGY", shown, 0.7)
    run = shown.split()
    if (
        same
        and len(run) < 4
        and "#" not in target
        and all(_is_name_word(word) for word in run)
        and not _says_ordinary(shown)
    ):
        # nist.gov is an office, hrlinks.gsa.gov a service of one.
        is_office = _OF_AN_OFFICE.search(host) and _loose(host.split(".")[-2]) == key
        is_project = host.removeprefix("www.") in _PROJECT_HOSTS
        kind = "ORG" if is_office else _kind(walk, run, "", "")
        # What has a page of its own may be a company, a book, an event.
        kind = kind or ("TECHNOLOGY" if is_project else "CONCEPT")
        return Introduced(_words_of(shown), kind, shown, 0.7)
    return None


def _account(walk: Walk, words: str, target: str) -> Introduced | None:
    """Return who a link to an account or an address may name: several are a list of people."""
    shown = words.strip(" *_`")
    if not _PERSON_NAME.fullmatch(shown.removeprefix("@")) or walk.gazetteer.find(shown):
        return None
    if target.startswith("mailto:"):
        return None if _has_prose(shown) or _says_ordinary(shown) else _introduce(shown, 0.7)
    profile = _PROFILE.fullmatch(target)
    is_same = profile is not None and _loose(shown) == _loose(profile["handle"])
    return _introduce(shown, 0.7) if is_same else None


def _loose(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _record_titles(walk: Walk) -> Iterator[Introduced]:
    """Yield decision records by their titles: `# 12. Use Postgres`, `# ADR-0012: Use Postgres`."""
    start, end = walk.page.titles[0]
    title = walk.text[start:end].strip()
    numbered = _NUMBERED_TITLE.fullmatch(title)
    if (numbered and numbered["word"]) or (
        (numbered or walk.text[:start].strip() == "#")
        and len(title.split()) <= LONGEST_TITLE
        and walk.text.count("\n", 0, start) < 8
        and _RECORD_PARTS.search(walk.text, end)
    ):
        named = numbered["title"].strip() if numbered else title
        name = record_name(numbered["word"], numbered["number"]) if numbered else named
        yield Introduced(
            _words_of(named), "DECISION", name, 0.9, description=named if numbered else ""
        )


def record(walk: Walk) -> bool:
    """Read a decision record by its number: ADR-0012, ADR 12, ADR012."""
    if not walk.token.text.startswith(_RECORD_WORDS):
        return False
    match = _RECORD.match(walk.text, walk.token.start)
    if match is None or match.end() < walk.token.end:
        return False
    upto = walk.at
    while upto + 1 < len(walk.tokens) and walk.tokens[upto + 1].end <= match.end():
        upto += 1
    name = record_name(match["word"], match["number"])
    is_begun = not walk.text[: match.start()].strip()
    title = _AFTER_NUMBER.match(walk.text, match.end()) if is_begun else None
    called = title["title"].strip() if title else ""
    walk.mentions.append(
        NamedSpan(match.start(), match.end(), "DECISION", name, 0.9, description=called)
    )
    walk.at = upto + 1
    return True


# --- Names learned by how the text writes them ---------------------------------------------

# How much a mention says: names are shown when what their mentions say adds up to one half.
_LETTERS = "A-Za-z\u00c0-\u024f"
_NAME_WORD = re.compile(
    rf"[A-Z\u00c0-\u024f][{_LETTERS}0-9]{{0,40}}(?:['\u2019&+-][{_LETTERS}0-9]{{1,40}}){{0,4}}"
    r"|[A-Z]{2,5}\.[A-Z]{2,5}"
)
_CONTRACTED = re.compile(r".*(?:n['\u2019]t|['\u2019](?:ll|re|ve|m|d))")
MOST_WORDS = 6


@lru_cache(maxsize=20_000)
def _is_name_word(word: str) -> bool:
    return (
        _NAME_WORD.fullmatch(word) is not None
        and word[0].isupper()
        and not _TICKET_LIKE.fullmatch(word)
        and not _CONTRACTED.fullmatch(word)
        and not _is_compound(word)
        and not all(part in _CALENDAR for part in word.lower().split("-"))
        and word.partition("'")[0].partition("\u2019")[0] not in cues.NOT_NAMES
    )


def _is_compound(word: str) -> bool:
    """Return whether a name is only the first part of a word: MFA-enabled, Browser-style."""
    tail = word.rpartition("-")[2]
    return tail != word and tail.islower() and is_ordinary(tail)


_TICKET_LIKE = re.compile(r"[A-Z]+-\d+|[A-Z]\d+")
_CALENDAR = frozenset(DATE_WORDS) | frozenset("mon tue wed thu fri sat sun".split())


_SEVERAL = re.compile(r"[A-Z]{2,5}s")  # Fastly IPs


def _run(walk: Walk, begin: int) -> int:
    """Return the last of the capitalised words that begin here; `of` and `for` may be between."""
    upto = begin
    while upto - begin < MOST_WORDS - 1 and _adjoin(walk, upto):
        word = walk.tokens[upto + 1].text
        if _is_name_word(word) or word in cues.WITHIN_NAMES:
            upto += 1
        elif (
            (word == "of" or (word == "for" and (upto - begin >= 2 or _is_office(walk, upto))))
            and _adjoin(walk, upto + 1)
            and _is_name_word(walk.tokens[upto + 2].text)
            and not walk.is_title(walk.tokens[begin])
            and walk.tokens[upto].text.lower() in cues.NAME_HEADS
        ):
            upto += 2
        else:
            break
    while upto > begin and (
        walk.lower[upto] in cues.COMMON_TAILS or _SEVERAL.fullmatch(walk.tokens[upto].text)
    ):
        upto -= 1
    return upto


def _is_office(walk: Walk, index: int) -> bool:
    return walk.tokens[index].text in cues.OFFICES


def _adjoin(walk: Walk, index: int) -> bool:
    """Return whether only a blank, or the end of a wrapped line, divides a word from the next."""
    if not walk.joined(index):
        return False
    gap = walk.text[walk.tokens[index].end : walk.tokens[index + 1].start]
    return gap.isspace()


def longer_name(walk: Walk) -> bool:
    """Read capitalised words that are one name: Open Policy Agent, Amazon Managed Grafana."""
    begin, word = walk.at, walk.token.text
    if record(walk):  # before tickets, which look the same
        return True
    if not _is_name_word(word) or word in cues.NOT_NAMES:
        return False
    upto = _run(walk, begin)
    if upto == begin:
        return False
    words = [token.text for token in walk.tokens[begin : upto + 1]]
    surface = " ".join(words)
    if walk.gazetteer.find(surface) or _are_known(walk, words):
        return False
    if surface.lower() in walk.gazetteer.removed:
        walk.at = upto + 1
        return True
    if len(words) == 2 and word in cues.NUMBERED and len(words[1]) == 1:
        return _learn(walk, upto, "CONCEPT", NEVER)  # Option B
    lower = [one.lower() for one in words]
    if all(map(is_ordinary, lower[:-1])) and _is_product(walk, words[-1]):
        return False  # Effective Java, Encrypted EBS
    plain = [is_technical(one) for one in lower]
    size = next(
        (n for n in range(len(words), 1, -1) if walk.gazetteer.find(" ".join(words[:n]))), 1
    )
    known = walk.gazetteer.find(" ".join(words[:size]))
    starts = walk.token.first and (plain[0] or lower[0] in cues.STARTERS) and not known
    if lower[-1] in cues.ORG_TAILS and not (starts and len(words) == 2):
        # Acme Corp is Acme.
        companies = [one for one in known if one.kind in ("ORG", "SERVICE")]
        is_known = bool(companies) and len(words) == 2 and lower[-1] in cues.LEGAL_FORMS
        return _learn(walk, upto, "ORG", 0.8, companies[0].name if is_known else "")
    if " ".join(lower[1:]) in cues.NAMED_ERRORS.get(lower[0], ()):
        return False  # Bad Gateway
    is_order = lower[0] in cues.IMPERATIVES
    if is_order and (words[1].isupper() or any(walk.gazetteer.find(one) for one in words[1:])):
        return False  # Upgrade Jaeger UI, Ensure GA
    if word in cues.COMMON_ACRONYMS and shape_of(words[1]) is not None:
        return False  # the URL DocuSign uses
    if not known and (shape_of(word) is not None or unknown_name(walk)):
        return walk.at > begin
    if all(map(is_ordinary, lower)) and ((walk.last() and walk.before()) or _is_cell(walk)):
        return _learn(walk, upto, "CONCEPT", NEVER)  # the Node.js Project Calendar; a table's head
    # San Francisco International Airport is no place of that name, London Office is one.
    kinds = {entry.kind for entry in known}
    is_longer = kinds == {"PLACE"} and not all(is_ordinary(one) for one in lower[size:])
    if known and kinds <= {"PERSON", "PLACE"} and not is_longer:
        return False
    if not known and walk.token.first and plain[0] and lower[0].endswith(("ed", "ing")):
        return False  # Added Foo Bar, Updating Foo Bar: the name begins later.
    if starts and (len(words) == 2 or not all(plain)):
        return False  # The sentence begins with a capital; so does the name after it.
    if walk.is_title(walk.token):
        return False
    # Redis Clients are clients of Redis; Prometheus Operator is a name if it is written so again.
    is_tail = all(plain[size:]) or any(one.isupper() for one in words[size:])
    is_title = len(words) - size > 2  # GitHub Actions Workflow Runs Jobs
    if known and is_tail and (walk.token.first or is_title or walk.text.count(surface) < 2):
        return False
    known_words = all(one or word.isupper() for one, word in zip(plain, words, strict=True))
    if known_words and _is_label(walk, upto):
        return _learn(walk, upto, "CONCEPT", 0.0)
    if stated := _said_kind(walk, upto):
        return _learn(walk, upto, stated, 0.5)
    if _is_person_by_words(walk, words, upto):
        return _learn(walk, upto, "PERSON", 0.6)
    # Ordinary words together, and two unknown ones, are used for other things than products, too.
    before = "" if all(map(is_ordinary, lower)) or walk.before() == "with" else walk.before()
    kind = _kind(walk, words, before, walk.after(upto))
    if kind == "TECHNOLOGY" and walk.after(upto) in ("team", "teams") and all(plain):
        kind = "CONCEPT"  # the Spec Core Team
    if not cues.LICENCES.isdisjoint(walk.lower[upto + 1 : upto + 4]) and walk.joined(upto):
        kind = "CONCEPT"  # the Creative Commons CC0 1.0 Universal license
    is_open = kind in (None, "CONCEPT") and all(map(is_ordinary, lower))
    if is_open and (walk.is_legal or _is_phrase(walk, upto, surface)):
        return _learn(walk, upto, "CONCEPT", NEVER)
    if all(plain) and kind != "ORG":
        confidence = 0.1 if walk.token.first else 0.17
    elif is_open:
        confidence = 0.17 if walk.token.first else 0.3
    else:
        confidence = 0.3 if walk.token.first else 0.5
    return _learn(walk, upto, kind or "CONCEPT", confidence)


_PRONOUNS = re.compile(r" \((?:he|she|they)/", re.IGNORECASE)
_POSITION = re.compile(
    r",?[ \n](?:\(|is |was )?(?:(?:the|our|a|an|their) )?(?:\w+ ){0,2}?(?:CEO|CTO|CFO|COO|VP"
    r"|[Hh]ead of|[Dd]irector|[Ff]ounder|[Pp]rofessor|[Ee]ngineer|[Dd]esigner|[Ee]ditor|[Cc]hair)\b"
)


def _is_person_by_words(walk: Walk, words: Sequence[str], upto: int) -> bool:
    """Return whether unknown words are a full name by the words around them: ask Yomi Adetutu."""
    if len(words) > 3 or not all(word.istitle() and len(word) > 1 for word in words):
        return False
    if not _is_full_name(walk, words):
        return False
    before, end = walk.before(), walk.tokens[upto].end
    return (
        before in cues.STRONG_BEFORE_PERSON
        or before in cues.POSITIONS
        or (before == "with" and _is_joint(walk))
        or (before == "from" and walk.before(walk.at - 1) in cues.GIVEN)
        or walk.after(upto) in cues.STRONG_AFTER_PERSON
        or _PRONOUNS.match(walk.text, end) is not None
        or _POSITION.match(walk.text, end) is not None
    )


def _is_product(walk: Walk, word: str) -> bool:
    """Return whether a word is a known name of a product, and none of texts."""
    kinds = ("TECHNOLOGY", "SERVICE")
    return any(one.kind in kinds and not one.exact for one in walk.gazetteer.find(word))


def _are_known(walk: Walk, words: Sequence[str]) -> bool:
    """Return whether these are two known names next to each other."""
    rest = " ".join(words[1:])
    return bool(walk.gazetteer.find(rest)) and bool(walk.gazetteer.find(words[0]))


def _learn(walk: Walk, upto: int, kind: str, confidence: float, name: str = "") -> bool:
    start, end = walk.token.start, walk.tokens[upto].end
    name = name or " ".join(walk.text[start:end].split())
    walk.mentions.append(NamedSpan(start, end, kind, name, confidence, "learned"))
    walk.at = upto + 1
    return True


_INITIALS_BEFORE = re.compile(r"(?<![\w.])(?:[A-Z]\. ?){1,3}\Z")


def learned(walk: Walk) -> bool:
    """Read one capitalised word that may be a name: how often it is written so decides."""
    word, lower = walk.token.text, walk.lower[walk.at]
    if not _is_name_word(word) or len(word) < 3 or word in cues.NOT_NAMES:
        return False
    if all(is_ordinary(part) or len(part) < 3 for part in lower.split("-")):
        return False
    if lower in cues.STARTERS or word in cues.LITERALS or may_begin_date(lower):
        return False
    if lower in cues.ORG_TAILS or lower in cues.PRODUCT_HEADS:
        return False  # the Council, a Gateway: a kind of thing
    if word in cues.NUMBERED and walk.after_is_number():
        return False
    if walk.gazetteer.find(word) or lower in walk.gazetteer.removed:
        return False
    if word[-1] == "s" and word[:-1].isupper():
        for entry in walk.gazetteer.find(word[:-1]):  # two EC2s
            if entry.kind == "TECHNOLOGY" and not entry.exact:
                return walk.add_known(entry.kind, entry, walk.at)
    if "-" in word and walk.token.first and walk.text[walk.token.end : walk.token.end + 2] == ": ":
        return _learn(walk, walk.at, "CONCEPT", NEVER)  # a trailer: Change-Id
    if initials := _INITIALS_BEFORE.search(walk.text, walk.token.start - 9, walk.token.start):
        # A. Smith is not the Smith of another sentence. At a line's beginning it may be item A.
        start = initials.start()
        if (start == 0 or walk.text[start - 1] == "\n") and not _acts(walk):
            return False
        if not word[1:].islower() and not _JOINED_NAME.match(word):
            return False  # Room D. HS1 has none
        return walk.add(start, walk.token.end, "PERSON", 0.6, walk.at)
    if is_acronym(word):
        acronym = word.removesuffix("s")
        if len(acronym) > 6 or acronym in cues.COMMON_ACRONYMS or walk.is_title(walk.token):
            return False
        if walk.after() in cues.AFTER_EMPLOYER and acronym == word and acronym.isalpha():
            return _learn(walk, walk.at, "ORG", 0.5)
        return _learn(walk, walk.at, "CONCEPT", 0.1 if walk.token.first else 0.17, acronym)
    if stated := _said_kind(walk, walk.at):
        return _learn(walk, walk.at, stated, 0.5)
    kind = _kind(walk, [word], walk.before(), walk.after())
    if kind == "TECHNOLOGY" and walk.before() == "with" and _is_joint(walk):
        kind = None  # discussed with Kim
    if kind == "TECHNOLOGY" and walk.before() in cues.BEFORE_PRODUCT and _is_counted(walk):
        kind = None  # with Gauge instruments, where there are Gauges
    if kind is None and (walk.after() in cues.AFTER_USED or _is_versioned(walk)):
        kind = "TECHNOLOGY"
    if kind is None and (walk.is_legal or _is_common(walk)):
        return _learn(walk, walk.at, "CONCEPT", NEVER)
    is_weak = walk.is_title(walk.token) or (walk.token.first and not _acts(walk))
    confidence = 0.1 if is_weak else 0.3
    if kind == "CODE":
        confidence = 0.5
    return _learn(walk, walk.at, kind or "CONCEPT", confidence)


_ONE_OF_MANY = frozenset("a an each every any no these those another many several all".split())
_AFTER_NOUN = cues.SUBJECT_VERBS | _SMALL_WORDS | {"", "with", "at", "from", "by", "who", "that"}


def _is_common(walk: Walk) -> bool:
    """Return whether only a capital letter makes a word a name: a Surgeon, your swag."""
    if walk.before() in _ONE_OF_MANY and walk.after() in _AFTER_NOUN:
        return True
    return walk.lower[walk.at] in walk.written


def _is_counted(walk: Walk) -> bool:
    """Return whether the text has several of what a word names: a Gauge, Gauges."""
    word = walk.token.text
    if f"{word}s" in walk.text:
        return True
    return re.search(rf"\b(?:[Aa]n?|[Ee]ach|[Ee]very) {re.escape(word)}\b", walk.text) is not None


_MENU = re.compile(r"[\s*_]{0,6}(?:&gt;|>|\u2192|\u203a|\u00bb)\s")
_PRESSED = frozenset("click clicking press pressing select selecting tap".split())


def _is_phrase(walk: Walk, upto: int, surface: str) -> bool:
    """Return whether ordinary words with capitals are one of many, a section, or on a button."""
    if walk.before() in _ONE_OF_MANY and walk.after(upto) in _AFTER_NOUN:
        return True
    if surface.lower() in walk.text or surface in walk.sections:
        return True
    if walk.after(upto) in cues.OF_A_SCREEN and walk.before() in _DETERMINERS:
        return True
    before = walk.before(walk.at - 1) if walk.before() in ("the", "on") else walk.before()
    return before in _PRESSED or _MENU.match(walk.text, walk.tokens[upto].end) is not None


_LABEL_END = re.compile(r"[*_\s]{0,4}:")


def _is_versioned(walk: Walk) -> bool:
    """Return whether a version follows: Kombu to 4.3, Zolid version 2.1."""
    is_next = walk.after() in ("to", "from", "version") and walk.joined(walk.at + 1)
    return is_next and _VERSION_LIKE.fullmatch(walk.tokens[walk.at + 2].text) is not None


def _is_joint(walk: Walk) -> bool:
    """Return whether what is done with a name is done with people."""
    earlier = walk.lower[max(0, walk.at - 3) : walk.at - 1]
    return any(word.startswith(cues.WITH_PEOPLE) for word in earlier)


def _is_cell(walk: Walk) -> bool:
    """Return whether a word begins the cell of a table."""
    return walk.text[max(0, walk.token.start - 4) : walk.token.start].rstrip(" *_")[-1:] == "|"


def _is_label(walk: Walk, upto: int) -> bool:
    """Return whether words begin a line and a colon follows: fields of a form repeat."""
    line = walk.text.rfind("\n", 0, walk.token.start) + 1
    begins = walk.token.first or not walk.text[line : walk.token.start].strip(" *_-")
    return begins and _LABEL_END.match(walk.text, walk.tokens[upto].end) is not None


def _acts(walk: Walk) -> bool:
    """Return whether what follows says what the word does, or what was done with it."""
    after = walk.after()
    if after in cues.BEFORE_DONE:
        return walk.after(walk.at + 1) in cues.DONE
    if after in cues.ACTS:
        return True
    word = walk.lower[walk.at]
    may_be_many = word.endswith("s") and not word.endswith(("us", "is", "os", "ss"))
    return not may_be_many and walk.text.startswith((", which ", ", who "), walk.token.end)


# Contoso, a logistics company, adopted it.
_APPOSITION = re.compile(
    r",? (?:is |was )?an? (?:[a-z][a-z-]* ){0,3}?"
    r"(?:(?P<ORG>company|startup|start-up|agency|vendor|consultancy|charity|manufacturer|retailer)"
    r"|(?P<PERSON>engineer|developer|designer|manager|researcher|professor|consultant|architect)"
    r"|(?P<TECHNOLOGY>library|framework|tool|database|language|platform|package|plugin|compiler"
    r"|linter|protocol|toolkit|broker))\b(?! [a-z]*(?:s|er|ing)\b)"
)


def _said_kind(walk: Walk, upto: int) -> str | None:
    """Return what a text says a name is, right behind it."""
    said = _APPOSITION.match(walk.text, walk.tokens[upto].end)
    return said.lastgroup if said else None


def _kind(walk: Walk, words: Sequence[str], before: str, after: str) -> str | None:
    """Return what an unknown name is, by its last word, its parts and the words around it."""
    if words[0] in cues.LAND_HEADS and len(words) > 2 and not _says_ordinary(words[2]):
        return None if words[2].isupper() else "PLACE"  # State of JS
    while len(words) > 2 and any(e.kind == "PLACE" for e in walk.gazetteer.find(words[-1])):
        words = words[:-1]  # Free Software Foundation Europe
    head = words[-1].lower().strip(".")
    if len(words) > 2 and head in cues.POSITIONS - cues.PRODUCT_HEADS:
        return "CONCEPT"  # Working Group Technical Lead
    is_office = any(
        (one in cues.OFFICES and other in ("of", "for"))
        or (one in cues.BOARDS and other in ("Board", "Group"))
        or (is_acronym(one) and other == "Board" and one not in cues.COMMON_ACRONYMS)
        for one, other in pairwise(words)
    )
    if head in cues.ORG_TAILS or words[0] in cues.ORG_HEADS or is_office:
        return "ORG"
    if len(words) > 2 and head in ("centre", "center", "service") and words[0] in cues.PUBLIC:
        return "ORG"
    if head in cues.IDEA_HEADS or after in cues.LICENCES:
        return "CONCEPT"
    # Adoption Pay and Core Stack are no products.
    is_plain = head in cues.PLAIN_HEADS and all(is_ordinary(word.lower()) for word in words)
    if head in cues.PRODUCT_HEADS and not is_plain:
        return "TECHNOLOGY"
    pieces = words[-1].split("-")
    if len(pieces) > 1 and (
        pieces[-1] == "Bot" or all(_is_product(walk, piece) for piece in pieces)
    ):
        return "TECHNOLOGY"  # Prettier-ESLint
    is_new = before == "new" and after.isalpha() and after not in cues.AFTER_CLASS
    if len(words) == 1 and (
        after in cues.AFTER_CLASS
        or (before in cues.BEFORE_CLASS and not is_new)  # new Gossipsub topics
        or (head[-1].isdigit() and "-" not in head)
    ):
        return "CODE"
    if len(words) > 1 and head in cues.PEOPLE:
        return "CONCEPT"  # Django Fellows
    for word in words:
        plain = is_ordinary(word.lower())
        for entry in walk.gazetteer.find(word):
            if entry.kind in ("TECHNOLOGY", "SERVICE") and not (entry.exact and plain):
                return "TECHNOLOGY"
    if after in cues.AFTER_EMPLOYER and not all(is_ordinary(word.lower()) for word in words):
        return "ORG"
    if after in cues.AFTER_COMPANY and before not in ("the", "a", "an"):
        return None
    if (
        _VERSION_LIKE.fullmatch(after)
        or before in cues.BEFORE_PRODUCT
        or after in cues.AFTER_PRODUCT
    ):
        return "TECHNOLOGY"
    return None


_LISTED = re.compile(r"[ *_`]*(?:,|,? ?and|,? ?or|&|/)[\s*_`]*")
_NEXT_ITEM = re.compile(r"[ *_`]*\n\s*(?:[-*+]|\d+[.)])[ *_`]*")
_ITEM_START = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ *_`]*")
_SETTLED = frozenset({"TECHNOLOGY", "ORG", "PERSON", "PLACE", "CODE", "PACKAGE"})


def _is_pascal(mention: NamedSpan) -> bool:
    """Return whether this is a word such as CloudFoundry, outside of backticks."""
    is_word = mention.confidence == 0.7 and mention.name.isalnum()
    return mention.type == "CODE" and is_word and not _ends_like_code(mention.name)


def _are_listed(walk: Walk, first: NamedSpan, second: NamedSpan) -> bool:
    """Return whether two names are next to each other in a list."""
    if _LISTED.fullmatch(walk.text, first.end, second.start):
        return True
    if not _NEXT_ITEM.fullmatch(walk.text, first.end, second.start):
        return False
    # An item that ends with a name says nothing of how the next one begins.
    line = walk.text.rfind("\n", 0, first.start) + 1
    return _ITEM_START.fullmatch(walk.text, line, first.start) is not None


def _is_service(walk: Walk, mention: NamedSpan) -> bool:
    return any(entry.kind == "SERVICE" for entry in walk.gazetteer.find(mention.name))


_ROW_START = re.compile(r"[ \t]*(?:[-*+|]|\d+[.)])[ *_`]*")
_ROW_END = re.compile(r"[*_` ]*(?:$|[|(@,:\u2013\u2014-])", re.MULTILINE)


def _name_people(walk: Walk) -> None:
    """Take full names for people where the names next to them in a list or table are people."""
    mentions, previous = walk.mentions, -1
    rows: list[tuple[int, int]] = []
    for index, mention in enumerate(mentions):
        line = walk.text.rfind("\n", 0, mention.start) + 1
        if line == previous or not _ROW_START.fullmatch(walk.text, line, mention.start):
            continue
        if _ROW_END.match(walk.text, mention.end):
            rows.append((index, line))
            previous = line
    pairs = [
        (one, other)
        for (one, first), (other, second) in pairwise(rows)
        if "\n" not in walk.text[first : second - 1]
    ]
    pairs += [
        (index, index + 1)
        for index, (first, second) in enumerate(pairwise(mentions))
        if _LISTED.fullmatch(walk.text, first.end, second.start)
    ]
    for known, name in [*pairs, *((name, known) for known, name in reversed(pairs))]:
        if _may_be_person(walk, mentions[known], mentions[name]):
            mentions[name] = mentions[name]._replace(type="PERSON", confidence=0.6)
    for (before, name), (same, after) in pairwise(pairs):
        # Till Schneidereit, between two people
        one, surname = mentions[name], mentions[name].name.rpartition(" ")[2]
        is_name = one.type == "CONCEPT" and one.name.count(" ") == 1 and one.name.istitle()
        is_name = is_name and not is_ordinary(surname.lower()) and not one.aliases
        is_between = name == same and mentions[before].type == "PERSON" == mentions[after].type
        if is_name and is_between:
            mentions[name] = one._replace(type="PERSON", confidence=0.6)


def _may_be_person(walk: Walk, known: NamedSpan, name: NamedSpan) -> bool:
    """Return whether a name is the full name of someone if the name next to it is one."""
    return (
        known.type == "PERSON"
        and name.type == "CONCEPT"
        and not name.aliases
        and 1 < len(name.name.split()) < 5
        and _is_full_name(walk, name.name.split())
    )


_NEXT_CELL = re.compile(r"[*_` ]*\|[*_` ]*")
_NEXT_WORD = re.compile(r"[*_` ]*(?:,| [-\u2013\u2014]| \() ?")
_CELL_END = re.compile(r"[*_` ]*(?:\||$|\))", re.MULTILINE)


def _name_employers(walk: Walk) -> None:
    """Take what is next to a full name in a row of people for an organization: Ada Byron, SAP."""
    named = [index for index, one in enumerate(walk.mentions) if one.type != "URL"]
    for first, second in pairwise(named):
        person, name = walk.mentions[first], walk.mentions[second]
        if person.type != "PERSON" or " " not in person.name:
            continue
        is_product = name.type == "TECHNOLOGY" and _is_service(walk, name)
        is_unknown = name.type == "CONCEPT" and not _says_ordinary(name.name)
        if not (is_product or is_unknown):
            continue
        if not _CELL_END.match(walk.text, name.end):
            continue
        line = walk.text.rfind("\n", 0, person.start) + 1
        in_row = _ROW_START.fullmatch(walk.text, line, person.start) is not None
        if _NEXT_CELL.fullmatch(walk.text, person.end, name.start) or (
            in_row and _NEXT_WORD.fullmatch(walk.text, person.end, name.start)
        ):
            found = max(0.5, name.confidence)
            walk.mentions[second] = name._replace(type="ORG", confidence=found)


def agree(walk: Walk) -> list[NamedSpan]:
    """Give names of unknown kind the kind they have elsewhere, or that of their list."""
    mentions = walk.mentions
    if any(mention.type == "PERSON" for mention in mentions):
        _name_employers(walk)
    if not any(mention.source == "learned" for mention in mentions):
        return mentions
    for order in (range(1, len(mentions)), range(len(mentions) - 2, -1, -1)):
        step = 1 if order.step < 0 else -1
        for index in order:
            one, other = mentions[index], mentions[index + step]
            if one.aliases or not (one.source == "learned" or _is_pascal(one)):
                continue
            if other.type not in ("TECHNOLOGY", "ORG", "PLACE") or other.confidence < 0.5:
                continue
            if one.type != "CONCEPT" and one.confidence >= 0.5 and not _is_pascal(one):
                continue
            is_guess = _is_service(walk, other) or other.source != "gazetteer"
            if _says_ordinary(one.name) or (is_acronym(one.name) and is_guess):
                continue  # Operations Coordinator, Acme Corp; your team, GDS or GitHub
            first, second = (other, one) if step < 0 else (one, other)
            if _are_listed(walk, first, second):
                mentions[index] = one._replace(type=other.type, confidence=max(0.5, one.confidence))
    _name_people(walk)
    kinds: dict[str, NamedSpan] = {}
    for mention in mentions:
        if mention.type in _SETTLED and (mention.source != "learned" or mention.confidence >= 0.5):
            key = _loose(mention.name)
            if key not in kinds or kinds[key].confidence < mention.confidence:
                kinds[key] = mention
    for index, mention in enumerate(mentions):
        is_open = mention.source == "learned" and mention.confidence < 0.5
        if (is_open or mention.type == "CONCEPT") and not mention.aliases:
            known = kinds.get(_loose(mention.name))
            if known is not None:
                mentions[index] = mention._replace(type=known.type, name=known.name)
    return mentions


# --- Rules for what developers type: code in backticks, commands, packages, versions, statuses ---


# So unsure that no number of mentions makes a node: what texts name and no reader looks up.
NEVER = 0.001
LONGEST_CODE = 120
LONGEST_PHRASE = 6
LEAST_LETTERS = 0.4
MOST_ARGUMENTS = 8
LONGEST_ERROR = 40

# One or two on either side: Markdown and reStructuredText.
_BACKTICKS = re.compile(r"(?<!`)(`{1,2})([^`\n]{1,300})\1(?!`)")
_LINK = re.compile(r" <[^<>\s]+>$")  # reStructuredText: `name <address>`_
_TRACE = re.compile(r"^[ \t]*at [\w.$<>/]+\([^()\n]*\)[ \t]*$", re.MULTILINE)  # a stack trace
_CLOSES = re.compile(r"[ \t]*(?:\n[ \t]*(?:\n|\Z)|\Z)")
# In an item of a list a block is indented, in a quotation it is marked.
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)(?P<language>[\w{]*)", re.MULTILINE)
_PINNED = re.compile(
    r"(@?[A-Za-z](?:[\w.\-/]*\w)?)(?:\[[\w,]+\])?(?:==|>=|<=|~=|!=|<|>|@|\^)v?(\d[\w.\-*]*)"
)
_PACKAGE_NAME = re.compile(r"@?[a-z][a-z0-9]*(?:[-_./][a-z0-9]+)*")
_ARGUMENT = re.compile(r"--?[a-zA-Z]|\.{0,2}/\w|~/|https?:|\w+@\w")
_PART = re.compile(r"[^/,;|()=:]+")
_LETTER = re.compile(r"[^\W\d_]")
# The end of an element, a string, a color, an amount.
_FRAGMENT = re.compile(
    r"^</|[\"']|\$\{|^#[0-9a-fA-F]{3,8}$|^\d[\d.,_]* ?(?:[KMGT]i?[Bb]|[mun]?s|min|h|d|px|r?em)$"
    r"|^(?=[A-Za-z+/=]*\d)[A-Za-z0-9+/=]{44,}$"
)

Quoted = tuple[int, int, NamedSpan | None]
"""A stretch that is read as a whole: from, to, and what it is."""


def quoted(walk: Walk) -> list[Quoted]:
    """Code in backticks is one thing each; blocks of code are left out."""
    blocks = _code_blocks(walk)
    found: list[Quoted] = [(start, end, None) for start, end in blocks]
    if "`" not in walk.text:
        return found
    block = 0
    for match in _BACKTICKS.finditer(walk.text):
        while block < len(blocks) and blocks[block][1] <= match.start():
            block += 1
        if block == len(blocks) or match.end() <= blocks[block][0]:
            found.append((match.start(), match.end(), _in_backticks(walk, *match.span(2))))
    return sorted(found, key=lambda stretch: stretch[0])


# reStructuredText: what is indented behind a line that ends with `::`, and what was typed in.
_LITERAL = re.compile(
    r"^(?P<indent>[ \t]*)(?:\.\. (?:code|code-block|sourcecode|ipython|parsed-literal|prompt)::"
    r"[^\n]*|(?!\.\. )[^\n]*::[ \t]*)\n(?:[ \t]+:[a-z-]+:[^\n]*\n)*(?:[ \t]*\n)+"
    r"(?P<block>(?:(?P=indent)[ \t]+\S[^\n]*(?:\n|\Z)|[ \t]*\n)+)",
    re.MULTILINE,
)
_TYPED = re.compile(
    r"^[ \t]*(?:>>> [^\n]*(?:\n[ \t]*\S[^\n]*)*|\$ [^\n]*(?:\\\n[^\n]*)*)", re.MULTILINE
)
_PARAGRAPH = re.compile(r"^[ \t]*\S[^\n]*(?:\n[ \t]*\S[^\n]*)+", re.MULTILINE)
_CODE_LINE = re.compile(
    r"^[ \t]*(?:"
    r"(?://|#include |import \w[\w.]*$|from [\w.]+ import |(?:def|fn|func) \w|return |@\w+$)[^\n]*"
    r"|[^\n]*(?:[{;\[]|\w\(|\):|[=-]>|\"`)"
    r"|[})\]]+[,;]?"
    r"|[\w.\[\]\"']+(?:, \w+){0,5} [:*/+-]?= \S[^\n]*"
    r"|\w[\w.]*\([^\n]*"
    r")[ \t]*$",
    re.MULTILINE,
)
LEAST_CODE_LINES = 0.6


def _code_blocks(walk: Walk) -> list[tuple[int, int]]:
    """Return where blocks of code are, in order; no two overlap."""
    text, source = walk.text, walk.page.source
    if "\n" not in text:
        return []
    found = [line.span() for line in _TRACE.finditer(text)]
    if "```" in text or "~~~" in text:
        matches = list(_FENCE.finditer(text))
        fences = [match.span() for match in matches]
        if _begins_within(text, matches):
            fences.insert(0, (0, 0))
        closing = [end for _, end in fences[1::2]]
        opening = [start for start, _ in fences[::2]]
        found += zip(opening, [*closing, len(text)], strict=False)
    if "::" in source:
        found += [match.span("block") for match in _LITERAL.finditer(source)]
    if ">>> " in source or "$ " in source:
        found += [match.span() for match in _TYPED.finditer(source)]
    if any(mark in source for mark in (";\n", "{\n", " = ", "):\n", "\n//")):
        # A passage may begin and end within a block.
        for match in _PARAGRAPH.finditer(source):
            lines = match[0].count("\n") + 1
            code = sum(1 for _ in _CODE_LINE.finditer(source, *match.span()))
            if code >= LEAST_CODE_LINES * lines:
                found.append(match.span())
    if len(found) < 2:
        return found
    blocks: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if blocks and start < blocks[-1][1]:
            blocks[-1] = (blocks[-1][0], max(end, blocks[-1][1]))
        else:
            blocks.append((start, end))
    return blocks


def _begins_within(text: str, fences: Sequence[re.Match[str]]) -> bool:
    """Return whether a text begins within a block of code: a passage of a longer one may."""
    if not fences or not text[: fences[0].start()].strip():
        return False
    # A fence that names a language opens a block, and one before an empty line closes one.
    if any(fence["language"] for fence in fences[1::2]):
        return True
    return not fences[0]["language"] and _CLOSES.match(text, fences[0].end()) is not None


_PRESSED_BEFORE = re.compile(
    r"\b(?:click|press|select|tap|tick|choose|enter)(?: on)?(?: the)?[ *_]+`+\Z", re.IGNORECASE
)
_OF_A_FOLDER = re.compile(r"`{0,2} (?:director|folder)")


def _in_backticks(walk: Walk, start: int, end: int) -> NamedSpan | None:
    content = _LINK.sub("", walk.text[start:end]).strip()
    if not content or len(content) > LONGEST_CODE:
        return None
    start = walk.text.index(content, start)
    end = start + len(content)
    words = content.split()
    if not _LETTER.search(content):
        return None
    letters = sum(map(str.isalnum, content))
    is_fragment = content in cues.LITERALS or _FRAGMENT.search(content) is not None
    is_fragment = is_fragment or is_placeholder(content)
    if is_fragment or len(words) > LONGEST_PHRASE or letters < LEAST_LETTERS * len(content):
        return NamedSpan(start, end, "CODE", content, NEVER)
    if _is_command(words):
        return NamedSpan(start, end, "COMMAND", content.removeprefix("$ "), 0.4)
    for entry in walk.gazetteer.find(content):
        if entry.kind in ("TECHNOLOGY", "SERVICE") and not entry.exact:
            sure = NEVER if entry.name in cues.EVERYWHERE and not entry.own else 0.9
            return NamedSpan(start, end, "TECHNOLOGY", entry.name, sure, "gazetteer", entry.aliases)
    if len(words) > 1:
        is_pressed = _PRESSED_BEFORE.search(walk.text, max(0, start - 40), start) is not None
        if all(_is_name_word(word) for word in words):
            if is_pressed and all(is_ordinary(word.lower()) for word in words):
                return NamedSpan(start, end, "CONCEPT", content, NEVER, "learned")
            kind = _kind(walk, words, "", "") or "CONCEPT"
            given = walk.gazetteer.find(words[0])
            is_given = any(entry.kind == "PERSON" and not entry.exact for entry in given)
            if kind == "CONCEPT" and len(words) < 4 and is_given and _is_full_name(walk, words):
                kind = "PERSON"
            return NamedSpan(start, end, kind, content, 0.5, "learned")
        # The `data stack`; `not record` is code.
        is_phrase = all(word.isalpha() and is_ordinary(word) for word in words)
        is_phrase = is_phrase and words[0] not in cues.KEYWORDS
        sure = NEVER if is_phrase and is_pressed else 0.17
        return NamedSpan(start, end, "CONCEPT" if is_phrase else "CODE", content, sure)
    if walk.text[end : end + 13].lower().lstrip("` ").startswith(cues.PACKAGE_NOUNS):
        return NamedSpan(start, end, "PACKAGE", content, 0.9)
    is_field = content.count("_") > 1  # device_authorization_endpoint
    if _PACKAGE_NAME.fullmatch(content) and not is_field and _is_dependency(walk, start):
        return NamedSpan(start, end, "PACKAGE", content, 0.6)
    for name in walk.introduced.get(content, ()):
        # [`mitmproxy`](https://mitmproxy.org)
        if name.type == "TECHNOLOGY" and len(name.words) == 1 and shape_of(content) is None:
            return NamedSpan(start, end, name.type, name.name, name.confidence, "learned")
    if is_version(content):
        return NamedSpan(start, end, "VERSION", content, 0.9)
    shape = shape_of(content)
    if shape is not None and not shape.type:
        return NamedSpan(start, end, "CODE", content, NEVER)  # `.json`
    if shape is not None:
        closed, end = end, end if shape.end is None else start + shape.end
        is_folder = content[0] == "/" and _OF_A_FOLDER.match(walk.text, closed)
        kind = "FILE" if is_folder else shape.type
        if kind == "CODE" and content.isalnum() and content[0].isupper():
            kind = "ERROR" if _is_thrown(walk, start) and not content.isupper() else kind
        return NamedSpan(start, end, kind, walk.text[start:end], shape.confidence)
    stem = content[:-1] if content[-1].isdigit() else content  # arg3 is one of several
    if stem.isalpha() and (is_ordinary(stem.lower()) or len(content) < 3):
        # `data` and `name` are what code calls many things.
        return NamedSpan(start, end, "CODE", content, NEVER if content.islower() else 0.1)
    return NamedSpan(start, end, "CODE", content, 0.3 if content.isalnum() else 0.1)


_DOCUMENT = re.compile(r"\.(?:md|rst|txt|html|json|toml|ya?ml|csv|lock)$")


_ITEM_OF_CODE = re.compile(r"[ \t]*[-*+][ ]+\[?`{1,2}$")
_NEEDED = re.compile(
    r"\b(?:dependenc(?:y|ies)|relies on|depends on|requires|packages|libraries|gems|installs)\b",
    re.IGNORECASE,
)
LONGEST_LIST = 3000


def _is_dependency(walk: Walk, start: int) -> bool:
    """Return whether code begins an item of a list that a line about packages introduces."""
    line = walk.text.rfind("\n", 0, start) + 1
    if not _ITEM_OF_CODE.fullmatch(walk.text, line, start):
        return False
    lines = walk.text[max(0, line - LONGEST_LIST) : line].splitlines()
    for lead in reversed(lines):
        if lead.strip() and not lead.startswith(("-", "*", "+", " ")):
            return _NEEDED.search(lead) is not None
    return False


def _is_command(words: Sequence[str]) -> bool:
    first = words[0]
    if first == "$" or (first.startswith("./") and not _DOCUMENT.search(words[-1])):
        return True
    if len(words) == 1:
        return False
    return first in cues.COMMANDS or (
        words[1].startswith("-") and first.islower() and first.isalnum()
    )


def command(walk: Walk) -> bool:
    """Read a command line in running text, as far as its arguments are recognizable."""
    begin = walk.at + 1 if walk.token.text == "sudo" else walk.at
    if begin > walk.at and not walk.joined(walk.at):
        return False
    if not walk.joined(begin) or not _takes(walk, begin):
        return False
    upto = begin + 1
    while upto - begin < MOST_ARGUMENTS and walk.joined(upto):
        if walk.lower[upto + 1] in cues.AFTER_COMMAND:
            break
        upto += 1
    return walk.add(walk.token.start, walk.tokens[upto].end, "COMMAND", 0.4, upto)


def _takes(walk: Walk, begin: int) -> bool:
    """Whether the word after is one this command takes."""
    name, argument = walk.tokens[begin].text, walk.tokens[begin + 1].text
    if name not in cues.COMMANDS:
        return False
    subcommands = cues.COMMANDS[name]
    if subcommands is None:
        return len(argument) > 1 and _ARGUMENT.match(argument) is not None
    is_command = name not in cues.ENGLISH_COMMANDS or walk.before() in cues.BEFORE_COMMAND
    return is_command and argument in subcommands


def date(walk: Walk) -> bool:
    """Read a date, unless the number is the version of the name before it."""
    token, last = walk.token, walk.last()
    if token.text[0].isdigit() and last and last.type in ("TECHNOLOGY", "PACKAGE"):
        return False
    found = date_at(walk.text, token.start, walk.before(), walk.reference)
    if found is None:
        return False
    walk.mentions.append(NamedSpan(token.start, found.end, "DATE", found.name, found.confidence))
    while walk.at < len(walk.tokens) and walk.token.start < found.end:
        walk.at += 1
    return True


def package(walk: Walk) -> bool:
    """A library named as something that is installed."""
    token = walk.token
    is_word = token.text.isalnum()
    if is_word and not token.text[0].islower():
        return False
    pinned = None if is_word else _PINNED.fullmatch(token.text)
    # PL>=100 compares numbers
    if pinned and pinned[1] not in cues.PLACEHOLDERS and not pinned[1].isupper():
        walk.add(token.start, token.start + pinned.end(1), "PACKAGE", 0.9, walk.at - 1)
        return walk.add(token.start + pinned.start(2), token.end, "VERSION", 0.9, walk.at)
    if not _PACKAGE_NAME.fullmatch(token.text) or token.text in cues.ORDINARY:
        return False
    if _is_installed(walk):
        return walk.add(token.start, token.end, "PACKAGE", 0.8, walk.at)
    return False


def _is_installed(walk: Walk) -> bool:
    before, after = walk.before(), walk.after()
    following = tuple(walk.lower[walk.at + 1 : walk.at + 4]) if after else ()
    if after.startswith(cues.PACKAGE_NOUNS) and "/" not in after:
        word = walk.token.text
        if any(entry.kind == "TECHNOLOGY" for entry in walk.gazetteer.find(word)):
            return False  # a Swift package
        if word.isalpha() and after.endswith("s"):
            return False  # astronomy packages
        is_kind = word.isalpha() or word.endswith("ed") or after.endswith("s")
        pieces = re.split("[-/]", word)
        if is_kind and all(map(is_ordinary, pieces)) and not walk.gazetteer.find(word):
            return False  # a candidate package, file-sourced packages, alpha/beta packages
        if len(pieces) > 1 and pieces[-1] in cues.COMPOUND_TAILS:
            return False  # a vendor-specific package
        return (before not in ("a", "an") and "-" not in before) or "-" in walk.token.text
    if walk.at and walk.lower[walk.at - 1] == "dependency-name":
        return True
    if before in ("package", "crate", "gem"):
        return not walk.token.text.isalpha()
    if before in cues.BUMPS and after in ("from", "to"):
        return is_version(walk.after(walk.at + 1))
    is_word = walk.token.text.isalpha() and is_ordinary(walk.token.text)
    said = walk.tokens[walk.at - 1].text if walk.at else ""  # DEPs are something else
    if before in ("bump", "deps") and said.islower():
        return bool(after) and not is_word
    if said in ("deps", "deps)", "gemspec") and walk.token.first:
        return not is_word
    if is_ordinary(walk.token.text):
        return False
    if following[:2] in (("is", "required"), ("is", "installed")) or following == (
        "is",
        "not",
        "installed",
    ):
        return True
    return following in (("to", "the", "deps"), ("to", "the", "dependencies"))


def numbered_reference(walk: Walk) -> bool:
    """PR 1432, issue 88."""
    number = walk.after()
    if walk.lower[walk.at] not in cues.NUMBERED_REFERENCES or not number.isdigit():
        return False
    return walk.add(walk.token.start, walk.tokens[walk.at + 1].end, "REFERENCE", 0.8, walk.at + 1)


def named_error(walk: Walk) -> bool:
    """Segmentation fault, null pointer exceptions."""
    start = walk.token.start
    text = walk.text[start : start + LONGEST_ERROR].lower()
    first = walk.lower[walk.at]
    for rest in cues.NAMED_ERRORS[first]:
        name = f"{first} {rest}"
        if not text.startswith(name):
            continue
        end = start + len(name) + text.startswith("s", len(name))
        upto = walk.at + len(name.split()) - 1
        if upto < len(walk.tokens) and walk.tokens[upto].end == end:
            return walk.add(start, end, "ERROR", 0.7, upto)
    return False


def version(walk: Walk) -> bool:
    """Read a number as a version or as a status code, by the words around it."""
    token, before = walk.token, walk.before()
    word = token.text.rstrip("+")
    if is_status(word) and _status(walk, before):
        return True
    if word.isdigit() and len(word) > 1 and _is_error_code(walk, before):
        return walk.add(token.start, token.end, "ERROR", 0.6, walk.at)
    if not is_version(word) and not (word.isdigit() and len(word) <= 4):
        return False
    last = walk.last(8)
    named = walk.mentions[-1] if walk.mentions else None
    after_name = (
        bool(before)
        and named is not None
        and named.type in ("TECHNOLOGY", "PACKAGE")
        and named.end == walk.tokens[walk.at - 1].end
    )
    with_other = last is not None and last.type == "VERSION" and before in cues.BETWEEN_VERSIONS
    if after_name or with_other or before in cues.BEFORE_VERSION:
        return walk.add(token.start, token.start + len(word), "VERSION", 0.85, walk.at)
    if "." in word and before in ("in", "since", "on") and walk.at > 1:
        if walk.lower[walk.at - 2] in cues.CHANGED:
            return walk.add(token.start, token.start + len(word), "VERSION", 0.6, walk.at)
        return False
    if "." in word and before in ("from", "to", "until", "past"):
        return walk.add(token.start, token.end, "VERSION", 0.6, walk.at)
    return False


def _is_error_code(walk: Walk, before: str) -> bool:
    """Error 1009; the error code is 102."""
    if before == "is":
        before = walk.before(walk.at - 1)
    if before == "code":
        return "error" in walk.lower[max(0, walk.at - 4) : walk.at]
    return before in ("error", "errno")


def _status(walk: Walk, before: str) -> bool:
    """An error status of HTTP, with its words if they follow."""
    if before in ("a", "an", "the", "is"):  # getting a 401
        before = walk.before(walk.at - 1)
    if before not in cues.BEFORE_STATUS and walk.after() not in cues.AFTER_STATUS:
        return False
    start, upto = walk.token.start, walk.at
    if walk.before() == "http":
        start = walk.tokens[walk.at - 1].start
        if walk.mentions and walk.mentions[-1].start == start:
            walk.mentions.pop()
    if walk.after(upto) in cues.STATUS_FIRST_WORDS:
        while walk.after(upto) in cues.STATUS_WORDS:
            upto += 1
    return walk.add(start, walk.tokens[upto].end, "ERROR", 0.7, upto)


_EITHER = re.compile(r"[a-z]+/[A-Z][A-Z0-9]+")
_X_NAME = re.compile(r"X-[A-Z][a-z]+")  # X-Road, X-Ray; a header has more words, or is called one
_MENU_PATH = re.compile(r"[A-Z][a-z]*(?:->[A-Z][a-z]*)+")
_THROWN = re.compile(
    r"\b(?:rais(?:e|es|ed|ing)|throw(?:s|n|ing)?|catch(?:es|ing)?|caught) (?:an? |the )?`{0,2}\Z"
)


def _is_thrown(walk: Walk, start: int) -> bool:
    return _THROWN.search(walk.text, max(0, start - 24), start) is not None


def shaped(walk: Walk) -> bool:
    """Whatever a word is by its looks."""
    token = walk.token
    if token.text in cues.NOT_CODE:
        walk.at += 1
        return True
    shape = shape_of(token.text)
    if shape is None:
        return False
    is_cut = token.text[-1] == "/" and walk.after().isalpha()
    if shape.type == "FILE" and is_cut and is_ordinary(token.text[:-1]):
        return False  # needs/ requests
    if is_placeholder(token.text) and shape.type in ("CODE", "FILE"):
        return walk.add(token.start, token.end, shape.type, NEVER, walk.at)
    # `fix(parser):` and `TODO(anna):` begin a line, they are no calls.
    prefix = token.text.partition("(")[0].lower() if token.text[-1] == ")" else ""
    if token.first and prefix in cues.LOWER_PREFIXES:
        return False
    # Merge pull request #12 from owner/branch.
    last = walk.last(len(" from "))
    is_branch = walk.before() == "from" and last is not None and last.type == "REFERENCE"
    if not shape.type or is_branch:
        walk.at += 1
        return True
    end = token.end if shape.end is None else token.start + shape.end
    kind = shape.type
    if kind == "FILE" and _EITHER.fullmatch(token.text):
        return parts(walk)  # server/AWS
    if kind == "CODE" and _X_NAME.fullmatch(token.text) and "eader" not in walk.text:
        return _learn(walk, walk.at, _kind(walk, [token.text], walk.before(), "") or "CONCEPT", 0.3)
    if kind == "CODE" and "." in token.text and f"//{token.text}" in walk.page.source:
        kind = "URL"  # island.is, to which a link leads
    if kind == "CODE" and _MENU_PATH.fullmatch(token.text):
        walk.at += 1
        return True  # Settings->Hosted Zones
    stem = token.text.removesuffix(".js")
    if kind == "FILE" and stem != token.text and stem.istitle() and stem.isalpha():
        kind = "FILE" if is_technical(stem.lower()) else "TECHNOLOGY"  # Lunr.js
    if kind == "CODE" and _in_statement(walk, token):
        walk.at += 1
        return True
    if kind == "CODE" and token.text.isalnum() and token.text[0].isupper():
        is_called = walk.after() in ("exception", "exceptions", "error", "errors")
        if is_called or _is_thrown(walk, token.start):
            kind = "ERROR"
        elif walk.after() in cues.AFTER_EMPLOYER or _is_employer(walk, walk.before()):
            kind = "ORG"
        elif _is_brand(walk, token.text):
            kind = "TECHNOLOGY"
    return walk.add(token.start + shape.start, end, kind, shape.confidence, walk.at)


_TWO_PARTS = re.compile(r"([A-Z][a-z]+)([A-Z][a-z]+)")
_WITH_ACRONYM = re.compile(r"[A-Z][a-z]+(?P<acronym>[A-Z]{2,5})")


def _is_brand(walk: Walk, word: str) -> bool:
    """Return whether a word such as FedRAMP or SolidQueue is a product's name here, not a class."""
    if walk.after() in cues.AFTER_CLASS or walk.before() in cues.BEFORE_CLASS:
        return False
    if walk.before() in cues.VENDORS and not _ends_like_code(word):
        return True  # AWS CodeCommit
    tail = _WITH_ACRONYM.fullmatch(word)
    if tail and tail["acronym"] not in cues.ACRONYMS_IN_CODE:
        # A ServiceCIDR is code; FedRAMP is not.
        is_counted = walk.before() in _ONE_OF_MANY or f"`{word}" in walk.text
        return not (is_counted and is_ordinary(word[: tail.start("acronym")].lower()))
    parts = _TWO_PARTS.fullmatch(word)
    is_class = _ends_like_code(word)
    if (
        parts
        and not is_class
        and not walk.has_code
        and not all(is_ordinary(one.lower()) for one in parts.groups())
    ):
        return True  # DocuSign, in a text without any code
    if walk.after() in ("account", "accounts", "subscription", "website"):
        return True
    before = walk.lower[max(0, walk.at - 8) : walk.at]
    is_moved_to = walk.before() in ("to", "onto") and not cues.MOVES.isdisjoint(before)
    return is_moved_to or walk.before() in cues.BEFORE_BRAND


def _ends_like_code(word: str) -> bool:
    """Return whether the last part of a word is what code calls things: TraceId, LogEmitter."""
    tail = re.search(r"[A-Z][a-z]+\Z", word)
    return tail is not None and tail[0].lower() in cues.CLASS_TAILS


_AFTER_CODE, _BEFORE_CODE = frozenset(";={[]*<"), frozenset("=[>*$;{")


def _in_statement(walk: Walk, token: Token) -> bool:
    """Return whether a word is part of a line of code: its parts are no names in prose."""
    behind = walk.text[token.end : token.end + 3].lstrip(" ")[:1]
    ahead = walk.text[max(0, token.start - 3) : token.start].rstrip(" ")[-1:]
    return behind in _AFTER_CODE or ahead in _BEFORE_CODE


def parts(walk: Walk) -> bool:
    """Known names in a compound: Linux/macOS, Redis-backed; not those in `python-docx`."""
    token, found = walk.token, False
    stem, dash, tail = token.text.rpartition("-")
    if dash and tail.lower() not in cues.COMPOUND_TAILS:
        return False
    for part in _PART.finditer(stem or token.text):
        for entry in walk.gazetteer.find(part[0]):
            if entry.kind in ("TECHNOLOGY", "SERVICE") and not entry.exact:
                start, end = token.start + part.start(), token.start + part.end()
                sure = NEVER if entry.name in cues.EVERYWHERE and not entry.own else 0.7
                walk.mentions.append(
                    NamedSpan(
                        start, end, "TECHNOLOGY", entry.name, sure, "gazetteer", entry.aliases
                    )
                )
                found = True
                break
    walk.at += found
    return found

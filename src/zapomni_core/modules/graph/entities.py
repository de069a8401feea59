"""Entities in a text, by rules: one pass over its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from zapomni_core.modules.graph import cues
from zapomni_core.modules.graph.cues import PACKAGE_CUES
from zapomni_core.modules.graph.dates import DATE_WORDS, date_at, may_begin_date
from zapomni_core.modules.graph.names import Entry, Gazetteer
from zapomni_core.modules.graph.words import Token, is_status, is_version, shape_of, tokens

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
    walk = Walk(text, gazetteer, reference)
    stretches = quoted(walk)
    done = 0
    while walk.at < len(walk.tokens):
        start = walk.token.start
        while done < len(stretches) and stretches[done][1] <= start:
            _note(walk, stretches[done][2])
            done += 1
        if (done < len(stretches) and stretches[done][0] <= start) or not _read(walk):
            walk.at += 1
    for stretch in stretches[done:]:
        _note(walk, stretch[2])
    return walk.mentions


def _note(walk: Walk, mention: NamedSpan | None) -> None:
    if mention is not None:
        walk.mentions.append(mention)


def _read(walk: Walk) -> bool:
    """Try the rules on the current word; the first that finds something wins."""
    word, lower = walk.token.text, walk.lower[walk.at]
    if word.isalpha() and word.islower():
        # Most words: nothing begins with them.
        if lower in _FIRST_WORDS or walk.gazetteer.starts(lower) or not lower.isascii():
            return _by_first_word(walk, word, lower)
        return walk.names_packages and package(walk)
    if _by_first_word(walk, word, lower):
        return True
    if word.isalpha() and word.istitle():
        return (word.endswith("file") and shaped(walk)) or unknown_name(walk)
    if word[0].isdigit() and version(walk):
        return True
    return package(walk) or shaped(walk) or unknown_name(walk) or parts(walk)


_FIRST_WORDS = (
    DATE_WORDS
    | cues.COMMANDS.keys()
    | cues.NAMED_ERRORS.keys()
    | cues.NUMBERED_REFERENCES
    | cues.SPEAKERS
)


def _by_first_word(walk: Walk, word: str, lower: str) -> bool:
    """Rules for what is known by the word it begins with."""
    if may_begin_date(lower) and date(walk):
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
    return walk.gazetteer.starts(lower) > 0 and known_name(walk)


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


class Walk:
    """The state every rule sees. A rule that finds something adds it and moves `at` behind it."""

    def __init__(self, text: str, gazetteer: Gazetteer, reference: datetime | None) -> None:
        self.text = text
        self.gazetteer = gazetteer
        self.reference = reference
        self.tokens: list[Token] = tokens(text)
        self.lower = [token.text.lower() for token in self.tokens]
        self.names_packages = not PACKAGE_CUES.isdisjoint(self.lower)
        """Whether any word here could make another one the name of a package."""
        self.mentions: list[NamedSpan] = []
        self.at = 0

    @property
    def token(self) -> Token:
        """The word we stand at."""
        return self.tokens[self.at]

    def joined(self, index: int) -> bool:
        """Whether nothing divides this word from the next one."""
        return (
            index + 1 < len(self.tokens)
            and not self.tokens[index].comma
            and not self.tokens[index + 1].first
        )

    def before(self, index: int | None = None) -> str:
        """The word before, in lower case; nothing at the start of a sentence or after a comma."""
        index = self.at if index is None else index
        return self.lower[index - 1] if index and self.joined(index - 1) else ""

    def after(self, index: int | None = None) -> str:
        """The word after, in lower case; nothing at the end of a sentence or before a comma."""
        index = self.at if index is None else index
        return self.lower[index + 1] if self.joined(index) else ""

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
        start, end = self.token.start, self.tokens[upto].end
        before = self.last()
        if kind == "TECHNOLOGY" and before and before.type == "ORG" and self.joined(self.at - 1):
            # Microsoft Internet Explorer is one thing.
            start = self.mentions.pop().start
        confidence = 0.8 if entry.exact else 0.9
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
    for size in range(walk.gazetteer.starts(walk.lower[walk.at]), 0, -1):
        upto = walk.at + size - 1
        if upto >= len(walk.tokens):
            continue
        surface = walk.text[start : walk.tokens[upto].end]
        if size > 1:
            surface = " ".join(surface.split())
        entries = walk.gazetteer.find(surface)
        if entries and _chosen(walk, upto, {entry.kind: entry for entry in entries}):
            return True
    return False


def _chosen(walk: Walk, upto: int, kinds: dict[str, Entry]) -> bool:
    """Several things may have one name; the words around it decide."""
    before, after = walk.before(), walk.after(upto)
    if "PLACE" in kinds and ("PERSON" not in kinds or before in cues.BEFORE_PLACE):
        return not _goes_on(walk, upto) and walk.add_known("PLACE", kinds["PLACE"], upto)
    if "PERSON" in kinds and _person(walk, kinds["PERSON"], shared=len(kinds) > 1):
        return True
    entry = kinds.get("SERVICE") or kinds.get("ORG") or kinds.get("TECHNOLOGY")
    if entry is None or (entry.exact and not _is_meant(walk, upto)):
        return False
    if entry.kind == "SERVICE":
        is_company = (
            before in cues.BEFORE_COMPANY
            or after in cues.AFTER_COMPANY
            or _is_employer(walk, before)
        )
        return walk.add_known("ORG" if is_company else "TECHNOLOGY", entry, upto)
    return walk.add_known(entry.kind, entry, upto)


def _goes_on(walk: Walk, upto: int) -> bool:
    """Return whether a longer, unknown name begins here: Dallas Mavericks."""
    if not walk.joined(upto):
        return False
    word = walk.tokens[upto + 1].text
    return word.istitle() and word.isalpha() and _is_surname(walk, word)


def _is_meant(walk: Walk, upto: int) -> bool:
    """Whether a word that may be an ordinary one is a name here."""
    token, after = walk.token, walk.after(upto)
    if walk.joined(walk.at - 1) and walk.at and not walk.tokens[walk.at - 1].first:
        before = walk.tokens[walk.at - 1].text
        if before.istitle() and _is_surname(walk, before):
            return False
    if token.end - token.start == 1:  # C and R
        return (
            not token.first and bool(after) and walk.before() not in ("", "a", "an", "the", "and")
        )
    if not token.first or after in cues.SUBJECT_VERBS or after in cues.AFTER_COMPANY:
        return True
    return after[:1].isdigit()


def _person(walk: Walk, entry: Entry, *, shared: bool) -> bool:
    """A given name and what follows of the full one."""
    token = walk.token
    if _is_quoted(walk):
        return False
    upto = _full_name(walk)
    before, after = walk.before(), walk.after(upto)
    speaks = token.first and walk.text.startswith(": ", walk.tokens[upto].end)
    strong = speaks or before in cues.STRONG_BEFORE_PERSON or after in cues.STRONG_AFTER_PERSON
    weak = before in cues.BEFORE_PERSON or after in cues.AFTER_PERSON
    if shared or entry.exact:
        certain = strong or (upto > walk.at and not entry.exact) or (weak and not shared)
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
        elif _is_surname(walk, word):
            upto += 1
        else:
            break
    return upto


def _is_surname(walk: Walk, word: str) -> bool:
    if word in cues.NOT_NAMES or not word[0].isupper() or not word[1:].islower():
        return False
    if not word.replace("-", "").isalpha() or may_begin_date(word.lower()):
        return False
    return all(entry.kind == "PERSON" for entry in walk.gazetteer.find(word))


def handle(walk: Walk) -> bool:
    """Read a handle such as @alice; `@Override` and `@media` are code."""
    token = walk.token
    name = token.text[1:]
    if not name or not name[0].isalpha() or not name.replace("_", "").replace("-", "").isalnum():
        return False
    before, after = walk.before(), walk.after()
    addressed = token.first or before in cues.BEFORE_PERSON or after in cues.AFTER_HANDLE
    if name in cues.ANNOTATIONS or (name[0].isupper() and not addressed):
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
    elif not walk.token.first and _is_whereabouts(walk, before):
        kind = "PLACE"
    if kind is not None:
        upto = _full_name(walk)
        return walk.add(walk.token.start, walk.tokens[upto].end, kind, 0.6, upto)
    if word not in cues.NUMBERED and _VERSION_LIKE.fullmatch(after) and not walk.token.first:
        return walk.add(walk.token.start, walk.token.end, "TECHNOLOGY", 0.6, walk.at)
    return False


def _organization(walk: Walk) -> bool:
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
    return walk.add(walk.token.start, walk.tokens[upto].end, "ORG", 0.8, upto)


def _is_person_by_cue(walk: Walk, before: str, after: str) -> bool:
    if after in cues.STRONG_AFTER_PERSON and before not in ("the", "a"):
        return True
    owned = walk.text.startswith(("'s ", "\u2019s ", " 's "), walk.token.end)
    following = walk.lower[walk.at + 1 : walk.at + 3]
    if owned and any(word in cues.OWNED_BY_PERSON for word in following):
        return True
    closing = walk.lower[max(0, walk.at - 2) : walk.at]
    signed = walk.token.first or walk.token.comma or not walk.joined(walk.at)
    return signed and any(word in cues.CLOSINGS for word in closing) and before not in ("to", "for")


def _is_employer(walk: Walk, before: str) -> bool:
    earlier = walk.lower[max(0, walk.at - 3) : walk.at - 1]
    if before in ("at", "for", "from") and any(word in cues.EMPLOYMENT for word in earlier):
        return True
    if before == "from" and walk.after(_full_name(walk)) in cues.AFTER_PERSON:
        last = walk.mentions[-1] if walk.mentions else None
        return last is not None and last.type == "PERSON" and walk.token.start - last.end == 6
    return before == "joined"


def _is_whereabouts(walk: Walk, before: str) -> bool:
    earlier = walk.lower[max(0, walk.at - 3) : walk.at - 1]
    return before in ("in", "to", "near", "from") and any(w in cues.WHEREABOUTS for w in earlier)


def speaker(walk: Walk) -> bool:
    """Read we, I or the user, followed by what they use, prefer, avoid or decided."""
    index = walk.at
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


# --- Rules for what developers type: code in backticks, commands, packages, versions, statuses ---


LONGEST_CODE = 120
MOST_ARGUMENTS = 8
LONGEST_ERROR = 40

# One or two on either side: Markdown and reStructuredText.
_BACKTICKS = re.compile(r"(?<!`)(`{1,2})([^`\n]{1,300})\1(?!`)")
_LINK = re.compile(r" <[^<>\s]+>$")  # reStructuredText: `name <address>`_
_FENCE = re.compile(r"^(?:```|~~~)", re.MULTILINE)
_PINNED = re.compile(
    r"(@?[A-Za-z][\w.\-/]*)(?:\[[\w,]+\])?(?:==|>=|<=|~=|!=|<|>|@|\^)v?(\d[\w.\-*]*)"
)
_PACKAGE_NAME = re.compile(r"@?[a-z][a-z0-9]*(?:[-_./][a-z0-9]+)*")
_ARGUMENT = re.compile(r"--?[a-zA-Z]|\.{0,2}/\w|~/|https?:|\w+@\w")
_PART = re.compile(r"[^/,;|()=:]+")

Quoted = tuple[int, int, NamedSpan | None]
"""A stretch that is read as a whole: from, to, and what it is."""


def quoted(walk: Walk) -> list[Quoted]:
    """Code in backticks is one thing each; blocks of code are left out."""
    if "`" not in walk.text and "~~~" not in walk.text:
        return []
    fences = [match.start() for match in _FENCE.finditer(walk.text)]
    blocks = list(zip(fences[::2], [*fences[1::2], len(walk.text)], strict=False))
    found: list[Quoted] = [(start, end + 3, None) for start, end in blocks]
    block = 0
    for match in _BACKTICKS.finditer(walk.text):
        while block < len(blocks) and blocks[block][1] + 3 <= match.start():
            block += 1
        if block == len(blocks) or match.end() <= blocks[block][0]:
            found.append((match.start(), match.end(), _in_backticks(walk, *match.span(2))))
    return sorted(found, key=lambda stretch: stretch[0])


def _in_backticks(walk: Walk, start: int, end: int) -> NamedSpan | None:
    content = _LINK.sub("", walk.text[start:end]).strip()
    if not content or len(content) > LONGEST_CODE:
        return None
    start = walk.text.index(content, start)
    end = start + len(content)
    words = content.split()
    if _is_command(words):
        return NamedSpan(start, end, "COMMAND", content.removeprefix("$ "), 0.9)
    for entry in walk.gazetteer.find(content):
        if entry.kind in ("TECHNOLOGY", "SERVICE") and not entry.exact:
            return NamedSpan(start, end, "TECHNOLOGY", entry.name, 0.9, "gazetteer", entry.aliases)
    if len(words) > 1:
        return NamedSpan(start, end, "CODE", content, 0.8)
    if walk.text[end : end + 13].lower().lstrip("` ").startswith(cues.PACKAGE_NOUNS):
        return NamedSpan(start, end, "PACKAGE", content, 0.9)
    if is_version(content):
        return NamedSpan(start, end, "VERSION", content, 0.9)
    shape = shape_of(content)
    if shape is not None and shape.type:
        end = end if shape.end is None else start + shape.end
        return NamedSpan(start, end, shape.type, walk.text[start:end], shape.confidence)
    return NamedSpan(start, end, "CODE", content, 0.8) if re.search(r"\w", content) else None


def _is_command(words: Sequence[str]) -> bool:
    first = words[0]
    if first == "$" or first.startswith("./"):
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
    return walk.add(walk.token.start, walk.tokens[upto].end, "COMMAND", 0.7, upto)


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
    if pinned := _PINNED.fullmatch(token.text):
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
    if after.startswith(cues.PACKAGE_NOUNS):
        return before not in ("a", "an") or "-" in walk.token.text
    if before in ("package", "crate", "gem"):
        return not walk.token.text.isalpha()
    if before in cues.BUMPS and after in ("from", "to"):
        return is_version(walk.after(walk.at + 1))
    if before in ("bump", "deps"):
        return bool(after)
    if walk.at and walk.lower[walk.at - 1] in ("deps", "deps)", "gemspec") and walk.token.first:
        return True
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


def shaped(walk: Walk) -> bool:
    """Whatever a word is by its looks."""
    token = walk.token
    shape = shape_of(token.text)
    if shape is None or token.text in cues.NOT_CODE:
        return False
    # `fix(parser):` and `TODO(anna):` begin a line, they are no calls.
    if token.first and token.text.endswith(")") and token.text.partition("(")[0] in cues.PREFIXES:
        return False
    # Merge pull request #12 from owner/branch.
    last = walk.last(len(" from "))
    is_branch = walk.before() == "from" and last is not None and last.type == "REFERENCE"
    if not shape.type or is_branch:
        walk.at += 1
        return True
    end = token.end if shape.end is None else token.start + shape.end
    return walk.add(token.start + shape.start, end, shape.type, shape.confidence, walk.at)


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
                walk.mentions.append(
                    NamedSpan(start, end, "TECHNOLOGY", entry.name, 0.7, "gazetteer", entry.aliases)
                )
                found = True
                break
    walk.at += found
    return found

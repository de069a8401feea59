"""What texts say about what is over: status lines, references, sentences of change.

Pure functions. A status line is a line of its own near the beginning ("Status: Superseded by
ADR-0046", "Replaces ADR-0002", "REPLACED_BY: 0046-x.md"). A sentence of change may be anywhere in a
short text ("we moved from MySQL to Postgres", "no longer on S3").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zapomni_db.sqlite.digest import DigestEntry

__all__ = [
    "MOST_WORDS",
    "READ_CHARS",
    "REPLACING",
    "Status",
    "TextReference",
    "ended_words",
    "find_ended",
    "is_ended_by",
    "names_of",
    "phrases_of",
    "read_status",
    "says_change",
    "shares_topic",
    "without_ended",
]

# A status is near the beginning of a document.
READ_CHARS, READ_LINES, LINE_CHARS = 3000, 60, 300
# The verbs by which a status line says what it replaces.
REPLACING = ("supersedes", "supercedes", "replaces", "obsoletes", "reverts")
# A thing that has ended is named in so many words.
ENDED_WORDS, NEAR_CHARS = 5, 80
# A sentence or two. Longer texts say several things, of which another text may change one.
MOST_WORDS = 30
# Verbs that say nothing of what is over: "we stopped using Jenkins".
_LIGHT = frozenset(["use", "used", "uses", "using", "go", "goes", "going", "went"])


class TextReference(NamedTuple):
    """How a text names another one: a kind and a number, the hash of a commit, an id or a title."""

    kind: str
    """Such as `adr`; empty for a bare number; else `commit`, `id` or `title`."""
    value: str

    def means(self, name: TextReference) -> bool:
        """Return whether this is a reference to what has the name."""
        if self.kind == "commit" and name.kind == "commit":
            return name.value.startswith(self.value) or self.value.startswith(name.value)
        return self == name


class Status(NamedTuple):
    """What a text says about its own standing."""

    ended: str = ""
    """`superseded`, `reverted`, `rejected`, `deprecated` or `withdrawn`; empty: nothing."""
    by: str = ""
    """What replaced it, as it is written there."""
    replaced_by: tuple[TextReference, ...] = ()
    replaces: tuple[TextReference, ...] = ()
    """What it says it replaces."""


_ENDED = {
    "superseded": "superseded", "superceded": "superseded", "replaced": "superseded",
    "obsoleted": "superseded", "obsolete": "superseded", "reverted": "reverted",
    "rejected": "rejected", "declined": "rejected", "deprecated": "deprecated",
    "withdrawn": "withdrawn", "abandoned": "withdrawn",
}  # fmt: skip


# Kinds of texts that are known by their number alone.
_NUMBERED = frozenset(["adr", "madr", "dr", "decision", "rfc"])


# A text without any of these words has no status line.
_STATUS_WORDS = (*_ENDED, *REPLACING, "status", "state")
# And without any of these, no sentence of it says that something is over.
_CHANGE_WORDS = (
    "moved", "migrated", "switched", "changed", "went", "upgraded", "away", "longer", "more",
    "stopped", "dropped", "retired", "abandoned", "discontinued", "removed", "replac",
    "supersede", "instead", "place", "rather", "archived", "deprecated", "gone", "deleted",
    "decommissioned", "shut", "abolished", "reverted", "ported", "converted", "rewr", "raised",
    "lowered", "increased", "decreased", "reduced", "bumped", "shifted", "transferred", "handed",
    "renamed", "extended", "shortened", "swapped", "took over", "taken over", "ditched",
    "scrapped", "cancel", "phased", "rid of", "gave up", "used to", "previously", "formerly",
    "turned off", "history", "(was", "(were",
)  # fmt: skip
# Where a clause stops; a point within a number or the name of a file does not.
_STOP = r"[;:!?,()\n]|\.(?=\s|$)"
# What is done to something that was one thing and is another now.
_CHANGING = (
    r"moved|migrated|switched|changed|went|upgraded|downgraded|ported|converted|rewritten|rewrote"
    r"|raised|lowered|increased|decreased|reduced|bumped|shifted|transferred|handed|renamed"
    r"|extended|shortened|swapped"
)


def _pattern_sources() -> dict[str, str]:
    ended = "|".join(_ENDED)
    status = r"(?P<status>(?:current\s+)?(?:status|state)\b[\W_]*)?"
    lead = (
        rf"^[\W_]*{status}(?:(?:accepted|proposed|this\s+(?:decision|adr|record|document|note"
        r"|proposal)\s+(?:is|was|has\s+been))\b[\W_]*)?"
    )
    return {
        "by": rf"{lead}(?P<how>{ended})[\s_-]*by\b[\W_]*(?P<rest>\S.*)$",
        "alone": rf"^[\W_]*{status}(?P<how>{ended})"
        r"[\W_]*(?:(?:on|since|in|as\s+of)\b.*|\d{4}[-\d\W]*|(?<=[.;]\s)\S.*)?$",
        "replaces": rf"{lead}(?:this\s+)?(?:{'|'.join(REPLACING)})\b"
        r"[\W_]*(?P<rest>\S.*)$",
        "heading": r"^[\W_]*(?:current\s+)?(?:status|state)[\W_]*$",
        "id": r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        "commit": r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b",
        "numbered": r"(?<![a-z])([a-z]{2,10})[-_ #]?0*(\d{1,5})(?![\d.]*\d)",
        "file": r"(?<![\w-])0*(\d{1,5})[-_][a-z]",
        "number": r"^\W*0*(\d{1,5})\W*$",
        "section": r"^\W*0*(\d{1,5})[.:)]\s",
        # Cues of a change, what has ended after them, between them or before them, and where
        # that stops.
        "from": r"\b(?:moved|migrated|switched|changed|went|upgraded|away)\s+(?:away\s+)?"
        r"(?:from|off|out\s+of)\b|\b(?:took|taken)\s+over\b(?:\s+[^\s;:!?,()]+){0,6}?\s+from\b",
        "from_to": rf"\b(?:{_CHANGING})(?:\s+[^\s;!?,()]+){{0,6}}?\s+from\s+"
        r"(?P<named>[^;!?,()\n]{1,60}?)\s+to\b",
        # "A replaced file" is one, whichever it replaced.
        "over": r"(?<!\ba\s)(?<!\bthe\s)(?<!\bor\s)\b(?:no\s+longer|not\s+any\s*more|stopped"
        r"|dropped|retired|abandoned|discontinued|removed(?!\s+from)|replac(?:ed|es|ing)|supersedes"
        r"|instead\s+of(?!\s+(?:for|in|on|at|by)\b)|in\s+place\s+of|rather\s+than|ditched"
        r"|scrapped|cancell?ed|phased\s+out|got\s+rid\s+of|gave\s+up|(?:we|i|they|it)\s+used\s+to"
        r"|used\s+to\s+be|previously|formerly)\b|\((?:was|were)\b",
        "not_more": r"(?:\bnot|n't)\s+(?P<named>[^;:!?,()\n]{1,60}?)\s+any\s*"
        r"(?:more|longer)\b(?!\s+than)",
        # What is removed at present may be so every night.
        "was_over": r"\b(?:(?:was|were|has\s+been|have\s+been|got)\s+(?:now\s+)?"
        r"(?:replaced|removed|archived|dropped|deleted|shut\s+down|switched\s+off|turned\s+off"
        r"|reverted|cancell?ed|scrapped)"
        r"|(?:is|are|was|were|has\s+been|have\s+been)\s+(?:now\s+)?(?:retired|deprecated|gone"
        r"|discontinued|decommissioned|superseded|abolished|phased\s+out|abandoned|history"
        r"|no\s+more|no\s+longer\s+\w+ed|not\s+\w+ed\s+any\s*(?:more|longer)))\b",
        "from_end": rf"{_STOP}|\b(?:to|into|because|since|which)\b",
        "clause_end": rf"{_STOP}|\b(?:by|with|because|since|which|from)\b",
        "clause_start": rf"{_STOP}|\b(?:and|but|because|since|which)\b",
        # Where what is over may end already: "yarn in the frontend".
        "detail": r"\s(?:for|in)\s",
        "condition": r"\b(?:if|when|whenever|unless)\b[^;!?\n]*$",
    }


class _Patterns(dict[str, re.Pattern[str]]):
    """Each is compiled when it is first needed: a command that searches needs few, or none."""

    def __missing__(self, name: str) -> re.Pattern[str]:
        self[name] = re.compile(_pattern_sources()[name], re.IGNORECASE)
        return self[name]


_PATTERNS = _Patterns()


def read_status(text: str) -> Status:
    """Return what the beginning of a text says about its own standing, and what it replaces."""
    folded = text[:READ_CHARS].casefold()
    words = [word for word in _STATUS_WORDS if word in folded]
    if not words:
        return Status()
    status = Status()
    is_section = False
    for line in text[:READ_CHARS].splitlines()[:READ_LINES]:
        if not 4 <= len(line.strip()) <= LINE_CHARS:
            continue
        folded = line.casefold()
        if not any(word in folded for word in words):
            is_section = False
            continue
        if found := _PATTERNS["by"].match(line):
            references = read_references(found["rest"])
            # "Replaced by" and words that may be no title is a sentence, unless it is the status.
            if is_section or found["status"] or any(one.kind != "title" for one in references):
                how = _ENDED[found["how"].lower()]
                status = status._replace(ended=how, by=_label(found["rest"]))
            status = status._replace(replaced_by=(*status.replaced_by, *references))
        elif (found := _PATTERNS["alone"].match(line)) and (is_section or found["status"]):
            status = status._replace(ended=status.ended or _ENDED[found["how"].lower()])
        elif found := _PATTERNS["replaces"].match(line):
            references = read_references(found["rest"])
            status = status._replace(replaces=(*status.replaces, *references))
        is_section = _PATTERNS["heading"].match(line) is not None
    return status


def _label(rest: str) -> str:
    """Return what replaced it, as a reader would name it: the text of a link without its target."""
    shown = re.sub(r"\]\([^)]*\)", "]", rest)
    return " ".join(re.sub(r"[\[\]`*_<>]", " ", shown).split()).rstrip(" .,;")[:100]


def read_references(text: str) -> list[TextReference]:
    """Return what a piece of a line refers to; a text without numbers and ids is a title."""
    ids = [TextReference("id", one.lower()) for one in _PATTERNS["id"].findall(text)]
    if ids:
        return ids
    commits = [TextReference("commit", one.lower()) for one in _PATTERNS["commit"].findall(text)]
    text = _PATTERNS["commit"].sub(" ", text)
    numbers = [TextReference(kind.lower(), n) for kind, n in _PATTERNS["numbered"].findall(text)]
    files = [TextReference("", number) for number in _PATTERNS["file"].findall(text)]
    if found := _PATTERNS["number"].match(text):
        numbers.append(TextReference("", found[1]))
    # A link says its number twice.
    known = {one.value for one in numbers}
    references = [*numbers, *(one for one in files if one.value not in known), *commits]
    title = _fold_title(_label(text))
    return references or ([TextReference("title", title)] if len(title.split()) > 1 else [])


def _fold_title(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def names_of(source: str, first_line: str, memory_id: str, commit: str = "") -> set[TextReference]:
    """Return the names by which other texts refer to a memory.

    Args:
        source: Where it comes from: the name of its file counts.
        first_line: Its title.
        memory_id: Its id.
        commit: The hash of its commit, if it is one.
    """
    title = first_line.strip().lstrip("#").strip()
    file = source.rsplit("/", 1)[-1]
    names = {TextReference("id", memory_id.lower())}
    for text in (file, title[:40]):
        if not any(map(str.isdigit, text)):
            continue
        start = _PATTERNS["numbered"].match(text.strip())
        if start:
            names.add(TextReference(start[1].lower(), start[2]))
            if start[1].lower() in _NUMBERED:
                names.add(TextReference("", start[2]))
        elif found := _PATTERNS["file"].match(text) or _PATTERNS["section"].match(text):
            # A numbered file or heading is a decision record: that is what they are numbered for.
            names |= {TextReference("", found[1]), TextReference("adr", found[1])}
    bare = re.sub(r"^(?:[A-Za-z]{2,10}[-_ #]?)?\d{1,5}\W+", "", title)
    if len(folded := _fold_title(bare)) > 3 and " " in folded:
        names.add(TextReference("title", folded))
    for text in (commit, source):
        if re.fullmatch(r"[0-9a-f]{7,40}", text):
            names.add(TextReference("commit", text))
    return names


def phrases_of(reference: TextReference) -> list[str]:
    """Return how a reference is written in texts, as words to search for."""
    kind, value = reference
    if kind in ("id", "commit", "title"):
        return [value]
    padded = list(dict.fromkeys([value, value.zfill(3), value.zfill(4)]))
    if not kind:
        return [f"adr {number}" for number in padded]
    return [form for number in padded for form in (f"{kind} {number}", f"{kind}{number}")]


def says_change(text: str) -> bool:
    """Return whether a text may say that something is over: a quick look before a close one."""
    folded = text.casefold()
    return any(word in folded for word in _CHANGE_WORDS)


def ended_words(text: str) -> list[dict[str, str]]:
    """Return what sentences of a text say is over: the words of each, by their stems."""
    if not says_change(text):
        return []
    # The start of a session imports this file, and seldom needs stems.
    from zapomni_core.shared.text import word_stems

    found = []
    for cues, end in (("from", "from_end"), ("over", "clause_end")):
        for cue in _find_cues(cues, text):
            rest = text[cue.end() : cue.end() + NEAR_CHARS].lstrip()
            found.append(_PATTERNS[end].split(rest, maxsplit=1)[0].split()[:ENDED_WORDS])
    for cues in ("from_to", "not_more"):
        found += [cue["named"].split()[:ENDED_WORDS] for cue in _find_cues(cues, text)]
    for cue in _find_cues("was_over", text):
        before = text[max(cue.start() - NEAR_CHARS, 0) : cue.start()]
        found.append(_PATTERNS["clause_start"].split(before)[-1].split()[-ENDED_WORDS:])
    named = dict.fromkeys(
        " ".join(words)
        for full in found
        for words in (full, _PATTERNS["detail"].split(" ".join(full), maxsplit=1)[0].split())
    )
    listed = (" ".join(word for word in one.split() if word.lower() not in _LIGHT) for one in named)
    return [stems for one in listed if (stems := word_stems(one))]


def _find_cues(name: str, text: str) -> Iterator[re.Match[str]]:
    """Find the cues of a kind that state something: "if the job is cancelled" does not."""
    for cue in _PATTERNS[name].finditer(text):
        if not _PATTERNS["condition"].search(text, max(cue.start() - NEAR_CHARS, 0), cue.start()):
            yield cue


def find_ended(over: Iterable[Collection[str]], words: set[str]) -> list[set[str]]:
    """Return what is over of the things that a text with these words is about."""
    return [set(ended) for ended in over if _is_about(words, ended)]


def _is_about(words: set[str], ended: Collection[str]) -> bool:
    """Return whether a text has most words of a thing, and no other numbers: 3.8 is not 3.9."""
    if words.isdisjoint(ended):
        return False
    own, numbers = (set(filter(str.isdigit, some)) for some in (words, ended))
    if numbers - own and own - numbers:
        return False
    named = set(ended) - numbers or numbers
    return 2 * len(named & words) > len(named)


def shares_topic(ended: set[str], old_words: set[str], new_words: set[str]) -> bool:
    """Return whether two texts, one of which says that something is over, are about one thing.

    They share a word besides what is over for every five of the older one, or what is over is most
    of what the older one says. A longer text says several things, of which another changes one.
    """
    if len(old_words) > MOST_WORDS:
        return False
    rest = old_words - ended
    shared = len(rest & new_words)
    return 0 < len(rest) <= 5 * shared or 3 * len(old_words & ended) > 2 * len(old_words)


class _Change(NamedTuple):
    """What a text says is over, and the words of the text, by their stems."""

    over: list[dict[str, str]]
    words: set[str]

    def ends(self, words: set[str]) -> bool:
        """Return whether that is what an older text with these words states."""
        ended = find_ended(self.over, words)
        return any(shares_topic(one, words, self.words) for one in ended)


def is_ended_by(older: str, newer: str) -> bool:
    """Return whether a newer text says that what an older one states is over, by their words."""
    over = ended_words(newer)
    if not over:
        return False
    from zapomni_core.shared.text import word_stems

    return _Change(over, {*word_stems(newer)}).ends({*word_stems(older)})


def without_ended(entries: Sequence[DigestEntry]) -> list[DigestEntry]:
    """Return memories that a session may be given, without those that a newer one says are over.

    Those of the project are compared with each other, and so are those of no project. What the
    user pinned stays.
    """
    over = {one.memory_id: found for one in entries if (found := ended_words(one.text))}
    if not over:
        return list(entries)
    from zapomni_core.shared.text import word_stems

    # Each text is read once: a session waits for this.
    words = {one.memory_id: {*word_stems(one.text)} for one in entries}
    changes = [
        (one, _Change(over[one.memory_id], words[one.memory_id]))
        for one in entries
        if one.memory_id in over
    ]
    return [
        one
        for one in entries
        if one.memory_class == "pinned"
        or not any(
            newer.updated_at > one.updated_at
            and bool(newer.project) == bool(one.project)
            and change.ends(words[one.memory_id])
            for newer, change in changes
        )
    ]

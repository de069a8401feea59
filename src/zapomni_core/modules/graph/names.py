"""When two names mean the same thing, and when they only look alike."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from zapomni_core.exceptions import ConfigurationError
from zapomni_db.models import EntityData

__all__ = [
    "Entry",
    "Gazetteer",
    "canonical_name",
    "entity_id",
    "fuzzy_key",
    "load_gazetteer",
    "name_key",
    "record_name",
    "same_entity",
]


# Their spelling is their identity: `Parser` and `parser` are two things.
_VERBATIM = frozenset({"CODE", "COMMAND", "ERROR", "FILE", "URL"})
# Of these a misspelling is the same thing. Of people it may be another person.
_FORGIVING = frozenset({"CONCEPT", "ORG", "PLACE", "TECHNOLOGY"})
SHORTEST_MISSPELLED = 7

_BLANKS = re.compile(r"\s+")
_POSSESSIVE = re.compile(r"['\u2019]s$")
# A dot between digits is part of a number; elsewhere people write Node.js, NodeJS and node-js.
_LOOSE = re.compile(r"(?<!\d)[.]|[.](?!\d)|[\s_\-·]+")
_VERSION_MARK = re.compile(r"^(?:version|ver\.?|v\.?|release)\s*(?=\d)", re.IGNORECASE)
# A commit is called by its first digits, however many a text has.
_COMMIT = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{7,40}")
_NUMBER_AFTER_WORD = re.compile(r"[A-Za-z]+ (\d+)")


@lru_cache(maxsize=20_000)
def canonical_name(name: str, entity_type: str) -> str:
    """Return the name as it is shown.

    Without blanks around it and a possessive; a version without its mark (`v1.2`: `1.2`), a
    function without empty parentheses, a path without `./`, a handle without `@`, `PR 12` as `#12`,
    a commit by its first seven digits.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFC", name)
    name = _BLANKS.sub(" ", name).strip()
    if entity_type == "CODE":
        return name.removesuffix("()") or name
    if entity_type == "VERSION":
        return _VERSION_MARK.sub("", name)
    if entity_type == "FILE":
        return name.removeprefix("./") or name
    if entity_type == "REFERENCE":
        return name[:7] if _COMMIT.fullmatch(name) else _NUMBER_AFTER_WORD.sub(r"#\1", name)
    if entity_type == "SELF":
        name = name.lower().partition("'")[0]
        return "I" if name == "i" else name
    if entity_type in _VERBATIM:
        return name
    if entity_type == "PERSON":
        name = name.removeprefix("@") or name
    return _POSSESSIVE.sub("", name) or name


@lru_cache(maxsize=20_000)
def name_key(name: str, entity_type: str) -> str:
    """Return what two spellings of one name have in common."""
    name = canonical_name(name, entity_type)
    if entity_type in _VERBATIM:
        return name
    folded = (name if name.isascii() else unicodedata.normalize("NFKC", name)).casefold()
    if entity_type == "PERSON":
        # Only where the accent is an extra: й is a letter, and so are the marks of Hindi.
        parts = unicodedata.normalize("NFKD", folded)
        plain = "".join(c for c in parts if not "\u0300" <= c <= "\u036f")
        folded = plain if plain.isascii() else folded
    if entity_type in _FORGIVING:
        return _LOOSE.sub("", folded) or folded
    return folded


@lru_cache(maxsize=20_000)
def entity_id(name: str, entity_type: str) -> str:
    """Return the id of a thing: the same in every process, for every spelling of its name."""
    key = f"{entity_type}\0{name_key(name, entity_type)}"
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def record_name(word: str | None, number: str) -> str:
    """Return how a decision record is called, whatever a text calls it by: ADR-12, RFC-12."""
    return f"{'RFC' if word and word.upper() == 'RFC' else 'ADR'}-{int(number)}"


def fuzzy_key(name: str, entity_type: str) -> str:
    """Return a key that names share if `same_entity` may hold; sharing it proves nothing."""
    key = name_key(name, entity_type)
    return "".join(sorted(set(key))) if entity_type in _FORGIVING else key


def same_entity(first: EntityData, second: EntityData) -> bool:
    """Say whether two names mean one thing.

    True for two spellings of a name, for a name and its known alias, and, except for people, for
    a long name with two neighbouring letters swapped or one letter doubled. Never true because
    one name begins like the other.
    """
    if first.type != second.type:
        return False
    kind = first.type
    key, other = name_key(first.name, kind), name_key(second.name, kind)
    if key == other:
        return True
    if other in _keys(first) or key in _keys(second):
        return True
    return kind in _FORGIVING and _is_misspelled(key, other)


def _keys(entity: EntityData) -> set[str]:
    return {name_key(alias, entity.type) for alias in entity.aliases}


def _is_misspelled(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    if len(short) < SHORTEST_MISSPELLED or len(long) - len(short) > 1:
        return False
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if at == 0:
        return False
    if len(short) == len(long):
        swapped = short[at : at + 2]
        return (
            swapped.isalpha()
            and long[at : at + 2] == swapped[::-1]
            and short[at + 2 :] == long[at + 2 :]
        )
    doubled = long[at]
    return doubled.isalpha() and doubled == long[at - 1] and long[at + 1 :] == short[at:]


# --- The names we know: shipped ones in `gazetteer.txt`, and the user's own -----------


SECTIONS = {
    "technology": "TECHNOLOGY",
    "service": "SERVICE",
    "org": "ORG",
    "place": "PLACE",
    "person": "PERSON",
}
# These are written with a capital letter; technologies and services are in any case.
_AS_WRITTEN = frozenset({"ORG", "PLACE", "PERSON"})
# Of a shorter name, another case is another word: SIP and sip.
SHORTEST_IN_ANY_CASE = 4
LONGEST_NAME = 6
MOST_BYTES = 5_000_000

_COMMENT = re.compile(r"(?:^|\s)#.*")  # not the # of C#
_SECTION = re.compile(r"\[(\w+)( exact)?\]")


class Entry(NamedTuple):
    """A known name."""

    name: str
    kind: str
    """A type of entity, or SERVICE: a technology, or the company behind it."""
    aliases: tuple[str, ...]
    exact: bool
    """It is an ordinary word, too, so it counts only if written just so."""
    own: bool = False
    """The user named it: an article before it makes it no ordinary word."""


class Gazetteer:
    """Finds known names at the start of a run of words."""

    def __init__(
        self, entries: Iterable[Entry], digest: str = "", removed: Iterable[str] = ()
    ) -> None:
        self.digest = digest
        """Identifies the user's own names; empty if there are none."""
        self.removed = frozenset(removed)
        """Names that the user has taken out, in lower case."""
        self._written: dict[str, list[Entry]] = {}
        self._folded: dict[str, list[Entry]] = {}
        self._tools: dict[str, list[Entry]] = {}
        self.longest: dict[str, int] = {}
        """How many words the longest name has that begins with a word, in lower case."""
        for entry in entries:
            for form in (entry.name, *entry.aliases):
                self._written.setdefault(form, []).append(entry)
                any_case = not entry.exact and entry.kind not in _AS_WRITTEN
                if any_case and (len(form) >= SHORTEST_IN_ANY_CASE or form.islower()):
                    self._folded.setdefault(form.lower(), []).append(entry)
                if entry.exact and entry.kind in ("TECHNOLOGY", "SERVICE"):
                    self._tools.setdefault(form.lower(), []).append(entry)
                first, *rest = form.lower().split()
                self.longest[first] = max(self.longest.get(first, 0), 1 + len(rest))

    def find_tool(self, word: str) -> Sequence[Entry]:
        """Return the tools that are ordinary words, too, by one in lower case."""
        return self._tools.get(word, ())

    def find(self, name: str) -> Sequence[Entry]:
        """Return what is known by this name; several things may be."""
        return self._written.get(name) or self._folded.get(name.lower()) or ()


def load_gazetteer(own: Path | None = None) -> Gazetteer:
    """Return the shipped names, and those of the user's file if there is one.

    Raises:
        ConfigurationError: CONF_002, the user's file cannot be read or has a line that no one
            understands.
    """
    if own is None or not own.is_file():
        return _shipped()
    try:
        content = own.read_bytes()[: MOST_BYTES + 1]
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            "gazetteer.txt cannot be read; it must be a readable UTF-8 text file",
            "CONF_002",
            original_exception=error,
        ) from error
    if len(content) > MOST_BYTES:
        raise ConfigurationError("gazetteer.txt is larger than 5 MB", "CONF_002")
    added, removed = _parse(text)
    added = [entry._replace(own=True) for entry in added]
    known = {entry for entry in _shipped_entries() if entry.name.lower() not in removed}
    renewed = {(entry.name.lower(), entry.kind) for entry in added}
    kept = [entry for entry in known if (entry.name.lower(), entry.kind) not in renewed]
    digest = hashlib.sha256(content).hexdigest()[:12]
    return Gazetteer([*added, *sorted(kept)], digest, removed)


@lru_cache(maxsize=1)
def _shipped() -> Gazetteer:
    return Gazetteer(_shipped_entries())


@lru_cache(maxsize=1)
def _shipped_entries() -> tuple[Entry, ...]:
    file = resources.files(__package__).joinpath("gazetteer.txt")
    return tuple(_parse(file.read_text(encoding="utf-8"))[0])


def _parse(text: str) -> tuple[list[Entry], set[str]]:
    """Return the names, and those to be taken out."""
    entries: list[Entry] = []
    removed: set[str] = set()
    kind, exact = "", False
    for number, line in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", line).strip()  # noqa: PLW2901 - the same line
        if not line:
            continue
        if section := _SECTION.fullmatch(line):
            kind, exact = SECTIONS.get(section[1], ""), section[2] is not None
        if not kind or (section is None and line.startswith("[")):
            raise ConfigurationError(
                f"gazetteer.txt, line {number}: expected a section, one of "
                + ", ".join(f"[{name}]" for name in SECTIONS),
                "CONF_002",
            )
        if section is None and line.startswith("-"):
            removed.add(line[1:].strip().lower())
        elif section is None:
            name, _, others = line.partition("=")
            aliases = tuple(filter(None, (other.strip() for other in others.split(","))))
            names = [name.strip()]
            if kind == "PERSON" and not aliases:
                names = list(filter(None, (other.strip() for other in name.split(","))))
            if any(not form or len(form.split()) > LONGEST_NAME for form in (*names, *aliases)):
                raise ConfigurationError(
                    f"gazetteer.txt, line {number}: a name has one to {LONGEST_NAME} words",
                    "CONF_002",
                )
            entries += [Entry(name, kind, aliases, exact) for name in names]
    return entries, removed

"""The names we know: shipped ones in `gazetteer.txt`, and the user's own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from zapomni_core.exceptions import ConfigurationError

__all__ = ["Entry", "Gazetteer", "load_gazetteer"]

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


class Gazetteer:
    """Finds known names at the start of a run of words."""

    def __init__(self, entries: Iterable[Entry], digest: str = "") -> None:
        self.digest = digest
        """Tells the user's names apart from others'; empty if there are none."""
        self._written: dict[str, list[Entry]] = {}
        self._folded: dict[str, list[Entry]] = {}
        self._longest: dict[str, int] = {}
        for entry in entries:
            for form in (entry.name, *entry.aliases):
                self._add(form, entry)

    def _add(self, form: str, entry: Entry) -> None:
        self._written.setdefault(form, []).append(entry)
        any_case = not entry.exact and entry.kind not in _AS_WRITTEN
        if any_case and (len(form) >= SHORTEST_IN_ANY_CASE or form.islower()):
            self._folded.setdefault(form.lower(), []).append(entry)
        first, *rest = form.lower().split()
        self._longest[first] = max(self._longest.get(first, 0), 1 + len(rest))

    def starts(self, word: str) -> int:
        """Return how many words the longest name has that begins with this one, in lower case."""
        return self._longest.get(word, 0)

    def find(self, name: str) -> Sequence[Entry]:
        """Return what is known by this name; several things may be."""
        return self._written.get(name) or self._folded.get(name.lower()) or ()


def load_gazetteer(own: Path | None = None) -> Gazetteer:
    """Return the shipped names, and those of the user's file if there is one.

    Raises:
        ConfigurationError: CONF_002, the user's file cannot be read or has a line nobody
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
    known = {entry for entry in _shipped_entries() if entry.name.lower() not in removed}
    renewed = {(entry.name.lower(), entry.kind) for entry in added}
    kept = [entry for entry in known if (entry.name.lower(), entry.kind) not in renewed]
    return Gazetteer([*added, *sorted(kept)], hashlib.sha256(content).hexdigest()[:12])


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
            entries += _entries(line, number, kind, exact=exact)
    return entries, removed


def _entries(line: str, number: int, kind: str, *, exact: bool) -> list[Entry]:
    name, _, others = line.partition("=")
    aliases = tuple(filter(None, (other.strip() for other in others.split(","))))
    names = [name.strip()]
    if kind == "PERSON" and not aliases:
        names = list(filter(None, (other.strip() for other in name.split(","))))
    if any(not form or len(form.split()) > LONGEST_NAME for form in (*names, *aliases)):
        raise ConfigurationError(
            f"gazetteer.txt, line {number}: a name has one to {LONGEST_NAME} words", "CONF_002"
        )
    return [Entry(name, kind, aliases, exact) for name in names]

"""A walk through the words of a text: where we are, what stands around, what was found."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from zapomni_core.modules.graph._cues import PACKAGE_CUES
from zapomni_core.modules.graph._gazetteer import Entry, Gazetteer
from zapomni_core.modules.graph._tokens import Token, tokens

__all__ = ["Mention", "Walk"]


class Mention(NamedTuple):
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
        self.mentions: list[Mention] = []
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

    def last(self, distance: int = 1) -> Mention | None:
        """What was found right before the word we stand at."""
        if self.mentions and self.token.start - self.mentions[-1].end <= distance:
            return self.mentions[-1]
        return None

    def add(self, start: int, end: int, kind: str, confidence: float, upto: int) -> bool:
        """Note what was found, and go on behind the word at `upto`."""
        name = self.text[start:end]
        self.mentions.append(Mention(start, end, kind, name, confidence))
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
            Mention(start, end, kind, entry.name, confidence, "gazetteer", entry.aliases)
        )
        self.at = upto + 1
        return True

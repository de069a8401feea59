"""Goes through a text once and says which words name something."""

from __future__ import annotations

from datetime import datetime

from zapomni_core.modules.graph import _cues as cues
from zapomni_core.modules.graph._code_rules import (
    command,
    date,
    named_error,
    numbered_reference,
    package,
    parts,
    quoted,
    shaped,
    version,
)
from zapomni_core.modules.graph._dates import DATE_WORDS, may_begin_date
from zapomni_core.modules.graph._gazetteer import Gazetteer
from zapomni_core.modules.graph._names_rules import handle, known_name, speaker, unknown_name
from zapomni_core.modules.graph._walk import Mention, Walk

__all__ = ["scan"]


def scan(text: str, gazetteer: Gazetteer, reference: datetime | None = None) -> list[Mention]:
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


def _note(walk: Walk, mention: Mention | None) -> None:
    if mention is not None:
        walk.mentions.append(mention)


def _read(walk: Walk) -> bool:
    """Try the rules on the word we stand at; the first that finds something wins."""
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

"""Stems of words in other languages than English, and the parts of German compounds.

The word index has English stems. A passage in another language is indexed with its own stems in
addition, and a question in that language asks for them. The stemmers are loaded with the first such
text.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Container, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from zapomni_core.shared.languages import function_words

if TYPE_CHECKING:
    import Stemmer

__all__ = [
    "choose_parts",
    "compounds",
    "drop_function_words",
    "passage_stems",
    "question_stems",
]

# Shorter words have no endings.
SHORTEST_WORD = 4
MAX_STEMS = 300
# Parts of a compound, and what German puts between them.
SHORTEST_PART = 4
SHORTEST_COMPOUND = 9
MAX_COMPOUNDS = 50
_LINKS = ("", "s", "es", "n", "en", "er")

_WORD = re.compile(r"[^\W\d_]+")
_STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "es": "spanish", "fi": "finnish", "fr": "french", "hu": "hungarian", "hy": "armenian",
    "it": "italian", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip


def passage_stems(languages: Sequence[str], text: str) -> list[str]:
    """Return the stems that a passage is found by in addition to its words."""
    stems: dict[str, None] = {}
    for language in languages:
        words = dict.fromkeys(w for w in _WORD.findall(text.lower()) if len(w) >= SHORTEST_WORD)
        stemmed = _stemmer(language).stemWords(list(words))
        stems |= dict.fromkeys(s for w, s in zip(words, stemmed, strict=True) if s != w)
    return list(stems)[:MAX_STEMS]


def question_stems(languages: Sequence[str], terms: Collection[str]) -> dict[str, list[str]]:
    """Return the stems of a question's terms in its languages, where they differ."""
    stems: dict[str, list[str]] = {}
    for language in languages:
        stemmer = _stemmer(language)
        for term in terms:
            if len(term) >= SHORTEST_WORD and term.isalpha():
                stem = stemmer.stemWord(term)
                if stem != term and stem not in stems.setdefault(term, []):
                    stems[term].append(stem)
    return {term: found for term, found in stems.items() if found}


def drop_function_words(languages: Sequence[str], terms: Sequence[str]) -> list[str]:
    """Return the terms without the smallest words of the question's languages."""
    small = frozenset().union(*map(function_words, languages))
    return [term for term in terms if term not in small] or list(terms)


def compounds(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the words of a German text that may be compounds, with the parts they may have.

    The parts are stems. Which of them are words is left to the index: see `choose_parts`.
    """
    words = dict.fromkeys(w for w in _WORD.findall(text.lower()) if len(w) >= SHORTEST_COMPOUND)
    return {word: _split(word) for word in list(words)[:MAX_COMPOUNDS]}


@lru_cache(maxsize=5000)
def _split(word: str) -> list[tuple[str, str]]:
    parts: dict[tuple[str, str], None] = {}
    stem = _stemmer("de").stemWord
    small = function_words("de")
    for end in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1):
        first, second = word[:end], stem(word[end:])
        for link in _LINKS:
            part = first[: len(first) - len(link)]
            is_whole = first.endswith(link) and len(part) >= SHORTEST_PART <= len(second)
            if is_whole and not small.intersection((part, second)):
                parts[stem(part), second] = None
    return list(parts)


def choose_parts(
    found: Mapping[str, Sequence[tuple[str, str]]], known: Container[str]
) -> dict[str, tuple[str, str]]:
    """Return the parts of each compound whose parts are both known; of several the most even."""
    chosen = {}
    for word, pairs in found.items():
        both = [pair for pair in pairs if pair[0] in known and pair[1] in known]
        if both:
            chosen[word] = max(both, key=lambda pair: min(map(len, pair)))
    return chosen


def _stemmer(language: str) -> Stemmer.Stemmer:
    # Not to be shared by threads.
    return _load_stemmer(language, threading.get_ident())


@lru_cache(maxsize=32)
def _load_stemmer(language: str, _thread: int) -> Stemmer.Stemmer:
    import Stemmer  # a native library, with the first text that is not English

    return Stemmer.Stemmer(_STEMMERS[language])

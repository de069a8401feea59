"""Words: those of a question, those a passage should be found by, and how a turn is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

from zapomni_core.shared.languages import languages_of
from zapomni_core.shared.stemming import choose_parts, compounds, passage_stems

__all__ = [
    "KEPT_TURNS",
    "as_spoken",
    "context_words",
    "encodable",
    "find_names",
    "found_phrases",
    "found_words",
    "has_nul",
    "identifier_words",
    "is_stop_token",
    "is_turn",
    "query_phrases",
    "query_terms",
    "question_key",
    "rare_words",
    "replace_words",
    "share_of_words",
    "split_turn",
    "word_stems",
]

MAX_TERMS = 64
# A text of nothing but identifiers must not double its index.
MAX_CONTEXT_WORDS = 200
# No question is longer; a pasted file is not read to its end.
MAX_QUERY_CHARS = 10_000
LONGEST_IDENTIFIER = 100
MAX_RARE_WORDS = 10
MAX_NAMES, LONGEST_NAME = 12, 6
SHORTEST_STEM = 3

# FTS5's tokenizer ends a word at an underscore, so we do too.
_WORD = re.compile(r"[^\W_]+")
# Words of small letters, of a capital and small letters, or of digits have no parts. The pattern
# itself passes over them: a twentieth of the words in code is left to check.
_IDENTIFIER = re.compile(
    r"[^A-Za-z0-9]*+(?:(?:[a-z]++|[A-Z][a-z]*+|[0-9]++)(?:[^A-Za-z0-9]++|\Z))*+([A-Za-z0-9]++)?"
)
_MIXED = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Chinese and Japanese write without blanks: FTS5 would take a whole clause for one word. Korean
# writes particles and endings together with their word.
_UNSPACED = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]{2,}|[\uac00-\ud7a3]{2,}"
)
# Thai, Lao, Burmese and Khmer: letters and, between them, the marks at which FTS5 ends a word.
# Their letters are few: three of them are about as rare as two Chinese ones.
_UNSPACED_LETTERS = re.compile("[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff]{2,}")
# Letters that are also written in another way, and that FTS5 does not fold as it folds accents.
_FOLDED = str.maketrans(
    {"ё": "е", "ß": "ss", "ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "đ": "d"}  # noqa: RUF001
)
_UNFOLDED = re.compile("[ёßłøæœđЁẞŁØÆŒĐ]")
# So many turns of conversations are remembered as they were read: searches come to them again.
KEPT_TURNS = 1000
_TURN = re.compile(r"([A-Z][\w.'-]{0,30}(?: [A-Z][\w.'-]{0,30}){0,2}): (?=\S)")

# What is written around words, and between two of them.
_OPENING = "\"'`\u2018\u201c\u201e\u00ab\u00bf\u00a1"
_CLOSING = (
    "\"'`\u2019\u201d\u201c\u00bb-.,;:!?\u2026\u2013\u2014\u3002\uff0c\uff01\uff1f"
    "\u3001\uff1b\uff1a"
)
# Of Latin, Greek and Cyrillic letters. A name is a run of words with capitals; numbers and small
# words may be inside.
_CAPITAL = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0400-\u042f"
_NAME = re.compile(
    rf"\b(?:[{_CAPITAL}]\.|[{_CAPITAL}][\w-]*+)"
    rf"(?:(?: of(?: the)?| the| de| von| van)? (?:[{_CAPITAL}]\.|[{_CAPITAL}\d][\w-]*+))++"
)

_ENDINGS = ("ing", "ed", "es", "s", "e")
# Words that say nothing about what is asked. Small on purpose: every other word may matter.
_STOP_WORDS = frozenset(
    (
        "a about an and any are as at be been but by can could did do does for from had has have "
        "how i if in into is it its me my of on or our should so than that the their them then "
        "there these they this to us was we were what when where which who whom why will with "
        "would you your"
    ).split()
)
# Words before a colon that are no names.
_LABELS = frozenset(
    (
        "a answer args bug cause caution context date decision description error example fact "
        "fix fixme from goal hint idea important input issue key lesson link name note notes "
        "output plan problem q question re reason result returns rule section see status step "
        "subject summary task time tip title to todo topic usage version warning why"
    ).split()
)


def query_terms(query: str) -> list[str]:
    """Return the distinct words worth searching for, at most 64, in order.

    A question made of nothing but stop words keeps them: something is better than nothing.
    """
    query = query[:MAX_QUERY_CHARS]
    found = [word.lower() for word in _WORD.findall(query)]
    words = list(dict.fromkeys([*found, *(part.lower() for part in _parts(query))]))
    telling = [word for word in words if word not in _STOP_WORDS]
    return (telling or words)[:MAX_TERMS]


def question_key(query: str) -> str:
    """Return what questions have in common that differ in case, blanks and punctuation only.

    What is inside of a word means something (`user_id`, `.env`, `C++`), and so do capitals that are
    not all of it or its first letter (`userId`).
    """
    words = [word.lstrip(_OPENING).rstrip(_CLOSING) for word in query.split()]
    plain = [word.lower() if word in (word.upper(), word.capitalize()) else word for word in words]
    return " ".join(filter(None, plain)) or query


def encodable(words: Sequence[str]) -> list[str]:
    """Leave out what is no UTF-8: it matches nothing that was ever stored."""
    return [
        word for word in words if word.isascii() or word.encode("utf-8", "ignore").decode() == word
    ]


def query_phrases(query: str) -> list[str]:
    """Return pairs of telling words that stand side by side, at most 16."""
    words = [word.lower() for word in _WORD.findall(query[:MAX_QUERY_CHARS])]
    pairs = [
        f"{first} {second}"
        for first, second in pairwise(words)
        if first not in _STOP_WORDS and second not in _STOP_WORDS
    ]
    return list(dict.fromkeys(pairs))[:16]


def rare_words(text: str, asked: Collection[str]) -> list[str]:
    """Return words of a passage that may lead to others: names, numbers and long words first."""
    known = {word[:5] for word in asked} | _STOP_WORDS
    names: list[str] = []
    others: list[str] = []
    for word in dict.fromkeys(_WORD.findall(text)):
        small = word.lower()
        if len(word) > 2 and small[:5] not in known and small not in known:
            is_name = word[0].isupper() or word[0].isdigit()
            (names if is_name else others).append(small)
    names.sort(key=len, reverse=True)
    others.sort(key=len, reverse=True)
    return list(dict.fromkeys([*names, *others]))[:MAX_RARE_WORDS]


def find_names(text: str, asked: Collection[str]) -> list[str]:
    """Return the names of several words in a text that are not asked for, in small letters.

    Those of a conversation are not worth it: it comes back to the same names whatever it is about.
    """
    turns = [turn[1] for line in text.split("\n") if (turn := _TURN.match(line))]
    if len({*turns}) < len(turns):
        return []
    known = {word[:5] for word in asked} | _STOP_WORDS
    names: dict[str, None] = {}
    for found in _NAME.finditer(text):
        words = [word.lower() for word in _WORD.findall(found[0])]
        while words and words[0] in _STOP_WORDS:
            words.pop(0)
        if 1 < len(words) <= LONGEST_NAME and not all(w in known or w[:5] in known for w in words):
            names[" ".join(words)] = None
    return list(names)[:MAX_NAMES]


def replace_words(query: str, corrected: Mapping[str, str]) -> str:
    """Return a question with some of its words, in small letters, replaced."""
    return _WORD.sub(lambda word: corrected.get(word[0].lower(), word[0]), query)


def identifier_words(name: str) -> list[str]:
    """Return the words an identifier is made of: `parse_HTTPHeader` is parse, http, header."""
    return [word.lower() for word in _PARTS.findall(name)]


def found_words(terms: Collection[str], text: str) -> list[str]:
    """Return those of the terms that a text has; the first five letters are enough."""
    found = {word[:5] for word in _WORD.findall(text.lower())}
    return [term for term in terms if term[:5] in found]


def found_phrases(phrases: Collection[str], text: str) -> list[str]:
    """Return those of the phrases that a text has, whatever separates their words."""
    if not phrases:
        return []
    joined = f" {' '.join(_WORD.findall(text.lower()))} "
    return [phrase for phrase in phrases if f" {phrase} " in joined]


def share_of_words(terms: Collection[str], text: str) -> float:
    """Return how many of the terms a text has, 0 to 1; the first five letters are enough."""
    return len(found_words(terms, text)) / len(terms) if terms else 0.0


def word_stems(text: str, most: int = MAX_QUERY_CHARS) -> dict[str, str]:
    """Return the informative words of a text by their stems: enough to compare two texts.

    Of a text with more stems than `most`, one more than that.
    """
    found: dict[str, str] = {}
    for match in _WORD.finditer(text[:MAX_QUERY_CHARS]):
        word = match[0].lower()
        if word not in _STOP_WORDS:
            found[_stem(word)] = word
            if len(found) > most:
                break
    return found


def _stem(word: str) -> str:
    """Return the first five letters of a word without its ending: name, names and named agree."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)][:5]
    return word[:5]


def is_stop_token(token: str) -> bool:
    """Say whether a token of a question carries no meaning of its own."""
    return token in _STOP_WORDS or (len(token) == 1 and not token.isalnum())


def context_words(
    text: str, occurred_at: datetime | None = None, known: Container[str] = ()
) -> str:
    """Return what a passage should be found by though it does not have it.

    Args:
        text: The passage.
        occurred_at: When what it says happened.
        known: Those parts of its compounds that the index has.
    """
    words = list(dict.fromkeys(_parts(text)))[:MAX_CONTEXT_WORDS]
    if languages := languages_of(text):
        words += passage_stems(languages, text)
    if known and "de" in languages:
        words += dict.fromkeys(chain.from_iterable(choose_parts(compounds(text), known).values()))
    if occurred_at is not None:
        words.append(f"{occurred_at.day} {occurred_at:%B %Y}")
    return " ".join(words)


def _parts(text: str) -> list[str]:
    """Return what else a text's words may be asked by.

    The words inside identifiers, pairs or triples of characters of unspaced scripts, words with
    letters that are also written in another way.
    """
    words = dict.fromkeys(_IDENTIFIER.findall(text))
    parts = list(chain.from_iterable(map(_parts_of, words)))
    if text.isascii():
        return parts
    for run in _UNSPACED.findall(text):
        parts += [run[i : i + 2] for i in range(len(run) - 1)]
    for run in _UNSPACED_LETTERS.findall(text):
        letters = "".join(filter(str.isalpha, run))
        parts += [letters[i : i + 3] for i in range(max(len(letters) - 2, 1))]
    if _UNFOLDED.search(text):
        words_of_text = dict.fromkeys(_WORD.findall(text.lower()))
        parts += [word.translate(_FOLDED) for word in words_of_text if _UNFOLDED.search(word)]
    return parts


@lru_cache(maxsize=20_000)
def _parts_of(word: str) -> tuple[str, ...]:
    """Return the words inside an identifier; none if it is one word. In code they come again."""
    if len(word) > LONGEST_IDENTIFIER or not _MIXED.search(word):
        return ()
    return tuple(_PARTS.findall(word))


def as_spoken(text: str) -> str:
    """Write `Anna: text` as `Anna said, "text"`: the encoder knows sentences, not scripts."""
    turn = _TURN.match(text)
    if turn is None or turn[1].lower() in _LABELS:
        return text
    return f'{turn[1]} said, "{text[turn.end() :]}"'


@lru_cache(maxsize=KEPT_TURNS)
def split_turn(text: str) -> tuple[str, str]:
    """Return who says a text and what: `Anna: text`, and no other speaker.

    Of any other text, no speaker and the whole.
    """
    turn = _TURN.match(text)
    if turn is None or turn[1].lower() in _LABELS:
        return "", text
    said = text[turn.end() :]
    if "\n" in said and any(_TURN.match(line) for line in said.split("\n")[1:]):
        return "", text
    return turn[1], said


def is_turn(text: str) -> bool:
    """Return whether a text is one turn of a conversation."""
    return bool(split_turn(text)[0])


def has_nul(value: Any) -> bool:
    """Return whether a text, or a text anywhere in a JSON value, has a NUL character.

    Without recursion: hostile input must not exhaust the stack.
    """
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
    return False

"""The search language of observations, as an FTS5 expression that cannot fail.

AND, OR and NOT in capitals, "a phrase", prefix* and parentheses mean what they do in FTS5. All
else is plain words, whatever it contains: `src/auth.py`, `it's` and `C++` are no syntax here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zapomni_db.exceptions import ValidationError

__all__ = ["any_word", "match_expression"]

MAX_QUERY = 10_000
MAX_TERMS = 64
MAX_DEPTH = 20
SHORTEST_PREFIX = 2

_OPERATORS = ("AND", "OR", "NOT")
# A parenthesis inside a word, as in main(), belongs to the word.
_TOKEN = re.compile(r'"(?P<phrase>[^"]*)"|(?P<open>\()(?=[^)\s])|(?P<word>[^\s"]+)')

# Words that say nothing about what is asked.
_STOP_WORDS = frozenset(
    (
        "a about an and any are as at be been but by can could did do does for from had has have "
        "how i if in into is it its me my of on or our should so than that the their them then "
        "there these they this to us was we were what when where which who why will with would "
        "you your"
    ).split()
)


def match_expression(query: str) -> str:
    """Return the FTS5 expression for a query; empty if it has no word in it.

    Raises:
        ValidationError: The query is empty, or its operators do not fit together.
    """
    if not query.strip():
        raise ValidationError("query must not be empty", "VAL_001")
    if len(query) > MAX_QUERY:
        raise ValidationError(f"query must not be longer than {MAX_QUERY} characters", "VAL_003")
    tokens = _tokens(query)
    parser = _Parser(tokens)
    expression = parser.either(0)
    if parser.next is not None:
        raise _wrong("a closing parenthesis has no opening one")
    return expression


def any_word(query: str) -> str:
    """Return an expression for rows with any telling word; empty if the query has operators."""
    if '"' in query or any(word in _OPERATORS or word.endswith("*") for word in query.split()):
        return ""
    words = dict.fromkeys(word.lower() for word in re.findall(r"\w+", query))
    telling = [word for word in words if word not in _STOP_WORDS and word.strip("_")]
    return " OR ".join(f'"{word}"' for word in telling[:MAX_TERMS]) if len(words) > 1 else ""


def _wrong(what: str) -> ValidationError:
    return ValidationError(
        f'malformed query: {what}. Use words, AND, OR, NOT, "a phrase" and prefix*.', "VAL_004"
    )


def _tokens(query: str) -> list[str]:
    """Cut a query into operators, parentheses and quoted terms."""
    if query.count('"') % 2:
        raise _wrong('unbalanced quotes, a phrase is opened with " and never closed')
    tokens: list[str] = []
    terms, depth, position = 0, 0, 0
    query = query.replace("\0", " ")
    while found := _TOKEN.search(query, position):
        position = found.end()
        if found["open"]:
            tokens.append("(")
            depth += 1
            continue
        word = found["word"] or ""
        closing = 0
        while depth > closing and word.endswith(")") and word.count("(") < word.count(")"):
            word, closing = word[:-1], closing + 1
        if word in _OPERATORS:
            tokens.append(word)
        elif term := _term(found["phrase"], word):
            terms += 1
            if terms <= MAX_TERMS:
                tokens.append(term)
        tokens.extend(")" * closing)
        depth -= closing
    if depth:
        raise _wrong("an opening parenthesis is never closed")
    return tokens


def _term(phrase: str | None, word: str) -> str:
    """Quote a term; one that holds no letter and no digit is none."""
    text = word if phrase is None else phrase
    prefix = phrase is None and text.endswith("*")
    if not any(character.isalnum() for character in text):
        return ""
    if prefix and len(text.rstrip("*")) < SHORTEST_PREFIX:
        raise _wrong(f"a prefix needs at least {SHORTEST_PREFIX} characters before the *")
    return f'"{text.rstrip("*")}" *' if prefix else f'"{text}"'


class _Parser:
    """NOT binds tighter than AND, AND tighter than OR; words side by side mean AND."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def either(self, depth: int) -> str:
        parts = [self._both(depth)]
        while self.next == "OR":
            self._at += 1
            parts.append(self._both(depth))
        return _joined(parts, " OR ")

    def _both(self, depth: int) -> str:
        parts = [self._without(depth)]
        while self.next not in (None, "OR", ")"):
            if self.next == "AND":
                self._at += 1
            parts.append(self._without(depth))
        return _joined(parts, " AND ")

"""The search language of observations, as an FTS5 expression that cannot fail.

AND, OR and NOT in capitals, "a phrase", prefix* and parentheses mean what they do in FTS5. All
else is plain words, whatever it contains: `src/auth.py`, `it's` and `C++` are no syntax here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zapomni_db.exceptions import ValidationError

__all__ = ["alternatives", "plain_words"]

MAX_QUERY = 10_000
MAX_TERMS = 64
MAX_WORDS = 16
MAX_DEPTH = 20
SHORTEST_PREFIX = 2

_OPERATORS = ("AND", "OR", "NOT")
# A parenthesis inside a word, as in main(), belongs to the word.
_TOKEN = re.compile(r'"(?P<phrase>[^"]*)"|(?P<open>\()(?!\s*\))|(?P<word>[^\s"]+)')

# Words that say nothing about what is asked.
_STOP_WORDS = frozenset(
    (
        "a about an and any are as at be been but by can could did do does for from had has have "
        "how i if in into is it its me my of on or our should so than that the their them then "
        "there these they this to us was we were what when where which who why will with would "
        "you your"
    ).split()
)


def alternatives(query: str) -> list[str]:
    """Return the FTS5 expressions of which a row must match one; none if there is no word.

    Raises:
        ValidationError: The query is empty, or its operators do not fit together.
    """
    if not query.strip():
        raise ValidationError("query must not be empty", "VAL_001")
    if len(query) > MAX_QUERY:
        raise ValidationError(f"query must not be longer than {MAX_QUERY} characters", "VAL_003")
    tokens = _tokens(query.replace("\0", " "))
    return _Parser(tokens).either(0) if tokens else []


def plain_words(query: str) -> list[str]:
    """Return a plain question's telling words, quoted; none if it is one word or has syntax."""
    if '"' in query or any(word in _OPERATORS or word.endswith("*") for word in query.split()):
        return []
    words = dict.fromkeys(word.lower() for word in re.findall(r"\w+", query))
    telling = [word for word in words if word not in _STOP_WORDS and word.strip("_")]
    return [f'"{word}"' for word in telling[:MAX_WORDS]] if len(words) > 1 else []


def _wrong(what: str) -> ValidationError:
    return ValidationError(
        f'malformed query: {what}. Use words, AND, OR, NOT, "a phrase" and prefix*.', "VAL_004"
    )


def _tokens(query: str) -> list[str]:
    """Cut a query into operators, parentheses and quoted terms."""
    if query.count('"') % 2:
        raise _wrong('unbalanced quotes, a phrase is opened with " and never closed')
    # Without operators there is nothing to group: (int)x is three plain words.
    grouping = any(word.strip("()") in _OPERATORS for word in query.split())
    tokens: list[str] = []
    terms = depth = position = 0
    while found := _TOKEN.search(query, position):
        position = found.end()
        if found["open"]:
            tokens.extend("(" * grouping)
            depth += grouping
            continue
        word = found["word"] or ""
        closing = max(word.count(")") - word.count("("), 0) if grouping else 0
        # What stands behind a closing parenthesis without a space is part of the word.
        closing = min(closing, len(word) - len(word.rstrip(")")))
        word = word[: len(word) - closing]
        depth -= closing
        if depth < 0:
            raise _wrong("a closing parenthesis has no opening one")
        if word in _OPERATORS:
            tokens.append(word)
        elif term := _term(found["phrase"], word):
            terms += 1
            tokens.extend([term] * (terms <= MAX_TERMS))
        tokens.extend(")" * closing)
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


def _joined(parts: Sequence[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else f"({operator.join(parts)})"


class _Parser:
    """NOT binds tighter than AND, AND tighter than OR; words side by side mean AND."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def either(self, depth: int) -> list[str]:
        """Read alternatives, up to the end or to a closing parenthesis."""
        parts = [self._both(depth)]
        while self._next == "OR":
            self._at += 1
            parts.append(self._both(depth))
        return parts

    def _both(self, depth: int) -> str:
        wanted, unwanted = [self._one(depth)], []
        while self._next not in (None, "OR", ")"):
            said = self._next
            self._at += said in _OPERATORS
            # `a AND NOT b` is no FTS5, but everybody writes it.
            if said == "NOT" or (said == "AND" and self._next == "NOT"):
                self._at += said == "AND"
                unwanted.append(self._one(depth))
            else:
                wanted.append(self._one(depth))
        both = _joined(wanted, " AND ")
        return f"({both} NOT {_joined(unwanted, ' OR ')})" if unwanted else both

    def _one(self, depth: int) -> str:
        found = self._next
        if found is None or found in (")", *_OPERATORS):
            before = self._tokens[self._at - 1] if self._at else ""
            name = found if found in _OPERATORS else before
            raise _wrong(
                f"{name} needs a term on both sides; put quotes around a word that is meant"
                if name in _OPERATORS
                else "there is nothing between two parentheses"
            )
        self._at += 1
        if found != "(":
            return found
        if depth == MAX_DEPTH:
            raise _wrong(f"parentheses are nested deeper than {MAX_DEPTH}")
        inner = _joined(self.either(depth + 1), " OR ")
        self._at += 1  # The closing one: _tokens has counted them.
        return inner

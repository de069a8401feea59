"""What a question's words are."""

from __future__ import annotations

import re

__all__ = ["query_terms"]

MAX_TERMS = 64

_WORD = re.compile(r"\w+")

# Words that say nothing about what is asked. Small on purpose: every other word may matter.
_STOP_WORDS = frozenset(
    (
        "a about an and any are as at be been but by can could did do does for from had has have "
        "how i if in into is it its me my of on or our should so than that the their them then "
        "there these they this to us was we were what when where which who whom why will with "
        "would you your"
    ).split()
)


def query_terms(query: str) -> list[str]:
    """Return the distinct words worth searching for, at most 64, in order.

    A question made of nothing but stop words keeps them: something is better than nothing.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
    telling = [word for word in words if word not in _STOP_WORDS]
    return (telling or words)[:MAX_TERMS]

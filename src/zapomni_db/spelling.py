"""Words that a misspelt word may be meant to be: both engines choose alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["MOST_TEXTS", "allowed_distance", "distance", "nearest_word"]

# From which length on one letter may be wrong, and from which two.
ONE_WRONG, TWO_WRONG = 5, 9
MOST_TEXTS = 50
"""So many passages with words like it are read for each misspelt word."""

# Both are compiled when they are first needed: most words are spelt right, and in ASCII.
_WORD = r"[^\W\d_]+"
# Scripts that write without blanks: what looks like one word there is many.
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"


def allowed_distance(word: str) -> int:
    """Return how many letters of a word may be wrong: none in short ones, and in numbers."""
    if len(word) < ONE_WRONG or not word.isalpha():
        return 0
    if not word.isascii() and re.search(_UNSPACED, word):
        return 0
    return 1 if len(word) < TWO_WRONG else 2


def distance(word: str, other: str, *, beginning: bool = False) -> int:
    """Return how many letters are wrong, missing, too many or swapped.

    With `beginning`, what follows in `word` after the best match of `other` is free: `other` is a
    stem.
    """
    before: list[int] = []
    row = list(range(len(word) + 1))
    for i, letter in enumerate(other, 1):
        previous, row, older = row, [i], before
        before = previous
        for j, own in enumerate(word, 1):
            cost = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (letter != own))
            if i > 1 and j > 1 and letter == word[j - 2] and own == other[i - 2]:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return min(row) if beginning else row[-1]


def nearest_word(word: str, texts: Iterable[str]) -> str | None:
    """Return the word of these texts that is meant: the nearest, of those the most frequent."""
    most = allowed_distance(word)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(
            {found for found in re.findall(_WORD, text.lower()) if len(found) >= ONE_WRONG}
        )
    near = [
        (wrong, -counts[found], found)
        for found in counts
        if abs(len(found) - len(word)) <= most
        and len({*found} - {*word}) <= most
        and (wrong := distance(word, found)) <= most
    ]
    return min(near)[2] if near else None

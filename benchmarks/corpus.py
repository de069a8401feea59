"""Text to measure with: made from a seed, so that every run measures the same.

Words are as rare and as common as in real text (Zipf's law): a few stand everywhere, most stand in
a handful of passages.
"""

from __future__ import annotations

import random
from bisect import bisect
from functools import cache
from itertools import accumulate

VOCABULARY = 20_000
_SYLLABLES = "ba ko ri len tar mos vin pel dor gu shi nax tel om wer cal fi zen".split()


@cache
def _words() -> tuple[list[str], list[float]]:
    dice = random.Random(1)
    words = ["".join(dice.choices(_SYLLABLES, k=dice.randint(2, 4))) for _ in range(VOCABULARY)]
    return words, list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))


def _draw(dice: random.Random) -> str:
    words, cumulated = _words()
    return words[bisect(cumulated, dice.random() * cumulated[-1])]


def document(number: int, sentences: int = 12) -> str:
    """A short note, unlike every other one."""
    dice = random.Random(number)
    lines = [" ".join(_draw(dice) for _ in range(11)) for _ in range(sentences)]
    return ". ".join(line.capitalize() for line in lines) + "."


def question(number: int) -> str:
    """Six words of one note, with the words questions are made of."""
    dice = random.Random(-number - 1)
    words = [word.strip(".").lower() for word in document(dice.randrange(1000)).split()]
    return "why does the {} {} the {} when {} is {} in {}".format(*dice.sample(words, 6))

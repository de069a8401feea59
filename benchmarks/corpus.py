"""Text to measure with: made from a seed, so that every run measures the same."""

from __future__ import annotations

import random

_SUBJECTS = "server client parser cache index worker queue test build schema token session".split()
_VERBS = "fails retries blocks leaks returns rejects loads writes reads drops keeps waits".split()
_OBJECTS = "requests rows files vectors events locks threads messages headers records".split()
_PLACES = "staging production CI the-laptop the-container region-a region-b the-replica".split()


def document(number: int, sentences: int = 12) -> str:
    """A short technical note, unlike every other one."""
    dice = random.Random(number)
    lines = [f"Note {number}: {dice.choice(_SUBJECTS)} and {dice.choice(_SUBJECTS)}."]
    lines += [
        f"In {dice.choice(_PLACES)} the {dice.choice(_SUBJECTS)} {dice.choice(_VERBS)} "
        f"{dice.randrange(1, 900)} {dice.choice(_OBJECTS)} when the {dice.choice(_SUBJECTS)} "
        f"{dice.choice(_VERBS)} {dice.choice(_OBJECTS)} of build {dice.randrange(10**5)}."
        for _ in range(sentences)
    ]
    return " ".join(lines)


def question(number: int) -> str:
    """A question whose words are common in the corpus: the hard case for a word index."""
    dice = random.Random(-number - 1)
    return (
        f"why does the {dice.choice(_SUBJECTS)} {dice.choice(_VERBS)} {dice.choice(_OBJECTS)} "
        f"in {dice.choice(_PLACES)}"
    )

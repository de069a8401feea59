"""What two memories that are alike are to each other: the same, or at odds.

Rules over words, no model. They propose; the user decides.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from zapomni_core.shared.statements import is_ended_by
from zapomni_core.shared.text import word_stems

__all__ = ["Comparison", "compare"]

# Which share of the shorter text's words the other one has.
SAME_SHARE, CONFLICT_SHARE, CHANGE_SHARE = 0.75, 0.6, 0.5
# From this cosine on two texts say the same, in whatever words.
SAME_COSINE = 0.9

_TOKEN = re.compile(r"[^\W_]+(?:[.:'-][^\W_]+)*")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
}
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_MONTHS = "january february march april may june july august september october november december"
_VALUE_WORDS = frozenset(f"{_DAYS} {_MONTHS} hourly daily weekly monthly".split())
_NEGATIONS = frozenset(
    "not no never don't doesn't isn't aren't won't can't cannot mustn't shouldn't without neither "
    "forbidden disabled off".split()
)
_CHANGES = re.compile(
    r"\b(?:no longer|moved|migrated|switched|changed|replaced|replaces|instead of|rather than"
    r"|raised|lowered|dropped|retired|since|now|gone)\b",
    re.IGNORECASE,
)


class Comparison(NamedTuple):
    """What two memories are to each other, and why."""

    kind: Literal["duplicate", "contradiction"]
    why: str


def compare(older: str, newer: str, cosine: float | None = None) -> Comparison | None:
    """Compare two texts that were found to be alike.

    Args:
        older: The one that was stored first.
        newer: The other one.
        cosine: Of their vectors; None if there are none.
    """
    if is_ended_by(older, newer):
        return Comparison("contradiction", "the newer one says that it is over")
    old, new = _read(older), _read(newer)
    if not old.words or not new.words:
        return None
    shared = old.words.keys() & new.words.keys()
    share = len(shared) / min(len(old.words), len(new.words))
    gone, come = old.values - new.values, new.values - old.values
    same_subject = old.subject in new.words or new.subject in old.words
    if gone and come:
        if share >= CONFLICT_SHARE and same_subject:
            return Comparison("contradiction", f"{_list(gone)} became {_list(come)}")
        return None
    if old.negated != new.negated and share >= CONFLICT_SHARE:
        return Comparison("contradiction", "one says the opposite")
    after = new.words.keys() - shared
    if _CHANGES.search(newer) and after and share >= CHANGE_SHARE and same_subject:
        return Comparison("contradiction", "the newer one states a change")
    if len(old.tokens) == len(new.tokens):
        changed = [pair for pair in zip(old.tokens, new.tokens, strict=True) if len(set(pair)) > 1]
        if len(changed) == 1 and len(shared) > 1:
            return Comparison("contradiction", " became ".join(changed[0]))
    if share >= SAME_SHARE or (cosine is not None and cosine >= SAME_COSINE):
        if (gone or come) and after and old.words.keys() - shared:
            return Comparison("contradiction", f"{_list(gone | come)} is said by one alone")
        return Comparison("duplicate", "both say the same")
    return None


class _Read(NamedTuple):
    tokens: list[str]
    words: dict[str, str]
    """Informative words that are no values, by their beginning."""
    values: set[str]
    """Numbers, days, months, names."""
    subject: str
    """The beginning of the first word."""
    negated: bool


def _read(text: str) -> _Read:
    tokens: list[str] = []
    values: set[str] = set()
    for found in _TOKEN.finditer(text):
        token = found[0].lower()
        token = token.removesuffix("s") if token[:-1] in _VALUE_WORDS else token
        token = _NUMBERS.get(token, token)
        # A capital within a sentence begins a name.
        is_name = found[0] != token and text[: found.start()].rstrip()[-1:] not in ("", *".:!?-")
        if is_name or token in _VALUE_WORDS or any(map(str.isdigit, token)):
            values.add(token)
        tokens.append(token)
    rest = [token for token in tokens if token not in values and token not in _NEGATIONS]
    words = word_stems(" ".join(rest))
    return _Read(tokens, words, values, next(iter(words), ""), bool(_NEGATIONS & set(tokens)))


def _list(values: set[str]) -> str:
    return ", ".join(sorted(values)[:3])

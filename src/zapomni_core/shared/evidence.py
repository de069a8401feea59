"""Evidence by words: how sure we are that a text answers a question, 0 to 1.

Unlike a rank score it does not depend on the other hits, so a question that nothing answers
gets little. Prompts, which are no questions, have `word_evidence`. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from zapomni_core.shared.text import found_phrases, found_words

__all__ = [
    "FEWEST_TEXTS",
    "STRONG",
    "WEAK",
    "enough_weight",
    "evidence_in_text",
    "evidence_word",
    "inverse_frequency",
    "phrase_weight",
    "to_evidence",
    "weigh_terms",
    "word_logit",
    "word_share",
]

# From which evidence on a hit is called strong, and from which weak; below that it is none.
STRONG, WEAK = 0.65, 0.2
# In a store of three notes every word is in a third of them: they are weighed as if among so many.
FEWEST_TEXTS = 50
# No answer repeats all of a long question: the weight of so many rare words is enough.
ENOUGH_WORDS = 6
# Pairs of words that follow each other as in the question: what counts as one, and as many.
PHRASE_UNIT, MOST_PHRASES = 10.0, 1.5
# Weights of the share of words and of phrases, and what both have to exceed.
SHARE, PHRASES, BIAS = 9.0, 3.0, -4.0


def inverse_frequency(total: int, matching: int) -> float:
    """How informative a word is: FTS5's own formula, never quite nothing.

    A store without snapshots may count more matches than it had passages a moment before.
    """
    return max(math.log((max(total - matching, 0) + 0.5) / (max(matching, 0) + 0.5)), 1e-6)


def weigh_terms(counts: Mapping[str, int], total: int) -> dict[str, float]:
    """Weigh words by how few of `total` texts contain them."""
    return {
        term: inverse_frequency(max(total, FEWEST_TEXTS), count) for term, count in counts.items()
    }


def enough_weight(weights: Mapping[str, float], total: int) -> float:
    """Return how much of a question's words, by weight, counts as all of them."""
    return min(sum(weights.values()), ENOUGH_WORDS * math.log(max(total, FEWEST_TEXTS)))


def word_share(weights: Mapping[str, float], found: Iterable[str], enough: float) -> float:
    """Return the share of a question's words, by weight, that were found."""
    return min(sum(map(weights.__getitem__, found)) / enough, 1.0) if enough > 0 else 0.0


def phrase_weight(rarity: float) -> float:
    """Scale the summed rarity of the phrases that were found."""
    return min(rarity / PHRASE_UNIT, MOST_PHRASES)


def to_evidence(logit: float) -> float:
    """Turn a sum of weighted signals into 0 to 1."""
    return 1 / (1 + math.exp(-logit))


def word_logit(share: float, phrases: float) -> float:
    """Combine what `word_share` and `phrase_weight` return, if nothing but words is known."""
    return SHARE * share + PHRASES * phrases + BIAS


def evidence_in_text(
    text: str,
    terms: Sequence[str],
    phrases: Sequence[str],
    counts: Mapping[str, int],
    total: int,
    found: Collection[str] | None = None,
) -> float:
    """Return the evidence that a text answers a question, by its words alone.

    Args:
        text: What may answer.
        terms: Of the question, from `query_terms`.
        phrases: Of the question, from `query_phrases`.
        counts: How many texts contain each term; a term that is missing is in none.
        total: How many texts there are.
        found: The terms that the text has, if that is known.
    """
    found = found_words(terms, text) if found is None else found
    weights = weigh_terms({term: counts.get(term, 0) for term in terms}, total)
    possible = [phrase for phrase in phrases if all(word in found for word in phrase.split())]
    # How many texts contain a phrase is not known: no more than contain its rarer word.
    rarity = sum(
        max(weights[word] for word in phrase.split()) for phrase in found_phrases(possible, text)
    )
    share = word_share(weights, found, enough_weight(weights, total))
    return to_evidence(word_logit(share, phrase_weight(rarity)))


def evidence_word(evidence: float) -> Literal["strong", "weak", "none"]:
    """Return the evidence as a word: strong, weak or none."""
    if evidence >= STRONG:
        return "strong"
    return "weak" if evidence >= WEAK else "none"

"""What the knowledge graph, and names where there is none, add to a search.

A passage that begins with an entity that the question names is about it, or is said by it: that
decides between passages that are otherwise alike. Entities of the best passages lead to other
passages that name them: the second half of an answer often shares no word with the question. They
never come before the passages that led to them, and not in conversations, whose neighbors say more.
Bounded in every step, given up when it takes too long, and no part of the evidence. Runs of words
with capitals lead on in the same way, found by the word index: no graph has to be built for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from zapomni_db.models import Mention
from zapomni_db.rules import fold

__all__ = [
    "RARE",
    "SECONDS",
    "Links",
    "link_by_names",
    "link_passages",
    "names_in",
    "weigh_entities",
]

# Weights of beginning with an entity of the question, and of being linked to the best passages: by
# the graph, by names.
ASKED, LINKED, NAMED = 0.05, 0.2, 0.3
# An entity that more passages name than this links everything with everything.
RARE = 40
MOST_ENTITIES = 40
NEW = 10
SECONDS = 0.05
LONGEST_NAME = 5
MOST_NAMES = 200
# A date links passages that are otherwise unrelated.
NOT_LINKING = frozenset({"DATE"})

_WORDS = re.compile(r"[^\W_](?:[\w.'\u2019&/+#-]*[\w+#])?")
_POSSESSIVE = re.compile(r"['\u2019]s$")


@dataclass(frozen=True)
class Links:
    """Passages that the graph supports, by their ids."""

    asked: frozenset[str] = frozenset()
    """Those that begin with an entity of the question."""
    linked: Mapping[str, float] = field(default_factory=dict)
    """Those that share entities with the best passages, and how much that says."""
    weight: float = LINKED
    """What the best linked one gains."""

    def new(self, known: Collection[str]) -> list[str]:
        """Return the best linked passages that are not known yet."""
        ranked = sorted(self.linked, key=lambda i: (-self.linked[i], i))
        return [chunk_id for chunk_id in ranked if chunk_id not in known][:NEW]

    def scores(self, pool: Sequence[str], best: Collection[str]) -> dict[str, float]:
        """Return what the links add to each passage's score.

        Links start from the best passages, which stay ahead of those they lead to.
        """
        if not self.asked and not self.linked:
            return dict.fromkeys(pool, 0.0)
        highest = max((self.linked.get(i, 0.0) for i in pool if i not in best), default=0.0)
        share = {i: self.linked.get(i, 0.0) / highest for i in pool} if highest > 0 else {}
        return {
            i: ASKED * (i in self.asked)
            + self.weight * ((1.0 if i in best else share[i]) if share else 0.0)
            for i in pool
        }


def weigh_entities(
    best: Mapping[str, float], mentions: Mapping[str, Sequence[Mention]], asked: Collection[str]
) -> dict[str, float]:
    """Return the entities of the best passages that the question does not name, with weights.

    Args:
        best: How good each of the best passages is, relative to the best of them.
        mentions: What each passage that may answer names, the best included.
        asked: The entities that the question names.
    """
    weights: dict[str, float] = {}
    for chunk_id, share in best.items():
        for mention in mentions.get(chunk_id, ()):
            if mention.type not in NOT_LINKING and mention.entity_id not in asked:
                weights[mention.entity_id] = max(weights.get(mention.entity_id, 0.0), share)
    return dict(sorted(weights.items(), key=lambda w: (-w[1], w[0]))[:MOST_ENTITIES])


def link_passages(
    asked: Collection[str],
    mentions: Mapping[str, Sequence[Mention]],
    weights: Mapping[str, float],
    found: Mapping[str, Sequence[Mention]],
    total: int,
) -> Links:
    """Return the passages that share entities with the best ones.

    Args:
        asked: The entities that the question names.
        mentions: What each passage that may answer names, the best included.
        weights: The entities of the best passages, with their weights.
        found: The passages that mention each of those.
        total: How many passages there are.
    """
    begins = frozenset(
        chunk_id
        for chunk_id, named in mentions.items()
        if any(m.start_char == 0 and m.entity_id in asked for m in named)
    )
    linked: dict[str, float] = {}
    for entity_id, others in found.items():
        if not 2 <= len(others) <= RARE:
            continue
        gain = weights[entity_id] * _rarity(len(others), total)
        for mention in others:
            twice = 2 if mention.start_char == 0 else 1
            linked[mention.chunk_id] = linked.get(mention.chunk_id, 0.0) + twice * gain
    return Links(begins, linked)


def link_by_names(
    weights: Mapping[str, float], found: Mapping[str, frozenset[str] | None], total: int
) -> Links:
    """Return the passages that share names with the best ones.

    Args:
        weights: The names in the best passages, with their weights.
        found: The passages that have each name.
        total: How many passages there are.
    """
    linked: dict[str, float] = {}
    for name, weight in weights.items():
        others = found[name] or ()
        if not 2 <= len(others) <= RARE:
            continue
        gain = weight * _rarity(len(others), total)
        for chunk_id in others:
            linked[chunk_id] = linked.get(chunk_id, 0.0) + gain
    return Links(linked=linked, weight=NAMED)


def _rarity(count: int, total: int) -> float:
    return math.log(max(total, count, 2) / count) / math.sqrt(count)


def names_in(query: str) -> list[str]:
    """Return every run of up to five words: one of them may be a name."""
    words = [_POSSESSIVE.sub("", word) for word in _WORDS.findall(query)]
    runs = (
        fold(" ".join(words[start : start + length]))
        for start in range(len(words))
        for length in range(1, LONGEST_NAME + 1)
        if start + length <= len(words)
    )
    return list(dict.fromkeys(runs))[:MOST_NAMES]

"""What the knowledge graph adds to a search.

A passage that begins with what the question names is about it, or is said by it. What the best
passages name leads to other passages that name it: the second half of an answer often shares no
word with the question. Bounded in every step, and given up when it takes too long.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from zapomni_db.graph_models import Mention
from zapomni_db.interfaces import GraphReadStore
from zapomni_db.rules import fold

__all__ = ["Links", "follow_graph"]

# What it is worth to begin with what the question names, and to be linked to the best passages.
ASKED, LINKED = 0.1, 0.2
# What the best passages themselves get of the latter.
BEST = 0.8
# An entity that more passages name than this links everything with everything.
RARE = 40
MOST_ENTITIES = 40
NEW = 10
SECONDS = 0.05
LONGEST_NAME = 5
MOST_NAMES = 200
# A day links what has nothing else to do with each other.
NOT_LINKING = frozenset({"DATE"})

_WORDS = re.compile(r"[^\W_](?:[\w.'\u2019&/+#-]*[\w+#])?")
_POSSESSIVE = re.compile(r"['\u2019]s$")


@dataclass(frozen=True)
class Links:
    """What the graph says for passages, by their ids, 0 to 1."""

    asked: frozenset[str] = frozenset()
    """Those that begin with what the question names."""
    linked: Mapping[str, float] = field(default_factory=dict)
    """Those that name what the best passages name."""

    def new(self, known: Collection[str]) -> list[str]:
        """Return the best linked passages that are not known yet."""
        ranked = sorted(self.linked, key=lambda i: (-self.linked[i], i))
        return [chunk_id for chunk_id in ranked if chunk_id not in known][:NEW]

    def scores(self, pool: Sequence[str], best: Collection[str]) -> dict[str, float]:
        """Return what the graph adds to each passage's score.

        The best passages are what links begin with: they keep their place before what they lead to.
        """
        highest = max((self.linked.get(i, 0.0) for i in pool if i not in best), default=0.0)
        share = {i: self.linked.get(i, 0.0) / highest for i in pool} if highest > 0 else {}
        return {
            i: ASKED * (i in self.asked)
            + LINKED * ((BEST if i in best else share[i]) if share else 0.0)
            for i in pool
        }


async def follow_graph(
    storage: GraphReadStore,
    query: str,
    best: Mapping[str, float],
    pool: Collection[str],
    total: int,
    as_of: datetime | None = None,
) -> Links:
    """Look around from what the question and its best passages name.

    Args:
        storage: The graph; an empty one costs two small reads.
        query: The question.
        best: How good each of the best passages is, beside the best of them.
        pool: All passages that may answer, the best included.
        total: How many passages there are.
        as_of: What was known at that time; None: now.
    """
    deadline = time.perf_counter() + SECONDS
    asked = frozenset(await storage.find_named(_names_in(query), as_of))
    named = await storage.get_named(sorted(pool), as_of)
    begins = frozenset(
        chunk_id
        for chunk_id, mentions in named.items()
        if any(m.start_char == 0 and m.entity_id in asked for m in mentions)
    )
    if time.perf_counter() > deadline:
        return Links(begins)
    weights = _linking(best, named, asked)
    found = await storage.get_mentions(list(weights), as_of, RARE + 1)
    linked: dict[str, float] = {}
    for entity_id, mentions in found.items():
        if not 2 <= len(mentions) <= RARE:
            continue
        rarity = math.log(max(total, len(mentions), 2) / len(mentions)) / math.sqrt(len(mentions))
        for mention in mentions:
            gain = weights[entity_id] * rarity * (2 if mention.start_char == 0 else 1)
            linked[mention.chunk_id] = linked.get(mention.chunk_id, 0.0) + gain
    return Links(begins, linked)


def _linking(
    best: Mapping[str, float], named: Mapping[str, Sequence[Mention]], asked: Collection[str]
) -> dict[str, float]:
    """Return what the best passages name and the question does not, each as good as its passage."""
    weights: dict[str, float] = {}
    for chunk_id, share in best.items():
        for mention in named.get(chunk_id, ()):
            if mention.type not in NOT_LINKING and mention.entity_id not in asked:
                weights[mention.entity_id] = max(weights.get(mention.entity_id, 0.0), share)
    return dict(sorted(weights.items(), key=lambda w: (-w[1], w[0]))[:MOST_ENTITIES])


def _names_in(query: str) -> list[str]:
    """Return every run of up to five words: one of them may be a name."""
    words = [_POSSESSIVE.sub("", word) for word in _WORDS.findall(query)]
    runs = (
        fold(" ".join(words[start : start + length]))
        for start in range(len(words))
        for length in range(1, LONGEST_NAME + 1)
        if start + length <= len(words)
    )
    return list(dict.fromkeys(runs))[:MOST_NAMES]

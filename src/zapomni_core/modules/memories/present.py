"""The present fact above the past one: reorders the first hits of a search.

Three things count, all of them said by the memories themselves: a status line ("Superseded by
ADR-0046", "Replaces ADR-0002", "Rejected"), a sentence of change in a newer fact ("we moved from
MySQL to Postgres"), and that one of two facts that are alike is newer. What is replaced ranks below
what replaced it and says so; of two that are alike, the newer comes first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from zapomni_core.interfaces import Replacement
from zapomni_core.modules.memories.alike import is_fact
from zapomni_core.modules.memories.scoring import Candidate
from zapomni_core.shared.languages import is_in_other_script
from zapomni_core.shared.statements import (
    MOST_WORDS,
    Status,
    TextReference,
    ended_words,
    find_ended,
    names_of,
    numbers_of,
    phrases_of,
    read_status,
    says_change,
    shares_topic,
)
from zapomni_core.shared.text import encodable, word_stems
from zapomni_db.code_models import CODE_KIND
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import Hits, MemoryFilter, MemorySummary, TextSearchRequest

__all__ = ["HEAD", "prefer_present"]

# How many of the first hits are compared and reordered.
HEAD = 20
KEPT_STATUSES = 500
# Two facts may be alike from this cosine on; about the same thing from this one on.
ALIKE, RELATED = 0.4, 0.5
# Without vectors, or in a script they do not know, alike are those that share half of the words of
# the shorter one.
ALIKE_WORDS = 0.5
# From here on two facts say the same, or what was the same before one of them changed.
RESTATED = 0.75
# A newer fact answers as well as an older one if these sum up to so much: their cosine; how near it
# is to the question in comparison, up to so much; and the same of the word of the question that it
# is farthest from, in comparison: another port and the port of something else differ in one word.
ANSWERS, MOST_NEAR = 1.9, 1.2
# And it has to be alike by so much more than most of so many others are: functions of one library
# resemble each other without replacing each other.
ABOVE_USUAL, ENOUGH = 0.3, 6
# A name is a word or two.
NAME_WORDS = 2
# The same without vectors of words; and how near without a cosine that knows the script.
ANSWERS_IN_ALL, AS_NEAR = 1.45, 0.85
# What is left of the score of a memory that is replaced by nothing among the hits.
DEMOTED = 0.8
# Hits whose successors are searched for, and how many passages may be such.
NAMED_HITS, LOOKED_UP = 10, 60


class _ReadHit(NamedTuple):
    candidate: Candidate
    summary: MemorySummary
    text: str
    """The text, or how a long one begins."""
    status: Status

    @property
    def names(self) -> set[TextReference]:
        return _names(self.summary)

    @property
    def numbers(self) -> set[TextReference]:
        return numbers_of(self.summary.source, _first_line(self.summary), _commit(self.summary))


@dataclass
class _Order:
    """Which memories come before which."""

    above: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By the id of a memory, those that it comes before."""
    replaced: dict[str, Replacement] = field(default_factory=dict)


async def prefer_present(
    storage: StorageProvider,
    query: str,
    found: list[Candidate],
    read: Hits,
    *,
    look_up: bool,
) -> list[Candidate]:
    """Return the hits with those replaced below what replaced them, the newer of two alike first.

    Args:
        storage: The store, in the snapshot of the search.
        query: The question.
        found: All hits, best first; the first `HEAD` are reordered.
        read: Their memories and passages, with beginnings and cosines.
        look_up: Whether memories anywhere may say that they replace another one.
    """
    head = found[:HEAD]
    known = [
        (c, read.summaries[c.memory_id], read.passages[c.chunk_id].text)
        for c in head
        if c.memory_id in read.summaries
        and c.chunk_id in read.passages
        and read.summaries[c.memory_id].kind != CODE_KIND
    ]
    hits = [
        _ReadHit(c, summary, text, _status_of(read.beginnings.get(summary.memory_id, text)))
        for c, summary, text in known
    ]
    order = _Order()
    await _follow_references(storage, hits, order, look_up=look_up)
    _compare_facts(query, hits, read.cosines, order)
    if not order.above and not order.replaced:
        return found
    return [*_reorder(head, order), *found[HEAD:]]


def _reorder(head: Sequence[Candidate], order: _Order) -> list[Candidate]:
    present = {candidate.memory_id for candidate in head}
    for candidate in head:
        replaced = candidate.replaced = order.replaced.get(candidate.memory_id)
        if replaced is not None and replaced.memory_id not in present:
            candidate.demoted = (DEMOTED - 1) * candidate.score
            candidate.score += candidate.demoted
    ordered: list[Candidate] = []
    for candidate in sorted(head, key=lambda c: -c.score):
        below = order.above.get(candidate.memory_id, set())
        at = next((i for i, c in enumerate(ordered) if c.memory_id in below), len(ordered))
        if at < len(ordered):
            candidate.newer = ordered[at].score - candidate.score
            candidate.score = ordered[at].score
        ordered.insert(at, candidate)
    return ordered


# --- Status lines -----------------------------------------------------------------------


def _names(summary: MemorySummary) -> set[TextReference]:
    return names_of(summary.source, _first_line(summary), summary.memory_id, _commit(summary))


def _first_line(summary: MemorySummary) -> str:
    return summary.preview.lstrip().partition("\n")[0]


def _commit(summary: MemorySummary) -> str:
    commit = summary.metadata.get("commit")
    return commit if isinstance(commit, str) else ""


# The same memories are found again and again; no text that is passed is longer than a few pages.
@lru_cache(maxsize=KEPT_STATUSES)
def _status_of(beginning: str) -> Status:
    return read_status(beginning)


async def _follow_references(
    storage: StorageProvider, hits: Sequence[_ReadHit], order: _Order, *, look_up: bool
) -> None:
    """Link what status lines refer to, among the hits and then in the rest of their projects.

    Asks the store once at most: only if a hit names its successor, or others may name the hits.
    """
    for hit in hits:
        status = hit.status
        if status.ended:
            order.replaced[hit.summary.memory_id] = Replacement(how=status.ended, by=status.by)
    _link(hits, [(hit.summary, hit.status) for hit in hits], order)
    wanted: set[TextReference] = set()
    projects: set[str] = set()
    for number, hit in enumerate(hits):
        if (linked := order.replaced.get(hit.summary.memory_id)) and linked.memory_id:
            continue
        references = set(hit.status.replaced_by)
        if look_up and number < NAMED_HITS:
            # Only numbers and commits are referred to often enough to be searched for.
            references |= hit.numbers
        if references:
            wanted |= references
            projects.add(hit.summary.project)
    terms = sorted({phrase for one in wanted for phrase in phrases_of(one)})
    if not terms:
        return
    others, passages = await storage.find_hits(
        TextSearchRequest(
            terms=encodable(terms),
            limit=LOOKED_UP * len(projects),
            filters=MemoryFilter(projects=sorted(projects), not_kind=CODE_KIND),
        )
    )
    _link(
        hits,
        [
            (others[passage.memory_id], read_status(passage.text))
            for passage in passages.values()
            if passage.memory_id in others
        ],
        order,
    )


def _link(
    hits: Sequence[_ReadHit], others: Sequence[tuple[MemorySummary, Status]], order: _Order
) -> None:
    """Link hits with others that they name as successors, or that say they replace them."""
    replacing = [other for other in others if other[1].replaces]
    for hit in hits:
        candidates = others if hit.status.replaced_by else replacing
        if not candidates:
            continue
        own, names = hit.summary, hit.names
        if (known := order.replaced.get(own.memory_id)) and known.memory_id:
            continue
        for other, status in candidates:
            if other.memory_id == own.memory_id or other.project != own.project:
                continue
            named = _names(other) if hit.status.replaced_by else set()
            is_named = any(one.means(name) for one in hit.status.replaced_by for name in named)
            if is_named or any(one.means(name) for one in status.replaces for name in names):
                order.replaced[own.memory_id] = Replacement(
                    how=hit.status.ended or "superseded",
                    by=hit.status.by or _title(other),
                    memory_id=other.memory_id,
                )
                order.above[other.memory_id].add(own.memory_id)
                break


def _title(summary: MemorySummary) -> str:
    return summary.preview.strip().lstrip("#").strip().partition("\n")[0][:80]


# --- Facts ------------------------------------------------------------------------------


def _compare_facts(
    query: str, hits: Sequence[_ReadHit], cosines: Mapping[frozenset[str], float], order: _Order
) -> None:
    """Compare the facts of each project: sentences of change, and the newer of two alike."""
    facts: dict[str, list[_ReadHit]] = defaultdict(list)
    for hit in hits:
        known = hit.summary
        if is_fact(known.kind, known.parent, known.chunk_count):
            facts[known.project].append(hit)
    has_vectors = bool(cosines)
    unread = {
        hit.candidate.chunk_id for hit in hits if not has_vectors or is_in_other_script(hit.text)
    }
    near = {chunk for pair, cosine in cosines.items() if cosine >= ALIKE for chunk in pair} | unread
    words: dict[str, set[str]] = {}
    for project, group in facts.items():
        # The words of texts are not read where nothing is alike or said to be over.
        if len(group) < 2 or not any(
            hit.candidate.chunk_id in near or says_change(hit.text) for hit in group
        ):
            facts[project] = []
            continue
        for hit in group:
            words[hit.candidate.chunk_id] = set(word_stems(hit.text, MOST_WORDS))
        facts[project] = [h for h in group if len(words[h.candidate.chunk_id]) <= MOST_WORDS]
    asked = set(word_stems(query))
    for group in facts.values():
        oldest_first = sorted(group, key=lambda h: (h.summary.occurred_at, h.summary.created_at))
        stems = [words[hit.candidate.chunk_id] for hit in oldest_first]
        chunks = [hit.candidate.chunk_id for hit in oldest_first]
        if not unread.isdisjoint(chunks):
            cosines = {**cosines, **_compare_words(chunks, stems, unread)}
        compared = _Facts(oldest_first, stems, asked, cosines, unread)
        for n, newer in enumerate(oldest_first):
            over = ended_words(newer.text) if n else []
            new = newer.summary
            for o, older in enumerate(oldest_first[:n]):
                old = older.summary
                cosine = cosines.get(frozenset((chunks[o], chunks[n]))) if has_vectors else None
                if _is_over(over, stems[o], stems[n], cosine):
                    order.above[new.memory_id].add(old.memory_id)
                    order.replaced.setdefault(
                        old.memory_id,
                        Replacement(how="changed", by=_title(new), memory_id=new.memory_id),
                    )
                elif old.kind == new.kind and compared.is_present(n, o):
                    order.above[new.memory_id].add(old.memory_id)


def _compare_words(
    chunks: Sequence[str], stems: Sequence[set[str]], unread: Collection[str]
) -> dict[frozenset[str], float]:
    """Return the share of words in common, for pairs with a text that no vector is known of.

    Vectors of an English model know nothing of a text in another script but its names.
    """
    return {
        frozenset((chunks[i], chunks[j])): len(stems[i] & stems[j])
        / max(min(len(stems[i]), len(stems[j])), 1)
        for i, j in combinations(range(len(chunks)), 2)
        if chunks[i] in unread or chunks[j] in unread
    }


@dataclass
class _Facts:
    """The facts of a project among the hits, oldest first, and how much they are alike."""

    hits: Sequence[_ReadHit]
    stems: Sequence[set[str]]
    asked: set[str]
    cosines: Mapping[frozenset[str], float]
    unread: set[str]
    """Passages that the vectors know nothing of."""

    def is_present(self, n: int, o: int) -> bool:
        """Return whether a newer fact says what is true now of what an older one says."""
        return any(
            (i == o or self._alike(i, o) >= RESTATED)
            and self._alike(n, i) >= ALIKE
            and self._answers_as_well(n, i)
            and not (i != o and self._names_another(o, i))
            for i in range(n)
        ) and not self._names_another(o, n)

    def _alike(self, i: int, j: int) -> float:
        pair = frozenset((self.hits[i].candidate.chunk_id, self.hits[j].candidate.chunk_id))
        return self.cosines.get(pair, 0.0)

    def _answers_as_well(self, n: int, o: int) -> bool:
        """Return whether a newer fact is alike, and about what was asked as much as the older one.

        Otherwise it may be about another thing of the same kind, or say something else of the
        thing.
        """
        alike = self._alike(n, o)
        new, old = self.hits[n].candidate, self.hits[o].candidate
        if not self.unread.isdisjoint((new.chunk_id, old.chunk_id)):
            # A question in other words, or in another language, says nothing of either.
            covers = (
                bool(self.asked & self.stems[o]) and self.asked & self.stems[o] <= self.stems[n]
            )
            is_near = new.cosine >= AS_NEAR * old.cosine > 0
            return alike >= ALIKE_WORDS and (covers or is_near)
        if old.cosine <= 0:
            return False
        total, least = alike + min(new.cosine / old.cosine, MOST_NEAR), ANSWERS_IN_ALL
        if new.similarities is not None and old.similarities is not None:
            words = zip(new.similarities, old.similarities, strict=True)
            total += min(float(one) / max(float(other), 0.05) for one, other in words)
            least = ANSWERS
        return total >= least and alike >= self._usual(n, o) + ABOVE_USUAL

    def _usual(self, n: int, o: int) -> float:
        """Return how much an older fact is like most others among the hits, if there are enough."""
        others = sorted(self._alike(i, o) for i in range(len(self.hits)) if i not in (n, o))
        return others[len(others) // 2] if len(others) >= ENOUGH else -1.0

    def _names_another(self, o: int, n: int) -> bool:
        return _names_another(self.hits[o].text, self.hits[n].text, self.asked)


def _names_another(older: str, newer: str, asked: set[str]) -> bool:
    """Return whether a newer fact has another word where an older one has a word of the question.

    Then it says of another thing what the older one says of this one: the port of Redis, the port
    of Postgres.
    """
    # Few searches come here: the import would cost each of them four milliseconds.
    from difflib import SequenceMatcher

    old, new = (re.findall(r"\w+", text) for text in (older, newer))
    lowered = [word.lower() for word in old], [word.lower() for word in new]
    stems = {*word_stems(newer)}
    for tag, start, end, new_start, new_end in SequenceMatcher(
        None, *lowered, autojunk=False
    ).get_opcodes():
        if tag != "replace" or max(end - start, new_end - new_start) > NAME_WORDS:
            continue
        # Priya Patel is not Priya Nair.
        if start == new_start == 1 and all(one[0].isupper() for one in (*old[:2], new[1])):
            return True
        if {*word_stems(" ".join(old[start:end]))} & asked - stems:
            return True
    return False


def _is_over(
    over: Sequence[Collection[str]],
    old_words: set[str],
    new_words: set[str],
    cosine: float | None,
) -> bool:
    """Return whether a newer fact says that something of an older one is over.

    Both have to be about the same thing: by their vectors, or by their words without any.
    """
    ended = find_ended(over, old_words)
    if cosine is not None:
        return bool(ended) and cosine >= RELATED
    return any(shares_topic(words, old_words, new_words) for words in ended)

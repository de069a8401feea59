"""The answer cache: repeated searches, valid until what they read is changed."""

from __future__ import annotations

from collections import OrderedDict, deque

from zapomni_core.interfaces import SearchResponse
from zapomni_db.models import StoreState

__all__ = ["AnswerCache"]

LATENCIES = 100
ANSWERS = 128

Version = tuple[int, tuple[int, ...]]
"""Numbers that change with memories, and with observations if these are searched."""


class AnswerCache:
    """The latest answers and how long searches took."""

    def __init__(self) -> None:
        self.state: StoreState | None = None
        """The store as the latest search saw it."""
        self._answers: OrderedDict[str, tuple[Version, SearchResponse]] = OrderedDict()
        self._latencies: deque[float] = deque(maxlen=LATENCIES)
        self._lookups = 0
        self._hits = 0

    @property
    def hit_rate(self) -> float | None:
        """The share of searches answered from the cache; None before the first."""
        return self._hits / self._lookups if self._lookups else None

    @property
    def mean_latency_ms(self) -> float | None:
        """How long the latest searches took on average; None before the first."""
        if not self._latencies:
            return None
        return round(sum(self._latencies) / len(self._latencies), 2)

    def has(self, question: str) -> bool:
        """Return whether there is an answer to this question, which may be out of date."""
        return question in self._answers

    def get(self, question: str, version: Version) -> SearchResponse | None:
        """Return the answer to this question if nothing that it is about was changed since."""
        self._lookups += 1
        cached = self._answers.get(question)
        if cached is None or cached[0] != version:
            return None
        self._hits += 1
        self._answers.move_to_end(question)
        return cached[1]

    def put(self, question: str, version: Version, response: SearchResponse) -> None:
        """Store an answer, unless part of the search was missing: the model may return."""
        if response.notice is None:
            self._answers[question] = (version, response)
            if len(self._answers) > ANSWERS:
                self._answers.popitem(last=False)

    def record_latency(self, milliseconds: float) -> None:
        """Record how long a search took."""
        self._latencies.append(milliseconds)

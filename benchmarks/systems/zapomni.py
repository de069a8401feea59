"""Zapomni through its public engine, with the settings a new user has."""

from __future__ import annotations

import asyncio
import gc
import re
from collections import defaultdict
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from zapomni_core.engine import create_engine
from zapomni_core.infra.logging import setup_logging
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest, SearchResponse
from zapomni_core.settings import load_settings

BATCH = 256
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_NAMED = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\s+([a-z]{3,9})\.?,?\s+(\d{4})")
_NAMED_FIRST = re.compile(r"([a-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})")
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::\d{2})?\s*([ap]m)?")


def parse_time(text: str) -> datetime | None:
    """Read a date, and a time if there is one, out of words such as "1:56 pm on 8 May, 2023"."""
    lowered = text.lower()
    day = _day(lowered)
    if day is None:
        return None
    clock = _CLOCK.search(lowered)
    hour, minute = (int(clock[1]), int(clock[2])) if clock else (0, 0)
    if clock and clock[3]:
        hour = hour % 12 + (12 if clock[3] == "pm" else 0)
    try:
        return datetime(*day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None


def _day(text: str) -> tuple[int, int, int] | None:
    if found := _ISO.search(text):
        return int(found[1]), int(found[2]), int(found[3])
    if (found := _NAMED.search(text)) and (month := _month(found[2])):
        return int(found[3]), month, int(found[1])
    if (found := _NAMED_FIRST.search(text)) and (month := _month(found[1])):
        return int(found[3]), month, int(found[2])
    return None


def _month(word: str) -> int:
    return next((n for n, name in enumerate(MONTHS, 1) if name.startswith(word)), 0)


def requests_of(docs: list[dict]) -> list[AddMemoryRequest]:
    """One memory per document; its place in its parent is its order among its neighbours."""
    seen: dict[str, int] = defaultdict(int)
    requests = []
    for doc in docs:
        parent = doc.get("group") or ""
        requests.append(
            AddMemoryRequest(
                text=doc["text"],
                parent=parent,
                position=seen[parent],
                occurred_at=parse_time(doc.get("time") or ""),
                metadata={"doc": doc["id"], **({"role": doc["role"]} if "role" in doc else {})},
            )
        )
        seen[parent] += 1
    return requests


class Index:
    settings: ClassVar[dict[str, str]] = {}
    """What differs from a new user's."""

    def __init__(self, folder: Path, vectors: None) -> None:
        del vectors
        setup_logging("ERROR")
        gc.set_threshold(100_000, 20, 20)  # as in the process of `zapomni serve`
        models = str(load_settings().models_path)
        settings = load_settings({}, home=folder, **{"models_dir": models, **self.settings})
        self._runner = asyncio.Runner()
        self._engine = self._runner.run(create_engine(settings))
        # A text kept twice at one place is one memory: its id stands for several documents.
        self._docs: dict[str, list[str]] = defaultdict(list)

    def add(self, docs: list[dict]) -> None:
        requests = requests_of(docs)
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            kept = self._runner.run(self._engine.add_memories(batch))
            for request, response in zip(batch, kept, strict=True):
                self._docs[response.memory_id].append(request.metadata["doc"])
        if self.settings.get("embedder") != "none":
            self._runner.run(self._engine.memories.fill_pending())
        self._runner.run(self._engine.memories.tidy())  # as a server does by itself

    def search(self, query: str, limit: int) -> list[str]:
        found = self.answer(query, limit).results
        return [doc for hit in found for doc in self.documents(hit.memory_id)]

    def answer(self, query: str, limit: int, *, explain: bool = False) -> SearchResponse:
        request = SearchRequest(query=query, limit=limit, explain=explain)
        # Not `run`, which sets signal handlers for every call: no server does.
        return self._runner.get_loop().run_until_complete(self._engine.search_memory(request))

    def documents(self, memory_id: str) -> list[str]:
        return self._docs.get(memory_id, [memory_id])

    def all_documents(self) -> dict[str, list[str]]:
        return dict(self._docs)

    def load_documents(self, documents: dict[str, list[str]]) -> None:
        """Say which documents the memories of an index are that was built before."""
        self._docs.update(documents)

    def remove(self, documents: Collection[str]) -> None:
        """Delete the memories of some documents."""
        gone = {m for m, docs in self._docs.items() if not {*docs}.isdisjoint(documents)}
        for memory_id in gone:
            self._runner.run(self._engine.delete_memory(memory_id))
            del self._docs[memory_id]

    def close(self) -> None:
        self._runner.run(self._engine.close())
        self._runner.close()

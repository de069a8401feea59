"""`zapomni bench --longmemeval FILE`: a public benchmark of long conversations, on this machine.

The file is LongMemEval's own (`longmemeval_s_cleaned.json` or another size): a list of questions,
each with the sessions it is asked over. They are added to a store of that question alone, one
memory per turn, and the question is asked once. Sessions are ranked by their best turn. Questions
that nothing answers (`_abs`) are left out, as LongMemEval's own scorer does.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import sqlite3
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretStr

from zapomni_cli.output import Progress
from zapomni_core.adapters.embedders import build_embedders
from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.exceptions import ValidationError
from zapomni_core.interfaces import AddMemoryRequest, ModelEmbedder, SearchRequest, TokenEmbedder
from zapomni_core.settings import Settings
from zapomni_core.shared.measures import average, by_category, collapse, score
from zapomni_db.models import Embedding, EmbeddingSpace, QueryEmbedding

__all__ = ["HaystackQuestion", "HaystackTurn", "read_questions", "run_longmemeval"]

# Turns that are read for the first ten sessions.
DEPTH = 50
ADDED_AT_ONCE = 256

_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d)(?:\D{0,10}(\d\d):(\d\d))?")


class HaystackTurn(NamedTuple):
    """What one side said at once."""

    turn_id: str
    session_id: str
    position: int
    role: str
    text: str
    date: str
    is_answer: bool


class HaystackQuestion(NamedTuple):
    """A question, and the turns it is asked over."""

    question_id: str
    type: str
    text: str
    turns: list[HaystackTurn]
    answer_sessions: list[str]

    @property
    def answer_turns(self) -> list[str]:
        """The turns that have the answer."""
        return [turn.turn_id for turn in self.turns if turn.is_answer]


class _Asked(NamedTuple):
    question: HaystackQuestion
    ranking: list[str]
    milliseconds: float


def read_questions(path: Path) -> Iterator[HaystackQuestion]:
    """Yield the questions that something answers, one at a time: such files are large.

    Raises:
        ValidationError: It is no file of LongMemEval.
    """
    read, number = json.JSONDecoder().raw_decode, 0
    try:
        text = path.read_text(encoding="utf-8")
        place = _next_value(text, text.find("[") + 1)
        while place < len(text):
            number += 1
            entry, place = read(text, place)
            question = _question(entry)
            if not question.question_id.endswith("_abs"):
                yield question
            place = _next_value(text, place)
    except (ValueError, KeyError, TypeError) as error:
        raise ValidationError(
            f"Not a file of LongMemEval: question {number} cannot be read",
            "VAL_004",
            original_exception=error,
        ) from error
    if not number:
        raise ValidationError("Not a file of LongMemEval: it has no questions", "VAL_004")


def _next_value(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n,]":
        place += 1
    return place


def _question(entry: dict[str, Any]) -> HaystackQuestion:
    ids, dates = entry["haystack_session_ids"], entry["haystack_dates"]
    turns = [
        HaystackTurn(
            f"{session_id}#{position}", session_id, position, turn["role"], turn["content"], date,
            bool(turn.get("has_answer")),
        )
        for session_id, date, session in zip(ids, dates, entry["haystack_sessions"], strict=True)
        for position, turn in enumerate(session)
    ]  # fmt: skip
    return HaystackQuestion(
        str(entry["question_id"]), str(entry["question_type"]), entry["question"], turns,
        list(dict.fromkeys(entry["answer_session_ids"])),
    )  # fmt: skip


def run_longmemeval(
    settings: Settings, path: Path, count: int, seed: int, progress: Progress
) -> dict[str, Any]:
    """Ask so many of the questions; return what `zapomni bench` prints."""
    names = [question.question_id for question in read_questions(path)]
    chosen = set(random.Random(seed).sample(names, min(count, len(names))))  # noqa: S311 - a sample
    return asyncio.run(_run(settings, path, chosen, progress))


async def _run(
    settings: Settings, path: Path, chosen: set[str], progress: Progress
) -> dict[str, Any]:
    asked: list[_Asked] = []
    embedders = build_embedders(settings)
    with tempfile.NamedTemporaryFile(prefix="zapomni-bench-") as file:
        known = sqlite3.connect(file.name, isolation_level=None)
        try:
            # The model is loaded once for all questions.
            shared = [
                _KnownVectors(one, known) if isinstance(one, TokenEmbedder) else one
                for one in embedders
            ]
            for question in read_questions(path):
                if question.question_id in chosen:
                    asked.append(await _ask(settings, shared, question))
                    progress(len(asked), len(chosen))
        finally:
            known.close()
            for embedder in embedders:
                await embedder.close()
    return _report(asked)


async def _ask(
    settings: Settings, embedders: Sequence[ModelEmbedder], question: HaystackQuestion
) -> _Asked:
    """Add the turns to a store of their own and ask."""
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as home:
        update = {
            "home": Path(home), "storage": SecretStr(""), "models_dir": settings.models_path,
            "embedder": "none",
        }  # fmt: skip
        async with await create_engine(settings.model_copy(update=update)) as engine:
            engine.memories.embeddings.embedders.extend(embedders)
            turns = await _add(engine, question.turns)
            # What loads with the first search is not what a search costs.
            await engine.search_memory(SearchRequest(query="warm up", limit=1))
            started = time.perf_counter()
            found = await engine.search_memory(SearchRequest(query=question.text, limit=DEPTH))
            spent = (time.perf_counter() - started) * 1000
            engine.memories.embeddings.embedders.clear()  # they are used again
    ranking = [turn for hit in found.results for turn in turns.get(hit.memory_id, [])]
    return _Asked(question, ranking, spent)


async def _add(engine: ZapomniEngine, turns: Sequence[HaystackTurn]) -> dict[str, list[str]]:
    """Add turns; return which ones each memory is: a text that is repeated is one memory."""
    turns = [turn for turn in turns if turn.text.strip()]
    stored: dict[str, list[str]] = defaultdict(list)
    for start in range(0, len(turns), ADDED_AT_ONCE):
        batch = turns[start : start + ADDED_AT_ONCE]
        requests = [
            AddMemoryRequest(
                text=turn.text,
                parent=turn.session_id,
                position=turn.position,
                occurred_at=_moment(turn.date),
                metadata={"role": turn.role},
            )
            for turn in batch
        ]
        for turn, response in zip(batch, await engine.add_memories(requests), strict=True):
            stored[response.memory_id].append(turn.turn_id)
    if engine.memories.embeddings.embedders:
        await engine.memories.fill_pending()
    return stored


def _moment(date: str) -> datetime | None:
    """Read "2023/05/20 (Sat) 02:21"."""
    found = _DATE.search(date)
    if found is None:
        return None
    year, month, day, hour, minute = (int(part or 0) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None


def _report(asked: Sequence[_Asked]) -> dict[str, Any]:
    ordered = sorted(one.milliseconds for one in asked)
    at = {f"latency_ms_p{p}": math.ceil(len(ordered) * p / 100) - 1 for p in (50, 95)}
    sessions, turns = [], []
    for question, ranking, _ in asked:
        session_of = {turn.turn_id: turn.session_id for turn in question.turns}
        if question.answer_sessions:
            ranked = collapse(ranking, session_of)
            sessions.append((question.type, score(ranked, question.answer_sessions)))
        if question.answer_turns:
            turns.append((question.type, score(ranking, question.answer_turns)))
    return {
        "questions": len(asked),
        "sessions": _figures(sessions),
        "turns": _figures(turns),
        **{name: round(ordered[n], 1) if ordered else None for name, n in at.items()},
    }


def _figures(scored: Sequence[tuple[str, dict[str, float]]]) -> dict[str, Any]:
    if not scored:
        return {"queries": 0, "by_type": {}}
    everything = average([scores for _, scores in scored])
    return {"queries": len(scored), **everything, "by_type": by_category(scored)}


class _KnownVectors:
    """An embedder that makes no vector twice: questions have sessions in common."""

    def __init__(self, embedder: TokenEmbedder, known: sqlite3.Connection) -> None:
        self._embedder = embedder
        self._known = known
        self.name, self.model_id = embedder.name, embedder.model_id
        known.execute(
            "CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB, tokens BLOB)"
        )

    async def space(self) -> EmbeddingSpace:
        return await self._embedder.space()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [made.vector for made in await self.embed_with_tokens(texts)]

    async def embed_with_tokens(self, texts: Sequence[str]) -> list[Embedding]:
        known = dict(self._read(texts))
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        known |= zip(missing, await self._embedder.embed_with_tokens(missing), strict=True)
        for text in missing:
            row = (_digest(text), array("f", known[text].vector).tobytes(), known[text].tokens)
            self._known.execute("INSERT INTO vectors VALUES (?, ?, ?)", row)
        return [known[text] for text in texts]

    def _read(self, texts: Sequence[str]) -> Iterator[tuple[str, Embedding]]:
        query = "SELECT vector, tokens FROM vectors WHERE text = ?"
        for text in texts:
            for stored, tokens in self._known.execute(query, (_digest(text),)):
                vector = array("f", stored).tolist()
                yield text, Embedding.model_construct(vector=vector, tokens=tokens)

    async def embed_query(self, text: str) -> list[float]:
        return await self._embedder.embed_query(text)

    async def embed_query_with_tokens(self, text: str) -> QueryEmbedding:
        return await self._embedder.embed_query_with_tokens(text)

    async def close(self) -> None:
        """The model stays loaded for the next question."""


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()

"""Whatever is asked, a search answers or says what is wrong with the question.

FUZZ_QUERIES=100000 is the long version, run by `make soak`.
"""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import closing

from observation_rows import observe, open_database
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import ValidationError
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.settings import load_settings

QUERIES = int(os.environ.get("FUZZ_QUERIES", "400"))

SYNTAX = [
    "AND", "OR", "NOT", "NEAR", "NEAR(a b, 2)", "*", "^", ":", "-", "+", "(", ")", "{", "}", "'",
    '"', '""', "\\", "%", "_", ";", "--", "/*", "text:", "rowid", "chunks_fts", "a*", '"a b"*',
]  # fmt: skip
STOP_WORDS = "the of and a to what is it that did do how why i you".split()
WORDS = "kettle deploy Postgres getUserName snake_case_name v1.2.3 src/auth.py naïve 8 May".split()
SCRIPTS = ["日本", "你好", "記憶", "שלום", "مرحبا", "привет", "Ελλάδα", "ไทย", "한국어"]
ODD = [
    "\0", "\n", "\t", "\r", "\u200b", "\u202e", "\ufeff", "\ud800", "\udfff", "🧠", "👩‍👩‍👧", "é",
    "e\u0301", "\x1b[31m", "\U0010ffff", "\u2028",
]  # fmt: skip


def question(dice: random.Random) -> str:
    """One query: a few pieces of one or several kinds, or a heap of one of them."""
    kinds = dice.sample([SYNTAX, STOP_WORDS, WORDS, SCRIPTS, ODD, None], dice.randint(1, 3))
    pieces = []
    for _ in range(dice.randint(1, 8)):
        kind = dice.choice(kinds)
        pieces.append(
            dice.choice(kind) if kind else chr(dice.randrange(0x110000)) * dice.randint(1, 3)
        )
    joined = dice.choice(["", " ", '"', "\0"]).join(pieces)
    return joined * dice.choice([100, 10_000]) if dice.random() < 0.002 else joined


def test_every_question_is_answered_or_refused_with_a_reason():
    dice = random.Random(20)

    async def ask_all() -> dict[str, int]:
        told = {"answered": 0, "found": 0, "refused": 0}
        async with await create_engine(load_settings(embedder="none")) as engine:
            for text in (
                "The kettle is red.",
                "日本 and 你好",
                "getUserName in src/auth.py",
                "AND",
            ):
                await engine.add_memory(AddMemoryRequest(text=text))
            for number in range(QUERIES):
                asked = question(dice) if number else "the " * 250_000
                try:
                    response = await engine.search_memory(SearchRequest(query=asked))
                except ValidationError:
                    assert not asked.strip() or "\0" in asked
                    told["refused"] += 1
                else:
                    told["answered"] += 1
                    told["found"] += response.count > 0
        return told

    with closing(open_database(load_settings().database_path)) as db:
        observe(db, "command", "boil kettle in 日本")
        told = asyncio.run(ask_all())

    print(told)
    assert told["answered"] + told["refused"] == QUERIES
    assert told["found"] > QUERIES / 10

"""Whether the present fact ranks above the past one.

    python -m benchmarks.facts [--data FILE] [--words] [--misses]

Thirty facts are said, restated and changed later, one after the other and among others that are
alike in form and still true. Asked twice: as they were added, and where each notice of a similar
memory was acted on (`supersedes`) if it was about the same fact. Shown: how often the current fact
ranked first, how often an unrelated newer one displaced a fact that is still true, and how many
notices were about the same fact. With `--words` no model is used.

FILE is JSON: {"facts": [{"question", "said", "restated", "changed"}], "siblings": [{"question",
"fact", "newer"}]}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.infra.logging import setup_logging
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest, UpdateMemoryRequest
from zapomni_core.settings import load_settings

DATA = Path(__file__).parent / "data" / "facts.json"
STEPS = ("said", "restated", "changed")


async def add_all(engine: ZapomniEngine, data: dict[str, Any], *, act: bool) -> tuple[int, int]:
    """Add every fact; return how many notices there were, and how many about the same fact."""
    fact_of: dict[str, int] = {}
    notices = right = 0

    async def add(text: str, number: int) -> None:
        nonlocal notices, right
        answer = await engine.add_memory(AddMemoryRequest(text=text, project="shop"))
        fact_of[answer.memory_id] = number
        same = [one.memory_id for one in answer.similar if fact_of[one.memory_id] == number]
        notices += len(answer.similar)
        right += len(same)
        if act and same:
            await engine.update_memory(
                UpdateMemoryRequest(memory_id=answer.memory_id, supersedes=same)
            )

    for number, sibling in enumerate(data["siblings"], start=len(data["facts"])):
        await add(sibling["fact"], number)
    for step in STEPS:
        for number, fact in enumerate(data["facts"]):
            await add(fact[step], number)
    for number, sibling in enumerate(data["siblings"], start=1000):
        await add(sibling["newer"], number)
    return notices, right


async def measure(data: dict[str, Any], *, act: bool, words: bool, misses: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        models = load_settings().models_path
        chosen = {"embedder": "none"} if words else {}
        settings = load_settings({}, home=Path(folder), models_dir=models, **chosen)
        engine = await create_engine(settings)
        try:
            notices, right = await add_all(engine, data, act=act)

            async def first(question: str) -> str:
                found = await engine.search_memory(SearchRequest(query=question, limit=10))
                return found.results[0].text if found.results else ""

            asked = [(f["question"], f["changed"]) for f in data["facts"]]
            still = [(s["question"], s["fact"]) for s in data["siblings"]]
            current = [(q, text, await first(q)) for q, text in asked]
            true = [(q, text, await first(q)) for q, text in still]
        finally:
            await engine.close()
    hits = sum(text == found for _, text, found in current)
    kept = sum(text == found for _, text, found in true)
    print(
        f"{'notices acted on' if act else 'as added':18} current first {hits}/{len(current)} "
        f"({hits / len(current):.0%})  still true first {kept}/{len(true)}  "
        f"notices {notices}, about the same fact {right}"
    )
    if misses:
        for question, text, found in [*current, *true]:
            if text != found:
                print(f"  {question}\n    wanted {text}\n    first  {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="other facts, as JSON")
    parser.add_argument("--words", action="store_true", help="without a model")
    parser.add_argument("--misses", action="store_true", help="show what ranked first instead")
    given = parser.parse_args()
    setup_logging("ERROR")
    data = json.loads(given.data.read_text(encoding="utf-8"))
    for act in (False, True):
        asyncio.run(measure(data, act=act, words=given.words, misses=given.misses))


if __name__ == "__main__":
    main()

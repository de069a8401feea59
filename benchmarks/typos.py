"""What a wrong letter costs: recall of questions as they are, misspelt, and corrected.

    python -m benchmarks.typos --data FILE [--data FILE ...] [--questions 200]

FILE as in `benchmarks.retrieval`. In one word of each sampled question, five letters or longer, one
letter is wrong, missing, too many or swapped with the next. One JSON line per set: recall@10 of
the questions as they are, of the misspelt ones without and with correction, how many were
corrected, and to the word that was meant; `plain`: the same for the questions as they are, which
mostly need none, with the mean difference to no correction and its bounds of 95 % (bootstrap).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import scoring
from benchmarks.languages import compare
from benchmarks.retrieval import read_set
from benchmarks.systems import zapomni
from zapomni_core.shared.text import is_stop_token
from zapomni_core.workflows import search_everything

SEED = 3
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LIMITS = {"doc": 10, "group": 50}
_WORD = re.compile(r"\b[A-Za-z]{5,}\b")


def misspell(text: str, chance: random.Random) -> tuple[str, str, str] | None:
    """Return a text with one letter wrong, the word that was meant, and what became of it."""
    words = [word for word in _WORD.finditer(text) if not is_stop_token(word[0].lower())]
    if not words:
        return None
    word = chance.choice(words)
    at = chance.randrange(len(word[0]) - 1)
    old, letter = word[0], chance.choice(LETTERS)
    new = chance.choice(
        (
            old[:at] + letter + old[at + 1 :],
            old[:at] + old[at + 1 :],
            old[:at] + letter + old[at:],
            old[:at] + old[at + 1] + old[at] + old[at + 2 :],
        )
    )
    return text[: word.start()] + new + text[word.end() :], old.lower(), new.lower()


def measure(data: dict[str, Any], count: int) -> dict[str, Any]:
    chance = random.Random(SEED)
    spaces = data["spaces"]
    asked = [(n, q) for n, space in enumerate(spaces) for q in space["queries"] if q["rel"]]
    sampled = chance.sample(asked, min(count, len(asked)))
    changed = [(n, q, made) for n, q in sampled if (made := misspell(q["text"], chance))]
    scored: dict[str, list[dict]] = {"plain": [], "plain_off": [], "off": [], "on": []}
    corrected = right = plainly = 0
    for number, space in enumerate(spaces):
        own = [(q, made) for n, q, made in changed if n == number]
        if not own:
            continue
        groups = {d["id"]: d.get("group") or "" for d in space["docs"]}
        group_of = groups if data["level"] == "group" else None
        with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as folder:
            index = zapomni.Index(Path(folder), None)
            index.add([doc for doc in space["docs"] if doc["text"].strip()])

            def ask(text: str, query: dict) -> tuple[dict, dict[str, str]]:
                found = index.answer(text, LIMITS[data["level"]])  # noqa: B023
                names = [d for hit in found.results for d in index.documents(hit.memory_id)]  # noqa: B023
                ranking = scoring.collapse(names, group_of)  # noqa: B023
                return scoring.score(ranking, query["rel"]), found.corrected

            for query, (wrong, meant, became) in own:
                plain, changes = ask(query["text"], query)
                plainly += bool(changes)
                scored["plain"].append(plain)
                on, changes = ask(wrong, query)
                scored["on"].append(on)
                corrected += became in changes
                right += changes.get(became) == meant
            with mock.patch.object(search_everything, "MOST_CORRECTED", 0):
                for query, (wrong, _, _) in own:
                    # An answer that was given before would be given again.
                    scored["plain_off"].append(ask(f"{query['text']} ", query)[0])
                    scored["off"].append(ask(f"{wrong} ", query)[0])
            index.close()
    mean = {name: scoring.average(one)["recall_at_10"] for name, one in scored.items()}
    lost, left = mean["plain_off"] - mean["off"], mean["plain_off"] - mean["on"]
    return {
        "dataset": data["name"], "questions": len(changed), "recall_at_10": mean,
        "lost": round(lost, 4), "lost_with_correction": round(left, 4),
        "corrected": corrected, "right": right,
        "plain": {
            "corrected": plainly,
            "difference": compare(scored["plain"], scored["plain_off"]),
        },
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    for path in options.data:
        print(json.dumps(measure(read_set(path), options.questions)), flush=True)


if __name__ == "__main__":
    main()

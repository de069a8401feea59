"""Do two runs of benchmarks.retrieval differ by more than chance? A paired bootstrap.

    python -m benchmarks.retrieval --data FILE --system zapomni --per-question before.jsonl
    python -m benchmarks.retrieval --data FILE --system zapomni --per-question after.jsonl
    python -m benchmarks.compare before.jsonl after.jsonl [--systems NAME,NAME] [--rounds 10000]

Questions are paired by set, space and id. One JSON line per set, then one per category of its
questions if it has several: for each measure the means, their difference and the interval that
holds 95 % of the differences of samples drawn with repetition (`low`, `high`), and how many
questions got `better` or `worse`. `unpaired` counts questions that only one file has. --systems
picks one system of each file, so that two systems of one run can be compared as well.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scoring import MEASURES

SEED = 0
AT_ONCE = 500
"""Samples drawn at a time: their counts are a matrix of as many rows."""

Lines = dict[tuple[str, str, str], dict[str, Any]]


def read_lines(path: Path, system: str | None) -> Lines:
    """Read the lines of one system, by set, space and question."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    names = {line["system"] for line in lines}
    if system is None and len(names) > 1:
        raise SystemExit(f"{path} has several systems ({', '.join(sorted(names))}): --systems")
    found = {
        (line["dataset"], line["space"], line["question"]): line
        for line in lines
        if system in {None, line["system"]}
    }
    if not found:
        raise SystemExit(f"{path}: no line of {system or 'any system'}")
    return found


def compare(before: Lines, after: Lines, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield what changed in each set and in each of its categories."""
    for dataset in dict.fromkeys(key[0] for key in before):
        keys = [key for key in before if key[0] == dataset and key in after]
        unpaired = sum(key[0] == dataset for key in before.keys() ^ after.keys())
        line = {"dataset": dataset, "unpaired": unpaired, "questions": len(keys)}
        if not keys:
            yield line
            continue
        yield {**line, **differences([before[k] for k in keys], [after[k] for k in keys], rounds)}
        categories = sorted({before[key]["category"] for key in keys})
        for category in categories if len(categories) > 1 else ():
            own = [key for key in keys if before[key]["category"] == category]
            found = differences([before[k] for k in own], [after[k] for k in own], rounds)
            yield {"dataset": dataset, "category": category, "questions": len(own), **found}


def differences(
    before: list[dict[str, Any]], after: list[dict[str, Any]], rounds: int
) -> dict[str, dict[str, float]]:
    """Return the difference of every measure over paired questions, with its interval."""
    first, second = (np.array([[line[m] for m in MEASURES] for line in x]) for x in (before, after))
    changed = second - first
    dice = np.random.default_rng(SEED)
    count, shares = len(changed), np.full(len(changed), 1 / len(changed))
    sizes = [min(AT_ONCE, rounds - start) for start in range(0, rounds, AT_ONCE)]
    drawn = np.concatenate([dice.multinomial(count, shares, size) @ changed for size in sizes])
    low, high = np.quantile(drawn / count, (0.025, 0.975), axis=0)
    return {
        name: {
            "before": round(float(first[:, n].mean()), 4),
            "after": round(float(second[:, n].mean()), 4),
            "difference": round(float(changed[:, n].mean()), 4),
            "low": round(float(low[n]), 4),
            "high": round(float(high[n]), 4),
            "better": int((changed[:, n] > 0).sum()),
            "worse": int((changed[:, n] < 0).sum()),
        }
        for n, name in enumerate(MEASURES)
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--systems", metavar="BEFORE,AFTER", help="one system of each file")
    parser.add_argument("--rounds", type=int, default=10_000, help="samples to draw")
    options = parser.parse_args()
    names = options.systems.split(",") if options.systems else [None, None]
    if len(names) != 2:
        parser.error("--systems takes two names with a comma between")
    before, after = (
        read_lines(path, name)
        for path, name in zip((options.before, options.after), names, strict=True)
    )
    for line in compare(before, after, options.rounds):
        print(json.dumps(line, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()

"""Fit the weights by which turns of conversations are ordered.

    python -m tools.fit_turns --data FILE [--data FILE ...] [--share 0.1] [--stores FOLDER]

FILE as in `benchmarks.retrieval`: conversations whose questions name the turns that answer them.
The first file counts in full, each further one by --share. Every question is asked through the
engine with --explain; what it says of the order of turns is what each signal contributed. A
listwise softmax with a ridge is fitted to that. One JSON line per set with figures of weights
fitted without the conversation (a fifth of the conversations at a time, if there are many), then
the weights fitted to all. They are rounded by hand, and by reason: what is shipped is a handful of
numbers for every conversation, not a fit to one set. --stores keeps the indexes. All figures are of
the sum alone: what puts different places of a meeting first has no weights.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import scoring
from benchmarks.evidence import Space, open_index
from benchmarks.retrieval import read_set
from zapomni_core.modules.memories.conversation import WEIGHTS

RIDGE = 3.0
FOLDS = 5
# More than the weights could bring up from below.
HITS = 90
NAMES = list(WEIGHTS)


@dataclass
class Asked:
    """A question, its turns as they were ranked, and what would have been right."""

    fold: int
    documents: list[list[str]]
    signals: NDArray[np.float64]
    """Of those that are turns; of others, not a number: they keep their place."""
    relevant: list[str]

    @property
    def target(self) -> NDArray[np.float64]:
        rows = self.documents
        return np.array([any(doc in self.relevant for doc in row) for row in rows], dtype=float)

    def rank(self, weights: NDArray[np.float64]) -> list[str]:
        is_turn = ~np.isnan(self.signals[:, 0])
        places = np.flatnonzero(is_turn)
        order = np.arange(len(self.documents))
        order[places] = places[np.argsort(-(self.signals[places] @ weights), kind="stable")]
        return [doc for n in order for doc in self.documents[n]]


def ask_all(data: dict[str, Any], stores: Path) -> list[Asked]:
    asked = []
    for number in range(len(data["spaces"])):
        space = Space(data, number, None)
        place = stores / data["name"] / str(number)
        place.mkdir(parents=True, exist_ok=True)
        index = open_index("zapomni", space, place)
        for query in space.queries:
            hits = index.answer(query["text"], HITS, explain=True).results
            said = [hit.explanation.get("turn_order", {}) for hit in hits]
            rows = [[one.get(n, np.nan) / WEIGHTS[n] for n in NAMES] for one in said]
            documents = [index.documents(hit.memory_id) for hit in hits]
            if rows:
                asked.append(Asked(number % FOLDS, documents, np.array(rows), query["rel"]))
        index.close()
    return asked


def fit(asked: Sequence[tuple[Asked, float]]) -> NDArray[np.float64]:
    """Return the weights that make relevant turns likeliest, by Newton's method."""
    rows, targets, shares = [], [], []
    for one, share in asked:
        is_turn = ~np.isnan(one.signals[:, 0])
        target = one.target[is_turn]
        if 0 < target.sum() < len(target):
            rows.append(one.signals[is_turn])
            targets.append(target / target.sum())
            shares.append(share)
    sizes = [len(own) for own in rows]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    question = np.repeat(np.arange(len(rows)), sizes)
    signals, target = np.concatenate(rows), np.concatenate(targets)
    spread = signals.std(axis=0) + 1e-9
    signals = signals / spread
    share = np.array(shares)
    counted = share[question]

    def lose(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        sums = signals @ weights
        sums -= np.maximum.reduceat(sums, starts)[question]
        likely = np.exp(sums)
        total = np.add.reduceat(likely, starts)
        loss = -(counted * target * (sums - np.log(total)[question])).sum()
        return loss + RIDGE * (weights @ weights) / 2, likely / total[question]

    weights = np.zeros(signals.shape[1])
    loss, likely = lose(weights)
    for _ in range(30):
        gradient = signals.T @ (counted * (likely - target)) + RIDGE * weights
        means = np.add.reduceat(signals * likely[:, np.newaxis], starts)
        bend = (signals * (counted * likely)[:, np.newaxis]).T @ signals
        bend += RIDGE * np.eye(len(weights)) - (means * share[:, np.newaxis]).T @ means
        step = np.linalg.solve(bend, gradient)
        size = 1.0
        while size > 1e-4 and (better := lose(weights - size * step))[0] >= loss:
            size /= 2
        if size <= 1e-4 or loss - better[0] < 1e-6:
            break
        weights, (loss, likely) = weights - size * step, better
    fitted: NDArray[np.float64] = weights / spread
    return fitted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, action="append", required=True, metavar="FILE")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--stores", type=Path, help="keep the indexes in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zapomni-fit-") as folder:
        sets = {
            path.stem: ask_all(read_set(path), options.stores or Path(folder))
            for path in options.data
        }
    weighed = [
        (one, options.share if number else 1.0, name)
        for number, (name, asked) in enumerate(sets.items())
        for one in asked
    ]
    shipped = np.array([WEIGHTS[name] for name in NAMES])
    for name, asked in sets.items():
        crossed = []
        for fold in range(FOLDS):
            weights = fit([(o, s) for o, s, n in weighed if n != name or o.fold != fold])
            own = [one for one in asked if one.fold == fold]
            crossed += [scoring.score(one.rank(weights), one.relevant) for one in own]
        as_is = [scoring.score(one.rank(shipped), one.relevant) for one in asked]
        line = {"set": name, "questions": len(asked), "cv": scoring.average(crossed)}
        print(json.dumps({**line, "shipped": scoring.average(as_is)}), flush=True)
    every = fit([(one, share) for one, share, _ in weighed])
    print(json.dumps({name: round(float(w), 2) for name, w in zip(NAMES, every, strict=True)}))


if __name__ == "__main__":
    main()

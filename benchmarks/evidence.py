"""How well evidence separates questions that are answered here from those that are not.

    python -m benchmarks.evidence --data FILE [--data FILE ...] [--system zapomni] [--fit]

FILE as in `benchmarks.retrieval`. Three kinds of questions that nothing answers:

- other: questions of the other sets, asked here;
- swapped: questions of another conversation of the same set, with the speakers' names swapped;
- removed: the same questions, with the passages that answer them removed. A fifth of the
  questions at a time; if whole groups answer, one question at a time.

One JSON line per set. AUC of the surest hit's evidence (`cv`: of the signals without the
lead, with weights fitted without this set, or, among conversations, without this conversation),
and of the first hit's score as it is shown.
`strong`: how many first hits, and hits at all, that are called strong are right (or, in a
conversation, next to what is), and how many right first hits are called strong. `nothing_close`:
the share of each kind that is answered by these words.

With --fit the weights are fitted to all sets alike and printed. --stores keeps the indexes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import systems
from benchmarks.retrieval import read_set

HITS = 5
PARTS = 5
OTHERS = 60
REMOVED_GROUPS = 50
SEED = 5
SIGNALS = ("late", "cosine", "words", "phrases", "peak")
BY_SYSTEM = {"zapomni": SIGNALS, "zapomni-graph": SIGNALS, "zapomni-words": SIGNALS[2:4]}
RIDGE = 1.0
_SPEAKER = re.compile(r"([A-Z]\w+): ")


@dataclass
class Asked:
    """A question, what kind it is, and its first hits."""

    space: int
    kind: str
    hits: list[dict[str, Any]]
    nothing_close: bool


class Space:
    """One space of a set in a store: documents, their neighbors, what may be asked."""

    def __init__(self, data: dict[str, Any], number: int, limit: int | None) -> None:
        space = data["spaces"][number]
        self.number = number
        self.by_group = data["level"] == "group"
        self.docs = [doc for doc in space["docs"] if doc["text"].strip()]
        self.groups = {doc["id"]: doc.get("group") or "" for doc in self.docs}
        self.queries = sample([q for q in space["queries"] if q["rel"]], limit)
        said = Counter(m[1] for doc in self.docs if (m := _SPEAKER.match(doc["text"])))
        self.speakers = [name for name, _ in said.most_common(2)]
        self.near: dict[str, set[str]] = defaultdict(set)
        for one, other in pairwise(self.docs):
            if one.get("group") and one.get("group") == other.get("group"):
                self.near[one["id"]].add(other["id"])
                self.near[other["id"]].add(one["id"])

    def answers(self, doc: str, relevant: Sequence[str]) -> bool:
        return (self.groups[doc] if self.by_group else doc) in relevant

    def is_near(self, doc: str, relevant: Sequence[str]) -> bool:
        return self.answers(doc, relevant) or bool(self.near[doc].intersection(relevant))


def sample(queries: list[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    if limit is None or len(queries) <= limit:
        return queries
    return random.Random(SEED).sample(queries, limit)


def ask(index: Any, space: Space, kind: str, text: str, relevant: Sequence[str]) -> Asked:
    answer = index.answer(text, HITS, explain=True)
    hits = []
    for hit in answer.results:
        docs = index.documents(hit.memory_id)
        hits.append(
            {
                "right": any(space.answers(doc, relevant) for doc in docs),
                "near": any(space.is_near(doc, relevant) for doc in docs),
                "score": hit.score,
                "evidence": hit.evidence,
                "word": hit.evidence_word,
                "signals": hit.explanation["evidence"],
            }
        )
    return Asked(space.number, kind, hits, answer.nothing_close)


def open_index(system: str, space: Space, folder: Path) -> Any:
    """Open the index of a space; build it if it is not there."""
    known = folder / "documents.json"
    index = systems.load(system).Index(folder, None)
    if known.exists():
        index.load_documents(json.loads(known.read_text(encoding="utf-8")))
    else:
        index.add(space.docs)
        known.write_text(json.dumps(index.all_documents()), encoding="utf-8")
    return index


def ask_all(
    system: str, data: dict[str, Any], others: list[str], folder: Path, limit: int | None
) -> Iterator[Asked]:
    spaces = [Space(data, number, limit) for number in range(len(data["spaces"]))]
    for space in spaces:
        place = folder / data["name"] / str(space.number)
        place.mkdir(parents=True, exist_ok=True)
        index = open_index(system, space, place)
        for query in space.queries:
            yield ask(index, space, "own", query["text"], query["rel"])
        for text in sample([{"text": t} for t in others], max(OTHERS // len(spaces), 20)):
            yield ask(index, space, "other", text["text"], [])
        following = spaces[(space.number + 1) % len(spaces)]
        if following is not space and len(space.speakers) == len(following.speakers) == 2:
            for query in following.queries:
                yield ask(index, space, "swapped", swap_names(query["text"], following, space), [])
        index.close()
        yield from ask_without_answers(system, space, place)


def swap_names(text: str, theirs: Space, ours: Space) -> str:
    names = dict(zip(theirs.speakers, ours.speakers, strict=True))
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)


def ask_without_answers(system: str, space: Space, place: Path) -> Iterator[Asked]:
    queries = space.queries[:REMOVED_GROUPS] if space.by_group else space.queries
    parts = len(queries) if space.by_group else PARTS
    for part in (queries[number::parts] for number in range(parts)):
        with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as folder:
            shutil.copytree(place, folder, dirs_exist_ok=True)
            index = open_index(system, space, Path(folder))
            gone = {answer for query in part for answer in query["rel"]}
            index.remove([doc["id"] for doc in space.docs if space.answers(doc["id"], gone)])
            for query in part:
                yield ask(index, space, "removed", query["text"], [])
            index.close()


# --- Figures --------------------------------------------------------------------------------


def auc(high: Sequence[float], low: Sequence[float]) -> float | None:
    """Return how often one of the first is above one of the second; a tie counts half."""
    if not high or not low:
        return None
    difference = np.subtract.outer(np.array(high), np.array(low))
    return round(float(((difference > 0) + 0.5 * (difference == 0)).mean()), 3)


def surest(asked: Asked) -> float:
    return max((hit["evidence"] for hit in asked.hits), default=0.0)


def shown(asked: Asked) -> float:
    return asked.hits[0]["score"] if asked.hits else 0.0


def figures(name: str, asked: list[Asked], fitted: dict[int, float]) -> dict[str, Any]:
    """Return the line of a set; `fitted`: evidence by weights of the others, by question."""
    kinds = {kind: [a for a in asked if a.kind == kind] for kind in dict.fromkeys(KINDS)}
    own = kinds["own"]
    first = [a.hits[0] for a in own if a.hits]
    every = [hit for a in own for hit in a.hits]
    strong = [hit for hit in first if hit["word"] == "strong"]
    right = [hit for hit in first if hit["right"]]
    separated = {
        kind: {
            "questions": len(rest),
            "evidence": auc([*map(surest, own)], [*map(surest, rest)]),
            "cv": auc([fitted[id(a)] for a in own], [fitted[id(a)] for a in rest]),
            "score": auc([*map(shown, own)], [*map(shown, rest)]),
        }
        for kind, rest in kinds.items()
        if kind != "own" and rest
    }
    return {
        "dataset": name,
        "questions": len(own),
        "first_right": share(hit["right"] for hit in first),
        "auc": separated,
        "strong": {
            "first_hits": len(strong),
            "right": share(hit["right"] for hit in strong),
            "right_or_next_to_it": share(hit["near"] for hit in strong),
            "all_right": share(hit["right"] for hit in every if hit["word"] == "strong"),
            "of_right_first_hits": share(hit["word"] == "strong" for hit in right),
        },
        "nothing_close": {
            kind: share(a.nothing_close or not a.hits for a in some)
            for kind, some in kinds.items()
            if some
        },
    }


KINDS = ("own", "other", "swapped", "removed")


def share(values: Any) -> float | None:
    found = list(values)
    return round(sum(map(bool, found)) / len(found), 3) if found else None


# --- Fitting --------------------------------------------------------------------------------


def fit(
    sets: dict[str, list[Asked]], signals: Sequence[str], left_out: tuple[str, int | None] | None
) -> NDArray[np.float64]:
    """Fit a logistic sum of signals: does the surest hit say that the question is answered here?

    Every set, and in it the answered and the others, counts alike. `left_out`: a set, or one of
    its spaces. Which hit is the surest depends on the weights: fitted twice.
    """
    weights = np.array([*(1.0 for _ in signals), 0.0])
    for _ in range(2):
        rows, answered, counts = [], [], []
        for name, asked in sets.items():
            kept = [
                a
                for a in asked
                if a.hits
                and a.kind != "removed"
                and not (left_out and left_out[0] == name and left_out[1] in (None, a.space))
            ]
            sizes = Counter(a.kind == "own" for a in kept)
            for a in kept:
                rows.append(max((row_of(h, signals) for h in a.hits), key=lambda r: r @ weights))
                answered.append(a.kind == "own")
                counts.append(1 / sizes[a.kind == "own"])
        weights = logistic(np.array(rows), np.array(answered, float), np.array(counts))
    return weights


def row_of(hit: dict[str, Any], signals: Sequence[str]) -> NDArray[np.float64]:
    return np.array([*(hit["signals"].get(name, 0.0) for name in signals), 1.0])


def logistic(
    rows: NDArray[np.float64], labels: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fit by Newton's method, with a little ridge on all but the bias."""
    scale = rows.std(axis=0)
    scale[scale == 0] = 1.0
    scaled, counts = rows / scale, counts / counts.sum() * len(counts)
    ridge = np.diag([*(RIDGE for _ in range(rows.shape[1] - 1)), 1e-9])
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-scaled @ found))
        slope = scaled.T @ (counts * (labels - likely)) - ridge @ found
        curve = (scaled * (counts * likely * (1 - likely))[:, None]).T @ scaled + ridge
        found += np.linalg.solve(curve, slope)
    return found / scale


def cross_validate(sets: dict[str, list[Asked]], signals: Sequence[str]) -> dict[int, float]:
    """Return each question's evidence by weights that never saw its set or conversation."""
    found: dict[int, float] = {}
    for name, asked in sets.items():
        spaces: Sequence[int | None] = sorted({a.space for a in asked})
        for space in spaces if len(spaces) > 1 else [None]:
            weights = fit(sets, signals, (name, space))
            for a in asked:
                if space in (None, a.space):
                    logits = [float(row_of(hit, signals) @ weights) for hit in a.hits]
                    found[id(a)] = max(logits, default=-99.0)
    return found


# --- Command --------------------------------------------------------------------------------


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, action="append", required=True, metavar="FILE")
    parser.add_argument("--system", default="zapomni", choices=sorted(BY_SYSTEM))
    parser.add_argument("--limit-queries", type=int, help="at most so many questions of a space")
    parser.add_argument("--stores", type=Path, metavar="DIR", help="keep the indexes here")
    parser.add_argument("--fit", action="store_true", help="print weights fitted to these sets")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    sets = {data["name"]: data for data in map(read_set, options.data)}
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as temporary:
        folder = (options.stores or Path(temporary)) / options.system
        asked = {}
        for name, data in sets.items():
            # Sets of the same conversations ask the same questions.
            foreign = [other for n, other in sets.items() if n.split("-")[0] != name.split("-")[0]]
            others = [q["text"] for other in foreign for s in other["spaces"] for q in s["queries"]]
            limit = options.limit_queries
            asked[name] = list(ask_all(options.system, data, others, folder, limit))
    signals = BY_SYSTEM[options.system]
    fitted = cross_validate(asked, signals)
    for name, answers in asked.items():
        print(json.dumps({"system": options.system, **figures(name, answers, fitted)}))
    if options.fit:
        weights = fit(asked, signals, None)
        named = zip((*signals, "bias"), weights.tolist(), strict=True)
        print(json.dumps({"weights": {name: round(weight, 2) for name, weight in named}}))


if __name__ == "__main__":
    main()

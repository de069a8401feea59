"""How well evidence separates questions that are answered here from those that are not.

    python -m benchmarks.evidence --data FILE [--data FILE ...] [--system zapomni] [--fit]

FILE as in `benchmarks.retrieval`. Three kinds of questions that nothing answers:

- other: questions of the other sets, asked here;
- swapped: questions of another conversation of the same set, with the speakers' names swapped;
- removed: the same questions, with the passages that answer them removed. A fifth of the
  questions at a time; if whole groups answer, one question at a time.

One JSON line per set. AUC of the surest hit's evidence (`cv`: with weights fitted without this
set, or, among conversations, without this conversation), of the hardest of the other sets alone,
and of the first hit's score as it is shown.
`strong`: how many first hits, and hits at all, that are called strong are right (or, in a
conversation, next to what is), how many right first hits are called strong, and the same for
weights fitted without this set. `nothing_close`: the share of each kind that is answered by these
words.

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
from zapomni_core.modules.memories.evidence import ANSWERED, RIGHT, RIGHT_TURN, UNCERTAIN
from zapomni_core.shared.evidence import STRONG

HITS = 5
PARTS = 5
# Of each of the other sets, in all spaces of a set together.
OTHERS = 40
REMOVED_GROUPS = 50
SEED = 5
BY_SYSTEM = {"zapomni": "model", "zapomni-graph": "model", "zapomni-words": "words"}
# How much surer than fair a hit has to be, passage and turn: strong must be right. And how much
# sharper than fair the second answer is: below the margin all hits are alike, only not strong.
MARGINS = {"model": (1.9, 1.3), "words": (1.1, 1.1)}
SHARPNESS = 2.0
# How much large weights cost, in both answers. A few sets say little about which signals hold
# elsewhere: at this price sets that were left out are separated better.
RIDGE = {"model": (30.0, 1.0), "words": (1.0, 1.0)}
_SPEAKER = re.compile(r"([A-Z]\w+): ")


@dataclass
class Asked:
    """A question, what kind it is, and its first hits."""

    space: int
    kind: str
    origin: str
    """The set that it is of."""
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


def ask(
    index: Any, space: Space, kind: str, text: str, relevant: Sequence[str], origin: str = ""
) -> Asked:
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
    return Asked(space.number, kind, origin, hits, answer.nothing_close)


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
    system: str, data: dict[str, Any], others: dict[str, list[str]], folder: Path, limit: int | None
) -> Iterator[Asked]:
    spaces = [Space(data, number, limit) for number in range(len(data["spaces"]))]
    for space in spaces:
        place = folder / data["name"] / str(space.number)
        place.mkdir(parents=True, exist_ok=True)
        index = open_index(system, space, place)
        for query in space.queries:
            yield ask(index, space, "own", query["text"], query["rel"])
        for origin, texts in others.items():
            for query in sample([{"text": t} for t in texts], max(OTHERS // len(spaces), 5)):
                yield ask(index, space, "other", query["text"], [], origin)
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


def figures(name: str, asked: list[Asked], fitted: dict[int, list[float]]) -> dict[str, Any]:
    """Return the line of a set; `fitted`: evidence of hits by weights of the others."""
    kinds = {kind: [a for a in asked if a.kind == kind] for kind in KINDS}
    own = kinds["own"]
    every = [hit for a in own for hit in a.hits]
    separated = {
        kind: {
            "questions": len(rest),
            "evidence": auc([*map(surest, own)], [*map(surest, rest)]),
            "cv": auc(
                [max(fitted[id(a)], default=0.0) for a in own],
                [max(fitted[id(a)], default=0.0) for a in rest],
            ),
            "score": auc([*map(shown, own)], [*map(shown, rest)]),
        }
        for kind, rest in kinds.items()
        if kind != "own" and rest
    }
    if kinds["other"]:
        separated["other"]["hardest"] = min(
            auc([*map(surest, own)], [surest(a) for a in kinds["other"] if a.origin == origin])
            or 0.0
            for origin in {a.origin for a in kinds["other"]}
        )
    first = [(a.hits[0], fitted[id(a)][0]) for a in own if a.hits]
    strong = [hit for hit, _ in first if hit["word"] == "strong"]
    fitted_strong = [hit for hit, evidence in first if evidence >= STRONG]
    right = [(hit, evidence) for hit, evidence in first if hit["right"]]
    return {
        "dataset": name,
        "questions": len(own),
        "first_right": share(hit["right"] for hit, _ in first),
        "auc": separated,
        "strong": {
            "first_hits": len(strong),
            "right": share(hit["right"] for hit in strong),
            "right_or_next_to_it": share(hit["near"] for hit in strong),
            "all_right": share(hit["right"] for hit in every if hit["word"] == "strong"),
            "of_right_first_hits": share(hit["word"] == "strong" for hit, _ in right),
            "cv_right": share(hit["right"] for hit in fitted_strong),
            "cv_of_right_first_hits": share(evidence >= STRONG for _, evidence in right),
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

Weights = dict[str, float]


def fit(
    sets: dict[str, list[Asked]], calibration: str, left_out: tuple[str, int | None] | None
) -> tuple[Weights, Weights, Weights]:
    """Fit what `modules.memories.evidence` holds, without one set, or one of its spaces.

    Is the question answered here: by the surest hit; which one that is depends on the weights, so
    they are fitted twice. Is this the hit that answers: by the first hits of answered questions,
    less a margin. Every set, and in it the answered and the others, counts alike.
    """
    kept = {
        name: [
            a
            for a in asked
            if a.hits
            and a.kind != "removed"
            and not (left_out and left_out[0] == name and left_out[1] in (None, a.space))
        ]
        for name, asked in sets.items()
    }
    questions = [a for asked in kept.values() for a in asked]
    counts = [
        1 / sum((b.kind == "own") == (a.kind == "own") for b in asked)
        for asked in kept.values()
        for a in asked
    ]
    answered = dict(ANSWERED[calibration])
    for _ in range(2):
        surest_hits = [max(a.hits, key=lambda h: add(answered, h)) for a in questions]
        labels = [a.kind == "own" for a in questions]
        answered = logistic(surest_hits, labels, counts, [*answered], RIDGE[calibration][0])
    found = [answered]
    for weights, is_turn, margin in zip(
        (RIGHT, RIGHT_TURN), (False, True), MARGINS[calibration], strict=True
    ):
        rows, labels, counts = [], [], []
        for asked in kept.values():
            first = [a.hits[0] for a in asked if a.kind == "own"]
            first = [hit for hit in first if ("asks" in hit["signals"]) == is_turn]
            rows += first
            labels += [hit["right"] for hit in first]
            counts += [1 / len(first) for _ in first]
        names = [*weights[calibration]]
        right = dict(weights[calibration])
        if rows:
            right = logistic(rows, labels, counts, names, RIDGE[calibration][1])
            right["bias"] -= margin
        found.append({name: SHARPNESS * weight for name, weight in right.items()})
    return found[0], found[1], found[2]


def add(weights: Weights, hit: dict[str, Any]) -> float:
    """Return the weighted sum of a hit's signals."""
    signals = {"bias": 1.0, **hit["signals"]}
    return sum(weight * signals.get(name, 0.0) for name, weight in weights.items())


def evidence_by(found: tuple[Weights, Weights, Weights], hit: dict[str, Any]) -> float:
    answered, passage, turn = found
    likely = 1 / (1 + np.exp(-add(answered, hit)))
    right = 1 / (1 + np.exp(-add(turn if "asks" in hit["signals"] else passage, hit)))
    # An answer has two digits of it.
    return round(float(likely * (UNCERTAIN + (1 - UNCERTAIN) * right)), 2)


def logistic(
    hits: Sequence[dict[str, Any]],
    labels: Sequence[bool],
    counts: Sequence[float],
    names: Sequence[str],
    cost: float,
) -> Weights:
    """Fit by Newton's method, with ridge on all but the bias."""
    rows = np.array([[{"bias": 1.0, **h["signals"]}.get(n, 0.0) for n in names] for h in hits])
    right, counted = np.array(labels, float), np.array(counts)
    scale = rows.std(axis=0)
    scale[scale == 0] = 1.0
    scaled, counted = rows / scale, counted / counted.sum() * len(counted)
    ridge = np.diag([1e-9 if name == "bias" else cost for name in names])
    found: NDArray[np.float64] = np.zeros(len(names))
    for _ in range(50):
        likely = 1 / (1 + np.exp(-scaled @ found))
        slope = scaled.T @ (counted * (right - likely)) - ridge @ found
        curve = (scaled * (counted * likely * (1 - likely))[:, None]).T @ scaled + ridge
        found += np.linalg.solve(curve, slope)
    return dict(zip(names, (found / scale).tolist(), strict=True))


def cross_validate(sets: dict[str, list[Asked]], calibration: str) -> dict[int, list[float]]:
    """Return the evidence of each question's hits by weights that never saw its set.

    Or, among conversations, its conversation.
    """
    found: dict[int, list[float]] = {}
    for name, asked in sets.items():
        spaces: Sequence[int | None] = sorted({a.space for a in asked})
        for space in spaces if len(spaces) > 1 else [None]:
            weights = fit(sets, calibration, (name, space))
            for a in asked:
                if space in (None, a.space):
                    found[id(a)] = [evidence_by(weights, hit) for hit in a.hits]
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
            others = {
                other["name"]: [q["text"] for s in other["spaces"] for q in s["queries"]]
                for other in foreign
            }
            limit = options.limit_queries
            asked[name] = list(ask_all(options.system, data, others, folder, limit))
    calibration = BY_SYSTEM[options.system]
    fitted = cross_validate(asked, calibration)
    for name, answers in asked.items():
        print(json.dumps({"system": options.system, **figures(name, answers, fitted)}))
    if options.fit:
        for kind, weights in zip(
            ("answered", "right", "right_turn"), fit(asked, calibration, None), strict=True
        ):
            print(json.dumps({kind: {name: round(weight, 2) for name, weight in weights.items()}}))


if __name__ == "__main__":
    main()

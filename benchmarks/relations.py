"""How far what the rules state can be believed.

    python -m benchmarks.relations
    python -m benchmarks.relations --data crossre.json
    python -m benchmarks.relations --labelled FOLDER

Without `--data`: the precision of the 200 statements in `benchmarks/data/relations.txt`, drawn from
real text and judged by hand, over all and by type; `restated` says how many of them today's rules
still draw from their sentences alone. With it: sentences with entities and relations in CrossRE's
form, a JSON object per line. Its relations are of other types than ours, so a statement counts as
right if it joins two entities that are joined there; `given` hands the rules its entities,
`found` lets them find their own.

With `--labelled`: the 200 sentences of `benchmarks/data/relation_labels.txt`, labelled before any
run, found by their hashes in clones of four repositories (FOLDER/govuk-aws, FOLDER/poetry,
FOLDER/cloud-platform, FOLDER/celery). A statement is right if the label has it: names are compared
by their words, and a label may allow several types. The first two repositories were used to write
the rules, the others only to measure. Then a graph of the labelled pages is built, each section a
memory: how many of its relationships have a type.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.graph import build, fill, open_engine
from zapomni_core.engine import create_extractor
from zapomni_core.modules.graph import GraphExtractor
from zapomni_core.settings import load_settings
from zapomni_db.models import EntityData, RelationshipData

JUDGED = Path(__file__).parent / "data" / "relations.txt"
LABELLED = Path(__file__).parent / "data" / "relation_labels.txt"
TUNED = ("govuk-aws", "poetry")
SAID = datetime(2025, 1, 1, tzinfo=UTC)
VERSIONS = "VERSION"

# CrossRE's types of entities, and ours; all others are called concepts.
TYPES = {
    "researcher": "PERSON",
    "person": "PERSON",
    "organisation": "ORG",
    "university": "ORG",
    "country": "PLACE",
    "location": "PLACE",
    "product": "TECHNOLOGY",
    "programlang": "TECHNOLOGY",
    "algorithm": "TECHNOLOGY",
}


class Judgement(NamedTuple):
    right: bool
    subject: str
    subject_type: str
    type: str
    object: str
    object_type: str
    source: str
    sentence: str


def judgements() -> list[Judgement]:
    lines = JUDGED.read_text(encoding="utf-8").splitlines()
    return [_judgement(line) for line in lines if not line.startswith("#")]


def _judgement(line: str) -> Judgement:
    judged, statement, source, sentence = line.split("\t")
    return Judgement(judged == "yes", *statement.split(" | "), source, sentence)


def precision(judged: Sequence[Judgement]) -> dict[str, Any]:
    """Right ones among all, among those about more than versions, and by type."""
    told = [j for j in judged if VERSIONS not in (j.subject_type, j.object_type)]
    every = Counter(j.type for j in judged)
    right = Counter(j.type for j in judged if j.right)
    return {
        "statements": len(judged),
        "precision": round(right.total() / every.total(), 3),
        "without_versions": len(told),
        "precision_without_versions": round(sum(j.right for j in told) / len(told), 3),
        "by_type": {kind: [right[kind], every[kind]] for kind in sorted(every)},
    }


async def restated(extractor: GraphExtractor, judged: Sequence[Judgement]) -> int:
    """Count what the rules still say when they read the sentence by itself."""
    count = 0
    for judgement in judged:
        entities, relationships, _ = await extractor.extract(judgement.sentence)
        names = {entity.entity_id: entity.name for entity in entities}
        count += any(
            (names[r.source_entity_id], r.relationship_type, names[r.target_entity_id])
            == (judgement.subject, judgement.type, judgement.object)
            for r in relationships
        )
    return count


class Sentence(NamedTuple):
    text: str
    entities: list[EntityData]
    pairs: set[frozenset[tuple[int, int]]]


def crossre(path: Path) -> Iterator[Sentence]:
    for line in path.read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        starts, text = [], ""
        for word in data["sentence"]:
            starts.append(len(text))
            text += word + " "
        ends = [start + len(word) for start, word in zip(starts, data["sentence"], strict=True)]
        entities = [
            _given(text, starts[first], ends[last], kind) for first, last, kind in data["ner"]
        ]
        pairs = {
            frozenset(((starts[a], ends[b]), (starts[c], ends[d])))
            for a, b, c, d, *_ in data["relations"]
        }
        yield Sentence(text, entities, {pair for pair in pairs if len(pair) == 2})


def _given(text: str, start: int, end: int, kind: str) -> EntityData:
    return EntityData(
        entity_id=f"{start}-{end}",
        name=text[start:end],
        type=TYPES.get(kind, "CONCEPT"),
        confidence=1.0,
        surface=text[start:end],
        start_char=start,
        end_char=end,
    )


async def joined(extractor: GraphExtractor, sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Score pairs: of given entities and of found ones, statements alone and with neighbours."""
    from zapomni_core.modules.graph import RuleExtractor, load_gazetteer

    rules = RuleExtractor(load_gazetteer())
    tables = {name: Counter[str]() for name in ("given", "found", "given_near", "found_near")}
    for sentence in sentences:
        entities, relationships, _ = await extractor.extract(sentence.text)
        by_given = await rules.extract_relationships(sentence.text, sentence.entities)
        for name, known, told in (
            ("given", sentence.entities, by_given),
            ("found", entities, relationships),
        ):
            stated = [r for r in told if r.source != "cooccurrence"]
            _count(tables[name], _pairs(known, stated), sentence.pairs)
            _count(tables[f"{name}_near"], _pairs(known, told), sentence.pairs)
    return {name: _figures(table) for name, table in tables.items()}


def _pairs(
    entities: Sequence[EntityData], told: Sequence[RelationshipData]
) -> set[frozenset[tuple[int, int]]]:
    places: dict[str, list[tuple[int, int]]] = {}
    for entity in entities:
        places.setdefault(entity.entity_id, []).append((entity.start_char, entity.end_char))
    return {frozenset((places[r.source_entity_id][0], places[r.target_entity_id][0])) for r in told}


def _count(table: Counter[str], made: set[Any], wanted: set[Any]) -> None:
    table.update(right=len(made & wanted), made=len(made), wanted=len(wanted))


def _figures(table: Counter[str]) -> dict[str, Any]:
    precision = table["right"] / table["made"] if table["made"] else 0.0
    recall = table["right"] / table["wanted"] if table["wanted"] else 0.0
    both = precision + recall
    figures = {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
    }
    return {**{name: round(value, 3) for name, value in figures.items()}, **table}


# --- Sentences of four projects, labelled before any run ---------------------------------


class Label(NamedTuple):
    hash: str
    repository: str
    commit: str
    path: str
    stated: list[tuple[bool, str, frozenset[str], str]]
    """Whether it is over, subject, types, object."""


def labels() -> list[Label]:
    lines = LABELLED.read_text(encoding="utf-8").splitlines()
    return [_label(line) for line in lines if not line.startswith("#")]


def _label(line: str) -> Label:
    digest, place, path, stated = line.split("\t")
    repository, _, commit = place.rpartition("@")
    parts = [one.split(" | ") for one in stated.split("; ") if one]
    return Label(
        digest,
        repository.rpartition("/")[2],
        commit,
        path,
        [
            (
                subject.startswith("~"),
                subject.removeprefix("~"),
                frozenset(kinds.split(",")),
                target,
            )
            for subject, kinds, target in parts
        ],
    )


_SENTENCE_END = re.compile(r"(?<=[.!?])[\s]+(?=[A-Z`\"'(\[*])")


def prose(text: str) -> list[str]:
    """Return the sentences of a Markdown or reStructuredText page, without blocks of code."""
    found: list[str] = []
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.|#+)\s)", text):
        line = re.sub(r"^(?:[-*+]|\d+\.|#+)\s+", "", " ".join(part.split()))
        if line and line[0] not in "|=<.!":
            found += [one.strip() for one in _SENTENCE_END.split(line)]
    return found


def read_page(folder: Path, label: Label) -> str:
    command = ["git", "-C", str(folder / label.repository), "show", f"{label.commit}:{label.path}"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def _same(name: str, label: str) -> bool:
    """Return whether the words of one name are among those of the other."""
    first, second = (set(re.findall(r"[\w#.-]+", one.lower())) for one in (name, label))
    return bool(first and second) and (first <= second or second <= first)


async def labelled(
    extractor: GraphExtractor, folder: Path, *, show: bool = False
) -> dict[str, Any]:
    tables = {"tuned": Counter[str](), "held_out": Counter[str]()}
    pages: dict[tuple[str, str], dict[str, str]] = {}
    for label in labels():
        page = label.repository, label.path
        if page not in pages:
            pages[page] = {
                hashlib.sha256(one.encode()).hexdigest()[:12]: one
                for one in prose(read_page(folder, label))
            }
        sentence = pages[page][label.hash]
        entities, stated, _ = await extractor.extract(sentence, SAID)
        names = {entity.entity_id: entity.name for entity in entities}
        table = tables["tuned" if label.repository in TUNED else "held_out"]
        made = [
            (r.valid_to is not None and r.valid_to <= SAID, names[r.source_entity_id],
             r.relationship_type, names[r.target_entity_id])
            for r in stated if r.source != "cooccurrence"
        ]  # fmt: skip
        right = [one for one in made if _is_labelled(one, label)]
        reached = [one for one in label.stated if any(_is_labelled(m, label, one) for m in made)]
        table.update(right=len(right), made=len(made), wanted=len(label.stated))
        table.update(reached=len(reached))
        if show:
            for one in made:
                print("right" if one in right else "WRONG", one, "|", sentence)
    return {name: _labelled_figures(table) for name, table in tables.items()}


def _is_labelled(
    made: tuple[bool, str, str, str], label: Label, one: tuple[Any, ...] | None = None
) -> bool:
    over, subject, kind, target = made
    if kind == "HAS_VERSION" and one is None:
        return True  # A version that is named with its thing is one of its versions.
    return any(
        (over, True) == (ended, kind in kinds) and _same(subject, first) and _same(target, second)
        for ended, first, kinds, second in (label.stated if one is None else [one])
    )


def _labelled_figures(table: Counter[str]) -> dict[str, Any]:
    return {
        "precision": round(table["right"] / table["made"], 3) if table["made"] else 0.0,
        "recall": round(table["reached"] / table["wanted"], 3),
        **table,
    }


_SECTION = re.compile(r"\n(?=#{1,3} |[^\n]{3,80}\n[=~-]{3,}\n)")


async def typed_share(folder: Path, *, tuned: bool) -> dict[str, Any]:
    """Build a graph of the labelled pages, each section a memory; count its relationships."""
    pages = {(one.repository, one.path): one for one in labels()}
    texts = [
        section
        for label in pages.values()
        if (label.repository in TUNED) is tuned
        for section in _SECTION.split(read_page(folder, label))
        if len(section) > 80
    ]
    async with open_engine("sqlite") as (engine, _):
        await fill(engine, texts)
        await build(engine)
        types = (await engine.graph.get_status()).relationship_types
    related = types.get("RELATED_TO", 0)
    every = sum(types.values())
    return {"memories": len(texts), "relationships": every, "typed": every - related,
            "typed_share": round(1 - related / every, 3), "types": types}  # fmt: skip


async def report(data: Path | None, folder: Path | None = None) -> dict[str, Any]:
    extractor = create_extractor(load_settings())
    if folder is not None:
        figures = await labelled(extractor, folder)
        await extractor.close()
        for name, tuned in (("tuned", True), ("held_out", False)):
            figures[name]["graph"] = await typed_share(folder, tuned=tuned)
        return {"benchmark": "relations", "data": "labelled", **figures}
    if data is None:
        judged = judgements()
        figures = {**precision(judged), "restated": await restated(extractor, judged)}
    else:
        sentences = list(crossre(data))
        figures = {"sentences": len(sentences), **await joined(extractor, sentences)}
    await extractor.close()
    return {"benchmark": "relations", "data": data.name if data else "judged", **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="sentences in CrossRE's form")
    parser.add_argument("--labelled", type=Path, help="a folder with clones of the repositories")
    given = parser.parse_args()
    print(json.dumps(asyncio.run(report(given.data, given.labelled))))


if __name__ == "__main__":
    main()

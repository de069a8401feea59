"""How far what the rules state can be believed.

    python -m benchmarks.relations
    python -m benchmarks.relations --data crossre.json

Without `--data`: the precision of the 200 statements in `benchmarks/data/relations.txt`, drawn from
real text and judged by hand, over all and by type; `restated` says how many of them today's rules
still draw from their sentences alone. With it: sentences with entities and relations in CrossRE's
form, a JSON object per line. Its relations are of other types than ours, so a statement counts as
right if it joins two entities that are joined there; `given` hands the rules its entities,
`found` lets them find their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zapomni_core.engine import create_extractor
from zapomni_core.modules.graph import GraphExtractor
from zapomni_core.settings import load_settings
from zapomni_db.models import EntityData, RelationshipData

JUDGED = Path(__file__).parent / "data" / "relations.txt"
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


async def report(data: Path | None) -> dict[str, Any]:
    extractor = create_extractor(load_settings())
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
    print(json.dumps(asyncio.run(report(parser.parse_args().data))))


if __name__ == "__main__":
    main()

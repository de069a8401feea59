"""How well entities are found in text that developers write.

    python -m benchmarks.entities [--half test] [--extractor rules]
    python -m benchmarks.entities --data stackoverflow.txt

Without `--data`: our own labelled lines, one half of `benchmarks/data/entities.txt`. With it: a
CoNLL file of Stack Overflow posts (token and tag in the first two columns, tab-separated), whose
types are mapped to ours as `MAPPED` says. One JSON line: precision, recall and F1, over all and by
type. A prediction is right if its first character, its last and its type are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from zapomni_core.engine import create_extractor
from zapomni_core.modules.graph import GraphExtractor
from zapomni_core.settings import Settings, load_settings
from zapomni_db.rules import SHOWN

OWN = Path(__file__).parent / "data" / "entities.txt"
LABEL = re.compile(r"\[\[(.+?)\|([A-Z]+)\]\]")

# The data set's type, ours. What is not here has no counterpart: values, generic words for data
# structures, types, devices and parts of a user interface, whole blocks of code or output.
MAPPED = {
    "Application": "TECHNOLOGY",
    "Library": "TECHNOLOGY",
    "Language": "TECHNOLOGY",
    "Operating_System": "TECHNOLOGY",
    "Website": "TECHNOLOGY",
    "File_Type": "TECHNOLOGY",
    "Library_Class": "CODE",
    "Library_Function": "CODE",
    "Library_Variable": "CODE",
    "Class_Name": "CODE",
    "Function_Name": "CODE",
    "Variable_Name": "CODE",
    "HTML_XML_Tag": "CODE",
    "File_Name": "FILE",
    "Version": "VERSION",
    "Error_Name": "ERROR",
    "User_Name": "PERSON",
    "Organization": "ORG",
}
# Lines that stand for a block somebody cut out of the post.
PLACEHOLDERS = ("CODE_BLOCK", "OP_BLOCK")
# Ours that the data set does not tell apart.
COUNTED_AS = {"PACKAGE": "TECHNOLOGY"}


class Span(NamedTuple):
    start: int
    end: int
    type: str


class Sample(NamedTuple):
    """A text, what it speaks of, and where nothing can be right or wrong."""

    text: str
    gold: list[Span]
    unmapped: list[Span]


def own_samples(half: str) -> list[Sample]:
    """Even lines are for development, odd ones for the test."""
    lines = [
        line.partition("\t")[2]
        for line in OWN.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    return [labelled(line) for line in lines[half == "test" :: 2]]


def labelled(line: str) -> Sample:
    """Read a line in which entities stand as [[words|TYPE]]."""
    text, gold, done = "", [], 0
    for label in LABEL.finditer(line):
        text += line[done : label.start()]
        gold.append(Span(len(text), len(text) + len(label[1]), label[2]))
        text += label[1]
        done = label.end()
    return Sample(text + line[done:], gold, [])


def conll_samples(path: Path) -> Iterator[Sample]:
    """One sample per post: its sentences, a line each."""
    post: list[list[tuple[str, str]]] = []
    for sentence in _sentences(path.read_text(encoding="utf-8").splitlines()):
        if sentence[0][0] in PLACEHOLDERS:
            continue
        if sentence[0][0].endswith(("Question_ID", "Question_URL")):
            if post:
                yield _joined(post)
            post = []
        else:
            post.append(sentence)
    if post:
        yield _joined(post)


def _sentences(lines: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    sentence: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        columns = line.split("\t")
        if len(columns) > 1 and columns[0].strip():
            sentence.append((columns[0], columns[1]))
        elif sentence:
            yield sentence
            sentence = []


def _joined(post: Sequence[Sequence[tuple[str, str]]]) -> Sample:
    text, spans = "", []
    for sentence in post:
        begun: Span | None = None
        for token, tag in sentence:
            prefix, _, kind = tag.partition("-")
            if begun and (prefix != "I" or kind != begun.type):
                spans.append(begun)
                begun = None
            if kind:
                begun = Span(begun.start if begun else len(text), len(text) + len(token), kind)
            text += token + " "
        if begun:
            spans.append(begun)
        text = text[:-1] + "\n"
    gold = [span._replace(type=MAPPED[span.type]) for span in spans if span.type in MAPPED]
    return Sample(text, gold, [span for span in spans if span.type not in MAPPED])


async def found(extractor: GraphExtractor, sample: Sample, types: set[str]) -> list[Span]:
    extraction = await extractor.extract(sample.text)
    if extraction.notice:
        raise SystemExit(extraction.notice)
    sure = Counter[str]()
    for e in extraction.entities:
        sure[e.entity_id] += e.confidence
    # What is only written like a name is one if it repeats, as in the graph.
    spans = {
        Span(e.start_char, e.end_char, COUNTED_AS.get(e.type, e.type) if types else e.type)
        for e in extraction.entities
        if e.source != "learned" or sure[e.entity_id] >= SHOWN
    }
    # Who speaks (we, I, the user) is not labelled: it is no name.
    return sorted(s for s in spans if s.type != "SELF" and (not types or s.type in types))


def score(pairs: Sequence[tuple[Sample, list[Span]]], *, lenient: bool = False) -> dict[str, dict]:
    """Count what is right; `lenient` ignores what was found where nothing is mapped."""
    right, made, wanted = Counter[str](), Counter[str](), Counter[str]()
    for sample, found_spans in pairs:
        ignored = sample.unmapped if lenient else []
        spans = [span for span in found_spans if not _overlaps(span, ignored)]
        gold = set(sample.gold)
        right.update(span.type for span in spans if span in gold)
        made.update(span.type for span in spans)
        wanted.update(span.type for span in gold)
    table = {kind: _f1(right[kind], made[kind], wanted[kind]) for kind in sorted(wanted)}
    return {"all": _f1(right.total(), made.total(), wanted.total()), **table}


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    return any(span.start < other.end and other.start < span.end for other in others)


def _f1(right: int, made: int, wanted: int) -> dict[str, float]:
    precision = right / made if made else 0.0
    recall = right / wanted if wanted else 0.0
    both = precision + recall
    f1 = 2 * precision * recall / both if both else 0.0
    figures = {"precision": precision, "recall": recall, "f1": f1}
    return {**{name: round(value, 3) for name, value in figures.items()}, "count": wanted}


async def run(
    settings: Settings, samples: Sequence[Sample], types: set[str]
) -> tuple[list[tuple[Sample, list[Span]]], float]:
    extractor = create_extractor(settings)
    await extractor.extract("Warm up.")
    started = time.process_time()
    pairs = [(sample, await found(extractor, sample, types)) for sample in samples]
    seconds = time.process_time() - started
    await extractor.close()
    return pairs, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a CoNLL file of Stack Overflow posts")
    parser.add_argument("--half", choices=("dev", "test"), default="test")
    parser.add_argument("--extractor", default="rules", help="as the setting extractor")
    parser.add_argument("--show", action="store_true", help="print what was wrong or missed")
    options = parser.parse_args()
    samples = list(conll_samples(options.data)) if options.data else own_samples(options.half)
    types = set(MAPPED.values()) if options.data else set()
    settings = load_settings(extractor=options.extractor)
    pairs, seconds = asyncio.run(run(settings, samples, types))
    if options.show:
        show(pairs)
    words = sum(len(sample.text.split()) for sample in samples)
    report = {
        "benchmark": "entities",
        "data": options.data.name if options.data else f"own-{options.half}",
        "extractor": options.extractor,
        "texts": len(samples),
        "cpu_ms_per_100_words": round(seconds * 100_000 / words, 3),
        "by_type": score(pairs),
    }
    if options.data:
        report["lenient"] = score(pairs, lenient=True)
    print(json.dumps(report))


def show(pairs: Sequence[tuple[Sample, list[Span]]]) -> None:
    for sample, spans in pairs:
        gold = set(sample.gold)
        for mark, span in sorted(
            [("+", s) for s in spans if s not in gold] + [("-", s) for s in gold - set(spans)],
            key=lambda pair: pair[1],
        ):
            around = sample.text[max(0, span.start - 40) : span.end + 30].replace("\n", " / ")
            print(mark, span.type, repr(sample.text[span.start : span.end]), "  ..." + around)


if __name__ == "__main__":
    main()

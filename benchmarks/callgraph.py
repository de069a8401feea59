"""Our call graph beside jedi's, call by call, on real packages.

make bench-jedi
python -m benchmarks.callgraph [--packages requests flask click] [--wrong] [--missed]

A call is judged if jedi names what it calls. Precision: of our edges of judged calls, the share
that leads where jedi says. Recall: of the calls that jedi resolves to the package itself, the
share for which we have that edge. What jedi is silent about is counted and not judged. Its answers
are kept beside the packages: they take minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.packages import FOLDER, VERSIONS, unpacked
from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.tokenizer import ApproximateTokenizer
from zapomni_core.modules.codebase import (
    CodeParser,
    Edge,
    ParsedFile,
    Resolver,
    Snapshot,
    SourceTree,
    Symbol,
)

JEDI = Path(__file__).parent / ".jedi/bin/python"
SCRIPT = Path(__file__).parent / "jedi_calls.py"

Place = tuple[str, int, str]


def by_jedi(name: str) -> dict[Place, list[dict]]:
    """Return jedi's definitions of every call; calls it fails on are left out."""
    kept = FOLDER / f"jedi-{name}-{VERSIONS[name]}.jsonl"
    if not kept.exists():
        with tempfile.NamedTemporaryFile("w", dir=FOLDER, delete=False) as stream:
            subprocess.run([JEDI, SCRIPT, unpacked(name)], stdout=stream, check=True)
        Path(stream.name).rename(kept)
    answers: dict[Place, list[dict]] = defaultdict(list)
    for line in kept.read_text(encoding="utf-8").splitlines():
        call = json.loads(line)
        if "found" in call:
            answers[call["path"], call["line"], call["name"]] += call["found"]
    return answers


def by_us(root: Path) -> tuple[list[ParsedFile], dict[Place, list[Edge]]]:
    chunker = SemanticChunker(ApproximateTokenizer())
    with SourceTree(root) as tree, CodeParser(chunker) as parser:
        sources = [source for entry in tree.files() if (source := tree.read(entry.path))]
        files = [parser.parse(source) for source in sources]
    snapshot = Snapshot({file.path: file.facts for file in files})
    resolver = Resolver(snapshot)
    edges: dict[Place, list[Edge]] = defaultdict(list)
    for path in snapshot.paths():
        for edge in resolver.resolve(path):
            if edge.kind == "call":
                edges[path, edge.line, edge.name].append(edge)
    return files, edges


def compare(name: str) -> tuple[Counter, list[str], list[str]]:
    """Return counts, and the calls we have wrong and those we miss, in words."""
    files, ours = by_us(unpacked(name))
    symbols = {(file.path, one.qualified_name): one for file in files for one in file.symbols}
    counts: Counter = Counter()
    wrong, missed = [], []
    for place, found in by_jedi(name).items():
        inside = [one for one in found if one["path"] and one["type"] in ("function", "class")]
        outside = any(not one["path"] for one in found)
        edges = [edge for edge in ours.get(place, []) if edge.callee]
        right = [edge for edge in edges if _agrees(symbols[edge.callee], edge, inside)]
        if not inside and not outside:
            counts["unjudged"] += len(edges)
            continue
        counts["edges"] += len(edges)
        counts["right"] += len(right)
        wrong += [_words(place, edge) for edge in edges if edge not in right]
        if inside:
            counts["calls"] += 1
            counts["found"] += bool(right)
            missed += [] if right else [_words(place)]
    return counts, wrong, missed


def _agrees(symbol: Symbol, edge: Edge, inside: list[dict]) -> bool:
    assert edge.callee is not None
    return any(
        one["path"] == edge.callee.path
        and one["name"] == symbol.name
        and symbol.start_line <= one["line"] <= symbol.end_line
        for one in inside
    )


def _words(place: Place, edge: Edge | None = None) -> str:
    path, line, name = place
    led = f" -> {edge.callee.path}:{edge.callee.qualified_name}" if edge and edge.callee else ""
    return f"{path}:{line} {name}{led}"


def figures(name: str, counts: Counter) -> dict:
    return {
        "benchmark": "callgraph",
        "package": name,
        "calls": counts["calls"],
        "edges": counts["edges"],
        "unjudged": counts["unjudged"],
        "precision": round(counts["right"] / counts["edges"], 3),
        "recall": round(counts["found"] / counts["calls"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", nargs="+", default=["requests", "flask", "click"])
    parser.add_argument("--wrong", action="store_true", help="list edges jedi contradicts")
    parser.add_argument("--missed", action="store_true", help="list calls only jedi resolves")
    options = parser.parse_args()
    total: Counter = Counter()
    for name in options.packages:
        counts, wrong, missed = compare(name)
        total += counts
        print(json.dumps(figures(name, counts)), flush=True)
        for line in [*(wrong if options.wrong else []), *(missed if options.missed else [])]:
            print("   ", line)
    print(json.dumps(figures("all", total)))


if __name__ == "__main__":
    main()

"""Our call graph beside that of an independent analysis, call by call, on real packages.

Python, beside jedi:

    make bench-jedi
    python -m benchmarks.callgraph [--packages requests flask click] [--wrong] [--missed]

TypeScript and JavaScript, beside the compiler; nothing is installed by itself:

    npm install --prefix DIR --ignore-scripts --no-save typescript@5.9.3 rxjs@7.8.2 \\
        @tanstack/query-core@5.59.0 commander@14.0.0 mobx@6.13.7 axios@1.7.9 \\
        zod@3.25.76 immer@10.1.1
    python -m benchmarks.callgraph --scripts DIR [--packages rxjs] [--wrong] [--missed]

A call is judged if the judge names what it calls. Precision: of our edges of judged calls, the
share that leads where the judge says. Recall: of the calls that the judge resolves to a function,
method or class of the package itself, the share for which we have that edge. What the judge is
silent about is counted and not judged; where the compiler names a parameter or a property of a
function type, an edge that is a guess is wrong. jedi's answers are stored: they take minutes.
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
    ParsedFile,
    Resolver,
    Snapshot,
    SourceTree,
    Symbol,
    SymbolEdge,
)

# Which folder of an npm package has its sources. The rules were made with the first five.
SCRIPTS = {
    "rxjs": "src",
    "@tanstack/query-core": "src",
    "commander": "lib",
    "mobx": "src",
    "axios": "lib",
    "immer": "src",
    "zod": "src/v3",
}
COMPILER = Path(__file__).parent / "typescript_calls.js"
GUESS = 0.5

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
    return _read(kept.read_text(encoding="utf-8"))


def by_compiler(root: Path, modules: Path) -> dict[Place, list[dict]]:
    """Return the compiler's definitions of every call."""
    command = ["node", COMPILER, modules / "typescript", root]
    return _read(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def _read(lines: str) -> dict[Place, list[dict]]:
    answers: dict[Place, list[dict]] = defaultdict(list)
    for line in lines.splitlines():
        call = json.loads(line)
        if "found" in call:
            answers[call["path"], call["line"], call["name"]] += call["found"]
    return answers


def by_us(root: Path) -> tuple[list[ParsedFile], dict[Place, list[SymbolEdge]]]:
    chunker = SemanticChunker(ApproximateTokenizer())
    with SourceTree(root) as tree, CodeParser(chunker) as parser:
        sources = [source for entry in tree.files() if (source := tree.read(entry.path))]
        files = [parser.parse(source) for source in sources]
    snapshot = Snapshot({file.path: file.facts for file in files})
    resolver = Resolver(snapshot)
    edges: dict[Place, list[SymbolEdge]] = defaultdict(list)
    for path in snapshot.paths():
        for edge in resolver.resolve(path):
            if edge.kind in ("call", "decorate"):
                edges[path, edge.line, edge.name].append(edge)
    return files, edges


def compare(root: Path, judged: dict[Place, list[dict]]) -> tuple[Counter, list[str], list[str]]:
    """Return counts, and the calls we have wrong and those we miss, in words."""
    files, ours = by_us(root)
    symbols = {(file.path, one.qualified_name): one for file in files for one in file.symbols}
    counts: Counter = Counter()
    wrong, missed = [], []
    for place, found in judged.items():
        inside = [one for one in found if one["path"] and one["type"] in ("function", "class")]
        outside = any(not one["path"] for one in found)
        edges = [edge for edge in ours.get(place, []) if edge.callee]
        right = [edge for edge in edges if _agrees(symbols[edge.callee], edge, inside)]
        if not inside and not outside:
            guesses = [edge for edge in edges if edge.strength <= GUESS] if found else []
            counts["unjudged"] += len(edges) - len(guesses)
            counts["edges"] += len(guesses)
            wrong += [_words(place, edge) for edge in guesses]
            continue
        counts["edges"] += len(edges)
        counts["right"] += len(right)
        wrong += [_words(place, edge) for edge in edges if edge not in right]
        if inside:
            counts["calls"] += 1
            counts["found"] += bool(right)
            missed += [] if right else [_words(place)]
    return counts, wrong, missed


def _agrees(symbol: Symbol, edge: SymbolEdge, inside: list[dict]) -> bool:
    assert edge.callee is not None
    return any(
        one["path"] == edge.callee.path
        and one["name"] == symbol.name
        and symbol.start_line <= one["line"] <= symbol.end_line
        for one in inside
    )


def _words(place: Place, edge: SymbolEdge | None = None) -> str:
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
    parser.add_argument("--packages", nargs="+", help="which; without it all that are known")
    parser.add_argument("--scripts", type=Path, help="the folder npm installed into")
    parser.add_argument("--wrong", action="store_true", help="list edges the judge contradicts")
    parser.add_argument("--missed", action="store_true", help="list calls only the judge resolves")
    options = parser.parse_args()
    total: Counter = Counter()
    known = list(SCRIPTS) if options.scripts else ["requests", "flask", "click"]
    for name in options.packages or known:
        if options.scripts:
            modules = options.scripts / "node_modules"
            root = modules / name / SCRIPTS[name]
            counts, wrong, missed = compare(root, by_compiler(root, modules))
        else:
            counts, wrong, missed = compare(unpacked(name), by_jedi(name))
        total += counts
        print(json.dumps(figures(name, counts)), flush=True)
        for line in [*(wrong if options.wrong else []), *(missed if options.missed else [])]:
            print("   ", line)
    print(json.dumps(figures("all", total)))


if __name__ == "__main__":
    main()

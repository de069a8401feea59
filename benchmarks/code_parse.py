"""How many lines per second of CPU time are read: listed, opened, parsed, cut, resolved.

python -m benchmarks.code_parse [--package django] [--path FOLDER] [--rounds 3]

Counts the CPU time of all processes involved: parsing happens in one of its own. Nothing is
embedded or stored.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from benchmarks.packages import VERSIONS, unpacked
from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.tokenizer import LazyTokenizer
from zapomni_core.modules.codebase import CodeParser, Resolver, Snapshot, SourceTree
from zapomni_core.settings import load_settings


def cpu() -> float:
    return sum(os.times()[:4])


def measure(root: Path) -> dict:
    chunker = SemanticChunker(LazyTokenizer(load_settings().models_path))
    began, wall = cpu(), time.perf_counter()
    files = []
    with SourceTree(root) as tree, CodeParser(chunker) as parser:
        entries = list(tree.files())
        listed = cpu()
        sources = [source for entry in entries if (source := tree.read(entry.path))]
        opened = cpu()
        files = [parser.parse(source) for source in sources]
    parsed = cpu()
    facts = {file.path: file.facts for file in files}
    resolver = Resolver(Snapshot(facts))
    edges = [edge for path in facts for edge in resolver.resolve(path)]
    done = cpu()
    lines = sum(file.lines for file in files)
    return {
        "benchmark": "code_parse",
        "root": root.name,
        "files": len(files),
        "lines": lines,
        "symbols": sum(len(file.symbols) for file in files),
        "passages": sum(len(file.chunks) for file in files),
        "edges": len(edges),
        "resolved": sum(edge.callee is not None for edge in edges),
        "cpu_s": {
            "list": round(listed - began, 2),
            "open": round(opened - listed, 2),
            "parse": round(parsed - opened, 2),
            "resolve": round(done - parsed, 2),
        },
        "wall_s": round(time.perf_counter() - wall, 2),
        "lines_per_cpu_s": round(lines / (done - began)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", default="django", choices=sorted(VERSIONS))
    parser.add_argument("--path", type=Path, help="a repository of your own instead")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    root = options.path or unpacked(options.package)
    for _ in range(options.rounds):
        print(json.dumps(measure(root)), flush=True)


if __name__ == "__main__":
    main()

"""Tables and a plot from the lines of benchmarks.retrieval.

    python -m benchmarks.retrieval --data FILE > lines.jsonl
    python -m benchmarks.report lines.jsonl [more.jsonl ...] [--to benchmarks/results]

Writes retrieval.md (one table per measure, a row per system, a column per set) and
retrieval.svg. A later line replaces an earlier one of the same system and set. `-` reads
standard input.
"""

from __future__ import annotations

import argparse
import html
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
QUALITY = {
    "recall_at_5": "Recall@5",
    "recall_at_10": "Recall@10",
    "mrr_at_10": "MRR@10",
    "ndcg_at_10": "nDCG@10",
}
COST = {
    "query_cpu_ms_p50": "Query, CPU ms, p50",
    "query_cpu_ms_p95": "Query, CPU ms, p95",
    "query_wall_ms_p50": "Query, wall ms, p50",
    "query_wall_ms_p95": "Query, wall ms, p95",
    "ingest_docs_per_s": "Ingest, documents per second",
    "ingest_docs_per_cpu_s": "Ingest, documents per second of CPU time",
    "rss_mb": "Resident memory, MB",
    "disk_mb": "Disk, MB",
    "startup_ms": "First answer of a new process, ms",
}
PLOTTED = "recall_at_10"
ROW, NAME_WIDTH, BAR_WIDTH, NUMBER_WIDTH, HEAD = 20, 200, 420, 60, 30

Lines = dict[tuple[str, str], dict[str, Any]]


def read_lines(sources: Iterable[Iterable[str]]) -> Lines:
    """Read JSON lines into a table by system and set."""
    lines = (json.loads(line) for source in sources for line in source if line.strip())
    return {(line["system"], line["dataset"]): line for line in lines}


def render(lines: Lines) -> str:
    """Return the Markdown page."""
    systems, sets = _names(lines)
    parts = ["# Retrieval\n", "![Recall@10](retrieval.svg)\n"]
    asked = ", ".join(f"{name} {_queries(lines, name)}" for name in sets)
    parts.append(f"Questions: {asked}. Bold: the best of a column.\n")
    for measure, title in (QUALITY | COST).items():
        parts.append(f"## {title}\n")
        parts.append(_table(lines, systems, sets, measure))
    parts.extend(_skipped(lines))
    return "\n".join(parts)


def _names(lines: Lines) -> tuple[list[str], list[str]]:
    ran = [key for key, line in lines.items() if "skipped" not in line]
    return list(dict.fromkeys(s for s, _ in ran)), list(dict.fromkeys(d for _, d in ran))


def _queries(lines: Lines, dataset: str) -> int:
    counts = [line.get("queries", 0) for (_, name), line in lines.items() if name == dataset]
    return max(counts)


def _table(lines: Lines, systems: Sequence[str], sets: Sequence[str], measure: str) -> str:
    rows = [f"| system | {' | '.join(sets)} |", f"|---{'|---:' * len(sets)}|"]
    best = {name: _best(lines, systems, name, measure) for name in sets}
    for system in systems:
        cells = [_cell(lines.get((system, name), {}), measure, best[name]) for name in sets]
        rows.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _best(lines: Lines, systems: Sequence[str], dataset: str, measure: str) -> float:
    values = [lines.get((system, dataset), {}).get(measure) for system in systems]
    pick = max if measure in QUALITY or measure.startswith("ingest") else min
    return pick((value for value in values if value is not None), default=0.0)


def _cell(line: dict[str, Any], measure: str, best: float) -> str:
    value = line.get(measure)
    if value is None:
        return "-"
    shown = f"{value:.3f}" if measure in QUALITY else f"{value:,.1f}"
    return f"**{shown}**" if value == best else shown


def _skipped(lines: Lines) -> Iterator[str]:
    reasons = {line["system"]: line["skipped"] for line in lines.values() if "skipped" in line}
    if reasons:
        yield "## Not run\n"
        yield "".join(f"- {system}: {reason}\n" for system, reason in reasons.items())


def draw(lines: Lines) -> str:
    """Return the plot: one block of horizontal bars per set, best first."""
    _, sets = _names(lines)
    body, top = [], 10
    for dataset in sets:
        bars = sorted(
            ((line[PLOTTED], system) for (system, name), line in lines.items()
             if name == dataset and PLOTTED in line),
            reverse=True,
        )  # fmt: skip
        body.append(_text(0, top + 16, f"{dataset}, {QUALITY[PLOTTED]}", "bold"))
        for place, (value, system) in enumerate(bars):
            body.extend(_bar(top + HEAD + place * ROW, system, value))
        top += HEAD + len(bars) * ROW + 10
    width = NAME_WIDTH + BAR_WIDTH + NUMBER_WIDTH
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}"'
        f' viewBox="0 0 {width} {top}" font-family="sans-serif" font-size="13">\n'
        f'<rect width="{width}" height="{top}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _bar(y: int, system: str, value: float) -> Iterator[str]:
    colour = "#c2410c" if system == "zapomni" else "#94a3b8"
    yield _text(0, y + 13, system)
    yield (
        f'<rect x="{NAME_WIDTH}" y="{y + 2}" width="{value * BAR_WIDTH:.1f}"'
        f' height="{ROW - 6}" fill="{colour}"/>'
    )
    yield _text(NAME_WIDTH + value * BAR_WIDTH + 6, y + 13, f"{value:.3f}")


def _text(x: float, y: int, words: str, weight: str = "normal") -> str:
    escaped = html.escape(words)
    return f'<text x="{x:.1f}" y="{y}" fill="#0f172a" font-weight="{weight}">{escaped}</text>'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", nargs="+", metavar="FILE")
    parser.add_argument("--to", type=Path, default=RESULTS, help="where to write")
    options = parser.parse_args()
    lines = read_lines(
        sys.stdin if name == "-" else Path(name).read_text(encoding="utf-8").splitlines()
        for name in options.lines
    )
    if all("skipped" in line for line in lines.values()):
        parser.error("no system was run")
    options.to.mkdir(parents=True, exist_ok=True)
    (options.to / "retrieval.md").write_text(render(lines), encoding="utf-8")
    (options.to / "retrieval.svg").write_text(draw(lines), encoding="utf-8")
    print(options.to / "retrieval.md")


if __name__ == "__main__":
    main()

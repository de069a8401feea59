"""Tables and pictures from the lines of benchmarks.retrieval and benchmarks.scale.

    python -m benchmarks.retrieval --data FILE > lines.jsonl
    python -m benchmarks.scale > scale.jsonl
    python -m benchmarks.report lines.jsonl scale.jsonl [--to DIR] [--pictures DIR]

Writes retrieval.md (one table per measure, a row per system, a column per set) and pictures:
retrieval.svg (recall as bars), recall-cost.svg (recall against the CPU time of a question) and
cost-size.svg (CPU time against the number of passages), each if there are lines for it. A later
line replaces an earlier one of the same system and set. `-` reads standard input.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
QUALITY = {
    "recall_at_5": "Recall@5",
    "recall_at_10": "Recall@10",
    "any_at_5": "Any@5",
    "all_at_5": "All@5",
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
OWN = "zapomni"
ROW, NAME_WIDTH, BAR_WIDTH, NUMBER_WIDTH, HEAD = 20, 200, 420, 60, 30

Lines = dict[tuple[str, str], dict[str, Any]]


def read_lines(sources: Iterable[Iterable[str]]) -> tuple[Lines, list[dict[str, Any]]]:
    """Read JSON lines: those of systems by system and set, those of sizes by size."""
    read = [json.loads(line) for source in sources for line in source if line.strip()]
    systems = {(line["system"], line["dataset"]): line for line in read if "system" in line}
    sizes = {line["chunks"]: line for line in read if line.get("benchmark") == "scale"}
    return systems, [sizes[chunks] for chunks in sorted(sizes)]


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


# --- Pictures -------------------------------------------------------------------------

LIGHT = {
    ".page": "fill:#ffffff", "text": "fill:#1f2328", ".soft": "fill:#59636e",
    ".grid": "stroke:#d8dee4", ".own": "fill:#bc4c00", ".peer": "fill:#8c959f",
    ".line": "stroke:#bc4c00", ".other": "stroke:#59636e",
}  # fmt: skip
DARK = {
    ".page": "fill:#0d1117", "text": "fill:#e6edf3", ".soft": "fill:#9198a1",
    ".grid": "stroke:#30363d", ".own": "fill:#f0883e", ".peer": "fill:#6e7681",
    ".line": "stroke:#f0883e", ".other": "stroke:#9198a1",
}  # fmt: skip


def _picture(title: str, width: int, height: int, body: Iterable[str]) -> str:
    rules = [
        "".join(f"{name}{{{rule}}}" for name, rule in theme.items()) for theme in (LIGHT, DARK)
    ]
    style = (
        "text{font-family:system-ui,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:12px}"
        ".head{font-weight:600;font-size:13px}.grid,.line,.other{stroke-width:1;fill:none}"
        f".line,.other{{stroke-width:2}}.thin{{stroke-width:.7}}{rules[0]}@media(prefers-color-scheme:dark){{{rules[1]}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n"
        f'<rect class="page" width="{width}" height="{height}"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    marks = f' class="{kind}"' if kind else ""
    marks += f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{marks}>{html.escape(words)}</text>'


def _line(kind: str, *points: tuple[float, float]) -> str:
    return f'<path class="{kind}" d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


def _dot(kind: str, point: tuple[float, float], radius: int = 4) -> str:
    return f'<circle class="{kind}" cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="{radius}"/>'


def draw_bars(lines: Lines) -> str:
    """Return recall as one block of horizontal bars per set, best first."""
    body, top = [], 10
    for dataset in _names(lines)[1]:
        bars = sorted(_values(lines, dataset, PLOTTED), reverse=True)
        body.append(_text(0, top + 16, f"{dataset}, {QUALITY[PLOTTED]}", "head"))
        for place, (value, system) in enumerate(bars):
            y = top + HEAD + place * ROW
            kind, width = "own" if system == OWN else "peer", value * BAR_WIDTH
            size = f'y="{y + 2}" width="{width:.1f}" height="{ROW - 6}"'
            body += [
                _text(0, y + 13, system),
                f'<rect class="{kind}" x="{NAME_WIDTH}" {size}/>',
                _text(NAME_WIDTH + width + 6, y + 13, f"{value:.3f}"),
            ]
        top += HEAD + len(bars) * ROW + 10
    return _picture("Recall@10 by system", NAME_WIDTH + BAR_WIDTH + NUMBER_WIDTH, top, body)


def _values(lines: Lines, dataset: str, measure: str) -> Iterator[tuple[float, str]]:
    for (system, name), line in lines.items():
        if name == dataset and measure in line:
            yield line[measure], system


PANEL, GAP, MARGIN, COLUMNS = (280, 220), 56, (40, 30), 3
COST_PLOTTED = "query_cpu_ms_p50"


def draw_recall_and_cost(lines: Lines) -> str:
    """Return one panel per set: recall upwards, the CPU time of a question to the right."""
    sets = _names(lines)[1]
    costs = [value for name in sets for value, _ in _values(lines, name, COST_PLOTTED)]
    first = math.floor(math.log10(min(costs)))
    decades = range(first, max(first + 1, math.ceil(math.log10(max(costs)))) + 1)
    recalls = [value for name in sets for value, _ in _values(lines, name, PLOTTED)]
    lowest = min(0.8, math.floor(min(recalls) * 5) / 5)
    caption = "Recall@10 upwards, CPU milliseconds of a question (p50) to the right"
    body = [_text(MARGIN[0], 16, caption, "soft")]
    for number, dataset in enumerate(sets):
        left = MARGIN[0] + (number % COLUMNS) * (PANEL[0] + GAP)
        top = 2 * MARGIN[1] + (number // COLUMNS) * (PANEL[1] + 2 * MARGIN[1])
        body += _panel(lines, dataset, (left, top), decades, lowest)
    columns = min(COLUMNS, len(sets))
    rows = math.ceil(len(sets) / COLUMNS)
    return _picture(
        "Recall@10 of each system against the CPU milliseconds of a question, for each set",
        MARGIN[0] + columns * (PANEL[0] + GAP),
        rows * (PANEL[1] + 2 * MARGIN[1]) + MARGIN[1],
        body,
    )


def _panel(
    lines: Lines, dataset: str, corner: tuple[float, float], decades: range, lowest: float
) -> Iterator[str]:
    left, top = corner
    width, height = PANEL

    def place(cost: float, recall: float) -> tuple[float, float]:
        share = (math.log10(cost) - decades[0]) / (decades[-1] - decades[0])
        return left + share * width, top + height * (1 - (recall - lowest) / (1 - lowest))

    yield _text(left, top - 10, dataset, "head")
    for decade in decades:
        x = place(10.0**decade, 1)[0]
        yield _line("grid", (x, top), (x, top + height))
        yield _text(x, top + height + 16, f"{10.0**decade:g}", "soft", "middle")
    for step in range(round(lowest * 5), 6):
        y = place(1, step / 5)[1]
        yield _line("grid", (left, y), (left + width, y))
        yield _text(left - 6, y + 4, f"{step / 5:.1f}", "soft", "end")
    points = {
        line["system"]: place(line[COST_PLOTTED], line[PLOTTED])
        for (_, name), line in lines.items()
        if name == dataset and COST_PLOTTED in line
    }
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points.values()]
    # Our own name first: it is the one that must be next to its point.
    for system in sorted(points, key=lambda name: (name != OWN, points[name][1], name)):
        yield _dot("own", points[system], 6) if system == OWN else _dot("peer", points[system])
        yield _label(system, points[system], (left, top, left + width, top + height), taken)


def _label(
    words: str,
    point: tuple[float, float],
    frame: tuple[float, float, float, float],
    taken: list[tuple[float, float, float, float]],
) -> str:
    """Put a name next to its point where nothing else is, or where the least is."""
    wide, high = 6.7 * len(words), 13
    choices = []
    for shift in (4, -8, 16, -20, 28, -32, 40):
        for x in (point[0] + 9, point[0] - 9 - wide):
            box = (x, point[1] + shift - high + 3, x + wide, point[1] + shift + 3)
            outside = (
                box[0] < frame[0] or box[2] > frame[2] + 20 or not frame[1] < box[3] < frame[3]
            )
            hidden = sum(_overlap(box, other) for other in taken)
            choices.append((hidden + 10_000 * outside, len(choices), box))
    _, _, box = min(choices)
    taken.append(box)
    middle = (box[1] + box[3]) / 2
    leader = ""
    if abs(middle - point[1]) > high:
        leader = _line("other thin", point, (box[0] if box[0] > point[0] else box[2], middle))
    return leader + _text(box[0], box[3] - 3, words)


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0, width) * max(0, height)


SIZE_LINES = {
    "query_cpu_ms_p95": ("line", "p95"),
    "query_cpu_ms_p50": ("line", "p50"),
    "filtered_cpu_ms_p95": ("other", "p95, one project"),
    "filtered_cpu_ms_p50": ("other", "p50, one project"),
}


def draw_cost_and_size(sizes: Sequence[dict[str, Any]]) -> str:
    """Return the CPU time of a question against the number of passages."""
    width, height, left, top = 420, 240, 54, 34
    logs = [math.log10(line["chunks"]) for line in sizes]
    spread = (logs[-1] - logs[0]) or 1
    most = max(line[name] for line in sizes for name in SIZE_LINES)
    step = next(s for s in (5, 10, 20, 50, 100, 200, 500, 1000) if most / s <= 6)
    ceiling = step * math.ceil(most / step)

    def place(log: float, value: float) -> tuple[float, float]:
        return left + (log - logs[0]) / spread * width, top + height * (1 - value / ceiling)

    body = [_text(left, top - 14, "CPU milliseconds of a question, by passages stored", "head")]
    for value in range(0, ceiling + 1, step):
        y = place(logs[0], value)[1]
        body += [
            _line("grid", (left, y), (left + width, y)),
            _text(left - 6, y + 4, f"{value}", "soft", "end"),
        ]
    for line, log in zip(sizes, logs, strict=True):
        x = place(log, 0)[0]
        body.append(_text(x, top + height + 18, f"{line['chunks']:,}", "soft", "middle"))
    taken: list[tuple[float, float, float, float]] = []
    for name, (kind, words) in SIZE_LINES.items():
        points = [place(log, line[name]) for line, log in zip(sizes, logs, strict=True)]
        body.append(_line(kind, *points))
        body += [_dot("own" if kind == "line" else "peer", point) for point in points]
        frame = (left, top, left + width + 160, top + height)
        body.append(_label(f"{words} {sizes[-1][name]:.0f}", points[-1], frame, taken))
    return _picture("CPU time of a question against the number of passages", 660, 310, body)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", nargs="+", metavar="FILE")
    parser.add_argument("--to", type=Path, default=RESULTS, help="where to write")
    parser.add_argument("--pictures", type=Path, help="where to write pictures, if elsewhere")
    options = parser.parse_args()
    lines, sizes = read_lines(
        sys.stdin if name == "-" else Path(name).read_text(encoding="utf-8").splitlines()
        for name in options.lines
    )
    pictures = options.pictures or options.to
    written = {}
    if any("skipped" not in line for line in lines.values()):
        written[options.to / "retrieval.md"] = render(lines)
        written[pictures / "retrieval.svg"] = draw_bars(lines)
        if any(COST_PLOTTED in line for line in lines.values()):
            written[pictures / "recall-cost.svg"] = draw_recall_and_cost(lines)
    if sizes:
        written[pictures / "cost-size.svg"] = draw_cost_and_size(sizes)
    if not written:
        parser.error("no system was run")
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()

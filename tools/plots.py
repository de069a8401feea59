"""Draws the tables of docs/benchmarks.md: `python -m tools.plots` writes two SVG files.

recall-cost.svg has the recall of every system against the CPU time of a question, cost-size.svg
that time against the number of passages. They are read from the page, so that pictures and tables
never differ; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.report import Lines, draw_cost_and_size, draw_recall_and_cost

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "pictures"


def main() -> None:
    """Write both pictures."""
    for name, picture in draw().items():
        (PICTURES / f"{name}.svg").write_text(picture, "utf-8")
        print(f"docs/pictures/{name}.svg")


def draw() -> dict[str, str]:
    """Return the pictures by name."""
    page = PAGE.read_text("utf-8")
    comparison = page[page.index("### Figures") :]
    quality, _, cost = (_read_table(comparison, number) for number in range(3))
    lines: Lines = {
        (system, dataset): {
            "system": system,
            "recall_at_10": float(value.split("/")[1]),
            "query_cpu_ms_p50": float(cost[system][dataset]),
        }
        for system, values in quality.items()
        for dataset, value in values.items()
    }
    scale = _read_table(page[page.index("## At scale") :], 0)
    sizes = [
        {
            "chunks": int(re.sub(r"\D", "", size)),
            **dict(zip(("query_cpu_ms_p50", "query_cpu_ms_p95"), whole, strict=True)),
            **dict(zip(("filtered_cpu_ms_p50", "filtered_cpu_ms_p95"), part, strict=True)),
        }
        for size, value in scale["query, CPU ms, p50 / p95"].items()
        for whole, part in [
            (_numbers(value), _numbers(scale["query with 1 % filter, CPU ms, p50 / p95"][size]))
        ]
    ]
    return {"recall-cost": draw_recall_and_cost(lines), "cost-size": draw_cost_and_size(sizes)}


def _numbers(cell: str) -> list[float]:
    return [float(number) for number in cell.split("/")]


def _read_table(text: str, number: int) -> dict[str, dict[str, str]]:
    """Return a table of a text, by the first cell of a row and the head of a column."""
    tables = re.findall(r"((?:^\|.*\|\n)+)", text, re.MULTILINE)
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in tables[number].splitlines()
    ]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


if __name__ == "__main__":
    main()

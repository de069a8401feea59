"""Draw the modules and their imports: `python tools/picture.py` writes docs/architecture.svg.

Rows are the layers of the import-linter contracts in pyproject.toml, arrows are the imports found
in the source. An arrow that follows from other arrows is left out, as are arrows within a row. Only
the position of a box and the few words in it are written here.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"

WIDTH, MARGIN = 1080, 14
BOX, HALF = 46, 78  # height, half of the width
PITCH, TOP = 84, 44  # from row to row, and where the first row begins
APART = 24  # between two packages
SPACE = 10  # around an arrow that passes between two boxes


Arrow = tuple[str, str]


class Place(NamedTuple):
    """Where a box is: the middle of it, its color and its words."""

    x: int
    color: str
    words: str


PLACES = {
    "zapomni": Place(110, "door", "import zapomni"),
    "zapomni_mcp": Place(300, "door", "tools for agents"),
    "zapomni_cli": Place(680, "door", "commands for people"),
    "zapomni_web": Place(490, "door", "the page for people"),
    "zapomni_cli.record": Place(950, "door", "zapomni_cli.record"),
    "engine": Place(410, "use", "assembles and answers"),
    "scheduler": Place(200, "use", "background tasks"),
    "workflows": Place(410, "use", "across modules"),
    "adapters": Place(125, "part", "embedders, readers, …"),
    "memories": Place(330, "room", "add, rank, update"),
    "codebase": Place(535, "room", "parse, index, cite"),
    "graph": Place(740, "room", "entities, relations"),
    "observations": Place(950, "room", "what agents did"),
    "interfaces": Place(330, "base", "requests, Protocols"),
    "infra": Place(535, "base", "git, retry, logging"),
    "settings": Place(535, "base", "environment, file"),
    "exceptions": Place(430, "base", "errors and codes"),
    "shared": Place(700, "base", "pure functions"),
    "cache": Place(330, "store", "shared embeddings"),
    "falkordb": Place(535, "store", "a graph server"),
    "sqlite": Place(870, "store", "one file, the default"),
    "contract": Place(535, "store", "StorageProvider, models"),
}
TITLES = {"zapomni_cli.record": "hooks", "contract": "contract"}
HOOK_PATH = ("hook", "hosts", "record")
STORES = ("cache", "falkordb", "sqlite")

# Text and lines; boxes are filled with a tint of their color. Both themes were checked by eye.
LIGHT = {
    "door": "#1f6feb",
    "use": "#8250df",
    "room": "#1a7f37",
    "part": "#bc4c00",
    "base": "#57606a",
    "store": "#9a6700",
}
DARK = {
    "door": "#6cb0ff",
    "use": "#c09bff",
    "room": "#56d364",
    "part": "#ffa657",
    "base": "#a5b0bb",
    "store": "#e3b341",
}


class Point(NamedTuple):
    """A place in the picture."""

    x: float
    y: float


def main() -> None:
    PICTURE.write_text(draw(), "utf-8")


def draw() -> str:
    """Return the picture as text."""
    rows = read_rows()
    levels = {name: number for number, row in enumerate(rows) for name in row}
    if unplaced := levels.keys() ^ PLACES.keys():
        raise SystemExit(f"tools/picture.py has no place, or one too many: {sorted(unplaced)}")
    arrows = reduce_arrows(find_imports(levels))
    lines = route(arrows, rows, levels)
    height = round(bottom(len(rows) - 1)) + 52
    title = "The modules of Zapomni and their imports, layer by layer"
    rule = "An arrow is an import, always downward. One that follows from others is left out."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        f"<title>{title}</title>",
        f"<style>{style()}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="10"/>',
        *draw_bands(rows),
        *(draw_line(PLACES[source].color, lines[source, target]) for source, target in arrows),
        *(draw_box(name, level) for name, level in levels.items()),
        f'<text class="words rule" x="{WIDTH // 2}" y="{height - 16}">{rule}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# --- what the code says ---------------------------------------------------------------------


@cache
def read_rows() -> list[list[str]]:
    """Return the boxes of each layer, top to bottom."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {c["name"]: c for c in pyproject["tool"]["importlinter"]["contracts"]}
    doors = contracts["Imports go down: doors, core, db"]["layers"][0].split(" | ")
    rows = [[*doors, "zapomni_cli.record"]]
    for layer in contracts["Inside the core"]["layers"]:
        row = layer.split(" | ")
        if "modules" in row:
            row.remove("modules")
            folder = ROOT / "src" / "zapomni_core" / "modules"
            row += sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        rows.append(row)
    rows += [list(STORES), ["contract"]]
    return [sorted(row, key=lambda name: PLACES[name].x if name in PLACES else 0) for row in rows]


def find_imports(levels: dict[str, int]) -> set[Arrow]:
    """Return which box imports which box of another layer."""
    source = ROOT / "src"
    found = set()
    for path in source.rglob("*.py"):
        importer = box_of(path.relative_to(source).with_suffix("").parts)
        for module in imported_modules(path):
            imported = box_of(tuple(module.split(".")))
            if importer and imported and levels[importer] != levels[imported]:
                found.add((importer, imported))
    if upward := [f"{a} -> {b}" for a, b in sorted(found) if levels[a] > levels[b]]:
        raise SystemExit(f"Imports that go up: {', '.join(upward)}")
    return found


@cache
def imported_modules(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


def box_of(module: tuple[str, ...]) -> str | None:
    """Return the box a module is drawn in."""
    package, first, second = (*module, "", "")[:3]
    if package == "zapomni_cli":
        return "zapomni_cli.record" if first in HOOK_PATH else package
    if package in ("zapomni", "zapomni_mcp", "zapomni_web"):
        return package
    if not first or first == "__init__":
        return None
    if package == "zapomni_core":
        return first if first != "modules" else second.replace("__init__", "") or None
    if package == "zapomni_db":
        return first if first in STORES else "contract"
    return None


def reduce_arrows(arrows: set[Arrow]) -> list[Arrow]:
    """Leave out every arrow whose ends are also connected by a longer way."""
    targets = defaultdict(set)
    for source, target in arrows:
        targets[source].add(target)

    def below(name: str) -> set[str]:
        return set().union(*({one} | below(one) for one in targets.get(name, ())))

    return sorted(
        (source, target)
        for source, target in arrows
        if not any(target in below(other) for other in targets[source] - {target})
    )


# --- where the lines are --------------------------------------------------------------------


def route(
    arrows: list[Arrow], rows: list[list[str]], levels: dict[str, int]
) -> dict[Arrow, list[Point]]:
    """Return the points of each arrow: through the gaps of the rows in between, apart."""
    taken: dict[int, list[float]] = defaultdict(list)
    middle: dict[Arrow, list[float]] = {}
    # Long arrows choose first; one that can goes straight down through all its rows.
    for arrow in sorted(arrows, key=lambda a: (levels[a[0]] - levels[a[1]], a)):
        between = range(levels[arrow[0]] + 1, levels[arrow[1]])
        x, target = float(PLACES[arrow[0]].x), float(PLACES[arrow[1]].x)
        gaps = [free_places(rows[row], taken[row]) for row in between]
        if straight := set[int]().union(*gaps[:1]).intersection(*gaps):
            chosen = nearest(straight, x, target)
            middle[arrow] = [chosen] * len(gaps)
        else:
            middle[arrow] = []
            for gap in gaps:
                x = nearest(gap, x, target)
                middle[arrow].append(x)
        for row, passed in zip(between, middle[arrow], strict=True):
            taken[row].append(passed)
    leaving, entering = defaultdict(list), defaultdict(list)
    for arrow in arrows:
        leaving[arrow[0]].append(arrow)
        entering[arrow[1]].append(arrow)
    lines: dict[Arrow, list[Point]] = {}
    for arrow in arrows:
        source, target = arrow
        out = sorted(leaving[source], key=lambda a: ([*middle[a], PLACES[a[1]].x][0], levels[a[1]]))
        come = sorted(entering[target], key=lambda a: ([PLACES[a[0]].x, *middle[a]][-1], a))
        points = [Point(port(source, out, arrow), bottom(levels[source]))]
        for number, x in enumerate(middle[arrow], start=levels[source] + 1):
            points += [Point(x, top(number) - 4), Point(x, bottom(number) + 4)]
        points.append(Point(port(target, come, arrow), top(levels[target]) - 1))
        lines[arrow] = points
    return lines


def free_places(row: list[str], taken: list[float]) -> set[int]:
    """Return where an arrow can pass through a row without touching a box or another arrow."""
    boxes = [PLACES[name].x for name in row]
    return {
        x
        for x in range(MARGIN * 2, WIDTH - MARGIN * 2)
        if all(abs(x - box) >= HALF + SPACE for box in boxes)
        and all(abs(x - other) >= SPACE for other in taken)
    }


def nearest(places: set[int], source: float, target: float) -> float:
    """Return the place with the shortest way from source to target, close to both."""
    return min(
        places, key=lambda x: (abs(x - source) + abs(x - target), abs(2 * x - source - target), x)
    )


def port(name: str, arrows: list[Arrow], arrow: Arrow) -> float:
    """Return where an arrow meets its box: arrows are spread evenly, left to right."""
    step = min(24, (2 * HALF - 30) / max(1, len(arrows) - 1))
    return PLACES[name].x + (arrows.index(arrow) - (len(arrows) - 1) / 2) * step


def top(level: int) -> float:
    packages = (level > 0) + (level >= len(read_rows()) - 2)
    return TOP + PITCH * level + APART * packages


def bottom(level: int) -> float:
    return top(level) + BOX


# --- how it looks ---------------------------------------------------------------------------


def style() -> str:
    def colors(theme: dict[str, str], page: str, band: str, tint: str, words: str) -> str:
        return (
            f".page{{fill:{page}}}.band{{fill:{band};stroke:{tint}}}"
            f".paper{{fill:{page}}}.words{{fill:{words}}}.label{{fill:{words}}}"
            + "".join(
                f".{name} .box{{fill:{color};stroke:{color}}}.{name} .name{{fill:{color}}}"
                f".{name} .line{{stroke:{color}}}.{name} .head{{fill:{color}}}"
                for name, color in theme.items()
            )
        )

    return (
        "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}"
        ".name{font-size:14px;font-weight:600}.words{font-size:11.5px}"
        ".label{font-size:12px;font-weight:600;letter-spacing:.04em}"
        ".box{fill-opacity:.1;stroke-width:1.4}.line{fill:none;stroke-width:1.4;opacity:.75}"
        ".band{stroke-width:1}.rule{text-anchor:middle}"
        + colors(LIGHT, "#ffffff", "#f6f8fa", "#d8dee4", "#57606a")
        + "@media(prefers-color-scheme:dark){"
        + colors(DARK, "#0d1117", "#151b23", "#30363d", "#9198a1")
        + "}"
    )


def draw_bands(rows: list[list[str]]) -> Iterator[str]:
    """Draw the packages behind the rows they hold."""
    core = len(rows) - 3
    for label, first, last in [
        ("doors", 0, 0),
        ("zapomni_core: what it does", 1, core),
        ("zapomni_db: how it is stored", core + 1, core + 2),
    ]:
        y, end = top(first) - 30, bottom(last) + 16
        yield (
            f'<rect class="band" x="{MARGIN}" y="{y:g}" width="{WIDTH - 2 * MARGIN}" '
            f'height="{end - y:g}" rx="8"/>'
        )
        yield f'<text class="label" x="{MARGIN + 12}" y="{y + 19:g}">{label}</text>'


def draw_box(name: str, level: int) -> str:
    place = PLACES[name]
    shape = f'x="{place.x - HALF}" y="{top(level):g}" width="{2 * HALF}" height="{BOX}" rx="7"'
    return (
        f'<g class="{place.color}" text-anchor="middle"><rect class="paper" {shape}/>'
        f'<rect class="box" {shape}/>'
        f'<text class="name" x="{place.x}" y="{top(level) + 20:g}">{TITLES.get(name, name)}</text>'
        f'<text class="words" x="{place.x}" y="{top(level) + 36:g}">{escape(place.words)}</text>'
        "</g>"
    )


def draw_line(color: str, points: list[Point]) -> str:
    path = f"M{points[0].x:g} {points[0].y:g}"
    for here, there in pairwise([*points[:-1], Point(points[-1].x, points[-1].y - 6)]):
        if here.x == there.x:
            path += f"V{there.y:g}"
        else:
            middle = (here.y + there.y) / 2
            path += f"C{here.x:g} {middle:g} {there.x:g} {middle:g} {there.x:g} {there.y:g}"
    x, y = points[-1]
    head = f"M{x:g} {y:g}l-4 -8h8z"
    return f'<g class="{color}"><path class="line" d="{path}"/><path class="head" d="{head}"/></g>'


if __name__ == "__main__":
    main()

"""Draw the way of a memory and the way of a hook: `python -m tools.ways` writes two SVG files.

A step is a box with what happens and where; its words name the modules that do it, and a test
checks that they exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH, BOX, GAP, MARGIN = 760, 58, 26, 16


class Step(NamedTuple):
    """What happens, in which modules, and what it promises."""

    what: str
    where: str
    why: str


WAYS = {
    "way-of-a-memory": [
        Step(
            "zapomni add, or add_memory of an agent",
            "zapomni_cli, zapomni_mcp",
            "parsed and checked",
        ),
        Step(
            "secrets are named, or masked",
            "zapomni_core.shared.redaction",
            "by kind, never the value",
        ),
        Step(
            "split into passages",
            "zapomni_core.adapters.chunkers",
            "200 tokens, neighbors overlap",
        ),
        Step(
            "embedded",
            "zapomni_core.adapters.local_embedder",
            "on your processor; later, if there is no model",
        ),
        Step(
            "stored in one transaction",
            "zapomni_db.sqlite, zapomni_db.falkordb",
            "acknowledged when it is on disk",
        ),
        Step(
            "compared with what is alike",
            "zapomni_core.modules.memories",
            "what it may replace is named",
        ),
        Step("put into the digest", "zapomni_core.modules.memories", "hooks read only that"),
        Step(
            "found, and handed to the next session",
            "zapomni_core.workflows",
            "with evidence, and a row in the log",
        ),
    ],
    "way-of-a-hook": [
        Step(
            "the host runs zapomni record",
            "zapomni_cli.record",
            "standard library only; ends in time",
        ),
        Step(
            "host and event are recognized",
            "zapomni_core.modules.observations",
            "17 hosts, no model call",
        ),
        Step(
            "one observation is read out of it",
            "zapomni_core.modules.observations",
            "prompt, command, edit, answer, commit",
        ),
        Step(
            "the project is found",
            "zapomni_core.infra.projects",
            "nothing in a repository is run",
        ),
        Step(
            "secrets and private spans are masked",
            "zapomni_core.shared.redaction",
            "before anything is cut or written",
        ),
        Step(
            "stored, or put into the spool",
            "zapomni_db.sqlite",
            "a busy or damaged file never stops the agent",
        ),
        Step(
            "what helps now is printed",
            "zapomni_core.modules.observations",
            "at the start, with a prompt, after a failure",
        ),
    ],
}  # fmt: skip

STYLE = """\
<style>
  .box { fill: #f6f8fa; stroke: #57606a; }
  text { font-family: system-ui, sans-serif; fill: #24292f; }
  .what { font-size: 15px; font-weight: 600; }
  .where { font-size: 12px; font-family: ui-monospace, monospace; fill: #57606a; }
  .why { font-size: 13px; fill: #57606a; text-anchor: end; }
  .arrow { stroke: #57606a; stroke-width: 1.5; fill: none; }
  @media (prefers-color-scheme: dark) {
    .box { fill: #161b22; stroke: #8b949e; }
    text { fill: #e6edf3; }
    .where, .why { fill: #9da7b3; }
    .arrow { stroke: #8b949e; }
  }
</style>"""


def main() -> None:
    """Write both pictures."""
    for name in WAYS:
        (PICTURES / f"{name}.svg").write_text(draw(name), "utf-8")
        print(f"docs/pictures/{name}.svg")


def draw(name: str) -> str:
    """Return a way as SVG."""
    steps = WAYS[name]
    height = 2 * MARGIN + len(steps) * BOX + (len(steps) - 1) * GAP
    middle = WIDTH / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(name.replace('-', ' '))}</title>",
        STYLE,
    ]
    left, right, width = MARGIN + 16, WIDTH - MARGIN - 16, WIDTH - 2 * MARGIN
    for number, step in enumerate(steps, 1):
        top = MARGIN + (number - 1) * (BOX + GAP)
        parts += [
            f'<rect class="box" x="{MARGIN}" y="{top}" width="{width}" height="{BOX}" rx="8"/>',
            f'<text class="what" x="{left}" y="{top + 25}">{number}. {escape(step.what)}</text>',
            f'<text class="where" x="{left}" y="{top + 45}">{escape(step.where)}</text>',
            f'<text class="why" x="{right}" y="{top + 35}">{escape(step.why)}</text>',
        ]
        if number < len(steps):
            below, head = top + BOX, top + BOX + GAP
            parts.append(
                f'<path class="arrow" d="M{middle} {below} V{head - 2} m-5 -7 l5 7 l5 -7"/>'
            )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    main()

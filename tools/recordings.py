"""Draws what a terminal shows, from real output, as SVG: `python -m tools.recordings`.

Each picture is a command run on a terminal of 84 columns, in the throw-away home of `make ui-demo`.
"""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tools.ui_demo import environment, fill
from zapomni_core.settings import load_settings

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS = 84
RECORDINGS = {
    "terminal-search": ["search", "how do I undo a release", "--limit", "5"],
    "terminal-context": ["context"],
    "terminal-graph": ["graph", "show", "payments.py"],
    "terminal-next": [],
    "terminal-doctor": ["doctor"],
}
# As rich has it, without the font from elsewhere: a picture asks no server for anything.
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace;
  font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    """Draw every recording."""
    models = load_settings().models_path
    with tempfile.TemporaryDirectory(prefix="zapomni-recordings-") as name:
        home = Path(name) / ".zapomni"
        env = {**environment(home, models), "HOME": name, "TERM": "xterm", "COLUMNS": str(COLUMNS)}
        fill(Path(name), env)
        (Path(name) / ".claude").mkdir()
        env["PWD"] = str(Path(name) / "shop")
        for picture, words in RECORDINGS.items():
            shown = " ".join(f'"{word}"' if " " in word else word for word in ["zapomni", *words])
            console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
            console.print(Text(f"$ {shown}", style="bold green"))
            console.print(Text.from_ansi(_show(words, env).replace(name, "~").rstrip()))
            svg = console.export_svg(title="", theme=MONOKAI, code_format=FORMAT, unique_id=picture)
            (PICTURES / f"{picture}.svg").write_text(svg, "utf-8")
            print(f"docs/pictures/{picture}.svg")


def _show(words: list[str], env: dict[str, str]) -> str:
    """Run a command on a terminal and return all it shows."""
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", *words],
        env=env, cwd=env.get("PWD"), stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    parts = []
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(reader)
    process.wait()
    return b"".join(parts).decode().replace("\r\n", "\n")


if __name__ == "__main__":
    main()

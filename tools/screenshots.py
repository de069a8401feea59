"""Make the pictures of the page in docs again: `python -m tools.screenshots [FOLDER]`.

It needs a browser: ZAPOMNI_CHROMIUM, or chromium on the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import sync_playwright

from tools.ui_demo import ROOT, environment, fill
from zapomni_core.settings import load_settings

PICTURES = ROOT / "docs" / "pictures"
WIDE, NARROW = (1280, 720), (390, 720)


class Shot(NamedTuple):
    """A picture: its file, the address (names of memories in braces), and how it is looked at."""

    name: str
    address: str
    colors: Literal["light", "dark"] = "light"
    size: tuple[int, int] = WIDE
    opened: str = ""
    """What is unfolded first."""


QUESTION = "/search?q=why+is+money+stored+as+integer+cents"
# Few: each takes a hundred kilobytes of the repository.
SHOTS = (
    Shot("search", QUESTION, opened="details.why"),
    Shot("today", "/today"),
    Shot("memory", "/m/{decision-5}", "dark"),
    Shot("session", "/s/{session}"),
    Shot("graph", "/graph", "dark"),
    Shot("narrow", QUESTION, "dark", NARROW),
)


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    target.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("ZAPOMNI_CHROMIUM") or shutil.which("chromium")
    models = load_settings().models_path
    with tempfile.TemporaryDirectory(prefix="zapomni-ui-") as folder:
        environ = environment(Path(folder) / "home", models)
        ids = fill(Path(folder), environ)
        command = [sys.executable, "-m", "zapomni_cli", "ui", "--no-browser"]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as served:
            assert served.stdout is not None
            take(served.stdout.readline().strip(), ids, target, chromium)
            served.terminate()


def take(link: str, ids: dict[str, str], target: Path, chromium: str | None) -> None:
    base = link.partition("/login")[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        page = browser.new_page()
        page.goto(link)
        page.wait_for_selector("nav.side")
        for shot in SHOTS:
            width, height = shot.size
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=shot.colors, reduced_motion="reduce")
            page.goto(base + shot.address.format(**ids))
            if shot.opened:
                page.locator(shot.opened).first.evaluate("one => one.open = true")
            path = target / f"{shot.name}.png"
            page.screenshot(path=path)
            print(f"{path}  {path.stat().st_size / 1000:.0f} KB")
        browser.close()


if __name__ == "__main__":
    main()

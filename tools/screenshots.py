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

from playwright.sync_api import sync_playwright

from tools.ui_demo import ROOT, environment, fill
from zapomni_core.settings import load_settings

PICTURES = ROOT / "docs" / "pictures"
# Name, address (with the names of memories in braces), colors, and what is opened first.
SHOTS = (
    ("search", "/search?q=when+may+I+release", "light", "details.why"),
    ("memory", "/m/{decision-5}", "dark", ""),
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
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(link)
        page.wait_for_selector("nav.side")
        for name, address, colors, opened in SHOTS:
            page.emulate_media(color_scheme=colors, reduced_motion="reduce")
            for known, memory_id in ids.items():
                address = address.replace(f"{{{known}}}", memory_id)  # noqa: PLW2901
            page.goto(base + address)
            if opened:
                page.locator(opened).first.evaluate("one => one.open = true")
            page.screenshot(path=target / f"{name}.png")
            print(target / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()

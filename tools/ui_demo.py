"""Fill a throw-away home and open the page on it: `make ui-demo`, or `python -m tools.ui_demo`.

It has the notes of `zapomni demo`, a small repository, a graph, a session of an agent, and what
became of some of it since: an edit, a replacement, code that changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from zapomni_cli.demo import NOTES

ROOT = Path(__file__).parent.parent
SESSION = "5e551010-0000-4000-8000-000000000001"

CODE = '''\
"""Payments of the shop."""


def to_cents(amount: str) -> int:
    """Return an amount of money as integer cents."""
    whole, _, part = amount.partition(".")
    return int(whole) * 100 + int(part.ljust(2, "0")[:2])


def charge(order, gateway):
    """Charge an order once, however often it is asked for."""
    return gateway.pay(order.id, to_cents(order.total), key=f"order-{order.id}")
'''


def environment(home: Path, models: Path) -> dict[str, str]:
    """Return an environment in which commands use the throw-away home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")}
    return {
        **kept,
        "ZAPOMNI_HOME": str(home),
        "ZAPOMNI_MODELS_DIR": str(models),
        "ZAPOMNI_SHARE": "false",
    }


def fill(folder: Path, environ: dict[str, str]) -> dict[str, str]:
    """Fill the home; return the ids of a few memories by name."""
    shop = folder / "shop"
    shop.mkdir()
    (shop / "payments.py").write_text(CODE, encoding="utf-8")
    git = ["git", "-c", "user.name=Marta", "-c", "user.email=marta@example.com"]
    for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "Take payments"]):
        subprocess.run([*git, *args], cwd=shop, check=True)

    def zapomni(*args: str, given: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "zapomni_cli", *args],
            cwd=shop,
            env=environ,
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    zapomni("index", ".")
    day = datetime.now(UTC) - timedelta(days=160)
    ids: dict[str, str] = {}
    for number, (kind, text) in enumerate(NOTES):
        when = (day + timedelta(days=23 * number)).date().isoformat()
        options = ["--kind", kind, "--when", when, "--tag", kind]
        if "cents" in text:
            options += ["--cites", "payments.py:to_cents", "--pin"]
        ids[f"{kind}-{number}"] = zapomni("add", text, *options)
    guide = str(files("zapomni_cli") / "demo.md")
    ids["document"] = zapomni("add", "--file", guide, "--tag", "handbook")
    ids["old"] = zapomni(
        "add", "Releases are promoted on Fridays before 15:00.", "--when", "2026-03-02"
    )
    ids["new"] = zapomni(
        *("add", "We moved releases from Friday to Tuesday; Friday releases are forbidden."),
        *("--kind", "decision", "--supersedes", ids["old"], "--tag", "release"),
    )
    zapomni(
        *("update", ids["preference-2"], "--text"),
        "Marta wants small pull requests: one topic, under 200 changed lines, tests included.",
    )
    zapomni("add", "Use uv, not pip, in every project.", "--global", "--kind", "preference")
    zapomni("graph", "build")
    for event in _events(shop):
        zapomni("record", "--host", "claude-code", given=json.dumps(event))
    (shop / "payments.py").write_text(
        CODE.replace('part.ljust(2, "0")[:2]', 'part.ljust(2, "0")[:2] or 0'), encoding="utf-8"
    )
    return ids


def _events(shop: Path) -> list[dict[str, Any]]:
    base = {"session_id": SESSION, "cwd": str(shop), "transcript_path": "", "permission_mode": ""}

    def ran(command: str, output: str) -> dict[str, Any]:
        return {
            **base,
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_use_id": command,
            "tool_input": {"command": command},
            "tool_response": {"stdout": output, "stderr": "", "interrupted": False},
        }

    def edited(old: str, new: str) -> dict[str, Any]:
        path = str(shop / "payments.py")
        return {
            **base,
            "hook_event_name": "PostToolUse",
            "tool_name": "Edit",
            "tool_use_id": new,
            "tool_input": {"file_path": path, "old_string": old, "new_string": new},
            "tool_response": {"filePath": path},
        }

    return [
        {**base, "hook_event_name": "SessionStart", "source": "startup"},
        {
            **base,
            "hook_event_name": "UserPromptSubmit",
            "prompt": "A refund of 3 euros fails: amounts without cents raise an error. Fix it.",
        },
        ran("pytest -q tests/test_refund.py", "FAILED test_refund.py::test_whole - ValueError"),
        edited('part.ljust(2, "0")[:2]', 'part.ljust(2, "0")[:2] or 0'),
        ran("pytest -q tests/test_refund.py", "12 passed in 0.41s"),
        ran("git commit -am 'Accept amounts without cents'", "[main 4c1d9ab] Accept amounts"),
        {**base, "hook_event_name": "SessionEnd", "reason": "exit"},
    ]


def main() -> None:
    from zapomni_core.settings import load_settings

    models = load_settings().models_path
    with tempfile.TemporaryDirectory(prefix="zapomni-ui-") as folder:
        environ = environment(Path(folder) / "home", models)
        fill(Path(folder), environ)
        subprocess.run(
            [sys.executable, "-m", "zapomni_cli", "ui", *sys.argv[1:]], env=environ, check=False
        )


if __name__ == "__main__":
    main()

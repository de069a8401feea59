"""Fill a throw-away home and open the page on it: `make ui-demo`, or `python -m tools.ui_demo`.

It has the notes of `zapomni demo`, a small repository with its code and graph, six weeks of an
agent's sessions, and what became of some of it since: edits, replacements, code that changed.
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

import zapomni
from zapomni_cli.demo import NOTES

ROOT = Path(__file__).parent.parent
SESSION = "5e551010-0000-4000-8000-000000000001"

CODE = {
    "payments.py": '''\
"""Payments of the shop."""


def to_cents(amount: str) -> int:
    """Return an amount of money as integer cents."""
    whole, _, part = amount.partition(".")
    return int(whole) * 100 + int(part.ljust(2, "0")[:2])


def charge(order, gateway):
    """Charge an order once, however often it is asked for."""
    return gateway.pay(order.id, to_cents(order.total), key=f"order-{order.id}")
''',
    "refunds.py": '''\
"""Money that goes back."""

from payments import to_cents


def refund(order, gateway, amount: str):
    """Pay a part of an order back."""
    cents = to_cents(amount)
    if cents > to_cents(order.total):
        raise ValueError("more than was paid")
    return gateway.refund(order.id, cents)
''',
    "checkout.py": '''\
"""From the basket to an order."""

from payments import charge, to_cents

TAXES: dict[str, int] = {}


def total(basket, country: str) -> int:
    """Add the prices up, with the tax of a country, which is read once per request."""
    rate = TAXES.get(country, 0)
    return sum(to_cents(line.price) * (100 + rate) // 100 for line in basket)


def buy(basket, country: str, gateway):
    """Make an order of a basket and charge it."""
    order = basket.order(total(basket, country))
    charge(order, gateway)
    return order
''',
}
CHANGED = ('part.ljust(2, "0")[:2]', 'part.ljust(2, "0")[:2] or 0')

# Days ago, kind and text, in addition to the notes of `zapomni demo`.
MORE_NOTES = (
    (70, "fact", "Marta Novak leads the payments team. Jonas Weber works on the checkout."),
    (64, "decision", "The shop uses Redis for sessions; Redis runs on the proxy host."),
    (51, "fact", "Nightly backups of PostgreSQL are written to Hetzner by pgBackRest at 02:30."),
    (44, "decision", "Jonas Weber moved the checkout from Flask to FastAPI."),
    (33, "howto", "To roll back a release, run `make rollback TAG=v1.8.2`; it takes two minutes."),
    (
        27,
        "bug",
        "Stripe sends webhooks twice if we answer after 10 s. We store the id and skip it.",
    ),
    (15, "fact", "The staging database is rebuilt from production every Monday without names."),
    (9, "preference", "Jonas Weber wants errors of the checkout in English and German."),
)

# Days ago, what was asked, the file edited, and whether the tests failed first.
WORK = (
    (40, "Move the checkout from Flask to FastAPI, keep the tests green.", "checkout.py", True),
    (38, "Read the tax table once per request instead of once per line.", "checkout.py", False),
    (33, "Why is the staging checkout slow? Measure before you change anything.", "", False),
    (27, "Stripe delivers webhooks twice. Make charging safe against that.", "payments.py", True),
    (26, "Add a test that charges the same order twice.", "payments.py", False),
    (19, "Refunds of a part of an order: only up to what was paid.", "refunds.py", True),
    (13, "Quote every field in the nightly export.", "", False),
    (12, "Explain how total and to_cents round.", "", False),
    (6, "The refund test is flaky on CI. Find out why.", "refunds.py", True),
    (5, "Write the release notes of 1.9.", "", False),
    (2, "Use integer cents in the export, too.", "payments.py", False),
    (1, "Rename charge's argument gateway where it is a client.", "payments.py", True),
)


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
    """Fill the home; return the ids of a few memories, and of a session, by name."""
    shop = folder / "shop"
    shop.mkdir()
    for name, text in CODE.items():
        (shop / name).write_text(text, encoding="utf-8")
    git = ["git", "-c", "user.name=Marta", "-c", "user.email=marta@example.com"]
    for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "Take payments"]):
        subprocess.run([*git, *args], cwd=shop, check=True)

    def command(*args: str, given: str = "") -> None:
        subprocess.run(
            [sys.executable, "-m", "zapomni_cli", *args],
            cwd=shop,
            env=environ,
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )

    command("index", ".")
    _write_transcripts(folder / "transcripts", shop)
    command("import", "claude-code", "--path", str(folder / "transcripts"), "--yes")
    ids = _add_memories(shop, environ)
    command("graph", "build")
    for event in _events(shop):
        command("record", "--host", "claude-code", given=json.dumps(event))
    for question in ("which database", "how do I undo a release", "who reviews payments"):
        command("search", question)
    changed = CODE["payments.py"].replace(*CHANGED)
    (shop / "payments.py").write_text(changed, encoding="utf-8")
    command("backup")
    return ids


def _add_memories(shop: Path, environ: dict[str, str]) -> dict[str, str]:
    now = datetime.now(UTC)
    ids: dict[str, str] = {}
    home, models = environ["ZAPOMNI_HOME"], environ["ZAPOMNI_MODELS_DIR"]
    with zapomni.open_sync(home=Path(home), models_dir=Path(models)) as memory:

        def add(name: str, text: str, days: float, kind: str = "note", **more: Any) -> None:
            request = zapomni.AddMemoryRequest(
                text=text,
                kind=kind,
                folder=str(shop),
                occurred_at=now - timedelta(days=days),
                **more,
            )
            ids[name] = memory.add_memory(request).memory_id

        for number, (kind, text) in enumerate(NOTES):
            cites = {"cites": ["payments.py:to_cents"], "pinned": True} if "cents" in text else {}
            add(f"{kind}-{number}", text, 160 - 23 * number, kind, tags=[kind], **cites)
        for number, (days, kind, text) in enumerate(MORE_NOTES):
            add(f"more-{number}", text, days, kind, tags=[kind])
        guide = (files("zapomni_cli") / "demo.md").read_text(encoding="utf-8")
        add("document", guide, 80, "document", source="docs/handbook.md", tags=["handbook"])
        add("old", "Releases are promoted on Fridays before 15:00.", 120, tags=["release"])
        add(
            "new",
            "We moved releases from Friday to Tuesday; Friday releases are forbidden.",
            *(3, "decision"),
            tags=["release"],
            supersedes=ids["old"],
        )
        add("global", "Use uv, not pip, in every project.", 30, "preference", project="*")
        memory.update_memory(
            zapomni.UpdateMemoryRequest(
                memory_id=ids["preference-2"],
                text="Marta wants small pull requests: one topic, under 200 changed lines, tests "
                "included.",
            )
        )
    return {**ids, "session": SESSION}


class SessionFile:
    """A session as Claude Code writes it; each record is half a minute later than the last."""

    def __init__(self, session: str, shop: Path, began: datetime) -> None:
        self.session = session
        self.lines: list[str] = []
        self._shop = shop
        self._began = began

    def write(self, role: str, content: Any, response: Any = None) -> None:
        number = len(self.lines)
        record = {
            "type": role,
            "uuid": f"{self.session[-4:]}-{number}",
            "parentUuid": None,
            "sessionId": self.session,
            "timestamp": (self._began + timedelta(seconds=30 * number)).isoformat(),
            "cwd": str(self._shop),
            "gitBranch": "main",
            "version": "2.1.38",
            "isSidechain": False,
            "message": {"role": role, "content": content},
            "toolUseResult": response,
        }
        self.lines.append(json.dumps(record))

    def use(self, tool: str, given: dict[str, Any], output: str, response: Any) -> None:
        call = f"{self.session[-4:]}-call-{len(self.lines)}"
        asked = {"type": "tool_use", "id": call, "name": tool, "input": given}
        self.write("assistant", [asked])
        failed = isinstance(response, str)
        result = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
        self.write("user", [result], response)

    def run(self, line: str, output: str) -> None:
        answer = {"stdout": output, "stderr": "", "interrupted": False}
        failed = output.startswith("Exit code")
        self.use("Bash", {"command": line}, output, f"Error: {output}" if failed else answer)


def _write_transcripts(folder: Path, shop: Path) -> None:
    """Write sessions where `zapomni import` finds them."""
    folder.mkdir()
    for number, (days, asked, edited, failed) in enumerate(WORK):
        name = f"5e551011-0000-4000-8000-{number:012x}"
        began = datetime.now(UTC) - timedelta(days=days, hours=3 * (number % 3))
        made = SessionFile(name, shop, began)
        made.write("user", asked)
        source = str(shop / (edited or "checkout.py"))
        made.use("Read", {"file_path": source}, "1 ...", {"type": "text"})
        if failed:
            made.run(
                "pytest -q", f"Exit code 1\nFAILED test_{edited[:-3]}.py::test_it - ValueError"
            )
        if edited:
            change = {"file_path": source, "old_string": "rate", "new_string": "tax_rate"}
            made.use("Edit", change, "done", {"filePath": source})
            made.run("pytest -q", "31 passed in 1.12s")
            made.run(f"git commit -am '{asked.partition('.')[0]}'", f"[main {number:07x}] Done")
        made.write("assistant", [{"type": "text", "text": "Done; the tests pass."}])
        path = folder / f"{name}.jsonl"
        path.write_text("\n".join(made.lines) + "\n", encoding="utf-8")
        os.utime(path, (began.timestamp() + 600,) * 2)


def _events(shop: Path) -> list[dict[str, Any]]:
    base = {"session_id": SESSION, "cwd": str(shop), "transcript_path": "", "permission_mode": ""}

    def ran(line: str, output: str) -> dict[str, Any]:
        return {
            **base,
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_use_id": line,
            "tool_input": {"command": line},
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

    def asked(prompt: str) -> dict[str, Any]:
        return {**base, "hook_event_name": "UserPromptSubmit", "prompt": prompt}

    return [
        {**base, "hook_event_name": "SessionStart", "source": "startup"},
        asked("A refund of 3 euros fails: amounts without cents raise an error. Fix it."),
        {
            **base,
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "tool_use_id": "failed",
            "tool_input": {"command": "pytest -q tests/test_refund.py"},
            "error": "Exit code 1\nFAILED test_refund.py::test_whole - ValueError: ''",
            "is_interrupt": False,
        },
        edited(*CHANGED),
        ran("pytest -q tests/test_refund.py", "12 passed in 0.41s"),
        asked("Remember that amounts may come without cents, from the old app."),
        ran("git commit -am 'Accept amounts without cents'", "[main 4c1d9ab] Accept amounts"),
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

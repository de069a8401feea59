"""`zapomni demo`: remembers a developer's notes and recalls them, in a throw-away home."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import time
import uuid
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from pydantic import SecretStr

from zapomni_cli.observations import print_context
from zapomni_cli.options import examples
from zapomni_cli.output import count_of, one_line, wrap
from zapomni_cli.record import hook_command
from zapomni_cli.runtime import read_settings
from zapomni_core.adapters.storages import drop_graph
from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.settings import Settings

__all__ = ["demo"]

PASSAGE_CHARS = 200

# Kind and text, as a developer or an agent would write them down.
NOTES = (
    (
        "decision",
        (
            "We chose PostgreSQL over MongoDB for the shop because orders, payments and stock "
            "must change in one transaction."
        ),
    ),
    (
        "bug",
        (
            "Checkout was slow because the tax table was read once per basket line. Fixed by "
            "reading it once per request; the page went from 4 s to 300 ms."
        ),
    ),
    (
        "preference",
        "Marta wants small pull requests: one topic, under 300 changed lines, tests included.",
    ),
    (
        "howto",
        (
            "To renew the TLS certificate: run `certbot renew` on the proxy, then reload nginx. "
            "The job that should do it failed twice in spring."
        ),
    ),
    (
        "bug",
        (
            "The nightly export broke because a customer's name contained a semicolon. The CSV "
            "writer now quotes every field."
        ),
    ),
    (
        "decision",
        ("Money is stored as integer cents. Floats lost a cent in one refund out of a thousand."),
    ),
)

# In other words than the notes use.
QUESTIONS = (
    "why did we pick a relational database?",
    "what made paying sluggish?",
    "how does the reviewer like changes to be sent?",
    "the https certificate has expired, what do I do?",
    "a new version is broken, how do we undo it?",
)

# What an agent did yesterday, as Claude Code's hooks report it.
SESSION = "5e551000-0000-4000-8000-000000000001"
WORK: tuple[dict[str, Any], ...] = (
    {
        "hook_event_name": "UserPromptSubmit",
        "prompt": "Some refunds are one cent short. Find out why and fix it.",
    },
    {
        "hook_event_name": "PostToolUse",
        "tool_name": "Edit",
        "tool_input": {
            "file_path": "src/refunds.py",
            "old_string": "return sum(round(line.price * rate) for line in lines)",
            "new_string": "return round(sum(line.price for line in lines) * rate)",
        },
        "tool_response": {"filePath": "src/refunds.py"},
    },
    {
        "hook_event_name": "PostToolUseFailure",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest tests/test_refunds.py"},
        "error": "Exit code 1\nFAILED tests/test_refunds.py::test_partial_refund - 1998 != 1999",
        "is_interrupt": False,
    },
    {
        "hook_event_name": "Stop",
        "last_assistant_message": (
            "Tax was rounded per line of an order; it is rounded once per order now. Whole refunds "
            "are right. test_partial_refund still fails by a cent: it needs the same change."
        ),
    },
)

NEXT = """\
Connect the agents on this machine, and their next session knows what you store:

  COMMAND init
  COMMAND add "We deploy on Tuesdays; Friday deploys are forbidden."

COMMAND without anything after it says what to do next; COMMAND --help shows the rest."""


@click.command(epilog=examples("zapomni demo"))
def demo() -> None:
    """Watch Zapomni remember and recall.

    Stores a few notes and a document in a temporary folder, or in a temporary graph if
    ZAPOMNI_STORAGE names a FalkorDB server; asks questions in other words and shows what it
    finds; and lets an agent's session there be recorded, to show what the next one is given. Your
    own memories are not touched.
    """
    with tempfile.TemporaryDirectory(prefix="zapomni-demo-") as folder:
        shop = Path(folder) / "shop"
        asyncio.run(_run(_throw_away(read_settings(), Path(folder) / "home"), shop))
    # Not every install is on the PATH.
    scripts = Path(sysconfig.get_path("scripts"))
    command = "zapomni" if shutil.which("zapomni") else str(scripts / "zapomni")
    click.echo(NEXT.replace("COMMAND", command))


def _throw_away(real: Settings, folder: Path) -> Settings:
    storage = ""
    if real.server is not None:
        storage = replace(real.server, graph=f"zapomni-demo-{uuid.uuid4()}").url()
    update = {"home": folder, "storage": SecretStr(storage), "models_dir": real.models_path}
    return real.model_copy(update=update)


async def _run(settings: Settings, shop: Path) -> None:
    _make_shop(shop)
    async with await create_engine(settings) as engine:
        try:
            await _remember(engine, shop)
            for question in QUESTIONS:
                await _ask(engine, question)
            await asyncio.to_thread(_work, settings, shop)
            await _start_session(engine)
        finally:
            if settings.server is not None:
                await drop_graph(engine.storage)


def _make_shop(shop: Path) -> None:
    source = shop / "src" / "refunds.py"
    source.parent.mkdir(parents=True)
    source.write_text("def refund(lines, rate): ...\n", "utf-8")
    if git := shutil.which("git"):
        subprocess.run(  # noqa: S603 - the user's own git, in our folder
            [git, "init", "--quiet", shop], check=False, capture_output=True
        )


async def _remember(engine: ZapomniEngine, shop: Path) -> None:
    document = (files("zapomni_cli") / "demo.md").read_text(encoding="utf-8")
    here = {"folder": str(shop)}
    requests = [AddMemoryRequest(text=text, kind=kind, **here) for kind, text in NOTES]
    requests.append(AddMemoryRequest(text=document, kind="document", source="demo.md", **here))
    started = time.perf_counter()
    responses = await engine.add_memories(requests)
    passages = count_of(sum(response.chunks_created for response in responses), "passage")
    _title(f"Stored {len(NOTES)} notes and a document ({passages}) in {_ms(started)}.")
    for kind, text in NOTES:
        _line(kind, text)
    _line("document", document.splitlines()[0].removeprefix("# "))
    if notice := responses[0].notice:
        click.echo(f"\n{notice}")
    click.echo()


async def _ask(engine: ZapomniEngine, question: str) -> None:
    started = time.perf_counter()
    answer = await engine.search_memory(SearchRequest(query=question, limit=1))
    _title(f"? {question}  ({_ms(started)})")
    for hit in answer.results:
        _line(hit.kind, hit.text)
    if not answer.results:
        click.echo("  nothing: these words are in no note, and there is no model for meaning")
    click.echo()


def _work(settings: Settings, shop: Path) -> None:
    """Send the events of a session through the hook, as a host does."""
    _title("An agent works here; its hooks record that, without any model call:")
    env = {**os.environ, "ZAPOMNI_HOME": str(settings.home)}
    printed = []
    for number, event in enumerate(WORK):
        about = {"session_id": SESSION, "cwd": str(shop), "tool_use_id": f"call-{number}"}
        given = json.dumps({**about, **event}).replace("src/refunds.py", f"{shop}/src/refunds.py")
        done = subprocess.run(  # noqa: S603 - our own hook
            hook_command("claude-code"),
            input=given.encode(),
            env=env,
            stdout=subprocess.PIPE,
            check=False,
            timeout=60,
        )
        printed.append(done.stdout.decode())
    _line("asked", WORK[0]["prompt"])
    for recalled in re.findall(r"\): (.+?)(?=\\n)", printed[0]):
        _line("recalled", recalled)
    _line("edited", WORK[1]["tool_input"]["file_path"])
    _line("failed", WORK[2]["tool_input"]["command"])
    _line("answered", WORK[3]["last_assistant_message"])
    click.echo()


async def _start_session(engine: ZapomniEngine) -> None:
    _title("Before you type a word, its next session is given this:")
    context = await engine.observations.context("startup", "shop")
    click.echo()
    print_context(context.lines)


def _line(word: str, text: str) -> None:
    click.echo(wrap(one_line(text, PASSAGE_CHARS), f"  {word:<10}  ", always=True))


def _title(text: str) -> None:
    click.echo(click.style(text, bold=True))


def _ms(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.0f} ms"

"""`zapomni demo`: remembers a developer's notes and recalls them, in a throw-away home."""

from __future__ import annotations

import asyncio
import shutil
import sysconfig
import tempfile
import time
import uuid
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import click
from pydantic import SecretStr

from zapomni_cli.options import examples
from zapomni_cli.output import count_of, one_line
from zapomni_cli.runtime import read_settings
from zapomni_core.adapters.storages import drop_graph
from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.settings import Settings

__all__ = ["demo"]

PASSAGE_CHARS = 160

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

CONNECT = """\
Connect your agent:

  Claude Code   claude mcp add --scope user zapomni -- COMMAND serve
  Codex         codex mcp add zapomni -- COMMAND serve
  Gemini CLI    gemini mcp add --scope user zapomni COMMAND serve
  Cursor        put this into ~/.cursor/mcp.json:
                {"mcpServers": {"zapomni": {"command": "COMMAND", "args": ["serve"]}}}

Then say to it: "Remember that we deploy on Tuesdays." In the next session ask it when you deploy.
On the command line: `COMMAND add`, `COMMAND search`; `COMMAND --help` shows the rest."""


@click.command(epilog=examples("zapomni demo"))
def demo() -> None:
    """Watch Zapomni remember and recall.

    Stores a few notes and a document in a temporary folder, or in a temporary graph if
    ZAPOMNI_STORAGE names a FalkorDB server; asks questions in other words and shows what it
    finds. Your own memories are not touched.
    """
    with tempfile.TemporaryDirectory(prefix="zapomni-demo-") as folder:
        asyncio.run(_run(_throw_away(read_settings(), Path(folder))))
    # Not every install is on the PATH.
    scripts = Path(sysconfig.get_path("scripts"))
    command = "zapomni" if shutil.which("zapomni") else str(scripts / "zapomni")
    click.echo(CONNECT.replace("COMMAND", command))


def _throw_away(real: Settings, folder: Path) -> Settings:
    storage = ""
    if real.server is not None:
        storage = replace(real.server, graph=f"zapomni-demo-{uuid.uuid4()}").url()
    update = {"home": folder, "storage": SecretStr(storage), "models_dir": real.models_path}
    return real.model_copy(update=update)


async def _run(settings: Settings) -> None:
    async with await create_engine(settings) as engine:
        try:
            await _remember(engine)
            for question in QUESTIONS:
                started = time.perf_counter()
                answer = await engine.search_memory(SearchRequest(query=question, limit=2))
                _title(f"? {question}  ({_ms(started)})")
                for hit in answer.results:
                    click.echo(
                        f"  {hit.score:.2f}  {hit.kind:<10}  {one_line(hit.text, PASSAGE_CHARS)}"
                    )
                if not answer.results:
                    click.echo(
                        "  nothing: these words are in no note, and there is no model for meaning"
                    )
                click.echo()
        finally:
            if settings.server is not None:
                await drop_graph(engine.storage)


async def _remember(engine: ZapomniEngine) -> None:
    document = (files("zapomni_cli") / "demo.md").read_text(encoding="utf-8")
    requests = [AddMemoryRequest(text=text, kind=kind, project="shop") for kind, text in NOTES]
    requests.append(
        AddMemoryRequest(text=document, kind="document", project="shop", source="demo.md")
    )
    started = time.perf_counter()
    responses = await engine.add_memories(requests)
    passages = count_of(sum(response.chunks_created for response in responses), "passage")
    _title(f"Kept {len(NOTES)} notes and a document ({passages}) in {_ms(started)}.")
    for kind, text in NOTES:
        click.echo(f"  {kind:<10}  {one_line(text, 86)}")
    click.echo(f"  {'document':<10}  {document.splitlines()[0].removeprefix('# ')}")
    if notice := responses[0].notice:
        click.echo(f"\n{notice}")
    click.echo()


def _title(text: str) -> None:
    click.echo(click.style(text, bold=True))


def _ms(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.0f} ms"

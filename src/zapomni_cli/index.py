"""`zapomni index`: indexes a repository and keeps the index up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, one_line, print_json
from zapomni_cli.runtime import with_engine
from zapomni_cli.tasks import background_option, carry_out, print_queued
from zapomni_core.engine import ZapomniEngine
from zapomni_core.modules.codebase import IndexRequest
from zapomni_core.shared.folders import is_home
from zapomni_db.models import TaskStatus

__all__ = ["index"]


@click.command(
    epilog=examples(
        "zapomni index",
        "zapomni index ~/src/shop --watch",
        "zapomni index ~/src/shop --background",
        'zapomni code search "where is the token checked"',
    )
)
@click.argument("path", default=".")
@click.option("--watch", is_flag=True, help="Continue, and follow edits until Ctrl-C.")
@click.option("--yes", is_flag=True, help="Do not ask, even if it is the home folder.")
@background_option
@json_option
def index(path: str, *, watch: bool, yes: bool, background: bool, as_json: bool) -> None:
    """Index a repository: to find code, and to cite it.

    PATH is the repository's folder, by default the current one. Run it again after changes: only
    files that changed are read. What .gitignore or .zapomniignore names is left out, and so are
    binaries, vendored and generated code, and files that hold secrets. Nothing is written into
    the folder. `zapomni code` shows what was read.
    """
    if watch and background:
        raise click.UsageError("--watch stays here; leave out --background.")
    _confirm(path, yes=yes)
    request = IndexRequest(path=path, folder=str(Path.cwd()), confirmed=True)

    async def submit(engine: ZapomniEngine) -> str:
        return await engine.code.index(request)

    status = carry_out(submit, "Reading files", background=background)
    if background:
        print_json(status.model_dump(mode="json")) if as_json else print_queued(status)
    else:
        _print_indexed(status, as_json=as_json, as_line=watch)
        if watch:
            with_engine(lambda engine: _follow(engine, request, status, as_json=as_json))


def _confirm(path: str, *, yes: bool) -> None:
    if yes or not is_home(path):
        return
    if not sys.stdin.isatty():
        raise click.UsageError(
            "This is the home folder or holds it. Name a repository, or say --yes to index all."
        )
    click.confirm("This is your home folder or holds it. Index everything in it?", abort=True)


async def _follow(
    engine: ZapomniEngine, request: IndexRequest, first: TaskStatus, *, as_json: bool
) -> None:
    click.echo("Following edits; Ctrl-C ends it.", err=True)
    async for _ in engine.code.watch(first.result["root"]):
        task_id = await engine.code.index(request)
        status = await engine.tasks.run_task(task_id, lambda _: None)
        if status.status != "completed":
            click.echo(status.error or "The task was cancelled.", err=True)
        elif any(status.result[name] for name in _CHANGED):
            _print_indexed(status, as_json=as_json, as_line=True)


_CHANGED = {"added": "new", "changed": "changed", "moved": "moved", "removed": "gone"}


def _print_indexed(status: TaskStatus, *, as_json: bool, as_line: bool) -> None:
    if as_json and as_line:
        # One document a line, for a program that reads while it runs.
        click.echo(json.dumps(status.model_dump(mode="json"), ensure_ascii=False))
        return
    if as_json:
        print_json(status.model_dump(mode="json"))
        return
    done = status.result
    counts = [f"{done[name]} {word}" for name, word in _CHANGED.items() if done[name]]
    files = sum(done[name] for name in ("added", "changed", "moved", "unchanged"))
    words = ", ".join([count_of(files, "file"), *(counts or ["nothing changed"])])
    lines = count_of(done["lines_read"], "line")
    click.echo(f"{one_line(Path(done['root']).name)}: {words}; {lines} read.")
    if done["skipped"]:
        left = ", ".join(f"{reason} ({count})" for reason, count in done["skipped"].items())
        click.echo(f"Left out: {left}.", err=True)
    if not done["complete"]:
        click.echo("A limit was reached: the files beyond it were left out.", err=True)
    if done["notice"]:
        click.echo(done["notice"], err=True)

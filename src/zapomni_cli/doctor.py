"""`zapomni doctor`: proves the whole loop, and has a remedy for whatever fails."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import stat
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, is_terminal, one_line, print_json, print_table
from zapomni_cli.reading import citation_line
from zapomni_cli.runtime import read_settings, with_engine, with_observations
from zapomni_cli.upkeep import read_shared_process
from zapomni_core.adapters.embedders import build_cache, build_embedders
from zapomni_core.adapters.model_files import MODEL, verify_model
from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.exceptions import ConfigurationError, ZapomniError
from zapomni_core.infra.error_messages import sanitize_error_for_user
from zapomni_core.infra.locations import observations_path
from zapomni_core.infra.sharing import ShareKey
from zapomni_core.infra.synced_folders import find_syncing_program
from zapomni_core.interfaces import AddMemoryRequest, ModelEmbedder, SearchRequest
from zapomni_core.modules.codebase import StaleMemory
from zapomni_core.modules.memories import ask_cache
from zapomni_core.modules.observations import SPOOL_FOLDER, spool_state
from zapomni_core.settings import Settings
from zapomni_core.workflows.repair import (
    RepairReport,
    RepairSource,
    find_database_damage,
    repair,
)
from zapomni_db.models import EmbeddingSpace

__all__ = ["CheckResult", "check_everything", "doctor"]

ENOUGH_SPACE = 200_000_000
PROBE_PROJECT = "zapomni-doctor"
PREVIEW_CHARS = 80
REPAIR = (
    "Run `zapomni doctor --repair`: it restores a backup or saves what can be read, and keeps the "
    "damaged file."
)
PULL = "Run `zapomni models pull`. Until then search works by words only."


@dataclass(frozen=True)
class CheckResult:
    """One check: how it went, what was found, and what to do if it failed."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    detail: str = ""
    fix: str = ""


@click.command(
    epilog=examples(
        "zapomni doctor",
        "zapomni doctor --json",
        "zapomni doctor --repair",
        "zapomni doctor --memories",
    )
)
@click.option(
    "--memories", is_flag=True, help="List the memories whose code is not as it was, instead."
)
@click.option(
    "--repair", "wants_repair", is_flag=True, help="Repair a damaged database, without asking."
)
@click.option(
    "--from",
    "source",
    type=click.Choice(["auto", "backup", "salvage"]),
    default="auto",
    show_default=True,
    help="What to repair from; auto takes what has more.",
)
@json_option
def doctor(*, memories: bool, wants_repair: bool, source: RepairSource, as_json: bool) -> None:
    """Prove that Zapomni works, or say what to fix.

    Adds a probe memory, finds it, reads it and deletes it again; checks the database, the
    model, the files and the versions. Exits with 1 if anything failed.

    A damaged database is repaired with --repair, or after a question on a terminal: from the newest
    backup that is whole, or table by table from what can still be read, whichever has more. The
    damaged file is kept, and events that waited in the spool are stored.

    With --memories it lists the memories that cite code which has changed, moved or gone, instead;
    in a pipe each line is: id, what is cited and what became of it, beginning of the text.
    """
    if memories:
        stale = with_engine(lambda engine: engine.citations.list_stale())
        if as_json:
            print_json([memory.model_dump(mode="json") for memory in stale])
            return
        if not stale:
            click.echo("Every memory that cites code is fresh.", err=True)
        print_table(_stale_row(memory) for memory in stale)
        return
    if wants_repair:
        _repair(source, as_json=as_json)
        return
    results = asyncio.run(_collect())
    failed = [result for result in results if result.status == "failed"]
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(result) for result in results]})
    else:
        for result in results:
            color = {"ok": "green", "failed": "red"}.get(result.status, "yellow")
            word = click.style(f"{result.status:<7}", fg=color)
            click.echo(f"{word}  {result.name:<16}  {result.detail}".rstrip())
            if result.fix:
                click.echo(f"{'':27}{result.fix}")
        click.echo()
        click.echo(f"{len(failed)} of {len(results)} checks failed." if failed else "All is well.")
    asked = not as_json and sys.stdin.isatty() and is_terminal()
    damaged = any(result.fix == REPAIR for result in failed)
    if asked and damaged and click.confirm("Repair the database now?", err=True):
        _repair(source, as_json=False)
        return
    if failed:
        click.get_current_context().exit(1)


def _repair(source: RepairSource, *, as_json: bool) -> None:
    settings = read_settings()
    report = asyncio.run(repair(settings, source))
    drained = 0
    if report.action != "nothing":
        drained = with_observations(lambda observations: observations.drain_spool(), settings)
    if as_json:
        paths = {
            name: value and str(value)
            for name, value in (("backup", report.backup), ("kept", report.kept))
        }
        print_json({**asdict(report), **paths, "drained": drained})
    else:
        _print_repair(report, drained)
    if report.problems:
        click.get_current_context().exit(1)


def _print_repair(report: RepairReport, drained: int) -> None:
    if report.action == "nothing":
        click.echo("The database is not damaged; nothing was changed.")
        return
    for problem in report.damage:
        click.echo(f"Damage: {problem}.")
    if report.backup is not None:
        click.echo(f"Restored the backup {report.backup.name}.")
    elif report.action == "salvaged":
        click.echo("Saved what could be read, table by table.")
    else:
        click.echo("Made the indexes again; no row was lost.")
    for table, count in report.tables.items():
        lost = report.lost.get(table, 0)
        gone = "unknown how many lost" if lost is None else f"{lost} lost"
        if count or lost != 0:
            click.echo(f"  {table}: {count} rows" + (f", {gone}" if lost != 0 else ""))
    if report.altered:
        texts = count_of(report.altered, "memory has", "memories have")
        click.echo(f"{texts} a text that is not the one stored: bytes were overwritten.")
    if drained:
        click.echo(f"Stored {count_of(drained, 'event')} that waited in the spool.")
    if report.kept is not None:
        click.echo(f"The damaged file is kept: {report.kept}", err=True)
    click.echo("Start agents that are running again.", err=True)
    for name, problem in report.problems.items():
        click.echo(f"{name}: {problem}", err=True)


def _stale_row(memory: StaleMemory) -> tuple[str, ...]:
    text = one_line(memory.preview, PREVIEW_CHARS)
    cited = [citation_line(one) for one in memory.citations]
    if is_terminal():
        # One column, so that no id is cut.
        return ("\n".join([text, memory.memory_id, *(f"cites {line}" for line in cited)]),)
    return memory.memory_id, "; ".join(cited), text


async def _collect() -> list[CheckResult]:
    try:
        settings = read_settings()
    except ConfigurationError as error:
        fix = "Correct the environment variable or config.toml."
        return [CheckResult("settings", "failed", error.message, fix)]
    return [result async for result in check_everything(settings)]


async def check_everything(settings: Settings) -> AsyncIterator[CheckResult]:
    """Run every check that can be run, cheapest first."""
    yield _check_versions()
    yield _check_space(settings)
    yield _check_place(settings)
    yield _check_spool(settings)
    yield _check_shared_process()
    try:
        engine = await create_engine(settings)
    except ZapomniError as error:
        yield await _closed_database(settings, error)
        return
    async with engine:
        where = "" if settings.server is None else f"{settings.server} "
        yield CheckResult("database", "ok", f"{where}opens, and its version fits")
        yield _check_modes(settings)
        integrity = await _check_integrity(engine, settings)
        yield integrity
        yield _check_model(settings)
        yield await _check_embedder(settings)
        yield await _check_cache(settings)
        if integrity.status == "ok":
            yield await _check_loop(engine)
            yield await _check_digest(engine)
        else:
            yield CheckResult("probe memory", "skipped", "nothing is written to a damaged database")
        yield await _check_pending(engine, settings)


def _failure(name: str, error: ZapomniError) -> CheckResult:
    shown = sanitize_error_for_user(error, error.correlation_id)
    detail = f"{shown['error']} ({shown['error_code']})"
    return CheckResult(name, "failed", detail, shown["suggested_action"])


async def _closed_database(settings: Settings, error: ZapomniError) -> CheckResult:
    result = _failure("database", error)
    if error.error_code == "SCHEMA_004" and (damage := await find_database_damage(settings)):
        return CheckResult("database", "failed", "; ".join(damage.problems), REPAIR)
    if error.error_code not in ("CONN_001", "CONN_002") or settings.server is None:
        return result
    fix = "Check that the server runs and that ZAPOMNI_STORAGE names it."
    return replace(result, detail=f"{settings.server}: {error.message}", fix=fix)


def _check_versions() -> CheckResult:
    found = (
        f"zapomni {version('zapomni')}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}"
    )
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        fix = "Use a Python whose SQLite has FTS5, such as the one from python.org."
        return CheckResult("versions", "failed", f"{found} without FTS5", fix)
    finally:
        connection.close()
    return CheckResult("versions", "ok", found)


def _check_space(settings: Settings) -> CheckResult:
    folder = observations_path(settings).parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < ENOUGH_SPACE:
        fix = "Free some space, or move the folder and set ZAPOMNI_HOME."
        return CheckResult("disk space", "failed", detail, fix)
    return CheckResult("disk space", "ok", detail)


def _check_place(settings: Settings) -> CheckResult:
    """Check that no program copies the open database to other machines."""
    for folder in dict.fromkeys((settings.home, observations_path(settings).parent)):
        if program := find_syncing_program(folder):
            fix = (
                f"A database that {program} copies while it is written is damaged sooner or later. "
                "Move the folder and set ZAPOMNI_HOME; to share memories, use `zapomni sync`."
            )
            return CheckResult("place", "failed", f"the folder is synced by {program}", fix)
    return CheckResult("place", "ok", "no program syncs the folder")


def _check_spool(settings: Settings) -> CheckResult:
    """Check that what hooks captured has reached the database."""
    state = spool_state(str(settings.home))
    detail = f"{count_of(state['waiting'], 'event')} waiting"
    folder = settings.home / SPOOL_FOLDER
    if state["dropped"]:
        detail += f", {state['dropped']} dropped because it was full"
        fix = f"What waits is stored once the database works; then delete {folder}/dropped."
        return CheckResult("spool", "failed", detail, fix)
    if state["bad"]:
        detail += f", {state['bad']} put aside because no database takes them"
        fix = f"Capture continues without them; read and delete what is in {folder}/bad."
        return CheckResult("spool", "failed", detail, fix)
    return CheckResult("spool", "ok", detail)


def _check_shared_process() -> CheckResult:
    """Check that the process that agents share answers."""
    state = read_shared_process()
    if not state.is_silent:
        return CheckResult("shared process", "ok", state.words)
    pattern = f"zapomni_mcp.shared_process {ShareKey(os.environ).folder()}/"
    fix = (
        f'Run: pkill -KILL -f "{pattern}". Nothing stored is lost; the next agent starts another '
        "one. Until then new agents are served without it."
    )
    return CheckResult("shared process", "failed", state.words, fix)


def _check_modes(settings: Settings) -> CheckResult:
    """Check that no other user of this machine can read the memories."""
    if os.name != "posix":
        return CheckResult("file modes", "skipped", "not a POSIX system")
    if settings.allow_open_home:
        return CheckResult("file modes", "skipped", "ZAPOMNI_ALLOW_OPEN_HOME accepts them")
    open_to_others = [
        path for path in _private_paths(settings) if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if open_to_others:
        fix = f"chmod -R go-rwx '{observations_path(settings).parent}'"
        return CheckResult("file modes", "failed", "others may read your memories", fix)
    return CheckResult("file modes", "ok", "only you can read your memories")


def _private_paths(settings: Settings) -> Iterator[Path]:
    database = observations_path(settings)
    parts = (database, Path(f"{database}-wal"), Path(f"{database}-shm"))
    # A folder the user chose may hold other things and be open for a reason.
    folders = (settings.home,) if database.parent == settings.home else ()
    for path in (*folders, *parts, settings.local_server_folder):
        if path.exists():
            yield path


async def _check_digest(engine: ZapomniEngine) -> CheckResult:
    """Bring what hooks read of memories up to date."""
    try:
        count = await engine.memories.digest.rebuild()
    except ZapomniError as error:
        return _failure("digest", error)
    memories = count_of(count, "memory", "memories")
    return CheckResult("digest", "ok", f"{memories} may be given to new sessions")


async def _check_integrity(engine: ZapomniEngine, settings: Settings) -> CheckResult:
    try:
        problems = await engine.storage.check_integrity()
    except ZapomniError as error:
        result = _failure("integrity", error)
        if error.error_code == "SCHEMA_004" and (damage := await find_database_damage(settings)):
            return replace(result, detail="; ".join(damage.problems), fix=REPAIR)
        return result
    if problems:
        detail = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        if settings.server is None and (damage := await find_database_damage(settings)):
            return CheckResult("integrity", "failed", "; ".join(damage.problems), REPAIR)
        fix = "Restore a backup of the database, or report this with the line above."
        return CheckResult("integrity", "failed", detail, fix)
    return CheckResult("integrity", "ok", "the database is sound")


def _check_model(settings: Settings) -> CheckResult:
    if settings.embedder != "local":
        return CheckResult("model files", "skipped", f"the embedder is {settings.embedder}")
    wrong = {n: state for n, state in verify_model(settings.models_path).items() if state != "ok"}
    if wrong:
        detail = "; ".join(f"{name} is {state}" for name, state in wrong.items())
        return CheckResult("model files", "failed", detail, PULL)
    return CheckResult("model files", "ok", f"{MODEL}, every byte checked")


async def _check_embedder(settings: Settings) -> CheckResult:
    embedders: list[ModelEmbedder] = []
    try:
        embedders = build_embedders(settings)
        if not embedders:
            return CheckResult("embedder", "skipped", "none: search works by words only")
        vector = await embedders[0].embed_query("Does it answer?")
        space = await embedders[0].space()
    except ZapomniError as error:
        return _failure("embedder", error)
    finally:
        for embedder in embedders:
            await embedder.close()
    detail = f"{embedders[0].name} answers: {space.model}, {len(vector)} dimensions"
    return CheckResult("embedder", "ok", detail)


async def _check_cache(settings: Settings) -> CheckResult:
    """Ask the cache a question: no other call would show that it is dead."""
    cache = build_cache(settings)
    if cache is None:
        return CheckResult("cache", "skipped", "none is configured")
    try:
        question = cache.get(EmbeddingSpace(model="doctor", dimension=1), ["Does it answer?"])
        await ask_cache(question)
    except ZapomniError as error:
        fix = "Check that the Redis runs and that ZAPOMNI_CACHE names it. Nothing is lost."
        return CheckResult("cache", "failed", f"{error.message} ({error.error_code})", fix)
    finally:
        await cache.close()
    return CheckResult("cache", "ok", "the Redis answers")


async def _check_loop(engine: ZapomniEngine) -> CheckResult:
    """Add, find, read and delete a probe memory."""
    name, token = "probe memory", uuid.uuid4().hex
    request = AddMemoryRequest(text=f"A probe of the doctor: {token}.", project=PROBE_PROJECT)
    memory_id = ""
    try:
        memory_id = (await engine.add_memory(request)).memory_id
        query = SearchRequest(query=token, filters={"project": PROBE_PROJECT})
        found = await engine.search_memory(query)
        record = await engine.memories.get(memory_id)
        await engine.memories.delete(memory_id)
    except ZapomniError as error:
        if memory_id:
            with suppress(ZapomniError):
                await engine.memories.delete(memory_id)
        return _failure(name, error)
    if record.text != request.text or memory_id not in [hit.memory_id for hit in found.results]:
        fix = "Report this: what was stored did not come back."
        return CheckResult(name, "failed", "kept, but not found or not the same", fix)
    return CheckResult(name, "ok", "kept, found, read and deleted")


async def _check_pending(engine: ZapomniEngine, settings: Settings) -> CheckResult:
    try:
        stats = await engine.memories.get_stats()
    except ZapomniError as error:
        return _failure("vectors", error)
    if settings.embedder == "none":
        return CheckResult("vectors", "skipped", "the embedder is none")
    if stats.notice:
        fix = "Run `zapomni models reembed`, or set ZAPOMNI_EMBEDDER back."
        return CheckResult("vectors", "failed", f"{stats.notice} (EMB_005)", fix)
    if pending := stats.pending_vectors:
        detail = f"{pending} passages are found by words only"
        return CheckResult("vectors", "failed", detail, "Run `zapomni models reembed`.")
    return CheckResult("vectors", "ok", "every passage has one")

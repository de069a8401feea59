"""Commands about the store as a whole: serve, status, stats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import day, is_terminal, print_json, print_pairs, print_table
from zapomni_core.settings import Settings, explain_settings, load_settings

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_db.models import MemoryStats

__all__ = ["serve", "stats", "status"]


@click.command(
    epilog=examples(
        "claude mcp add --scope user zapomni -- zapomni serve",
        "codex mcp add zapomni -- zapomni serve",
        "zapomni serve --tools all",
        "zapomni serve --no-share",
    )
)
@click.option(
    "--tools",
    type=click.Choice(["default", "all"]),
    default="default",
    show_default=True,
    help="Which tools the agent is shown: the usual ones, or also those rarely needed.",
)
@click.option(
    "--no-share",
    is_flag=True,
    help="Load the engine in this process instead of sharing one with other agents.",
)
def serve(tools: str, *, no_share: bool) -> None:
    """Serve an agent over MCP.

    Speaks the Model Context Protocol on standard input and output until the agent closes
    them. Your agent starts this command itself; `zapomni init` connects it.

    Agents share one process with the engine and the model. The first one starts it, it survives
    them all, and it ends by itself after 15 idle minutes. Where no process can be shared, such as
    in a sandbox, this one serves by itself.
    """
    del no_share  # `zapomni_cli.proxy` comes first, and leaves all options but --tools to us.
    # By name: the doors do not import each other, and this one only starts the other.
    import_module("zapomni_mcp.server").serve(load_settings(), every_tool=tools == "all")


@click.command(epilog=examples("zapomni stats", "zapomni stats --json"))
@json_option
def stats(*, as_json: bool) -> None:
    """Count what is stored and what sessions were given.

    Tokens are those of memories and observations in the form they are given: at the start of a
    session, with a prompt, after a failure, by tools and commands. `zapomni recalls` lists each.
    Sessions of another project that is private are counted and not listed.
    """
    from zapomni_cli.runtime import read_settings, with_engine  # not for serve
    from zapomni_core.infra.recall_log import recall_log

    settings = read_settings()

    async def count(engine: ZapomniEngine) -> tuple[MemoryStats, list[str]]:
        reach = await engine.observations.reach(str(Path.cwd()), "*")
        return await engine.memories.get_stats(), reach.hidden

    counted, hidden = with_engine(count, settings)
    found = counted.model_dump()
    given = recall_log(settings).count_recalls(hidden)
    if as_json:
        print_json({**found, "recalls": asdict(given)})
        return
    pairs = [(name, value) for name, value in found.items() if value is not None]
    if is_terminal():
        pairs = [(name.replace("_", " "), value) for name, value in pairs]
    pairs.append(("recalls", f"{given.recalls}, {given.used} of {given.items} items used"))
    pairs.append(("tokens given" if is_terminal() else "tokens_given", given.tokens))
    pairs += [(f"  on {one.day}", f"{one.tokens} in {one.recalls}") for one in given.by_day]
    for one in given.by_session:
        name = f"  {one.client} {one.session[:8]}"
        pairs.append((name, f"{one.tokens} in {one.recalls}, {day(_moment(one.last_at))}"))
    print_pairs(pairs)


@click.command(
    epilog=examples("zapomni status", "zapomni status --json", "zapomni status --settings")
)
@click.option(
    "--settings",
    "wants_settings",
    is_flag=True,
    help="List every setting, its value and where that comes from, instead.",
)
@json_option
def status(*, wants_settings: bool, as_json: bool) -> None:
    """Show where memories live and whether all is well.

    A quick look; `zapomni doctor` tests everything. With --settings, in a pipe each line is: name,
    where it comes from (environment, config.toml or default), value. Secrets are not shown.
    """
    if wants_settings:
        found_settings = explain_settings(load_settings())
        if as_json:
            print_json([asdict(one) for one in found_settings])
        else:
            print_table((one.name, one.origin, _setting(one.value)) for one in found_settings)
        return
    from zapomni_cli.init import list_connections, list_outdated  # not for serve
    from zapomni_cli.runtime import read_settings, with_engine
    from zapomni_core.workflows.check_health import read_shared_process

    settings = read_settings()

    async def read(engine: ZapomniEngine) -> tuple[MemoryStats, dict[str, int]]:
        return await engine.memories.get_stats(), await engine.review.count()

    found, waiting = with_engine(read, settings)
    shown: dict[str, Any] = {
        "home": str(settings.home),
        "database": str(settings.server or settings.database_path),
        "storage_engine": found.engine,
        "memories": found.total_memories,
        "passages": found.total_chunks,
        "size_mb": found.database_size_mb,
        "embedder": settings.embedder,
        "model": _model_state(settings),
        "stored_vectors": found.embedding_model,
        "pending_vectors": found.pending_vectors,
        "languages": found.languages,
        "notice": found.notice,
    }
    shared = read_shared_process()
    captured = _captured(settings)
    agents, outdated = list_connections(settings), list_outdated()
    if as_json:
        lists = {"connected": agents, "outdated_hooks": outdated}
        shown["shared_process"] = shared.process
        print_json({**shown, **lists, "review": waiting, "observations": captured})
        return
    notices = [shown.pop("languages"), shown.pop("notice")]
    shown["shared_process"] = shared.words
    pairs = [(name.replace("_", " "), value) for name, value in shown.items()]
    states = {name: "" if on else " (not connected)" for name, on in agents.items()}
    states |= dict.fromkeys(outdated, " (older hooks)")
    words = [name + state for name, state in states.items()]
    pairs.append(("agents", ", ".join(words) or "none found"))
    pairs.append(("waiting for review", sum(waiting.values())))
    print_pairs([*pairs, *_capture_lines(captured)])
    if waiting:
        click.echo("`zapomni review` shows what waits for your decision.", err=True)
    if not all(on for name, on in agents.items() if name not in outdated):
        click.echo("`zapomni init` connects the other agents.", err=True)
    if outdated:
        click.echo("`zapomni init` renews the older hooks: they miss new events.", err=True)
    if shown["pending_vectors"]:
        click.echo("`zapomni models reembed` makes the pending vectors.", err=True)
    for notice in filter(None, notices):
        click.echo(notice, err=True)


def _setting(value: Any) -> str:
    if value in (None, "", [], {}):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _captured(settings: Settings) -> dict[str, Any]:
    """Read what hooks delivered and when, and what still waits in the spool or was put aside."""
    from zapomni_cli.runtime import with_observations  # not for serve
    from zapomni_core.modules.observations import spool_state

    found = with_observations(lambda observations: observations.usage(), settings)
    for counters in found["hosts"].values():
        last = counters.pop("last_at")
        moment = None if last is None else datetime.fromtimestamp(last, UTC)
        counters["last_capture"] = moment and moment.isoformat()
    spooled = spool_state(str(settings.home))
    return {
        **found,
        "last_event": max(
            (host["last_capture"] for host in found["hosts"].values() if host["last_capture"]),
            default=None,
        ),
        "waiting_in_spool": spooled["waiting"],
        "bad_in_spool": spooled["bad"],
        "dropped_by_spool": spooled["dropped"],
    }


def _capture_lines(captured: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "observations", f"{captured['total']}, {captured['pinned']} pinned"
    yield "sessions", captured["sessions"]
    for obs_type, entry in captured["by_type"].items():
        yield f"  {obs_type}", f"{entry['count']}, {entry['bytes'] / 1e6:.3f} MB"
    for host, counters in captured["hosts"].items():
        if counters["last_capture"]:
            last = day(datetime.fromisoformat(counters["last_capture"]))
            yield f"  from {host}", f"{counters['observations']}, last {last}"
    if captured["last_event"]:
        yield "last event", day(datetime.fromisoformat(captured["last_event"]))
    yield "redactions", captured["redacted"]
    yield "spooled events", f"{captured['spooled']}, {captured['waiting_in_spool']} waiting"
    yield "lost events", captured["lost"]
    yield "bad events", f"{captured['bad_in_spool']} put aside in spool/bad"
    if captured["dropped_by_spool"]:
        yield "dropped events", f"{captured['dropped_by_spool']}, the spool was full"


def _model_state(settings: Settings) -> str:
    if settings.embedder == "none":
        return "none: search by words only"
    if settings.embedder != "local":
        return settings.embedding_model or "the embedder's default"
    from zapomni_core.adapters.model_files import MODEL, verify_model

    states = set(verify_model(settings.models_path).values())
    if states == {"ok"}:
        return f"{MODEL}: ready"
    problem = "damaged" if "damaged" in states else "missing"
    return f"{MODEL}: {problem}, search by words only; run `zapomni models pull`"

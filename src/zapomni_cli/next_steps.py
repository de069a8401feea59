"""`zapomni` without a command: what is set up here, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from zapomni_cli.output import count_of, one_line
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_core.exceptions import ConfigurationError, ZapomniError
from zapomni_core.settings import Settings

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_db.models import MemoryStats

__all__ = ["print_next_steps"]


class Step(NamedTuple):
    """One part of the set-up: whether it is done, and the command that does it if not."""

    name: str
    state: str
    command: str = ""
    mark: str = "✓"


def print_next_steps() -> None:
    """Print the state of this home, part by part, and the first thing that is left to do."""
    settings = read_settings()
    steps = [_model(settings), _agents(settings), *_stored(settings)]
    width = max(len(step.name) for step in steps)
    for step in steps:
        mark = click.style("→", fg="yellow") if step.command else click.style(step.mark, fg="green")
        click.echo(f"{mark} {step.name:<{width}}  {step.state}")
    click.echo()
    if left := [step.command for step in steps if step.command]:
        click.echo(f"Next: {left[0]}")
    else:
        click.echo('All is set up. Try: zapomni search "what did we decide last week"')
    click.echo("All commands: zapomni --help")


def _model(settings: Settings) -> Step:
    from zapomni_core.adapters.model_files import MODEL, verify_model

    if settings.embedder != "local":
        return Step("model", settings.embedder)
    if set(verify_model(settings.models_path).values()) == {"ok"}:
        return Step("model", MODEL)
    return Step("model", "not here yet: search works by words alone", "zapomni models pull")


def _agents(settings: Settings) -> Step:
    from zapomni_cli.host_setup.hosts import HOSTS
    from zapomni_cli.init import list_connections

    found = list_connections(settings)
    if not found:
        how = f"none found on this machine; name one: zapomni init --host {HOSTS[0]}"
        return Step("agents", how, mark="-")
    left = [name for name, connected in found.items() if not connected]
    if left:
        return Step("agents", f"not connected: {', '.join(left)}", "zapomni init")
    return Step("agents", f"connected: {', '.join(found)}")


def _stored(settings: Settings) -> list[Step]:
    """Return the steps about what is stored, or the one that mends it."""
    from zapomni_core.workflows.import_sources import has_sources

    home = str(Path.home())
    if settings.server is None and not settings.database_path.exists():
        ready = Step("earlier sessions", "found on this machine", "zapomni import")
        return [_MEMORIES, ready] if has_sources(home) else [_MEMORIES]

    async def read(engine: ZapomniEngine) -> tuple[MemoryStats, int, int]:
        waiting = await engine.review.count()
        # What is new in a source that was imported once, hooks record.
        known = {batch.source for batch in await engine.imports.list_batches()}
        found = await engine.imports.list_sources(home)
        new = sum(one.new_files for one in found if one.name not in known)
        return await engine.memories.get_stats(), sum(waiting.values()), new

    try:
        found, waiting, new = with_engine(read, settings)
    except ConfigurationError:
        raise
    except ZapomniError:
        return [Step("database", "cannot be used as it is", "zapomni doctor")]
    steps = [_MEMORIES]
    if found.total_memories:
        steps = [Step("memories", count_of(found.total_memories, "memory", "memories"))]
    if found.notice:
        steps.append(Step("notice", one_line(found.notice), "zapomni doctor"))
    if found.pending_vectors:
        missing = f"{count_of(found.pending_vectors, 'passage')} without a vector"
        steps.append(Step("vectors", missing, "zapomni models reembed"))
    if new:
        steps.append(Step("earlier sessions", f"{count_of(new, 'file')} found", "zapomni import"))
    if waiting:
        steps.append(Step("review", f"{waiting} waiting for your decision", "zapomni review"))
    return steps


_MEMORIES = Step("memories", "none yet", 'zapomni add "We deploy on Tuesdays."')

"""`zapomni record` as a command; `zapomni_cli.record` does the work without click."""

from __future__ import annotations

import sys

import click

from zapomni_cli.options import examples
from zapomni_cli.record import main
from zapomni_core.modules.observations import HOSTS

__all__ = ["record"]


@click.command(
    epilog=examples(
        "zapomni record --host claude-code < event.json",
        'jq -n \'{session_id: "s", cwd: env.PWD, event: "marker", text: "done"}\' | zapomni record',
    )
)
@click.option("--host", type=click.Choice(sorted(HOSTS)), help="Which agent sent it.")
@click.option("--hooks", type=int, help="Which set of hooks sent it; written by `zapomni init`.")
def record(host: str | None, hooks: int | None) -> None:
    """Store an agent's hook event.

    It is one JSON object on standard input. Agents run this after `zapomni init`. Without --host
    the agent is recognized by the event's fields. Prints nothing but the context of a new session
    and, where a host takes it, what memory has about a prompt or a failure. docs/capture.md
    describes what is stored and a plain form any program can send.

    Exits with 0 when stored, waiting or ignored, 1 when the event is not complete or can be stored
    nowhere, 2 when the database is damaged and no host called: for hosts 2 means to stop the agent.
    """
    given = [*(["--host", host] if host else []), *(["--hooks", str(hooks)] if hooks else [])]
    sys.exit(main(given))

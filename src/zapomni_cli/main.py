"""The `zapomni` command: finds the command's module, runs it, and turns errors into words.

Nothing but click is imported before the command is known: `zapomni --help` stays quick, and
`zapomni serve` pays for nothing it does not use.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module

import click

__all__ = ["COMMANDS", "cli", "main", "run"]

# In the order a newcomer needs them: where the command lives, and what it does in one line.
COMMANDS = {
    "add": ("zapomni_cli.writing:add", "Add a memory from a text or files."),
    "search": (
        "zapomni_cli.reading:search",
        "Search memories, observations and code by meaning and by words.",
    ),
    "get": ("zapomni_cli.reading:get", "Show a memory whole."),
    "list": ("zapomni_cli.reading:list_memories", "List memories, pinned first, then newest."),
    "history": ("zapomni_cli.history:history", "Show earlier versions of a memory."),
    "graph": (
        "zapomni_cli.graph:graph",
        "Ask the knowledge graph: entities in memories and how they relate.",
    ),
    "index": (
        "zapomni_cli.index:index",
        "Index a repository, so that its code is found and memories can cite it.",
    ),
    "code": (
        "zapomni_cli.code:code",
        "Search code, outline files, show symbols, callers and callees.",
    ),
    "recent": ("zapomni_cli.observations:recent", "Show what agents did last."),
    "timeline": (
        "zapomni_cli.observations:timeline",
        "Show the actions before and after an observation.",
    ),
    "sessions": ("zapomni_cli.observations:sessions", "List agents' sessions."),
    "session": ("zapomni_cli.observations:session", "Show everything an agent did in one session."),
    "context": (
        "zapomni_cli.observations:context",
        "Show the context a new session is given, and why.",
    ),
    "recalls": (
        "zapomni_cli.recalls:recalls",
        "List what was given to agents and people, and what of it was used.",
    ),
    "projects": (
        "zapomni_cli.projects:projects",
        "List the projects there are, and decide about them.",
    ),
    "update": ("zapomni_cli.writing:update", "Change a memory."),
    "pin": ("zapomni_cli.writing:pin", "Pin a memory, or unpin it with --off."),
    "forget": (
        "zapomni_cli.forgetting:forget",
        "Move memories into the trash, and take that back.",
    ),
    "review": ("zapomni_cli.review:review", "Decide what waits in the inbox, with one key each."),
    "export": (
        "zapomni_cli.exporting:export",
        "Write memories into a folder that git can follow, or as JSON lines.",
    ),
    "import": (
        "zapomni_cli.importing:import_",
        "Import what other programs keep on this machine.",
    ),
    "sync": (
        "zapomni_cli.sync:sync",
        "Share memories between your devices through a git repository.",
    ),
    "backup": (
        "zapomni_cli.backup:backup",
        "Copy everything that is stored, while agents go on working.",
    ),
    "restore": ("zapomni_cli.backup:restore", "Replace everything that is stored by a backup."),
    "purge": ("zapomni_cli.purge:purge", "Delete so that nothing is left."),
    "init": ("zapomni_cli.init:init", "Connect the agents on this machine."),
    "record": ("zapomni_cli.recording:record", "Store an agent's hook event."),
    "serve": ("zapomni_cli.upkeep:serve", "Serve an agent over MCP."),
    "ui": ("zapomni_cli.ui:ui", "Open the local web page."),
    "tasks": ("zapomni_cli.tasks:tasks", "List background tasks, or look after one."),
    "status": ("zapomni_cli.upkeep:status", "Show where memories live and whether all is well."),
    "stats": (
        "zapomni_cli.upkeep:stats",
        "Count what is stored, and what sessions were given of it.",
    ),
    "models": ("zapomni_cli.models:models", "Fetch, check and switch embedding models."),
    "db": ("zapomni_cli.db:db", "Run a local FalkorDB server, and move memories."),
    "doctor": ("zapomni_cli.doctor:doctor", "Prove that Zapomni works, or say what to fix."),
    "bench": ("zapomni_cli.bench:bench", "Measure how well your own memories are found again."),
    "demo": ("zapomni_cli.demo:demo", "Watch Zapomni remember and recall."),
}

HELP = """\
Long-term memory for AI agents that lives on your machine.

Memories are stored in ~/.zapomni, or in the folder ZAPOMNI_HOME names.

\b
Examples:
  zapomni demo
  zapomni add "We deploy on Tuesdays; Friday deploys are forbidden."
  zapomni search "when do we release"
  zapomni COMMAND --help
"""

INTERRUPTED = 130


class LazyGroup(click.Group):
    """Knows its commands by name and imports only the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order they are taught."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list from the table above: importing every command would be slow."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 90},
)
@click.version_option(package_name="zapomni", message="%(prog)s %(version)s")
def cli() -> None:
    """Hold the commands together."""


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character must not make the command fail.
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout.isatty() or sys.stderr.isatty():
        from zapomni_cli.output import guard_terminal

        sys.stdout, sys.stderr = guard_terminal(sys.stdout), guard_terminal(sys.stderr)
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        result = cli.main(args, prog_name="zapomni", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort:
        click.echo("Stopped.", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has seen enough. Python would complain again when it exits.
        sys.stdout = None
        return 0
    except Exception as error:  # noqa: BLE001 - no command ends in a traceback
        return _report(error)
    return result if isinstance(result, int) else 0


def _report(error: Exception) -> int:
    from zapomni_core.exceptions import (
        ConfigurationError,
        NotFoundError,
        ValidationError,
        ZapomniError,
    )
    from zapomni_core.infra.correlation import operation
    from zapomni_core.infra.error_messages import sanitize_error_for_user
    from zapomni_core.infra.logging import get_logger

    with operation() as new_id:
        if not isinstance(error, ZapomniError):
            get_logger(__name__).error("command_failed", exc_info=error)
        shown = sanitize_error_for_user(error, getattr(error, "correlation_id", new_id))
    click.echo(f"Error: {shown['error']}", err=True)
    click.echo(shown["suggested_action"], err=True)
    if isinstance(error, NotFoundError) and error.near:
        from zapomni_cli.output import one_line

        names = ", ".join(one_line(name, 60) for name in error.near)
        click.echo(f"Did you mean: {names}?", err=True)
    click.echo(f"({shown['error_code']}, correlation id {shown['correlation_id']})", err=True)
    if isinstance(error, ValidationError | ConfigurationError):
        return 2
    return 3 if isinstance(error, NotFoundError) else 1

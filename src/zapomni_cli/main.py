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
from click.shell_completion import CompletionItem

__all__ = ["COMMANDS", "GROUPS", "cli", "main", "run"]

# By what people come for: where the command lives, and what it does in one line.
GROUPS = {
    "Remember and find": {
        "add": ("zapomni_cli.writing:add", "Add a memory from a text or files."),
        "search": ("zapomni_cli.reading:search", "Search memories, what agents did, and code."),
        "get": ("zapomni_cli.reading:get", "Show a memory whole."),
        "list": ("zapomni_cli.reading:list_memories", "List memories, pinned first, then newest."),
        "update": ("zapomni_cli.writing:update", "Change a memory."),
        "pin": ("zapomni_cli.writing:pin", "Pin a memory, or unpin it with --off."),
        "forget": (
            "zapomni_cli.forgetting:forget",
            "Move memories into the trash, and take that back.",
        ),
        "history": ("zapomni_cli.history:history", "Show earlier versions of a memory."),
        "review": (
            "zapomni_cli.review:review",
            "Decide what waits in the inbox, with one key each.",
        ),
        "ui": ("zapomni_cli.ui:ui", "Open the local web page."),
    },
    "What agents did and are given": {
        "recent": ("zapomni_cli.observations:recent", "Show what agents did last."),
        "sessions": ("zapomni_cli.observations:sessions", "List agents' sessions."),
        "session": (
            "zapomni_cli.observations:session",
            "Show everything an agent did in one session.",
        ),
        "timeline": (
            "zapomni_cli.observations:timeline",
            "Show the actions before and after an observation.",
        ),
        "context": (
            "zapomni_cli.observations:context",
            "Show the context a new session is given, and why.",
        ),
        "recalls": ("zapomni_cli.recalls:recalls", "List what was given, and what of it was used."),
    },
    "Graph and code": {
        "graph": (
            "zapomni_cli.graph:graph",
            "Ask the knowledge graph: entities and how they relate.",
        ),
        "index": ("zapomni_cli.index:index", "Index a repository: to find code, and to cite it."),
        "code": ("zapomni_cli.code:code", "Search code; show outlines, symbols and callers."),
    },
    "Set up": {
        "demo": ("zapomni_cli.demo:demo", "Watch Zapomni remember and recall."),
        "init": ("zapomni_cli.init:init", "Connect the agents on this machine."),
        "models": ("zapomni_cli.models:models", "Fetch, check and switch embedding models."),
        "import": (
            "zapomni_cli.importing:import_",
            "Import what other programs keep on this machine.",
        ),
        "projects": (
            "zapomni_cli.projects:projects",
            "List the projects there are, and decide about them.",
        ),
        "completion": (
            "zapomni_cli.completion:completion",
            "Print the script that completes commands in a shell.",
        ),
    },
    "Maintain": {
        "status": (
            "zapomni_cli.upkeep:status",
            "Show where memories live and whether all is well.",
        ),
        "doctor": ("zapomni_cli.doctor:doctor", "Prove that Zapomni works, or say what to fix."),
        "stats": ("zapomni_cli.upkeep:stats", "Count what is stored and what sessions were given."),
        "tasks": ("zapomni_cli.tasks:tasks", "List background tasks; follow, cancel or retry one."),
        "bench": ("zapomni_cli.bench:bench", "Measure how well your own memories are found."),
        "backup": ("zapomni_cli.backup:backup", "Copy everything that is stored, at any time."),
        "restore": ("zapomni_cli.backup:restore", "Replace everything that is stored by a backup."),
        "export": (
            "zapomni_cli.exporting:export",
            "Write memories into a folder, or as JSON lines.",
        ),
        "sync": ("zapomni_cli.sync:sync", "Share memories between your devices through git."),
        "purge": ("zapomni_cli.purge:purge", "Delete so that nothing is left."),
        "db": ("zapomni_cli.db:db", "Run a local FalkorDB server, and move memories."),
    },
    "For programs": {
        "serve": ("zapomni_cli.upkeep:serve", "Serve an agent over MCP."),
        "record": ("zapomni_cli.recording:record", "Store an agent's hook event."),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}

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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for; for a mistyped one, name those that are like it."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = " or ".join(get_close_matches(name, COMMANDS, n=2))
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete from the table above, for the same reason."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=summary)
            for name, (_, summary) in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists from the table above: importing every command would be slow."""
        del ctx
        width = max(len(name) for name in COMMANDS)
        for title, commands in GROUPS.items():
            with formatter.section(title):
                # Padded, so that the second columns of all sections are one.
                formatter.write_dl([(f"{name:<{width}}", one[1]) for name, one in commands.items()])


@click.group(
    cls=LazyGroup,
    help=HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 90},
)
@click.version_option(package_name="zapomni", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run a command; without one, say what to do next."""
    if context.invoked_subcommand is None:
        from zapomni_cli.next_steps import print_next_steps

        print_next_steps()


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
    from zapomni_cli.output import fit_install, one_line
    from zapomni_core.exceptions import (
        ConfigurationError,
        DatabaseError,
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
    click.echo(f"Error: {fit_install(shown['error'])}", err=True)
    click.echo(fit_install(shown["suggested_action"]), err=True)
    if isinstance(error, DatabaseError) and (file := _database_file()):
        click.echo(f"It is about {file}; `zapomni status --settings` says where that is.", err=True)
    if isinstance(error, NotFoundError) and error.near:
        names = ", ".join(one_line(name, 60) for name in error.near)
        click.echo(f"Did you mean: {names}?", err=True)
    click.echo(f"({shown['error_code']}, correlation id {shown['correlation_id']})", err=True)
    if isinstance(error, ValidationError | ConfigurationError):
        return 2
    return 3 if isinstance(error, NotFoundError) else 1


def _database_file() -> str:
    """Return the name of the database's file, for an error about it; empty if on a server."""
    from zapomni_core.settings import load_settings

    settings = load_settings()
    return "" if settings.server else settings.database_path.name

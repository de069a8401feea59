"""Writes docs/cli.md from the commands' own help: `python docs/build_cli.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from zapomni_cli.main import COMMANDS, cli

PAGE = Path(__file__).with_name("cli.md")

INTRODUCTION = """\
# The command line

This page is the output of `--help`, written by `python docs/build_cli.py`.

Every reading command takes `--json`. On a terminal answers are laid out for people; in a pipe
they are lines with tabs. Notices and progress go to standard error.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | it failed; the message says what to do |
| 2 | the command or its input is wrong; nothing was changed |
| 3 | there is no memory, task or entity with this name or id |
| 130 | stopped with Ctrl-C |
"""


def render() -> str:
    """Return the page."""
    parts = [INTRODUCTION, _section("zapomni", cli, None)]
    root = click.Context(cli, info_name="zapomni", **cli.context_settings)
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        parts.extend(_sections(name, command, root))
    return "\n".join(parts)


def _sections(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    yield _section(name, command, parent)
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name, parent=parent)
        for child_name, child in command.commands.items():
            yield from _sections(child_name, child, context)


def _section(name: str, command: click.Command, parent: click.Context | None) -> str:
    settings = {**command.context_settings, "terminal_width": 90}
    context = command.context_class(command, info_name=name, parent=parent, **settings)
    return f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

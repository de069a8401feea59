"""Options that several commands take, and how their values are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from zapomni_core.shared.dates import parse_when
from zapomni_db.models import KINDS, NEVER

__all__ = [
    "chosen",
    "cites_option",
    "examples",
    "expires_option",
    "export_filter_options",
    "filter_options",
    "global_option",
    "json_option",
    "label_options",
    "near_kind",
    "page_options",
    "redact_option",
    "selection_options",
    "since_options",
    "when_option",
    "when_value",
]

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines to copy."""
    # The backspace is click's sign not to wrap what follows.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def chosen(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    given = {k: v for k, v in options.items() if v is not None and v != () and v is not False}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}


def near_kind(kind: str) -> str | None:
    """Return the usual kind of memory that a kind may be a misspelling of."""
    usual = [*KINDS, "code", "commit"]
    return None if kind in usual else next(iter(get_close_matches(kind, usual, n=1)), None)


def filter_options(command: F) -> F:
    """Add the filters of search and list."""
    command = click.option(
        "--superseded", "include_superseded", is_flag=True, help="Also replaced ones."
    )(command)
    return selection_options(command)


def selection_options(command: F) -> F:
    """Add the filters that select memories here, whether they were replaced or not."""
    return _selection("this repository's and global ones")(command)


def export_filter_options(command: F) -> F:
    """Add the filters of search and list, for what is given whole."""
    return _selection("all")(command)


def _selection(projects: str) -> Callable[[F], F]:
    options = [
        click.option("--project", help=f"Only this project; default: {projects}."),
        click.option("--tag", "tags", multiple=True, help="Only with this tag; repeatable."),
        click.option("--source", help="Only from this source."),
        click.option("--kind", help="Only this kind, such as note or document."),
        click.option("--session", help="Only this conversation, session or document."),
        click.option("--path", help="Only this file or folder: a path or its end."),
        since_options,
        click.option(
            "--as-of", callback=when_value, help="What was true then (by --when): as --since."
        ),
        click.option(
            "--known-at", callback=when_value, help="What was stored by then: as --since."
        ),
        click.option("--pinned", is_flag=True, help="Only pinned ones."),
    ]

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def since_options(command: F) -> F:
    """Add --since and --until."""
    command = click.option("--until", "--before", callback=when_value, help="Before: as --since.")(
        command
    )
    help_text = "Since: 2026-01-31, 24h, 7d, 2w."
    return click.option("--since", callback=when_value, help=help_text)(command)


def page_options(default: int) -> Callable[[F], F]:
    """Add --limit and --offset."""

    def decorate(command: F) -> F:
        command = click.option("--offset", default=0, help="How many to skip.")(command)
        return click.option(
            "--limit", default=default, show_default=True, help="How many to show."
        )(command)

    return decorate


def label_options(command: F) -> F:
    """Add what a memory can be labelled with."""
    for option in reversed(
        [
            click.option("--tag", "tags", multiple=True, help="A tag; repeatable."),
            click.option("--project", help="The project it belongs to; default: this one."),
            click.option("--source", help="Where it comes from."),
            click.option("--kind", help="What it is: note, decision, document, ..."),
            click.option("--metadata", callback=_json_object, help="More, as a JSON object."),
        ]
    ):
        command = option(command)
    return command


def when_value(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | None:
    """Read a date, a time or how long ago."""
    if value is None:
        return None
    try:
        return parse_when(value)
    except ValueError:
        raise click.BadParameter(
            "use a date (2026-01-31), a time (2026-01-31T14:00) or how long ago (24h, 7d, 2w)"
        ) from None


def _until(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    if value.strip().lower() == "never":
        return NEVER
    now = datetime.now(UTC)
    try:
        moment = parse_when(value, now)
        # A span is one from now on here.
        return now + (now - moment) if value.strip()[-1:].lower() in "hdw" else moment
    except (ValueError, OverflowError):
        raise click.BadParameter(
            "use a date (2026-12-31), a time (2026-12-31T14:00), how long (24h, 30d, 2w) or never"
        ) from None


def _json_object(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise click.BadParameter("""use a JSON object, such as '{"author": "Ada"}'""")
    return parsed


cites_option = click.option(
    "--cites",
    multiple=True,
    metavar="PLACE",
    help="Code it cites: path, path:symbol or path:L10-L20; repeatable.",
)
global_option = click.option(
    "--global", "everywhere", is_flag=True, help="It belongs to no project: all are given it."
)
redact_option = click.option("--redact", is_flag=True, help="Mask secrets before it is stored.")
when_option = click.option(
    "--when", "occurred_at", callback=when_value, help="When it happened, if not now: as --since."
)
expires_option = click.option(
    "--expires",
    "expires_at",
    metavar="WHEN",
    callback=_until,
    help="From when on no session is given it: 2026-12-31, 30d, never.",
)

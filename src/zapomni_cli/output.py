"""How answers look: tables on a terminal, tab-separated lines in a pipe, JSON when asked.

rich is imported only when somebody is looking.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

__all__ = [
    "clean",
    "count_of",
    "day",
    "is_terminal",
    "one_line",
    "print_json",
    "print_pairs",
    "print_table",
    "progress_bar",
]

Progress = Callable[..., None]
"""Called with how many are done, how many there are in all, and perhaps what is being done."""

# A stored text must not be able to move the cursor or rename the window.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def is_terminal() -> bool:
    """Say whether a person reads the output."""
    return sys.stdout.isatty()


def clean(text: str) -> str:
    """Take out characters that would steer the terminal."""
    return _CONTROL.sub("", text)


def one_line(text: str, limit: int | None = None) -> str:
    """Join a text to one line, and cut it if a limit is given."""
    joined = " ".join(clean(text).split())
    return joined if limit is None or len(joined) <= limit else joined[: limit - 1] + "…"


def day(moment: datetime) -> str:
    """Write a moment as the local date and minute."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def count_of(number: int, singular: str, plural: str = "") -> str:
    """Write a number with its noun."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Print rows; on a terminal the last column wraps in the room left."""
    if not is_terminal():
        for row in rows:
            click.echo("\t".join(one_line(cell) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 1, 0))
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    Console().print(table)


def print_pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, aligned on a terminal."""
    rows = [(name, "" if value is None else one_line(str(value))) for name, value in pairs]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}" if is_terminal() else f"{name}\t{value}")


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """Give a function to report progress to; the bar is on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    said = TextColumn("{task.description}", markup=False)
    columns = (said, BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def report(done: int, total: int | None, doing: str = "") -> None:
            bar.update(task, completed=done, total=total, description=one_line(doing) or label)

        yield report

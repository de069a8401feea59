"""How answers look: tables on a terminal, tab-separated lines in a pipe, JSON when asked.

rich is imported only for output on a terminal.
"""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

import click

from zapomni_core.shared.unseen import escape_unseen, remove_controls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "clean",
    "count_of",
    "day",
    "guard_terminal",
    "is_terminal",
    "one_line",
    "print_json",
    "print_pairs",
    "print_table",
    "progress_bar",
]

Progress = Callable[..., None]
"""Called with how many are done, how many there are in all, and perhaps what is being done."""


def is_terminal() -> bool:
    """Say whether a person reads the output."""
    return sys.stdout.isatty()


def clean(text: str) -> str:
    """Take out characters that would steer the terminal; write those one cannot see as escapes."""
    return escape_unseen(remove_controls(text))


class TerminalGuard(io.BufferedIOBase):
    """The bytes of a terminal, without characters that turn or hide text.

    The last gate, for what a command or a library prints without `clean`: errors, usage, JSON.
    """

    def __init__(self, terminal: IO[bytes], encoding: str) -> None:
        self._terminal = terminal
        self._encoding = encoding
        # A character may come in two parts.
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")

    def write(self, data: ReadableBuffer) -> int:
        """Write a text with such characters as escapes."""
        text = escape_unseen(self._decoder.decode(bytes(data)))
        self._terminal.write(text.encode(self._encoding, "surrogateescape"))
        return len(bytes(data))

    def flush(self) -> None:
        """Let everything written so far appear."""
        self._terminal.flush()

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Return whether a person reads it."""
        return self._terminal.isatty()

    def fileno(self) -> int:
        """Return the terminal's own number."""
        return self._terminal.fileno()


def guard_terminal(stream: TextIO) -> TextIO:
    """Return a stream to write to instead of this one; the same if it is no terminal."""
    if not isinstance(stream, io.TextIOWrapper) or not stream.isatty():
        return stream
    guard = cast("IO[bytes]", TerminalGuard(stream.buffer, stream.encoding))
    return io.TextIOWrapper(
        guard, encoding=stream.encoding, errors=stream.errors, line_buffering=True
    )


def one_line(text: str, limit: int | None = None) -> str:
    """Join a text to one line, and cut it if a limit is given."""
    joined = " ".join(clean(text).split())
    return joined if limit is None or len(joined) <= limit else joined[: limit - 1] + "…"


def day(moment: datetime) -> str:
    """Write a moment as the local date and minute."""
    with suppress(OverflowError, ValueError):  # the first or last day of the calendar
        moment = moment.astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")


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

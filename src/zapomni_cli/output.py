"""How answers look: tables on a terminal, tab-separated lines in a pipe, JSON when asked.

rich is imported only for output on a terminal.
"""

from __future__ import annotations

import codecs
import io
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import zip_longest
from shutil import get_terminal_size
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TextIO, cast

import click

from zapomni_core.shared.unseen import escape_unseen, remove_controls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "Card",
    "clean",
    "count_of",
    "day",
    "fit_install",
    "guard_terminal",
    "is_terminal",
    "one_line",
    "print_cards",
    "print_json",
    "print_pairs",
    "print_table",
    "progress_bar",
    "short_id",
    "wrap",
]

UNBROKEN_CHARS = 18

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


def wrap(line: str, indent: str = "", then: str | None = None, *, always: bool = False) -> str:
    """Indent a line; on a terminal, break it between words where its width ends.

    Args:
        line: The line.
        indent: What is put before it.
        then: What is put before its continuation; default: as many spaces.
        always: In a pipe, too: it is only ever read by people.
    """
    if not is_terminal() and not always:
        return indent + line
    return textwrap.fill(
        line,
        max(20, get_terminal_size().columns),
        initial_indent=indent,
        subsequent_indent=" " * len(indent) if then is None else then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fit_install(text: str) -> str:
    """Name the command that installs an extra into this Zapomni, however it was installed itself.

    With uv or pipx, `pip` would install it elsewhere; of a clone, there may be no release.
    """
    if "pip install 'zapomni[" not in text:
        return text
    import re
    from importlib.metadata import distribution
    from urllib.parse import unquote, urlparse

    prefix = sys.prefix.split("/")
    tool = "uv tool install" if {"uv", "tools"} <= set(prefix) else "pip install"
    tool = "pipx install --force" if "pipx" in prefix else tool
    url = json.loads(distribution("zapomni").read_text("direct_url.json") or "{}").get("url", "")
    source = unquote(urlparse(url).path) if url.startswith("file:") else "zapomni"
    return re.sub(r"pip install 'zapomni(\[[\w-]+\])'", rf"{tool} '{source}\1'", text)


def day(moment: datetime) -> str:
    """Write a moment as the local date and minute."""
    with suppress(OverflowError, ValueError):  # the first or last day of the calendar
        moment = moment.astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")


def count_of(number: int, singular: str, plural: str = "") -> str:
    """Write a number with its noun."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def short_id(memory_id: str) -> str:
    """Return as much of an id as people need: every command finds the memory by it."""
    return memory_id[:8] if is_terminal() else memory_id


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_table(rows: Iterable[Sequence[str]], *, spaced: bool = False) -> None:
    """Print rows; on a terminal the last column wraps in the room left.

    With `spaced` an empty line follows each row there, for rows of several lines.
    """
    if not is_terminal():
        for row in rows:
            click.echo("\t".join(one_line(cell) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = [[Text(clean(cell)) for cell in row] for row in rows]
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, int(spaced), 0))
    for column in zip_longest(*shown, fillvalue=Text()):
        # Ids, dates and types are not broken: the room is taken from what is long.
        short = max(len(cell) for cell in column) <= UNBROKEN_CHARS
        table.add_column(no_wrap=short, overflow="fold")
    for cells in shown:
        table.add_row(*cells)
    Console().print(table)


class Card(NamedTuple):
    """What a person sees of one thing.

    Attributes:
        title: What it is called, or what it says if that is short.
        about: Facts about it: its id, when, where.
        body: What it says.
        word: What to know before anything else, such as how sure a hit is.
    """

    title: str
    about: Sequence[str] = ()
    body: Sequence[str] = ()
    word: str = ""


_COLORS = {"strong": "green", "weak": "yellow", "open": "yellow", "fixed": "green"}


def print_cards(cards: Sequence[Card]) -> None:
    """Print things on a terminal: a title in bold, facts in gray, text below."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 1, 0))
    has_words = any(card.word for card in cards)
    for _ in range(1 + has_words):
        table.add_column(overflow="fold")
    for card in cards:
        about = "  ".join(one_line(fact) for fact in card.about if fact)
        lines = [Text(clean(card.title), "bold"), *([Text(about, "dim")] if about else [])]
        lines += [Text(clean(line)) for line in card.body]
        word = [Text(card.word, _COLORS.get(card.word, "dim"))] if has_words else []
        table.add_row(*word, Text("\n").join(lines))
    Console().print(table)


def print_pairs(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, aligned on a terminal."""
    rows = [(name, "" if value is None else one_line(str(value))) for name, value in pairs]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        line = wrap(value or " ", f"{name:<{width}}  ") if is_terminal() else f"{name}\t{value}"
        click.echo(line)


@contextmanager
def progress_bar(label: str, *, of_bytes: bool = False, hidden: bool = False) -> Iterator[Progress]:
    """Give a function to report progress to; the bar is on stderr, on a terminal only.

    It is hidden where the answer itself appears on that terminal meanwhile.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
    )
    from rich.progress import TimeRemainingColumn as Remaining

    said = TextColumn("{task.description}", markup=False)
    counted = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (said, BarColumn(), counted, Remaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def report(done: int, total: int | None, doing: str = "") -> None:
            bar.update(task, completed=done, total=total, description=one_line(doing) or label)

        yield report

"""`zapomni review`: decide, with one key each, what waits in the inbox."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from zapomni_cli.options import examples, json_option, page_options
from zapomni_cli.output import (
    Card,
    count_of,
    day,
    is_terminal,
    one_line,
    print_cards,
    print_json,
    print_table,
    progress_bar,
    short_id,
    wrap,
)
from zapomni_cli.runtime import with_engine
from zapomni_core.engine import ZapomniEngine
from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.workflows.review import REVIEW_KINDS, ReviewItem, ReviewPage

__all__ = ["review"]

AT_ONCE = 100
TEXT_CHARS = 300
QUIT = "q"

_KEYS = {
    "k": "keep",
    "s": "supersede",
    "m": "merge",
    "f": "forget",
    "t": "trust",
    "n": "not_a_conflict",
}
_WORDS = {
    "keep": "keep",
    "supersede": "supersede: the newer replaces the older",
    "merge": "merge: also with the older one's tags",
    "forget": "forget",
    "trust": "trust",
    "not_a_conflict": "not a conflict",
}
STILL_TRUE = "still true: it cites the code as it is now"
_DONE = {
    "keep": "Kept.",
    "supersede": "The newer one replaces the older.",
    "merge": "Merged.",
    "forget": "Forgotten.",
    "trust": "Trusted.",
    "not_a_conflict": "Both stay; this is not asked again.",
}


@click.command(
    epilog=examples(
        "zapomni review",
        "zapomni review --kind candidate",
        "zapomni review --json",
        "zapomni review --decide 12=keep --decide 15=supersede",
        "zapomni review --undo 12",
    )
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(REVIEW_KINDS),
    help="Only what is of this kind; repeatable.",
)
@click.option(
    "--decide",
    "decisions",
    multiple=True,
    metavar="ID=DECISION",
    help="Decide without a question: keep, supersede, merge, forget, trust or not_a_conflict; "
    "repeatable.",
)
@click.option("--undo", type=int, metavar="ID", help="Take a decision back.")
@page_options(default=20)
@json_option
def review(
    kinds: tuple[str, ...],
    decisions: tuple[str, ...],
    undo: int | None,
    limit: int,
    offset: int,
    *,
    as_json: bool,
) -> None:
    """Decide what waits in the inbox, with one key each.

    What you asked an agent to remember, or corrected (candidates, no memories yet), memories that
    contradict or repeat each other, that say they are over, that cite code which changed, that
    came from a source you have not trusted, and that were recalled by no one for a year.

    On a terminal each item is shown with its keys. In a pipe each line is: id, kind, decisions,
    project, why, text, separated by tabs.
    """
    if decisions and undo is not None:
        raise click.UsageError("Give --decide or --undo, not both.")
    if undo is not None:
        _report([with_engine(lambda engine: engine.review.undo(undo))], as_json=as_json)
    elif decisions:
        wanted = [_parse(one) for one in decisions]
        _report(with_engine(lambda engine: _decide_all(engine, wanted)), as_json=as_json)
    elif as_json or not is_terminal() or not sys.stdin.isatty():
        page = with_engine(lambda engine: _read(engine, kinds, limit, offset))
        if as_json:
            print_json(page.model_dump(mode="json"))
        else:
            _print_page(page, offset)
    else:
        with_engine(lambda engine: _ask(engine, kinds))


def _parse(given: str) -> tuple[int, str]:
    number, _, decision = given.partition("=")
    if not number.strip().isdecimal() or len(number) > 15 or not decision:
        raise click.UsageError("--decide takes ID=DECISION, such as 12=keep.")
    return int(number), decision.strip().replace("-", "_")


async def _decide_all(engine: ZapomniEngine, wanted: Sequence[tuple[int, str]]) -> list[ReviewItem]:
    return [await engine.review.decide(number, decision) for number, decision in wanted]


async def _read(engine: ZapomniEngine, kinds: Sequence[str], limit: int, offset: int) -> ReviewPage:
    with progress_bar("Comparing memories") as report:
        return await engine.review.list_items(kinds, limit, offset, progress=report)


def _report(items: Sequence[ReviewItem], *, as_json: bool) -> None:
    if as_json:
        print_json([item.model_dump(mode="json") for item in items])
        return
    for item in items:
        state = "waits again" if item.state == "open" else item.state.replace("_", " ")
        click.echo(f"{item.id}\t{item.kind}\t{state}")


def _print_page(page: ReviewPage, offset: int) -> None:
    if is_terminal():
        print_cards([_card(item) for item in page.items])
    else:
        print_table(_fields(item) for item in page.items)
    following = offset + len(page.items)
    if page.total > following:
        click.echo(f"{following} of {page.total}; see more with --offset {following}.", err=True)
    if not page.total:
        click.echo("Nothing waits for you.", err=True)


def _card(item: ReviewItem) -> Card:
    texts = [one_line(item.text, TEXT_CHARS)] if item.text else []
    texts += [one_line(memory.text, TEXT_CHARS) for memory in item.memories]
    about = (str(item.id), item.kind.replace("_", " "), item.project, item.why)
    return Card(texts[0], about, [*texts[1:], f"Decide: {', '.join(item.choices)}"])


def _fields(item: ReviewItem) -> tuple[str, ...]:
    text = item.text or " | ".join(memory.text for memory in item.memories)
    return (str(item.id), item.kind, ", ".join(item.choices), item.project, item.why, text)


# --- On a terminal ----------------------------------------------------------------------


@contextmanager
def _single_keys() -> Iterator[Callable[[], str]]:
    """Give a function that waits for one key, without echo and without a line's end.

    For as long as keys are asked for, not for each: between two, a key typed early would be lost.
    """
    try:
        import termios
    except ImportError:  # Windows
        yield click.getchar
        return
    terminal = sys.stdin.fileno()
    before, mode = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
    # Ctrl-C comes as a key: as a signal it would only be seen after the next key.
    mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    termios.tcsetattr(terminal, termios.TCSAFLUSH, mode)

    def read() -> str:
        key = os.read(terminal, 1)
        if key == b"\x1b":
            # The rest of an arrow or function key: its letters mean nothing here.
            while select.select([terminal], [], [], 0.05)[0] and os.read(terminal, 1):
                pass
        return key.decode("ascii", "ignore") if key else QUIT

    try:
        yield read
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def _ask(engine: ZapomniEngine, kinds: Sequence[str]) -> None:
    page = await _read(engine, kinds, AT_ONCE, 0)
    if not page.items:
        click.echo("Nothing waits for you.")
        return
    with _single_keys() as read:
        await _ask_each(engine, page, read)
    left = sum((await engine.review.count()).values())
    click.echo(f"{count_of(left, 'item')} left." if left else "Nothing is left.")


async def _ask_each(engine: ZapomniEngine, page: ReviewPage, read: Callable[[], str]) -> None:
    decided: list[int] = []
    items = list(page.items)
    number = 0
    while number < len(items):
        item = items[number]
        for line in _shown(item, number + 1, page.total):
            click.echo(line)
        key = _read_key(item, read, undo=bool(decided))
        if key == QUIT:
            break
        if key == "u":
            back = decided.pop()
            await engine.review.undo(back)
            number = next(i for i, one in enumerate(items) if one.id == back)
            click.echo("Undone.\n")
            continue
        if key != " ":
            try:
                done = await engine.review.decide(item.id, _KEYS[key])
            except (NotFoundError, ValidationError) as error:
                # Another process was faster, or deleted the memory.
                click.echo(error.message)
            else:
                click.echo(_DONE[_KEYS[key]])
                if done.can_undo:
                    decided.append(item.id)
        click.echo()
        number += 1
    if decided:
        click.echo(f"The last decision is taken back with: zapomni review --undo {decided[-1]}")


def _read_key(item: ReviewItem, read: Callable[[], str], *, undo: bool) -> str:
    """Ask until a key is pressed that means something here."""
    keys = {key: word for key, word in _KEYS.items() if word in item.choices}
    meant = {**_WORDS, "keep": STILL_TRUE} if item.kind == "stale_citation" else _WORDS
    words = [f"[{key}] {meant[word]}" for key, word in keys.items()]
    words += ["[space] later", *(["[u] undo"] if undo else []), "[q] quit"]
    click.echo(wrap("  ".join(words)))
    while True:
        try:
            key = read().lower()
        except (EOFError, KeyboardInterrupt):
            return QUIT
        if key in (QUIT, "\x03", "\x04"):
            return QUIT
        if key in (" ", "\r", "\n"):
            return " "
        if key == "u" and undo:
            return key
        if key in keys:
            return key


def _shown(item: ReviewItem, number: int, total: int) -> Iterator[str]:
    where = f" · {one_line(item.project)}" if item.project else ""
    kind = item.kind.replace("_", " ")
    yield wrap(f"{number} of {total} · {kind}{where} · {one_line(item.why)}")
    if item.text:
        yield wrap(one_line(item.text, TEXT_CHARS), "  ")
    names = ("older", "newer") if len(item.memories) == 2 else ("",)
    for name, memory in zip(names, item.memories, strict=False):
        recalls = f", {count_of(memory.recalls, 'recall')}" if memory.recalls else ""
        about = " ".join(filter(None, (name, day(memory.created_at))))
        yield f"  {one_line(short_id(memory.memory_id))} {about}{recalls}"
        yield wrap(one_line(memory.text, TEXT_CHARS), "    ")

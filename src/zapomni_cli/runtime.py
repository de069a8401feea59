"""Shared by the commands: an open engine, open observations, and standard input as text."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.home import secure_home
from zapomni_core.infra.logging import setup_logging
from zapomni_core.modules.observations import Observations
from zapomni_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from zapomni_core.engine import ZapomniEngine
    from zapomni_core.infra.recall_log import RecalledItem

__all__ = [
    "log_recall",
    "naming",
    "read_settings",
    "read_stdin",
    "with_engine",
    "with_observations",
]

T = TypeVar("T")


def read_settings() -> Settings:
    """Read the settings, set up logging as they say, and close the home folder to others."""
    settings = load_settings()
    if warning := secure_home(str(settings.home), allow_open=settings.allow_open_home):
        click.echo(warning, err=True)
    # What a user should know, the commands say themselves.
    setup_logging(settings.log_level or "ERROR")
    return settings


def with_engine(
    work: Callable[[ZapomniEngine], Awaitable[T]], settings: Settings | None = None
) -> T:
    """Open the engine, do the work, close the engine."""
    from zapomni_core.engine import create_engine  # half of a start that needs no memories

    chosen = settings or read_settings()

    async def run() -> T:
        async with await create_engine(chosen) as engine:
            return await work(engine)

    return asyncio.run(run())


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error about what is in a file or folder that the user named begin with its name."""
    try:
        yield
    except ValidationError as error:
        raise ValidationError(
            f"{path}: {error.message}", error.error_code, original_exception=error
        ) from error


def with_observations(
    work: Callable[[Observations], Awaitable[T]], settings: Settings | None = None
) -> T:
    """Open the observations alone, do the work, close them: no storage of memories is needed."""
    observations = Observations(settings or read_settings())

    async def run() -> T:
        try:
            return await work(observations)
        finally:
            await observations.close()

    return asyncio.run(run())


def log_recall(
    query: str, items: Sequence[RecalledItem], *, opened: Sequence[RecalledItem] = ()
) -> None:
    """Note what a command has printed. Call it last: it must not keep anyone waiting."""
    from zapomni_core.infra.recall_log import recall_log

    log = recall_log(load_settings())
    log.use(opened)
    log.add("command", query, items, client="zapomni", folder=str(Path.cwd()))
    sys.stdout.flush()
    log.flush()


def read_stdin() -> str:
    """Read standard input as UTF-8.

    Raises:
        ValidationError: It is something else.
    """
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ValidationError(
            f"The input is not valid UTF-8 (byte {error.start})",
            "VAL_004",
            original_exception=error,
        ) from error

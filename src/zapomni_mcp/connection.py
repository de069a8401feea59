"""What belongs to one connection: the folder its client was started in."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

__all__ = ["current_folder", "enter_folder"]

_FOLDER: ContextVar[str] = ContextVar("zapomni_folder", default="")


def enter_folder(folder: str) -> None:
    """Let this task, and every task it starts, answer for a client in this folder."""
    _FOLDER.set(folder)


def current_folder() -> str:
    """Return the folder the client was started in: it decides the project and what may be read."""
    return _FOLDER.get() or str(Path.cwd())

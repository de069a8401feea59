"""What belongs to one connection: its client, and the folder that was started in."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

__all__ = ["current_client", "current_folder", "enter_client", "enter_folder"]

_FOLDER: ContextVar[str] = ContextVar("zapomni_folder", default="")
_CLIENT: ContextVar[str] = ContextVar("zapomni_client", default="")


def enter_folder(folder: str) -> None:
    """Let this task, and every task it starts, answer for a client in this folder."""
    _FOLDER.set(folder)


def current_folder() -> str:
    """Return the folder the client was started in: it decides the project and what may be read."""
    return _FOLDER.get() or str(Path.cwd())


def enter_client(name: str) -> None:
    """Let this task answer for the client of this name."""
    _CLIENT.set(name)


def current_client() -> str:
    """Return how the client calls itself; empty if it did not say."""
    return _CLIENT.get()

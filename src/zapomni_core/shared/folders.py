"""Where folders lie."""
# Paths from outside are text until they are opened:
# ruff: noqa: PTH111, PTH118

from __future__ import annotations

import os

__all__ = ["is_home", "lies_in", "real_path"]


def real_path(path: str, folder: str = "") -> str:
    """Return where a path, which may start from a folder, really is; it need not exist."""
    return os.path.realpath(os.path.join(folder, os.path.expanduser(path)))


def lies_in(path: str, root: str) -> bool:
    """Say whether a path is a folder or lies in it; both with every link resolved."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def is_home(path: str) -> bool:
    """Return whether a path is the home folder or contains it: hardly ever what is meant."""
    return lies_in(real_path("~"), real_path(path))

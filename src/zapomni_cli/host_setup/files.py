"""Reads and replaces the configuration file of another program without harming it."""

from __future__ import annotations

import difflib
import os
import tempfile
from datetime import datetime
from pathlib import Path

__all__ = ["UnfitFileError", "back_up", "diff", "read", "replace"]


class UnfitFileError(ValueError):
    """The file is broken, or has another shape than its host gives it."""


def read(path: Path) -> str | None:
    """Return a file's text as it is, None if there is no file.

    Raises:
        UnfitFileError: It is not UTF-8.
    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UnfitFileError("it is not UTF-8") from None


def back_up(path: Path) -> Path:
    """Copy a file into the same folder under a new name; only the owner can read the copy."""
    stamp = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    for number in range(100):
        name = f"{path.name}.zapomni-{stamp}{f'-{number}' if number else ''}.bak"
        copy = path.with_name(name)
        try:
            handle = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(handle, "wb") as file:
            file.write(path.read_bytes())
        return copy
    raise FileExistsError(path)


def replace(path: Path, text: str | None) -> None:
    """Put a text in a file's place at once, or take the file away if there is no text.

    A link stays a link: what it points to is replaced. The mode stays as it was.
    """
    target = path.resolve()
    if text is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o600
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def diff(path: Path, before: str | None, after: str | None) -> str:
    """Return what changes, as a unified diff."""
    lines = difflib.unified_diff(
        (before or "").splitlines(),
        (after or "").splitlines(),
        "/dev/null" if before is None else str(path),
        "/dev/null" if after is None else str(path),
        lineterm="",
        n=0,  # the lines around may hold other programs' keys
    )
    return "\n".join(lines)

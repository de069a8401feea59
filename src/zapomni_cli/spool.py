"""Where events wait when the database is busy: one small file each, private, already redacted.

A file appears whole by a rename and is removed only after its row is committed. Whoever is killed
in between leaves it for the next call, and the event's own hash keeps it from being stored twice.
So no locks are needed, however many processes spool and drain at once.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH123, PTH208

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["FOLDER", "read_spooled", "remove_spooled", "spool"]

FOLDER = "spool"
# One call takes over no more than this: its agent is waiting too.
BATCH = 500


def spool(home: str, row: Mapping[str, Any]) -> None:
    """Keep a row until the database can take it.

    Raises:
        OSError: The disk is full or the folder is not ours.
    """
    folder = os.path.join(home, FOLDER)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # Names sort in the order of events; the process id tells simultaneous ones apart.
    name = os.path.join(folder, f"{time.time_ns():020d}-{os.getpid()}")
    descriptor = os.open(name + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        line = json.dumps(row, separators=(",", ":")).encode()
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(name + ".part", name + ".json")


def read_spooled(home: str) -> tuple[list[str], list[dict[str, Any]], int]:
    """Return the oldest files, their rows in order, and how many files were unreadable.

    An unreadable file is set aside as `.bad`, so that it is counted once and can be looked at.
    """
    folder = os.path.join(home, FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return [], [], 0
    files, rows, lost = [], [], 0
    for name in [name for name in names if name.endswith(".json")][:BATCH]:
        file = os.path.join(folder, name)
        try:
            with open(file, "rb") as stream:
                row = json.loads(stream.read())
            bytes.fromhex(row["event_hash"])
        except FileNotFoundError:
            continue  # Another process was faster.
        except (OSError, ValueError, TypeError, KeyError):
            lost += 1
            _set_aside(file)
            continue
        files.append(file)
        rows.append(row)
    _sweep_parts(folder, [name for name in names if name.endswith(".part")])
    return files, rows, lost


def _sweep_parts(folder: str, names: list[str]) -> None:
    """Remove what a process left that was killed before it could keep its promise."""
    an_hour_ago = (time.time() - 3600) * 1e9
    for name in names:
        if name.partition("-")[0] < f"{int(an_hour_ago):020d}":
            remove_spooled([os.path.join(folder, name)])


def _set_aside(file: str) -> None:
    try:
        os.rename(file, file + ".bad")
    except OSError:
        return


def remove_spooled(files: list[str]) -> None:
    """Remove what is in the database now."""
    for file in files:
        try:
            os.unlink(file)
        except OSError:
            continue

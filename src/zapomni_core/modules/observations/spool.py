"""The spool: events that the database cannot take now, one small file each, private, redacted.

A file appears whole by a rename and is removed only after its row is committed. A process killed
in between leaves it for the next call, and the event's own hash keeps it from being stored twice.
So no locks are needed, however many processes spool and drain at once.

A row that no database will ever take is moved to `bad/`, so that the others can be stored. The
spool has a ceiling: an event above it is refused and counted, the ones that were accepted stay.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH103, PTH104, PTH108, PTH116, PTH118, PTH119, PTH123, PTH208

from __future__ import annotations

import os
import time

from zapomni_core.modules.observations.text import clean_row
from zapomni_core.shared.quick_json import dumps, loads
from zapomni_db.sqlite.observations_write import count_lost, store_captured

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from typing import Any

    from zapomni_core.shared.redaction import Redactor

__all__ = [
    "BAD",
    "SPOOL_FOLDER",
    "SpoolFullError",
    "drain",
    "is_waiting",
    "set_aside_row",
    "spool_row",
    "spool_state",
]

SPOOL_FOLDER = "spool"
BAD = "bad"
DROPPED = "dropped"
MAX_FILES = 10_000
MAX_BYTES = 64 * 1024 * 1024
MAX_BAD = 1000
# One call takes over no more than this: its agent is waiting.
BATCH = 500
DRAIN_SECONDS = 0.3


class SpoolFullError(OSError):
    """The spool is full: the database has been unusable for long."""


def spool_row(home: str, row: Mapping[str, Any], *, durable: bool = True) -> None:
    """Store a row in a file until the database can take it.

    Args:
        home: Zapomni's folder.
        row: As `clean_row` returns it.
        durable: Wait until the disk has it; not when there is no time left.

    Raises:
        SpoolFullError: The ceiling is reached; the event is counted as dropped.
        OSError: The disk is full or the folder is not ours.
    """
    folder = os.path.join(home, SPOOL_FOLDER)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    files, size = 0, 0
    for entry in os.scandir(folder):
        if entry.name.endswith(".json"):
            files += 1
            try:
                size += entry.stat().st_size
            except OSError:
                continue  # Another process drained it.
    if files >= MAX_FILES or size >= MAX_BYTES:
        # One byte each: simultaneous drops add up without a lock, with or without a database.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(os.path.join(folder, DROPPED), flags, 0o600)
        os.write(descriptor, b".")
        os.close(descriptor)
        raise SpoolFullError
    _write(folder, row, durable=durable)


def _write(folder: str, row: Mapping[str, Any], *, durable: bool) -> None:
    # Names sort in the order of events; the process id separates simultaneous ones.
    name = os.path.join(folder, f"{time.time_ns():020d}-{os.getpid()}")
    descriptor = os.open(name + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        line = dumps(row, separators=(",", ":")).encode("utf-8", "replace")
        while line:
            line = line[os.write(descriptor, line) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(name + ".part", name + ".json")


def is_waiting(home: str) -> bool:
    """Return whether anything waits to be stored or put aside."""
    names = _names(os.path.join(home, SPOOL_FOLDER))
    return any(name.endswith((".json", ".bad")) for name in names)


def drain(connection: sqlite3.Connection, home: str, redactor: Redactor) -> int:
    """Store the oldest waiting events; return how many files were removed or put aside.

    Every row is cleaned like a new one. One that still cannot be stored is put aside.
    """
    folder = os.path.join(home, SPOOL_FOLDER)
    names = _names(folder)
    if not names:
        return 0
    files: list[str] = []
    rows: list[dict[str, Any]] = []
    bad: list[str] = []
    until = time.monotonic() + DRAIN_SECONDS
    for name in [name for name in names if name.endswith(".json")][:BATCH]:
        if rows and time.monotonic() > until:
            break
        file = os.path.join(folder, name)
        try:
            with open(file, "rb") as stream:
                row = loads(stream.read().decode())
            rows.append(clean_row(row, redactor))
        except FileNotFoundError:
            continue  # Another process was faster.
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            bad.append(file)
            continue
        files.append(file)
    processed = 0
    if rows:
        processed, refused = store_captured(
            connection, rows, from_spool=True, seconds=DRAIN_SECONDS
        )
        bad += [files[position] for position in refused]
        _remove([file for file in files[:processed] if file not in bad])
    # Earlier versions left what they could not read next to the rest.
    _set_aside(folder, [os.path.join(folder, name) for name in names if name.endswith(".bad")])
    if bad:
        _set_aside(folder, bad)
        count_lost(connection, len(bad), int(time.time()))
    an_hour_ago = f"{int((time.time() - 3600) * 1e9):020d}"
    # Left by a process that was killed before its event was acknowledged.
    parts = [name for name in names if name.endswith(".part") and name < an_hour_ago]
    _remove([os.path.join(folder, name) for name in parts])
    return processed + len(bad)


def _set_aside(folder: str, files: list[str]) -> None:
    if not files:
        return
    aside = os.path.join(folder, BAD)
    os.makedirs(aside, mode=0o700, exist_ok=True)
    for file in files:
        try:
            os.rename(file, os.path.join(aside, os.path.basename(file).removesuffix(".bad")))
        except OSError:
            continue
    _trim(aside)


def set_aside_row(home: str, row: Mapping[str, Any]) -> None:
    """Store a row that the database refuses among the bad ones."""
    aside = os.path.join(home, SPOOL_FOLDER, BAD)
    os.makedirs(aside, mode=0o700, exist_ok=True)
    _write(aside, row, durable=False)
    _trim(aside)


def _trim(aside: str) -> None:
    names = _names(aside)
    _remove([os.path.join(aside, name) for name in names[: max(0, len(names) - MAX_BAD)]])


def _remove(files: list[str]) -> None:
    for file in files:
        try:
            os.unlink(file)
        except OSError:
            continue


def spool_state(home: str) -> dict[str, int]:
    """Count what waits, what was put aside, and what the ceiling refused."""
    folder = os.path.join(home, SPOOL_FOLDER)
    dropped = os.path.join(folder, DROPPED)
    return {
        "waiting": sum(name.endswith(".json") for name in _names(folder)),
        "bad": len(_names(os.path.join(folder, BAD))),
        "dropped": os.stat(dropped).st_size if DROPPED in _names(folder) else 0,
    }


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []

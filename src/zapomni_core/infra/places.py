"""Every place where stored text can be: one table, walked by `zapomni purge`.

A new file under the home folder belongs in this table; a test finds files that are not in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.settings import Settings

__all__ = [
    "EXPORTS",
    "PLACES",
    "TextPlace",
    "find_files",
    "find_text",
    "list_exports",
    "note_export",
]

EXPORTS = "exports.jsonl"
BLOCK = 1 << 20

Treatment = Literal["rows", "log", "copies", "files", "entries", "named", "no text"]


@dataclass(frozen=True)
class TextPlace:
    """Some files, and what a purge does to them.

    rows: deletes the rows, and scrubs the file. log: emptied by that. copies: the same in every
    copy. files: deletes files that have the text. entries: deletes lines or JSON entries that have
    it. named: cannot or must not change them, so the user is shown them. no text: nothing to do.
    """

    name: str
    pattern: str
    treatment: Treatment
    why: str = ""
    by_database: bool = False
    """The pattern starts in the folder of the database, not in the home folder."""


PLACES = (
    TextPlace("database", "{database}", "rows", by_database=True),
    TextPlace("database log", "{database}-*", "log", by_database=True),
    TextPlace("recall log", "recalls.db", "rows"),
    TextPlace("log of the recall log", "recalls.db-*", "log"),
    TextPlace("copies", "backups/*.db", "copies"),
    TextPlace("copies next to the database", "backups/*.db", "copies", by_database=True),
    TextPlace(
        "encrypted backups",
        "backups/*.enc",
        "named",
        "It is encrypted. Delete it, or restore it, purge again and make a new one.",
    ),
    TextPlace(
        "damaged databases kept by a repair",
        "backups/*-damaged/*",
        "named",
        "It is damaged, so rows cannot be deleted. Delete the file.",
    ),
    TextPlace("half-made copies", "backups/*.part*", "files"),
    TextPlace("half-made copies by the database", "backups/*.part*", "files", by_database=True),
    TextPlace("staging of restores", ".zapomni-staging-*/**/*", "files", by_database=True),
    TextPlace("spool", "spool/**/*", "files"),
    TextPlace("known folders", "roots.json", "entries"),
    TextPlace("list of exports", EXPORTS, "entries"),
    TextPlace(
        "local FalkorDB server",
        "falkordb/**/*",
        "named",
        "The server's log on disk drops what was deleted when it is rewritten: BGREWRITEAOF.",
    ),
    TextPlace("settings", "config.toml", "named", "It is yours to edit."),
    TextPlace("names for the graph", "gazetteer.txt", "named", "It is yours to edit."),
    TextPlace("record of init", "init.json", "named", "`zapomni init --uninstall` needs it."),
    TextPlace("key of captures", "capture.key*", "no text"),
    TextPlace("compiled patterns of hooks", "patterns", "no text"),
    TextPlace("repositories that talk to remotes of sync", "sync/**/*", "no text"),
    TextPlace("id of this device", "device*", "no text"),
    TextPlace("mark that modes cannot be repaired", "open-home", "no text"),
    TextPlace("models", "models/**/*", "no text"),
    TextPlace("socket, lock and log of the shared process", "run/*", "no text"),
)


def find_files(settings: Settings, place: TextPlace) -> Iterator[Path]:
    """Return the files of a place that exist."""
    database = settings.observations_path
    folder = database.parent if place.by_database else settings.home
    for path in sorted(folder.glob(place.pattern.format(database=database.name))):
        if path.is_file() and not path.is_symlink():
            yield path


def find_text(settings: Settings, text: str) -> Iterator[tuple[TextPlace | None, Path]]:
    """Read every byte under the home folder; return the files where a text still occurs.

    Files of no place are read, too. ASCII letters count in any case, as in a search to purge by.
    """
    places = {path: place for place in PLACES for path in find_files(settings, place)}
    everything = dict.fromkeys(places)
    everything.update(dict.fromkeys(p for p in sorted(settings.home.rglob("*")) if p.is_file()))
    wanted = {text.lower().encode(), json.dumps(text.lower())[1:-1].encode()}
    for path in everything:
        place = places.get(path)
        if (place is None or place.treatment != "no text") and _contains(path, wanted):
            yield place, path


def _contains(path: Path, wanted: set[bytes]) -> bool:
    overlap = max(map(len, wanted))
    tail = b""
    try:
        with path.open("rb") as stream:
            while block := stream.read(BLOCK):
                content = tail + block.lower()
                if any(part in content for part in wanted):
                    return True
                tail = content[-overlap:]
    except OSError:
        return False
    return False


def note_export(settings: Settings, path: Path, kind: str) -> None:
    """Remember a file or folder written outside of the home folder, so that a purge can name it."""
    target = path.absolute()
    if target.is_relative_to(settings.home) or target in list_exports(settings):
        return
    entry = {"path": str(target), "kind": kind, "at": datetime.now(UTC).isoformat()}
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(settings.home / EXPORTS, flags, 0o600)
    try:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(descriptor)


def list_exports(settings: Settings) -> dict[Path, str]:
    """Return what was written outside of the home folder and is still there, and its kind."""
    try:
        lines = (settings.home / EXPORTS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, ConfigurationError):
        return {}
    found: dict[Path, str] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            path = Path(entry["path"])
        except (ValueError, TypeError, KeyError):
            continue
        if path.exists():
            found[path] = str(entry.get("kind", ""))
    return found

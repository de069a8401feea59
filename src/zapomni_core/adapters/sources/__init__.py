"""Sources of an import: one file each, how another program's records are found and read.

A source knows a format and nothing else: it finds files and streams items out of them, in the order
in which they happened. Redaction, projects, storage, resuming and the report are the pipeline's
(`workflows/import_sources.py`). To add a source, write a module with a `SOURCE` that has the
attributes and methods of `ImportSource`, and add its name to `SOURCES`.

What every source keeps to:

- It reads with `open_regular` and `read_lines` (or a streaming parser) and never a whole file.
- A record's `native_id` is the id that its program gave it, unique within the source. It is neither
  a line number nor a path where the program has something better: files move and are rewritten.
- Damage never raises: a record that cannot be read is a `SkippedRecord` with the reason, in words
  without any text of the record. Only a file that is of another format raises `FormatError`.
- An item's `resume` is the offset to go on at once the item is stored. What is before it is not
  read again, so it must not be needed again. Records between it and the item are read twice and
  recognized by their `native_id`. 0, in formats without offsets: the file is read from its start.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

__all__ = [
    "DATABASES",
    "EDITED",
    "KNOWN_SESSION",
    "MAX_LINE",
    "NEVER_READ",
    "OF_FOLDER",
    "SOURCES",
    "FormatError",
    "FoundFile",
    "ImportSource",
    "ImportedEvent",
    "ImportedMemory",
    "Item",
    "Line",
    "MissingLibraryError",
    "SkippedRecord",
    "SourceEnvironment",
    "UnreadableFileError",
    "find_files",
    "get_source",
    "open_regular",
    "parse_object",
    "read_lines",
]

SOURCES = {
    "claude-code": "claude_code",
    "claude-memory": "claude_memory",
    "instructions": "instructions",
    "adr": "decisions",
    "git": "git_history",
    "codex": "codex",
    "claude-mem": "claude_mem",
    "mem0": "mem0",
    "mcp-memory": "mcp_memory",
    "mcp-memory-service": "mcp_memory_service",
    "basic-memory": "basic_memory",
    "gemini": "gemini",
    "opencode": "opencode",
    "copilot": "copilot",
    "chatgpt": "chatgpt",
    "claude-ai": "claude_ai",
    "obsidian": "obsidian",
    "aider": "aider",
    "cursor": "cursor",
}
"""The modules of this package by the name a user gives, in the order in which they are listed."""

OF_FOLDER = frozenset(["adr", "aider", "claude-memory", "git", "instructions", "obsidian"])
"""Those of which a part, or all, is in the repository that the user is in."""

EDITED = frozenset(["adr", "basic-memory", "claude-memory", "instructions", "obsidian"])
"""Those whose files people and agents edit: what is no longer in a file is reported."""

KNOWN_SESSION = "prompt of a session that is known"
"""Why something that is left of a session is not imported."""

MAX_LINE = 16 * 1024 * 1024
# A megabyte of `[],` becomes twenty in memory.
MAX_VALUES = 1_000_000
BLOCK = 1 << 18

# Databases are opened by SQLite alone: to close another handle of one would drop the locks that
# this process has on it.
DATABASES = frozenset([".db", ".sqlite", ".sqlite3", ".vscdb"])

# Files with credentials, whatever folder a user names.
NEVER_READ = frozenset(
    (
        *(".claude.json", ".credentials.json", "auth.json", "oauth_creds.json", "credentials.json"),
        *("mcp-oauth-tokens.json", "google_accounts.json", ".netrc", ".git-credentials", ".env"),
        *("hosts.yml", "apps.json", "mcp-secrets", "mcp-auth.json"),
    )
)


class FormatError(ValueError):
    """A file is not of the format that the source reads; the message says what to do."""

    reason = "file of another format"
    """What the report counts it as."""


class UnreadableFileError(FormatError):
    """A file of the right format cannot be read: it is gone, damaged, or another user's."""

    reason = "file that cannot be read"


class MissingLibraryError(FormatError):
    """A file needs a library that is not installed; it is read once that is."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"To read {what}, install zapomni[{extra}].")
        self.reason = f"{what}: install zapomni[{extra}]"


@dataclass(frozen=True)
class SourceEnvironment:
    """Where a source searches."""

    home: Path
    """The user's home folder."""
    environ: Mapping[str, str]
    folder: Path
    """Where the user is: a repository, for sources that are part of one."""
    path: Path | None = None
    """A file or folder that the user named instead of the source's own places."""


@dataclass
class ReadProgress:
    """How far a file is read, in formats without offsets: for the bar only."""

    bytes: int = 0


@dataclass(frozen=True)
class FoundFile:
    """A file, database or repository with records."""

    path: Path
    bytes: int
    newest: datetime
    """When it was changed last."""
    oldest: datetime
    """About when its first record was made."""
    records: int = 1
    """How many sessions, memories or notes it has, as far as that is known without reading it."""
    deleted_after: datetime | None = None
    """When the program that wrote it will delete it; None: never."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the source found out about it and `read` needs. `stamp`: a text that changes when it has
    to be read again although the file itself is unchanged."""
    progress: ReadProgress = field(default_factory=ReadProgress, compare=False)


@dataclass(frozen=True, slots=True)
class ImportedEvent:
    """Something an agent did, as its host's hook would have reported it."""

    native_id: str
    host: str
    """Whose hook payload it is: a name of `modules.observations.HOSTS`."""
    payload: dict[str, Any]
    """With the session's id and the folder, under the names that this host uses."""
    session_id: str
    folder: str
    when: datetime | None
    branch: str = ""
    project: str = ""
    """A project's name, if the folder is not known."""
    is_remnant: bool = False
    """Whether it counts only if nothing else is known of its session."""
    resume: int = 0


@dataclass(frozen=True, slots=True)
class ImportedMemory:
    """A text to keep."""

    native_id: str
    text: str
    kind: str = "note"
    tags: tuple[str, ...] = ()
    title: str = ""
    """Stored as metadata, and before the text if the text does not begin with it."""
    when: datetime | None = None
    folder: str = ""
    """Where it was said: its repository is the memory's project. It need not exist."""
    project: str = ""
    """A project's name or key, if there is no folder; `*`: it is global."""
    parent: str = ""
    position: int = 0
    supersedes: str | tuple[str, ...] = ""
    """The `native_id` of a record that it replaces, or of several."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    follows: bool = False
    """Whether a change of the record later changes the memory."""
    cites: tuple[str, ...] = ()
    pinned: bool = False
    session_id: str = ""
    """The agent's session it is from, if hooks may have captured that."""
    resume: int = 0


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """Something that is not imported."""

    reason: str
    """A few words, the same for all records of a kind; no text of the record."""
    count: int = 1
    resume: int = 0


Item = ImportedEvent | ImportedMemory | SkippedRecord


class ImportSource(Protocol):
    """Finds and reads the records of another program; one module of this package each."""

    name: str
    """What a user calls it: `zapomni import NAME`. It is part of every item's identity."""
    title: str
    """What it is, in the list: "Claude Code sessions"."""

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        """Return what there is to read, the oldest first; nothing if the program is not here.

        Raises:
            FormatError: A path was given, and it holds nothing of this format.
        """
        ...

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        """Yield the items of a file, beginning at a byte.

        Raises:
            FormatError: The file is not of this format, or of a newer one.
            OSError: It cannot be read.
        """
        ...


def get_source(name: str) -> ImportSource:
    """Import a source; `SOURCES` has its name."""
    source: ImportSource = import_module(f"{__name__}.{SOURCES[name]}").SOURCE
    return source


# --- Reading files ----------------------------------------------------------------------


def find_files(root: Path, *suffixes: str, depth: int = 8) -> Iterator[Path]:
    """Yield the regular files beneath a folder whose names end so, without following links.

    The folder itself may be a link: the user made it, or named it. Files of `NEVER_READ` and what
    cannot be listed are passed over.
    """
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.name in NEVER_READ:
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth > 0:
                    yield from find_files(Path(entry.path), *suffixes, depth=depth - 1)
            elif entry.is_file(follow_symlinks=False) and entry.name.endswith(suffixes):
                yield Path(entry.path)
        except OSError:
            continue


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file for reading.

    Raises:
        OSError: It is a link, a pipe, a file with credentials, or not there.
    """
    if path.name in NEVER_READ:
        raise PermissionError("a file with credentials")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    return os.fdopen(descriptor, "rb", buffering=BLOCK)


class Line(NamedTuple):
    """A line of a file, and where it is."""

    start: int
    end: int
    """The offset after its end."""
    data: bytes
    """Without its line feed; empty if the line is longer than `MAX_LINE`."""
    is_whole: bool
    """Whether a line feed ends it; otherwise the file ends here, perhaps in the middle."""

    @property
    def is_too_long(self) -> bool:
        """Whether it was not read because of its length."""
        return not self.data and self.end - self.start > MAX_LINE


def read_lines(stream: IO[bytes], offset: int = 0) -> Iterator[Line]:
    """Yield the lines of a file, beginning at a byte; blank ones are passed over.

    Only a line feed ends a line: JSON may contain every other separator that Unicode knows.
    """
    stream.seek(offset)
    while data := stream.readline(MAX_LINE + 1):
        start, offset = offset, offset + len(data)
        is_whole = data.endswith(b"\n")
        if not is_whole and len(data) > MAX_LINE:
            while not is_whole and (rest := stream.readline(BLOCK)):
                offset += len(rest)
                is_whole = rest.endswith(b"\n")
            yield Line(start, offset, b"", is_whole)
        elif data := data.strip():
            yield Line(start, offset, data, is_whole)


def parse_object(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if it is none, too deep, or has too many values."""
    if data.count(b",") + data.count(b"[") > MAX_VALUES:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

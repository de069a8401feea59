"""What sources share: files of other programs found, databases in use, hostile archives, times."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, LiteralString, cast

from zapomni_core.adapters.sources import (
    DATABASES,
    NEVER_READ,
    FormatError,
    FoundFile,
    Item,
    SkippedRecord,
    SourceEnvironment,
    find_files,
    open_regular,
)

__all__ = [
    "ForeignFileError",
    "describe_file",
    "find_named",
    "first_text",
    "has_tables",
    "is_archive",
    "is_database",
    "kind_or_note",
    "open_database",
    "open_gzip",
    "open_member",
    "parse_mapping",
    "read_pages",
    "read_text",
    "read_time",
    "safe_members",
    "short_hash",
    "skip_damage",
    "text_list",
]

BUSY_MS = 2000
PAGE = 50
# JSON of a chat is a tenth of its size in an archive, seldom a fiftieth; a bomb is a thousandth.
MAX_RATIO = 200
MAX_UNPACKED = 8 << 30
MAX_MEMBERS = 100_000
_SMALL = 1 << 20

LIST_TABLES: LiteralString = "SELECT name FROM sqlite_master WHERE type = 'table'"
"""Tables, not views: a view may hold any query."""


class ForeignFileError(Exception):
    """A file of another program cannot be read; the message says why, without its content."""


def describe_file(path: Path, **known: Any) -> FoundFile | None:
    """Return a regular file as something to read; None if it is none, or has credentials."""
    try:
        status = path.lstat()
    except (OSError, ValueError):  # A name that no file can have: it came out of a setting.
        return None
    if not stat.S_ISREG(status.st_mode) or path.name in NEVER_READ:
        return None
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    return FoundFile(path, status.st_size, changed, known.pop("oldest", changed), **known)


def find_named(
    environment: SourceEnvironment,
    usual: Iterable[Path],
    accepts: Callable[[Path], bool],
    expected: str,
    *suffixes: str,
    survey: LiteralString = "",
) -> list[FoundFile]:
    """Return the files of a source: those that the user named, otherwise those in the usual places.

    Args:
        environment: Where to search, and what the user named.
        usual: Where the program stores them.
        accepts: Whether a file has the source's format, by how it begins.
        expected: What the user should name instead, for the message.
        suffixes: How names in a folder end that the user named.
        survey: Counts the `records` of a database, and returns the time of the `oldest`.

    Raises:
        FormatError: Nothing of this format is where the user said.
    """
    paths = usual
    if environment.path is not None:
        named = environment.path.resolve()
        paths = find_files(named, *suffixes) if named.is_dir() else [named]
    found = []
    for path in dict.fromkeys(paths):
        try:
            if (file := describe_file(path)) is not None and accepts(path):
                found.append(_survey(file, survey) if survey and is_database(path) else file)
        except (ForeignFileError, OSError, ValueError, sqlite3.Error):
            continue
    if environment.path is not None and not found:
        raise FormatError(f"There is nothing of this format; name {expected}")
    return sorted(found, key=lambda file: (file.oldest, file.path))


def skip_damage(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items up to where the file cannot be read any further, and count the rest as one."""
    try:
        yield from items
    except ForeignFileError as error:
        yield SkippedRecord(str(error))
    except sqlite3.Error as error:
        yield SkippedRecord(_reason(error))


def short_hash(text: str) -> str:
    """Return a hash that names a text among those of one record; no secret."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def read_text(path: Path, limit: int = 10_000_000) -> str:
    """Return the text of a file up to a length; bytes that are not UTF-8 are marked."""
    with open_regular(path) as stream:
        return stream.read(limit).decode("utf-8-sig", "replace")


def text_list(value: Any) -> list[str]:
    """Return texts, whether they are a list, JSON of a list, or one text; empty ones left out."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = [value]
    if isinstance(value, str):
        value = [value]
    parts = value if isinstance(value, list) else []
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]


def is_archive(path: Path) -> bool:
    """Return whether a file is meant to be a ZIP archive, by its name."""
    return path.suffix.lower() == ".zip"


def is_database(path: Path) -> bool:
    """Return whether a file is meant to be an SQLite database, by its name."""
    return path.suffix in DATABASES


def open_database(path: Path) -> sqlite3.Connection:
    """Open another program's SQLite file for reading; the program may be writing to it.

    Raises:
        ForeignFileError: It is no database, or cannot be opened.
    """
    try:
        database = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_MS / 1000
        )
        database.row_factory = sqlite3.Row
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        database.execute("PRAGMA query_only = ON")
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
    except sqlite3.Error as error:
        raise ForeignFileError(_reason(error)) from error
    return database


def has_tables(path: Path, *names: str) -> bool:
    """Return whether a file is a database with these tables."""
    try:
        with closing(open_database(path)) as database:
            found = {row["name"] for row in database.execute(LIST_TABLES)}
    except (ForeignFileError, sqlite3.Error):
        return False
    return found.issuperset(names)


def _survey(file: FoundFile, query: LiteralString) -> FoundFile:
    try:
        with closing(open_database(file.path)) as database:
            row = database.execute(query).fetchone()
    except (ForeignFileError, sqlite3.Error):
        return file
    return replace(file, records=row["records"], oldest=read_time(row["oldest"]) or file.oldest)


def read_pages(
    database: sqlite3.Connection, query: LiteralString, start: Any = 0, *given: Any
) -> Iterator[sqlite3.Row]:
    """Yield the rows of a query that goes on after the `place` of the last one it returned.

    The query takes the place, `given`, and how many rows to return. Nothing is locked between
    pages: a reader that holds a lock for minutes would stop the program that owns the file.

    Raises:
        ForeignFileError: The file is damaged, or locked for too long.
    """
    place = start
    while True:
        try:
            rows = database.execute(query, (place, *given, PAGE)).fetchall()
        except sqlite3.Error as error:
            raise ForeignFileError(_reason(error)) from error
        yield from rows
        if len(rows) < PAGE:
            return
        if not rows[-1]["place"] > place:
            raise ForeignFileError("the database is damaged")
        place = rows[-1]["place"]


def _reason(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "the database is locked by another program"
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return "the database cannot be opened for reading"
    return "the database is damaged"


def safe_members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """Return an archive's files by name, without those that it must not have.

    Raises:
        ForeignFileError: It is no archive, or it unpacks to more than is plausible.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        raise ForeignFileError("the archive is damaged") from error
    if len(members) > MAX_MEMBERS:
        raise ForeignFileError("the archive has too many files")
    found = {}
    for member in members:
        parts = member.filename.replace("\\", "/").split("/")
        linked = stat.S_ISLNK(member.external_attr >> 16)
        if member.is_dir() or linked or ".." in parts or parts[0] in ("", "~") or ":" in parts[0]:
            continue
        if member.flag_bits & 1:
            raise ForeignFileError("the archive is encrypted")
        found[member.filename] = member
    return found


@contextmanager
def open_member(path: Path, member: zipfile.ZipInfo) -> Iterator[BinaryIO]:
    """Open one file of an archive for reading, as a stream.

    Raises:
        ForeignFileError: It unpacks to more than is plausible, or is damaged.
    """
    if member.file_size > max(_SMALL, MAX_RATIO * member.compress_size):
        raise ForeignFileError("the archive unpacks to far more than its size")
    if member.file_size > MAX_UNPACKED:
        raise ForeignFileError("a file in the archive is too large")
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            yield cast("BinaryIO", stream)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise ForeignFileError("the archive is damaged") from error


@contextmanager
def open_gzip(stream: BinaryIO, size: int) -> Iterator[BinaryIO]:
    """Open a gzip stream of `size` bytes; it ends where it unpacks to more than is plausible."""
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield io.BufferedReader(_Bounded(unpacked, max(_SMALL, MAX_RATIO * size)))
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ForeignFileError("the archive is damaged") from error


class _Bounded(io.RawIOBase):
    """A stream that raises once it has given more than it may."""

    def __init__(self, stream: gzip.GzipFile, limit: int) -> None:
        self.stream, self.limit, self.place = stream, limit, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Stay where it is: only the place of the next byte can be asked for."""
        if (offset + self.place if whence == 1 else offset) != self.place:
            raise io.UnsupportedOperation
        return self.place

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer))
        self.place += len(data)
        if self.place > self.limit:
            raise ForeignFileError("the archive unpacks to far more than its size")
        buffer[: len(data)] = data
        return len(data)


_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?")


def first_text(values: Any, *names: str) -> str:
    """Return the first of these fields of an object that is a text."""
    for name in names if isinstance(values, dict) else ():
        if isinstance(value := values.get(name), str) and value:
            return value
    return ""


def read_time(*values: Any) -> datetime | None:
    """Return the first of these that is a time: ISO text, or a number of seconds or finer.

    A text without a zone is UTC: the programs that write such texts write UTC.
    """
    for value in values:
        number = value
        if isinstance(value, str):
            if not _ISO.match(value):
                if not value.strip().replace(".", "", 1).isdecimal() or len(value) > 20:
                    continue
                number = float(value)
            else:
                try:
                    found = datetime.fromisoformat(value.strip()[:40])
                except ValueError:
                    continue
                if not 1970 <= found.year < 3000:
                    continue
                return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        for scale in (1, 1e3, 1e6, 1e9):
            # From 2001 to 2286: nothing else is a plausible number of seconds.
            if 1e9 <= number / scale < 1e10:
                return datetime.fromtimestamp(number / scale, UTC)
    return None


def parse_mapping(value: Any) -> dict[str, Any]:
    """Return an object, also one that came as JSON text; empty if it is none."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return dict(value) if isinstance(value, dict) else {}


_KINDS = frozenset(
    "bug decision fact howto idea note preference reference summary task todo".split()
)


def kind_or_note(value: Any) -> str:
    """Return the kind of a memory if the word is one that is used here; else note."""
    return value.lower() if isinstance(value, str) and value.lower() in _KINDS else "note"

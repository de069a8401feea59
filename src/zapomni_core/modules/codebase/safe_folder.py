"""Opens files of one folder and of no other, whatever the disk looks like or turns into.

A path is opened component by component, each relative to the folder opened before it and none
through a symbolic link, so there is no moment at which a swapped link can lead away. What was
opened is compared with what the name referred to before and after reading: a file that has a second
name anywhere (a hard link), lies on another file system, or changes meanwhile is not handed out.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from zapomni_core.exceptions import ValidationError

__all__ = ["Name", "RefusedError", "SafeFolder", "stamp_of"]


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe put in a file's place would keep us waiting for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_BLOCK = 1 << 20
_OCTAL = re.compile(rb"\\([0-7]{3})")


class RefusedError(Exception):
    """The file is not handed out; `reason` says why in one word or two."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Name(NamedTuple):
    """An entry of a folder."""

    name: str
    is_folder: bool
    reason: str
    """Why it is neither a folder nor a file to be read; "" if it is one."""


def stamp_of(status: os.stat_result) -> str:
    """Return a text that changes whenever the file does."""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


class SafeFolder:
    """A folder, opened once; everything else is opened relative to it.

    Raises:
        ValidationError: It is missing, not a folder, or may not be read (VAL_004).
    """

    def __init__(self, root: Path) -> None:
        try:
            # The root itself may be reached through links: naming it was the user's decision.
            real = os.path.realpath(root, strict=True)
            self._fd = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise ValidationError(_why_not(error), "VAL_004") from error
        self._device = os.fstat(self._fd).st_dev
        self._mounts = _mounts_below(real)
        self.path = Path(real)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._fd)

    def names(self, folder: str) -> list[Name]:
        """Return what a folder holds, sorted; "" is the root itself.

        Raises:
            RefusedError: The folder cannot be entered.
        """
        try:
            with self._folder(self._parts(folder)) as fd, os.scandir(fd) as entries:
                return sorted(self._name(folder, entry) for entry in entries)
        except OSError as error:
            raise RefusedError(_reason(error)) from error

    def statuses(self, folder: str, names: Sequence[str]) -> list[os.stat_result | str]:
        """Return what is known of regular files of one folder without opening them.

        For one that is none there is the reason instead.
        """
        found: list[os.stat_result | str] = []
        try:
            with self._folder(self._parts(folder)) as fd:
                found.extend(self._status(fd, folder, name) for name in names)
        except RefusedError as refused:
            found.extend(refused.reason for _ in names)
        return found

    def read(self, path: str, limit: int) -> tuple[os.stat_result, bytes]:
        """Return a regular file's contents, whole and unchanged while they were read.

        Raises:
            RefusedError: It is no regular file of this folder, too large, or being changed.
        """
        *folders, name = self._parts(path) or [""]
        with self._folder(folders) as folder:
            before = self._checked(folder, name)
            if before.st_size > limit:
                raise RefusedError("too large")
            try:
                data = _read_same(folder, name, before, limit)
            except OSError as error:
                raise RefusedError(_reason(error)) from error
            # A second name that came and went meanwhile has changed the time of change.
            if data is None or not _same(before, self._checked(folder, name)):
                raise RefusedError("changing")
        return before, data

    def _parts(self, path: str) -> list[str]:
        parts = path.split("/") if path else []
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise RefusedError("outside")
        if self._mounts and any(f"{path}/".startswith(f"{point}/") for point in self._mounts):
            raise RefusedError("mount")
        return parts

    @contextmanager
    def _folder(self, parts: list[str]) -> Iterator[int]:
        current = self._fd
        for part in parts:
            try:
                inner = os.open(part, _FOLDER, dir_fd=current)
            except (OSError, ValueError) as error:
                raise RefusedError(_reason(error)) from error
            finally:
                if current != self._fd:
                    os.close(current)
            current = inner
            if os.fstat(current).st_dev != self._device:
                os.close(current)
                raise RefusedError("mount")
        try:
            yield current
        finally:
            if current != self._fd:
                os.close(current)

    def _status(self, fd: int, folder: str, name: str) -> os.stat_result | str:
        try:
            self._parts(f"{folder}/{name}" if folder else name)
            return self._checked(fd, name)
        except RefusedError as refused:
            return refused.reason

    def _checked(self, folder: int, name: str) -> os.stat_result:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (OSError, ValueError) as error:
            raise RefusedError(_reason(error)) from error
        if stat.S_ISLNK(status.st_mode):
            raise RefusedError("symbolic link")
        if stat.S_ISDIR(status.st_mode):
            raise RefusedError("folder")
        if not stat.S_ISREG(status.st_mode):
            raise RefusedError("not a file")
        if status.st_dev != self._device:
            raise RefusedError("mount")
        if status.st_nlink != 1:
            raise RefusedError("hard link")
        return status

    def _name(self, folder: str, entry: os.DirEntry[str]) -> Name:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if path in self._mounts:
            return Name(entry.name, is_folder=False, reason="mount")
        if entry.is_symlink():
            return Name(entry.name, is_folder=False, reason="symbolic link")
        is_folder = entry.is_dir(follow_symlinks=False)
        is_file = entry.is_file(follow_symlinks=False)
        return Name(entry.name, is_folder, "" if is_folder or is_file else "not a file")


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (
        after.st_nlink == 1
        and before.st_dev == after.st_dev
        and stamp_of(before) == stamp_of(after)
        and stat.S_ISREG(after.st_mode)
    )


def _read_same(folder: int, name: str, before: os.stat_result, limit: int) -> bytes | None:
    """Read the file that was looked at; None if it has become another."""
    descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        if not _same(before, os.fstat(descriptor)):
            return None
        data = bytearray()
        while block := os.read(descriptor, _BLOCK):
            data += block
            if len(data) > limit:
                raise RefusedError("too large")
        return bytes(data) if _same(before, os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)


def _reason(error: OSError | ValueError) -> str:
    code = error.errno if isinstance(error, OSError) else None
    return _REASONS.get(code, "unreadable")


_REASONS: dict[int | None, str] = {
    errno.ELOOP: "symbolic link",
    errno.ENOTDIR: "symbolic link",
    errno.ENOENT: "gone",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENXIO: "not a file",
}


def _why_not(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "There is no such folder"
    if isinstance(error, NotADirectoryError):
        return "This is not a folder"
    if isinstance(error, PermissionError):
        return "This folder may not be read; check its permissions"
    return "This folder cannot be opened"


def _mounts_below(root: str) -> frozenset[str]:
    """Return what is mounted below: a folder of the same disk may be, and its device says nothing.

    Mounting takes a privilege, so looking once is enough.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:  # pragma: no cover - not Linux
        return frozenset()
    prefix = root.rstrip("/") + "/"
    points = (
        os.fsdecode(_OCTAL.sub(lambda m: bytes([int(m[1], 8)]), line.split()[4])) for line in lines
    )
    return frozenset(point.removeprefix(prefix) for point in points if point.startswith(prefix))

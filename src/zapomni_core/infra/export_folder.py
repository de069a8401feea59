"""An export folder on disk: read and written without following a link out of it.

Every file is replaced as a whole: written next to it under another name, forced to the disk and
renamed. A file that would stay the same is not touched. One process at a time has the folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from zapomni_core.exceptions import ProcessingError, ValidationError

__all__ = ["ExportFolder"]

LOCK_SECONDS = 10.0
MAX_FILE_BYTES = 64 << 20
_PART = ".zapomni-part-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ExportFolder:
    """A folder whose files are named by paths relative to it, with `/` between the parts.

    Args:
        path: The folder. It may itself be reached through links: naming it was the user's decision.
        create: Make it if it is missing, for its owner alone.

    Raises:
        ValidationError: There is no such folder, or it cannot be opened.
        ProcessingError: EXPORT_001, another process has it.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        try:
            if create:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(
                os.path.realpath(path, strict=True), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            )
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ValidationError(_why_not(error), "VAL_004") from error
        self.path = path
        try:
            self._lock()
            self._remove_parts()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def _lock(self) -> None:
        # On the folder itself, so that no file of ours gets into a user's repository.
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    return  # A file system without locks.
                if time.monotonic() > deadline:
                    raise ProcessingError(
                        "Another process is working in this folder. Try again when it is done.",
                        "EXPORT_001",
                        original_exception=error,
                    ) from error
                time.sleep(0.05)
            else:
                return

    def _remove_parts(self) -> None:
        """Remove what an interrupted process left."""
        for folder in ("", *self.folders()):
            with self._opened(folder) as fd:
                for name in os.listdir(fd):  # noqa: PTH208 - of an open folder
                    if name.startswith(_PART):
                        with suppress(OSError):
                            os.unlink(name, dir_fd=fd)

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            with self._opened(folder) as fd:
                found = os.listdir(fd)  # noqa: PTH208 - of an open folder
                return sorted(name for name in found if not name.startswith(_PART))
        except FileNotFoundError:
            return []

    def folders(self, folder: str = "") -> Iterator[str]:
        """Return all folders below one, links and hidden ones excepted."""
        with self._opened(folder) as fd, os.scandir(fd) as entries:
            found = sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
        for name in found:
            path = f"{folder}/{name}" if folder else name
            yield path
            yield from self.folders(path)

    def files(self, folder: str, suffix: str) -> Iterator[str]:
        """Return the paths of all files below a folder whose names end so, sorted by folder."""
        if folder and not self._is_folder(folder):
            return
        for inner in (folder, *self.folders(folder)):
            for name in self.names(inner):
                if name.endswith(suffix) and not name.startswith("."):
                    path = f"{inner}/{name}" if inner else name
                    if not self._is_folder(path):
                        yield path

    def _is_folder(self, path: str) -> bool:
        try:
            with self._opened(path):
                return True
        except (OSError, ValidationError):
            return False

    def read(self, path: str, limit: int = MAX_FILE_BYTES) -> bytes | None:
        """Return a file's contents; None if there is none.

        Raises:
            ValidationError: It is a link or no regular file, lies behind a link, or is too large.
        """
        folder, _, name = path.rpartition("/")
        try:
            with self._opened(folder) as fd:
                file = os.open(name, _FILE, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ValidationError(f"{path} is a link or cannot be read", "VAL_004") from error
        with os.fdopen(file, "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValidationError(f"{path} is not a file", "VAL_004")
            if status.st_size > limit:
                raise ValidationError(f"{path} is larger than {limit >> 20} MiB", "VAL_003")
            return stream.read(limit + 1)

    def write(self, path: str, data: bytes, limit: int = MAX_FILE_BYTES) -> bool:
        """Make this the content of a file; return whether it was another before.

        Raises:
            ValidationError: The file is a link, or lies behind one.
            OSError: The disk is full or refuses; the file is what it was.
        """
        if self.read(path, limit) == data:
            return False
        folder, _, name = path.rpartition("/")
        with _translated(), self._opened(folder, create=True) as fd:
            part = _PART + secrets.token_hex(8)
            try:
                with os.fdopen(os.open(part, _NEW, 0o600, dir_fd=fd), "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(part, name, src_dir_fd=fd, dst_dir_fd=fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=fd)
                raise
        return True

    def remove(self, path: str) -> bool:
        """Remove a file; return whether there was one."""
        folder, _, name = path.rpartition("/")
        try:
            with _translated(), self._opened(folder) as fd:
                os.unlink(name, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def flush(self) -> None:
        """Force the names of files to the disk."""
        for folder in ("", *self.folders()):
            with self._opened(folder) as fd, suppress(OSError):
                os.fsync(fd)

    @contextmanager
    def _opened(self, folder: str, *, create: bool = False) -> Iterator[int]:
        current = os.dup(self._fd)
        try:
            for part in folder.split("/") if folder else []:
                if part in ("", ".", "..") or "\0" in part:
                    raise ValidationError("a path leads out of the folder", "VAL_004")
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=current)
                try:
                    inner = os.open(part, _FOLDER, dir_fd=current)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        raise ValidationError(
                            f"{folder} is a link; remove it, nothing outside is touched", "VAL_004"
                        ) from error
                    raise
                os.close(current)
                current = inner
            yield current
        finally:
            os.close(current)


@contextmanager
def _translated() -> Iterator[None]:
    """Say it in words if the folder may not be written to; a full disk has words of its own."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise ValidationError(
            "This folder may not be written to; check its permissions", "VAL_004"
        ) from error


def _why_not(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "There is no such folder"
    if isinstance(error, NotADirectoryError | FileExistsError):
        return "This is not a folder"
    return "This folder cannot be opened; check its permissions"

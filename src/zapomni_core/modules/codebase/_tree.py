"""The files of a repository that are worth reading, and their contents."""

from __future__ import annotations

import codecs
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Self

from zapomni_core.exceptions import ValidationError
from zapomni_core.modules.codebase._beneath import Beneath, RefusedError, stamp_of
from zapomni_core.modules.codebase._ignore import IgnoreFiles, SlowRulesError, git_paths
from zapomni_core.modules.codebase._models import FileEntry, Skipped, SourceFile
from zapomni_core.modules.codebase._unwanted import (
    unwanted_content,
    unwanted_file,
    unwanted_folder,
)

__all__ = ["Limits", "SourceTree", "content_hash"]

MAX_DEPTH = 100
# A clock ticks every few milliseconds: a file changed again within one has the same stamp.
SETTLED_NS = 100_000_000


class Limits(NamedTuple):
    """How much of a repository is read; what lies beyond is reported, not waited for."""

    files: int = 50_000
    file_bytes: int = 2_000_000
    seen: int = 1_000_000
    """Names looked at in all, wanted or not."""
    reported: int = 1_000
    """How many of the files left out are named; the rest is counted."""


def content_hash(data: bytes) -> str:
    """Return the hash that says whether contents are the same."""
    return blake2b(data, digest_size=16).hexdigest()


class SourceTree:
    """A repository's root. Lists what is worth reading, reads it, and keeps account of the rest.

    Attributes:
        skipped: The first files and folders left out, with the reason of each.
        skipped_counts: How many were left out for which reason.
        is_complete: False once a limit cut the listing short.

    Raises:
        ValidationError: The root is missing, not a folder, not readable, or a bare repository.
    """

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._beneath = Beneath(root)
        self.skipped: list[Skipped] = []
        self.skipped_counts: Counter[str] = Counter()
        self.is_complete = True
        if _is_bare(self._beneath):
            self._beneath.close()
            raise ValidationError(
                "This is a bare repository, which has no files; give a checkout of it", "VAL_004"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._beneath.close()

    @property
    def path(self) -> Path:
        """Where the root really is."""
        return self._beneath.path

    def files(self) -> Iterator[FileEntry]:
        """Yield what is worth reading, by name and size alone; nothing is opened."""
        found = 0
        for folder, paths in groupby(self._wanted(), key=lambda path: path.rpartition("/")[0]):
            names = [path.rpartition("/")[2] for path in paths]
            for name, status in zip(names, self._beneath.statuses(folder, names), strict=True):
                path = f"{folder}/{name}" if folder else name
                if isinstance(status, str):
                    self._skip(path, status)
                elif status.st_size > self._limits.file_bytes:
                    self._skip(path, "too large")
                elif found == self._limits.files:
                    self._stop("too many files")
                    return
                else:
                    found += 1
                    yield FileEntry(path, status.st_size, stamp_of(status))

    def read(self, path: str) -> SourceFile | None:
        """Return a file's contents; None, and an entry in `skipped`, if it is not to be had."""
        try:
            status, data = self._beneath.read(path, self._limits.file_bytes)
        except RefusedError as refused:
            self._skip(path, refused.reason)
            return None
        reason = unwanted_content(data)
        if reason:
            self._skip(path, reason)
            return None
        settled = time.time_ns() - status.st_ctime_ns > SETTLED_NS
        stamp = stamp_of(status) if settled else ""
        return SourceFile(path, stamp, content_hash(data), _as_utf8(data))

    def _wanted(self) -> Iterator[str]:
        try:
            yield from self._listed()
        except SlowRulesError:
            self._stop("ignore rules take too long")

    def _listed(self) -> Iterator[str]:
        """Yield the paths neither ignored nor in a folder nobody wants, each folder together."""
        own_rules = IgnoreFiles(self._beneath, ".zapomniignore")
        # Nothing listed, though something may be there: the root lies in an ignored folder of a
        # repository around it. Who names it wants it read.
        paths = git_paths(self._beneath.path) or self._walk(
            (IgnoreFiles(self._beneath, ".gitignore"), own_rules)
        )
        folders: dict[str, str] = {"": ""}
        for seen, path in enumerate(paths):
            if seen == self._limits.seen:
                self._stop("too many files")
                return
            folder, _, name = path.rpartition("/")
            if folder not in folders:
                folders[folder] = self._unwanted_on_the_way(folder)
            if reason := folders[folder] or _unwanted_name(name):
                self._skip(path, reason)
            elif not own_rules.ignores(path):
                yield path

    def _walk(self, rules: tuple[IgnoreFiles, ...]) -> Iterator[str]:
        """List files ourselves, where there is no git."""
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                names = self._beneath.names(folder)
            except RefusedError as refused:
                self._skip(folder, refused.reason)
                continue
            present = {name.name for name in names}
            for rule in rules:
                if rule.name not in present:
                    rule.has_none(folder)
            inner: list[str] = []
            for name in names:
                path = f"{folder}/{name.name}" if folder else name.name
                if name.is_folder:
                    inner.extend([path] if self._enters(path, rules) else [])
                elif name.reason:
                    self._skip(path, name.reason)
                elif not any(rule.ignores(path) for rule in rules):
                    yield path
            folders.extend(reversed(inner))

    def _enters(self, folder: str, rules: tuple[IgnoreFiles, ...]) -> bool:
        reason = self._unwanted_on_the_way(folder)
        if reason:
            self._skip(folder, reason)
        return not reason and not any(rule.ignores_folder(folder) for rule in rules)

    def _unwanted_on_the_way(self, folder: str) -> str:
        parts = folder.split("/")
        if len(parts) > MAX_DEPTH:
            return "too deep"
        return next(filter(None, map(unwanted_folder, parts)), "")

    def _skip(self, path: str, reason: str) -> None:
        self.skipped_counts[reason] += 1
        if len(self.skipped) < self._limits.reported:
            self.skipped.append(Skipped(path, reason))

    def _stop(self, reason: str) -> None:
        self.is_complete = False
        self.skipped_counts[reason] += 1


def _unwanted_name(name: str) -> str:
    # git lists a repository inside this one, whose files it does not know, as a folder.
    return unwanted_file(name) if name else "another repository"


def _is_bare(beneath: Beneath) -> bool:
    names = {name.name: name.is_folder for name in beneath.names("")}
    return (
        names.get("HEAD") is False
        and names.get("objects", False)
        and names.get("refs", False)
        and "config" in names
        and ".git" not in names
    )


def _as_utf8(data: bytes) -> bytes:
    """Return the text as UTF-8; what is none by any rule is read as Windows' western letters."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace").encode()
    return data

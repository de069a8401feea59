"""What the sources that are part of a repository have in common."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from zapomni_core.adapters.sources import SkippedRecord, open_regular
from zapomni_core.infra.projects import head_commit, project_of
from zapomni_core.shared.folders import lies_in

__all__ = ["SourceRepository", "read_text"]


class SourceRepository:
    """The repository of a folder, or the folder itself if it is in none.

    Attributes:
        root: Its top folder.
        key: What identifies the project.
    """

    def __init__(self, folder: Path) -> None:
        project = project_of(str(folder))
        self.root = project.root or str(folder)
        self.key = project.key

    @cached_property
    def head(self) -> str:
        """The commit that is checked out; empty if there is none."""
        return head_commit(self.root)

    def relative(self, path: Path) -> str:
        """Return where a path of the repository is in it; the whole path if it is elsewhere."""
        real = os.path.realpath(path)
        if not lies_in(real, self.root):
            return real
        inner = os.path.relpath(real, self.root)
        return "" if inner == "." else inner


def read_text(path: Path, limit: int) -> str | SkippedRecord:
    """Return the text of a file, or why it is not read."""
    try:
        with open_regular(path) as stream:
            data = stream.read(limit + 1)
    except OSError:
        return SkippedRecord("not a readable file")
    if len(data) > limit:
        return SkippedRecord("too large")
    if b"\0" in data:
        return SkippedRecord("no text")
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")

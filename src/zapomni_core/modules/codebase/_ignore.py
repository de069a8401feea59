"""Which files a repository wants left out: `.gitignore`, `.zapomniignore`, and git's own word."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from zapomni_core.infra.git import list_files
from zapomni_core.infra.projects import find_repository
from zapomni_core.modules.codebase._beneath import Beneath, RefusedError
from zapomni_core.modules.codebase._globs import Rules, parse_rules

__all__ = ["IgnoreFiles", "SlowRulesError", "git_paths"]

MAX_IGNORE_FILE = 256 * 1024
# Thousands of patterns on every path of a deep tree add up, though each is quick.
MATCHING_SECONDS = 20.0


class SlowRulesError(Exception):
    """The rules of a repository take longer than reading it would."""


def git_paths(root: Path) -> list[str] | None:
    """Return the tracked and the untracked, not ignored files below; None if git cannot say.

    Names only, and not to be trusted: the index is a file of the repository like any other.
    """
    folder = str(root)
    found = find_repository(folder)
    if found is None or found[0] == found[1]:
        return None
    return list_files(found[0], folder[len(found[0]) :].strip("/"))


_Nearest = tuple[tuple[int, Rules], ...]


@dataclass
class IgnoreFiles:
    """The rules of all files of one name, each for the folder it stands in and those below."""

    beneath: Beneath
    name: str
    _rules: dict[str, _Nearest] = field(default_factory=dict)
    _folders: dict[str, bool] = field(default_factory=lambda: {"": False})
    _spent: float = 0.0

    def ignores(self, path: str) -> bool:
        """Return whether a file is left out, itself or with a folder it is in.

        Raises:
            SlowRulesError: The rules have taken too long, for all paths together.
        """
        return self.ignores_folder(path.rpartition("/")[0]) or self._decide(path, is_folder=False)

    def ignores_folder(self, folder: str) -> bool:
        """Say the same of a folder; "" is the root, which never is."""
        unknown: list[str] = []
        while folder not in self._folders:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
        ignored = self._folders[folder]
        for inner in reversed(unknown):
            # What stands in an ignored folder cannot be taken back in.
            ignored = ignored or self._decide(inner, is_folder=True)
            self._folders[inner] = ignored
        return ignored

    def has_none(self, folder: str) -> None:
        """Learn that a folder has no such file, which saves looking for it."""
        self._rules[folder] = self._nearest(folder.rpartition("/")[0]) if folder else ()

    def _decide(self, path: str, *, is_folder: bool) -> bool:
        """Ask the nearest file of rules that says anything about it."""
        started = time.perf_counter()
        try:
            for start, rules in self._nearest(path.rpartition("/")[0]):
                verdict = rules.ignores(path[start:], is_folder=is_folder)
                if verdict is not None:
                    return verdict
            return False
        finally:
            self._spent += time.perf_counter() - started
            if self._spent > MATCHING_SECONDS:
                raise SlowRulesError

    def _nearest(self, folder: str) -> _Nearest:
        """Return the rules that hold in a folder, nearest first, and where their paths start."""
        if folder not in self._rules:
            above = self._nearest(folder.rpartition("/")[0]) if folder else ()
            own = self._read(f"{folder}/{self.name}" if folder else self.name)
            start = len(folder) + 1 if folder else 0
            self._rules[folder] = ((start, own), *above) if own else above
        return self._rules[folder]

    def _read(self, path: str) -> Rules | None:
        try:
            _, data = self.beneath.read(path, MAX_IGNORE_FILE)
        except RefusedError:
            return None
        return parse_rules(data.decode("utf-8", "surrogateescape"))

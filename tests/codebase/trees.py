"""Repositories to read: written from a dictionary, with or without git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from zapomni_core.modules.codebase import SourceTree, TreeLimits

GIT = (
    *("git", "-c", "user.name=Test", "-c", "user.email=test@example.org"),
    *("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"),
)


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    root.mkdir(parents=True, exist_ok=True)
    return root


def git(root: Path, *arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(
        [*GIT, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def listed(root: Path, limits: TreeLimits | None = None) -> list[str]:
    with SourceTree(root, limits) as tree:
        return sorted(entry.path for entry in tree.files())


def contents(root: Path) -> dict[str, bytes]:
    """Everything that can be had from a tree, by listing it and by asking for every name."""
    with SourceTree(root) as tree:
        names = [entry.path for entry in tree.files()]
        for folder, folders, files in os.walk(root, followlinks=False):
            place = Path(folder).relative_to(root)
            names += [str(place / name) for name in [*files, *folders]]
        found = {name: tree.read(name) for name in names}
    return {name: source.data for name, source in found.items() if source}

"""Decision records of a repository (ADR folders), one memory each, with what replaces what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from zapomni_core.adapters.sources import (
    FormatError,
    FoundFile,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    find_files,
)
from zapomni_core.adapters.sources.decision_text import (
    DecisionRecord,
    read_decision,
    replaced_records,
)
from zapomni_core.adapters.sources.repository import SourceRepository, read_text
from zapomni_core.infra.git import read_commits
from zapomni_core.shared.folders import lies_in, real_path

__all__ = ["SOURCE"]

# Where such folders are, from a repository's top, in capitals or not.
FOLDERS = (
    "adr", "adrs", "architecture", "architecture/decisions", "architecture/adr",
    "architecture-decision-record", "architecture-decision-records", "decision-record",
    "decision-records", "decisions", "doc/adr", "doc/architecture", "doc/architecture/decisions",
    "doc/decisions", "docs/adr", "docs/adrs", "docs/architecture", "docs/architecture/decisions",
    "docs/architecture/adr", "docs/architecture-decision-records", "docs/decision-records",
    "docs/decisions", "docs/dev/adr", "docs/design/adr",
)  # fmt: skip
MAX_BYTES = 1 << 20
MAX_RECORDS = 5000
# How far back the day is searched on which a record without a date was committed first.
MAX_COMMITS = 5000


class _Decisions:
    name = "adr"
    title = "decision records (ADR) of a repository"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        """Return the records, those that were replaced before those that replace them."""
        named = environment.path
        if named is not None and not named.is_dir():
            raise FormatError("Name a folder with decision records, or a repository with one.")
        root = named.resolve() if named else Path(SourceRepository(environment.folder).root)
        folders = [root] if named else []
        # A link of the repository may lead anywhere.
        folders += [
            inner for inner in _conventional(root) if lies_in(real_path(str(inner)), str(root))
        ]
        found = [one for folder in folders for one in _examine(folder)]
        if named is not None and not found:
            raise FormatError("There are no decision records (NNNN-title.md) in this folder.")
        return found

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        """Yield the record of a file."""
        del offset  # A record is the whole file.
        text = read_text(file.path, MAX_BYTES)
        if isinstance(text, SkippedRecord):
            yield text
            return
        record = read_decision(file.path.name, text)
        if record is None:
            yield SkippedRecord("no decision record")
            return
        repository = SourceRepository(file.path.parent)
        name = repository.relative(file.path)
        metadata: dict[str, object] = {"file": name}
        if record.status:
            metadata["status"] = record.status
        if record.number is not None:
            metadata["number"] = record.number
        if record.deciders:
            metadata["deciders"] = list(record.deciders)
        when = record.date or _first_commits(repository.root, repository.head).get(name)
        if when is None:
            when = file.newest
            metadata["time"] = "file"
        yield ImportedMemory(
            native_id=_native_id(repository, file.path),
            text=record.text,
            kind="decision",
            tags=("adr",),
            title=record.label,
            when=when,
            folder=repository.root,
            supersedes=tuple(
                _native_id(repository, file.path.with_name(one))
                for one in file.data.get("replaces", ())
            ),
            metadata=metadata,
            follows=True,
            cites=(name,),
        )


SOURCE = _Decisions()


def _conventional(root: Path) -> list[Path]:
    """Return the folders of a repository that are called as those with records are."""
    found: dict[str, list[Path]] = {}
    below = [("", root)]
    while below:
        prefix, folder = below.pop()
        try:
            inner = sorted(one for one in folder.iterdir() if one.is_dir())
        except OSError:
            continue
        for one in inner:
            name = prefix + one.name.lower()
            if name in FOLDERS:
                found.setdefault(name, []).append(one)
            if any(folder_name.startswith(f"{name}/") for folder_name in FOLDERS):
                below.append((f"{name}/", one))
    return [one for name in FOLDERS for one in found.get(name, ())]


def _native_id(repository: SourceRepository, path: Path) -> str:
    return f"{repository.key}/{repository.relative(path)}"


def _examine(folder: Path) -> list[FoundFile]:
    """Return the files of a folder that has records, each with the names of those it replaces."""
    records: list[DecisionRecord] = []
    files: dict[str, tuple[Path, int, datetime]] = {}
    for path in list(find_files(folder, ".md", depth=0))[:MAX_RECORDS]:
        text = read_text(path, MAX_BYTES)
        record = read_decision(path.name, text) if isinstance(text, str) else None
        try:
            status = path.lstat()
        except OSError:
            continue
        changed = datetime.fromtimestamp(status.st_mtime, UTC)
        files[path.name] = path, status.st_size, changed
        records += [record] if record else []
    if not records:
        return []
    replaced = replaced_records(records)
    place = {record.name: (1, record.number or 0) for record in records}
    found = []
    for name in sorted(files, key=lambda one: (place.get(one, (0, 0)), one)):
        path, size, changed = files[name]
        replaces = replaced.get(name, [])
        # Another record may say that this one replaces it.
        state = {"stamp": "\n".join(replaces), "replaces": replaces}
        number = 1 if name in place else 0
        found.append(FoundFile(path, size, changed, changed, number, data=state))
    return found


@lru_cache(maxsize=2)
def _first_commits(root: str, head: str) -> dict[str, datetime]:
    """Return when each Markdown file was committed first, as far as git says it."""
    found: dict[str, datetime] = {}
    for commit in read_commits(root, head, MAX_COMMITS):
        for name in commit.files or ():
            if name.endswith(".md") and commit.time > 0:
                found[name] = datetime.fromtimestamp(min(commit.time, 2**35), UTC)
    return found

"""The history of a repository: an observation for each commit, a memory where it gives a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from zapomni_core.adapters.sources import (
    FormatError,
    FoundFile,
    ImportedEvent,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
)
from zapomni_core.adapters.sources.decision_text import is_explained
from zapomni_core.adapters.sources.repository import SourceRepository
from zapomni_core.infra.git import Commit, count_commits, list_root_commits, read_commits

__all__ = ["SOURCE", "explanation", "split_trailers"]

MOST_COMMITS = 2000
MOST_FILES = 50
MAX_MESSAGE = 20_000
SENTENCES, SENTENCE_CHARS = 2, 60

_BOT = re.compile(
    r"\[bot\]|\b(?:dependabot|renovate|greenkeeper|snyk-bot|pre-commit-ci|github-actions|mergify"
    r"|semantic-release|weblate|allcontributors|imgbot|codecov|pyup)\b|-bot@|^bot@",
    re.IGNORECASE,
)
_TRAILER = re.compile(r"(?P<name>[A-Z][A-Za-z-]{1,39}|BREAKING CHANGE): (?P<value>\S.*)")
_PICKED = re.compile(r"\(cherry picked from commit [0-9a-f]{7,64}\)")
_ADDRESS = re.compile(r"\s*<[^<>\s]*@[^<>\s]*>")
_SENTENCE = re.compile(r"[.!?](?:\s|$)")
_CLOSES = re.compile(r"(?i)\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)[: ]+\S*#\d+")
# What git and hosts of repositories write by themselves.
_BOILERPLATE = re.compile(
    r"(?m)^(?:This reverts commit [0-9a-f]{7,64}\.?(?:, reversing.*)?|\* .{0,200}|Merge .*)$"
)


class _GitHistory:
    name = "git"
    title = "git history of a repository"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        """Return the repository that a folder belongs to, if it has commits."""
        repository = SourceRepository(environment.path or environment.folder)
        newest = next(read_commits(repository.root, repository.head, 1), None)
        if newest is None:
            if environment.path is not None:
                raise FormatError("There is no git repository with commits; name its folder.")
            return []
        root, head = repository.root, repository.head
        number = count_commits(root, head, MOST_COMMITS)
        oldest = next(read_commits(root, head, 1, max(number - 1, 0)), newest)
        times = _moment(newest), _moment(oldest)
        return [FoundFile(Path(root), 0, *times, number, data={"stamp": head})]

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        """Yield the newest commits of a repository, the oldest of them first."""
        del offset
        root = str(file.path)
        repository = SourceRepository(file.path)
        # Forks and clones of a repository have the same commits: they are the same records.
        first = next(iter(list_root_commits(root)), repository.key)
        commits = []
        for commit in read_commits(root, repository.head, MOST_COMMITS):
            commit.message = commit.message[:MAX_MESSAGE].strip()
            commit.files = None if commit.files is None else commit.files[:MOST_FILES]
            commits.append(commit)
        older = count_commits(root, repository.head) - len(commits)
        if older > 0:
            yield SkippedRecord(f"older than the newest {MOST_COMMITS:,} commits", older)
        for commit in reversed(commits):
            if _BOT.search(commit.author) or _BOT.search(commit.email):
                yield SkippedRecord("commit of a bot")
                continue
            if not commit.message:
                yield SkippedRecord("commit without a message")
                continue
            yield from _items(commit, first, root)


SOURCE = _GitHistory()


def _items(commit: Commit, first: str, root: str) -> Iterator[Item]:
    native_id, when = f"{first}:{commit.sha}", _moment(commit)
    subject, _, rest = commit.message.partition("\n")
    body, trailers = split_trailers(rest)
    facts = {
        "commit_hash": commit.sha,
        "author": commit.author[:100],
        "files": commit.files or [],
        "trailers": trailers,
    }
    session = f"git:{first[:12]}"
    yield ImportedEvent(
        native_id=native_id,
        host="generic",
        payload={
            "host": "git-history",
            "event": "commit",
            "session_id": session,
            "cwd": root,
            "id": commit.sha,
            "message": f"{subject}\n\n{body}".strip(),
            **facts,
        },
        session_id=session,
        folder=root,
        when=when,
    )
    reason = explanation(subject, body, trailers)
    if reason:
        yield ImportedMemory(
            native_id=f"{native_id}:memory",
            text=f"{subject}\n\n{reason}",
            kind="commit",
            when=when,
            folder=root,
            metadata={key: value for key, value in facts.items() if value},
        )


def explanation(subject: str, body: str, trailers: dict[str, list[str]]) -> str:
    """Return what of a commit's message says why, worth a memory; empty if nothing does."""
    broken = [f"BREAKING CHANGE: {one}" for one in trailers.get("BREAKING CHANGE", ())]
    said = "\n\n".join(filter(None, [body, *broken]))
    plain = " ".join(_BOILERPLATE.sub("", said).split())
    if not plain:
        return ""
    reasoned = is_explained(plain) or _CLOSES.search(f"{subject} {plain}") is not None
    sentences = len(_SENTENCE.findall(plain)) >= SENTENCES and len(plain) >= SENTENCE_CHARS
    # A bare "Fixes #12" says no more than the subject.
    return said if sentences or (reasoned and len(_CLOSES.sub("", plain).strip(" .,")) > 15) else ""


def split_trailers(text: str) -> tuple[str, dict[str, list[str]]]:
    """Return a message's body and the trailers of its last paragraph, without addresses."""
    body, _, last = text.strip().rpartition("\n\n")
    lines = [line for line in last.split("\n") if line.strip()]
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if trailer := _TRAILER.fullmatch(line):
            name = trailer["name"]
            found.setdefault(name, []).append(_ADDRESS.sub("", trailer["value"])[:500])
        elif name and line[0] in " \t":
            found[name][-1] = f"{found[name][-1]} {line.strip()}"[:500]
        elif not _PICKED.fullmatch(line):
            return text.strip(), {}
    return body.strip(), found


def _moment(commit: Commit) -> datetime:
    # A clock may have been set to any time.
    return datetime.fromtimestamp(min(max(commit.time, 0), 2**35), UTC)

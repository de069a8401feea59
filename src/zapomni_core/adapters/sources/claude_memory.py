"""Claude Code's own memory: a file for each fact, and an index of which it loads the beginning.

`~/.claude/projects/<folder>/memory/*.md`, and `agent-memory/<agent>/*.md` in `~/.claude` and in the
`.claude` of a repository. Agents change the files at any time, so a memory follows its file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from zapomni_core.adapters.sources import (
    FormatError,
    FoundFile,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    find_files,
    open_regular,
    parse_object,
    read_lines,
)
from zapomni_core.adapters.sources.decision_text import is_explained
from zapomni_core.adapters.sources.foreign import describe_file
from zapomni_core.adapters.sources.repository import SourceRepository, read_text
from zapomni_core.shared.folders import lies_in, real_path
from zapomni_core.shared.front_matter import split_front_matter

__all__ = ["SOURCE", "index_entries"]

INDEX = "MEMORY.md"
MAX_BYTES = 1 << 20
# In how much of a session's file its folder is named, and in how many files it is searched.
HEAD_LINES, HEAD_FILES = 20, 5
MOST_FOLDERS = 10_000

_KINDS = {"user": "preference", "feedback": "preference", "reference": "reference"}
_LINK = re.compile(r"\[\[([^\[\]\n|#]{1,200})(?:[|#][^\]\n]*)?\]\]")
_FILE_LINK = re.compile(r"\]\(\s*<?(?:\./)?([^)>\s]+\.md)(?:#[^)>\s]*)?>?\s*\)")
_HEADING = re.compile(r"(#{1,6})\s+(\S.*?)\s*#*\s*$")
_BULLET = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+(?=\S)")
_WORD = re.compile(r"\w+")


class _ClaudeMemory:
    name = "claude-memory"
    title = "Claude Code's auto memory"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        """Return the files of all projects, or those of a folder that was named."""
        if environment.path is not None:
            root = environment.path.resolve()
            files = [root] if root.is_file() else list(find_files(root, ".md", depth=4))
            if not files:
                raise FormatError("There are no Markdown files of an agent's memory in this folder")
        else:
            configured = environment.environ.get("CLAUDE_CONFIG_DIR")
            base = Path(configured) if configured else environment.home / ".claude"
            files = [
                path
                for folder in _folders(base / "projects")
                for path in find_files(folder / "memory", ".md", depth=1)
            ]
            files += find_files(base / "agent-memory", ".md", depth=2)
            here = Path(SourceRepository(environment.folder).root) / ".claude" / "agent-memory"
            if lies_in(real_path(str(here)), str(here.parents[1])) and here.parent != base:
                files += find_files(here, ".md", depth=2)
        return sorted(
            filter(None, map(describe_file, files)), key=lambda file: (file.newest, file.path)
        )

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        """Yield the fact of a file, or the lines of the index that name no file."""
        del offset  # A fact is the whole file.
        text = read_text(file.path, MAX_BYTES)
        if isinstance(text, SkippedRecord):
            yield text
            return
        place = _Place(file.path)
        if file.path.name == INDEX:
            for key, entry in index_entries(text):
                if isinstance(entry, SkippedRecord):
                    yield entry
                else:
                    yield place.memory(f"{INDEX}#{key}", entry, file.newest)
            return
        head, body = split_front_matter(text)
        facts = head.get("metadata")
        kind = str((facts if isinstance(facts, dict) else {}).get("type") or head.get("type") or "")
        description = head.get("description")
        description = description if isinstance(description, str) else ""
        body = body.strip() or description
        if not body:
            yield SkippedRecord("empty file")
            return
        title = head.get("name")
        links = list(dict.fromkeys(link.strip() for link in _LINK.findall(body)))[:50]
        metadata: dict[str, Any] = {"file": file.path.name}
        metadata |= {"description": description[:1000]} if description else {}
        metadata |= {"links": links} if links else {}
        decided = "decision" if kind == "project" and is_explained(body) else "note"
        yield place.memory(
            file.path.stem,
            body,
            file.newest,
            kind=_KINDS.get(kind.lower(), decided),
            title=title if isinstance(title, str) else "",
            metadata=metadata,
        )


SOURCE = _ClaudeMemory()


def index_entries(text: str) -> Iterator[tuple[str, str | SkippedRecord]]:
    """Yield what the index says itself: each point or paragraph with its heading, and its key.

    Lines that lead to a file of their own are that file's. The key is made of the heading and the
    first words, so that a point whose end changes stays the same one.
    """
    _, body = split_front_matter(text)
    blocks: list[tuple[str, list[str]]] = []
    headings: dict[int, str] = {}
    is_code = is_open = False
    for line in body.split("\n"):
        is_fence = line.lstrip().startswith(("```", "~~~"))
        heading = None if is_code or is_fence else _HEADING.match(line)
        if heading:
            level = len(heading[1])
            headings = {n: name for n, name in headings.items() if n < level} | {level: heading[2]}
            is_open = False
        elif is_open and (is_code or is_fence or line[:1] in (" ", "\t")):
            blocks[-1][1].append(line)  # Belongs to the point before it.
        elif not line.strip():
            is_open = is_open and is_code
        elif is_open and not _BULLET.match(line):
            blocks[-1][1].append(line)
        else:
            # The title of the whole file says nothing about a point.
            where = ": ".join(name for n, name in sorted(headings.items()) if n > 1)
            blocks.append((where, [line]))
            is_open = True
        is_code ^= is_fence
    taken: set[str] = set()
    for where, lines in blocks:
        if _FILE_LINK.search(lines[0]):
            yield "", SkippedRecord("index line of a file")
            continue
        said = _BULLET.sub("", "\n".join(lines).strip(), count=1)
        words = _WORD.findall(f"{where} {' '.join(said.split()[:6])}".casefold())
        key = "-".join(words) or sha256(said.encode()).hexdigest()[:16]
        if key in taken:
            key = f"{key}-{sha256(said.encode()).hexdigest()[:8]}"
        if key not in taken:
            taken.add(key)
            yield key, f"{where}: {said}" if where else said


class _Place:
    """Whose memory a file is: a project's, or an agent's in all projects."""

    def __init__(self, path: Path) -> None:
        parts = path.parts
        self._folder, self._project = "", ""
        self._tags: tuple[str, ...] = ()
        if "agent-memory" in parts[:-1]:
            place = len(parts) - 2 - parts[:-1][::-1].index("agent-memory")
            inner = "/".join(parts[place + 1 : -1])
            above = Path(*parts[:place])
            is_home = above.name != ".claude" or (above / "projects").is_dir()
            self._key = f"agent/{inner}" if is_home else f"{above.parent}/agent/{inner}"
            self._project, self._folder = ("*", "") if is_home else ("", str(above.parent))
            self._tags = (f"agent-{inner}",) if inner else ()
            return
        memory = path.parent if path.parent.name == "memory" else path.parent.parent
        slug = memory.parent.name if memory.name == "memory" else path.parent.name
        inner = "" if memory == path.parent or memory.name != "memory" else f"{path.parent.name}/"
        self._key = f"{slug}/{inner}".rstrip("/")
        project = memory.parent if memory.name == "memory" else path.parent
        try:
            # A new session changes it, and may be the first that names the folder.
            stamp = project.stat().st_mtime_ns
        except OSError:
            stamp = 0
        self._folder = _folder_of(project, stamp)

    def native_id(self, key: str) -> str:
        return f"{self._key}/{key}"

    def memory(self, key: str, text: str, when: datetime, **more: Any) -> ImportedMemory:
        metadata = {"time": "file", **more.pop("metadata", {"file": INDEX})}
        return ImportedMemory(
            native_id=self.native_id(key),
            text=text,
            when=when,
            folder=self._folder,
            project=self._project,
            tags=self._tags,
            metadata=metadata,
            follows=True,
            **more,
        )


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            found = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(found)[:MOST_FOLDERS]


@lru_cache(maxsize=1000)
def _folder_of(project: Path, stamp: int) -> str:
    """Return the folder whose sessions are in a folder of Claude Code's.

    Its name is the path with everything but letters and digits made a dash, which cannot be
    undone. A session's own file names the folder; otherwise one that exists and has this name.
    """
    del stamp
    slug = project.name
    sessions = sorted(find_files(project, ".jsonl", depth=0))[-HEAD_FILES:]
    for session in reversed(sessions):
        try:
            with open_regular(session) as stream:
                for number, line in enumerate(read_lines(stream)):
                    folder = (parse_object(line.data) or {}).get("cwd")
                    if isinstance(folder, str) and _slug(folder) == slug:
                        return folder
                    if number == HEAD_LINES:
                        break
        except OSError:
            continue
    return _existing_folder("/", slug) or "/" + slug.strip("-").replace("-", "/")


def _slug(folder: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in folder)


def _existing_folder(start: str, slug: str) -> str:
    """Return a folder whose path has this name, searched from the top; empty if there is none."""
    waiting, tried = [start], 0
    while waiting and tried < MOST_FOLDERS:
        folder = waiting.pop()
        if _slug(folder) == slug:
            return folder
        tried += 1
        begun = _slug(folder.rstrip("/") + "/")
        if slug.startswith(begun):
            waiting += [
                str(path)
                for path in _folders(Path(folder))
                if slug == _slug(str(path)) or slug.startswith(_slug(f"{path}/"))
            ]
    return ""

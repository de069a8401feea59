"""Files of instructions that agents load by themselves, as documents to be found by a search.

CLAUDE.md, AGENTS.md, GEMINI.md, the rules of Cursor and others, of a repository and of the user.
They are given to no session unasked: their own host loads them, and in another one they would be
orders from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
from zapomni_core.adapters.sources.foreign import describe_file
from zapomni_core.adapters.sources.repository import SourceRepository, read_text
from zapomni_core.infra.git import list_files
from zapomni_core.shared.folders import lies_in, real_path
from zapomni_core.shared.front_matter import split_front_matter

__all__ = ["SOURCE"]

MAX_BYTES = 1 << 20
MOST_FILES = 1000
# How deep files that name others are followed, as Claude Code does.
MOST_IMPORTS = 5

# The hosts that load a file, by its name in any folder of a repository.
_BY_NAME = {
    "CLAUDE.md": ("claude-code",),
    "CLAUDE.local.md": ("claude-code",),
    "AGENTS.md": ("codex", "copilot", "cursor", "opencode", "windsurf"),
    "AGENTS.override.md": ("codex",),
    "GEMINI.md": ("gemini",),
    "QWEN.md": ("qwen",),
    ".cursorrules": ("cursor",),
    ".windsurfrules": ("windsurf",),
    ".clinerules": ("cline",),
    "copilot-instructions.md": ("copilot",),
}
# By the end of its path.
_BY_PATH = (
    (re.compile(r"(?:^|/)\.claude/rules/.+\.md$"), ("claude-code",)),
    (re.compile(r"(?:^|/)\.cursor/rules/.+\.(?:mdc|md)$"), ("cursor",)),
    (re.compile(r"(?:^|/)\.windsurf/rules/.+\.md$"), ("windsurf",)),
    (re.compile(r"(?:^|/)\.clinerules/.+\.md$"), ("cline",)),
    (re.compile(r"(?:^|/)\.github/instructions/.+\.instructions\.md$"), ("copilot",)),
)
_FOLDERS = (".claude", ".cursor/rules", ".windsurf/rules", ".clinerules", ".github")
_OF_USER = (
    ".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md", ".qwen/QWEN.md",
    ".config/opencode/AGENTS.md",
)  # fmt: skip
_IMPORT = re.compile(r"(?<![\w`@/])@((?:\.{1,2}/|[\w.-]+/)*[\w.-]+\.(?:md|mdc|txt))\b")
_CODE = re.compile(r"(?ms)^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)|`[^`\n]*`")


class _Instructions:
    name = "instructions"
    title = "files of instructions (CLAUDE.md, AGENTS.md, rules)"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        """Return those of the repository and of the user, or those of a folder that was named."""
        named = environment.path.resolve() if environment.path is not None else None
        if named is not None and named.is_file():
            files = {named: _hosts_of(named.name) or ()}
        else:
            files = _files_of(named or Path(SourceRepository(environment.folder).root))
        found = [
            one
            for path, hosts in files.items()
            if (one := describe_file(path, data={"hosts": hosts}))
        ]
        if named is None:
            for name in _OF_USER:
                data = {"hosts": _hosts_of(name), "user": f"~/{name}"}
                one = describe_file(environment.home / name, data=data)
                found += [one] if one else []
        if named is not None and not found:
            raise FormatError("There are no files of instructions, such as CLAUDE.md or AGENTS.md")
        return sorted(found, key=lambda file: (file.newest, file.path))[:MOST_FILES]

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        """Yield the file as a document, and those that it names."""
        del offset  # A document is the whole file.
        repository = SourceRepository(file.path.parent)
        waiting = [(file.path, 0)]
        seen: set[Path] = set()
        while waiting:
            path, depth = waiting.pop(0)
            if path in seen:
                continue
            seen.add(path)
            text = read_text(path, MAX_BYTES)
            if isinstance(text, SkippedRecord):
                yield text
                continue
            if not text.strip():
                yield SkippedRecord("empty file")
                continue
            yield _document(repository, path, text, file)
            if depth < MOST_IMPORTS:
                waiting += [
                    (found, depth + 1)
                    for name in _IMPORT.findall(_CODE.sub(" ", text))
                    # Nothing outside of the repository, whatever the file names.
                    if lies_in(
                        str(found := Path(real_path(name, str(path.parent)))), repository.root
                    )
                    and found.is_file()
                ]


SOURCE = _Instructions()


def _document(
    repository: SourceRepository, path: Path, text: str, file: FoundFile
) -> ImportedMemory:
    head, body = split_front_matter(text)
    # Of the user, whatever repository the home folder may be in.
    of_user = str(file.data.get("user") or "")
    name = path.name if of_user else repository.relative(path)
    globs = head.get("globs") or head.get("paths") or head.get("applyto")
    metadata: dict[str, object] = {
        "file": name,
        "format": "markdown",
        "hosts": list(file.data.get("hosts", ())),
        "time": "file",
    }
    if globs and not isinstance(globs, dict):
        metadata["paths"] = globs
    if isinstance(description := head.get("description"), str) and description:
        metadata["description"] = description[:1000]
    return ImportedMemory(
        native_id=f"{of_user or repository.key}/{name}",
        text=body.strip() or text.strip(),
        kind="document",
        tags=("instructions",),
        title=of_user or name,
        when=file.newest,
        folder="" if of_user else repository.root,
        project="*" if of_user else "",
        metadata=metadata,
        follows=True,
    )


def _hosts_of(path: str) -> tuple[str, ...] | None:
    """Return the hosts that load a file, given from the repository's top; None: it is none."""
    hosts = _BY_NAME.get(path.rpartition("/")[2])
    return hosts or next((found for pattern, found in _BY_PATH if pattern.search(path)), None)


def _files_of(root: Path) -> dict[Path, tuple[str, ...]]:
    """Return the files of instructions of a repository: what git lists, and what it may ignore."""
    names = list_files(str(root)) or []
    # A user's own file is often ignored by git.
    paths = [root / name for name in names if _hosts_of(name)]
    paths += find_files(root, *_BY_NAME, depth=0)
    for folder in _FOLDERS:
        paths += find_files(root / folder, ".md", ".mdc", depth=3)
    return {
        path: hosts
        for path in dict.fromkeys(paths)
        if (hosts := _hosts_of(path.relative_to(root).as_posix()))
        # Names of a repository are not to be trusted, nor are its links.
        and lies_in(real_path(str(path)), real_path(str(root)))
    }

"""basic-memory: a folder of Markdown notes with observations and relations."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
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
)
from zapomni_core.adapters.sources.foreign import (
    describe_file,
    kind_or_note,
    parse_mapping,
    read_text,
    read_time,
    text_list,
)
from zapomni_core.shared.front_matter import split_front_matter

__all__ = ["SOURCE"]

# `- [category] text #tag (context)`, but neither a task, a link nor `- [[Target]]`.
_OBSERVATION = re.compile(r"\s*[-*]\s+\[(?P<category>[^\[\]()]{1,100})\]\s+(?P<text>\S.*)$")
_BEGUN = re.compile(r"\s*[-*]\s*(?:\[[^\]]*\]?\s*)?$")
_TASKS = frozenset([" ", "x", "X", "-", "/", ">", "?", "!"])
_TAG = re.compile(r"(?<!\S)#([\w/-]{1,80})")
_FENCE = re.compile(r"\s*(```|~~~)")


class _BasicMemory:
    name = "basic-memory"
    title = "basic-memory notes"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        named = environment.path
        if named is not None and not named.is_dir():
            found = describe_file(named.resolve())
            if found is None or named.suffix.lower() != ".md":
                raise FormatError("This is no Markdown note; name a folder of basic-memory")
            return [_in_project(found, named.parent.name)]
        projects = {named.name: named.resolve()} if named else _projects(environment)
        files = [
            _in_project(file, project)
            for project, folder in projects.items()
            for path in find_files(folder, ".md")
            if (file := describe_file(path, data={"root": str(folder)})) is not None
            and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        ]
        if named is not None and not files:
            raise FormatError("There are no Markdown notes in this folder")
        return sorted(files, key=lambda file: (file.oldest, file.path))

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        return _read_note(file)


SOURCE = _BasicMemory()


def _in_project(file: FoundFile, project: str) -> FoundFile:
    root = file.data.get("root", str(file.path.parent))
    return FoundFile(
        file.path, file.bytes, file.newest, file.oldest, data={"project": project, "root": root}
    )


def _projects(environment: SourceEnvironment) -> dict[str, Path]:
    """Return the folders of its projects by name, as its configuration has them."""
    folder = environment.environ.get("BASIC_MEMORY_CONFIG_DIR")
    base = Path(folder) if folder else environment.home / ".basic-memory"
    found: dict[str, Path] = {}
    if describe_file(base / "config.json") is not None:
        listed = parse_mapping(read_text(base / "config.json", 1_000_000)).get("projects")
        for name, value in (listed if isinstance(listed, dict) else {}).items():
            path: Any = value.get("path") if isinstance(value, dict) else value
            if isinstance(path, str) and path and "\0" not in path:
                found[name] = Path(os.path.expanduser(path))  # noqa: PTH111 - never raises
    usual = environment.home / "basic-memory"
    if not found and usual.is_dir():
        found["main"] = usual
    return found


def _read_note(file: FoundFile) -> Iterator[Item]:
    whole = read_text(file.path)
    head, body = split_front_matter(whole)
    if "---".startswith(whole[:3]) and not head:
        # Its permalink, by which it is known, may be in what is not there yet.
        yield SkippedRecord("note with an unfinished head")
        return
    project = str(file.data["project"])
    inside = file.path.relative_to(file.data["root"]).with_suffix("").as_posix()
    permalink = head.get("permalink")
    name = permalink if isinstance(permalink, str) and permalink else inside
    title = head.get("title")
    title = title if isinstance(title, str) and title else file.path.stem
    when = read_time(head.get("created"), head.get("date"), head.get("modified"))
    note_tags = tuple(tag.lstrip("#") for tag in text_list(head.get("tags")))
    metadata = {"note": name}
    if when is None:
        when, metadata = file.newest, metadata | {"time": "file"}
    prose, fenced, count = [], False, 0
    for line in body.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _OBSERVATION.match(line)
        if found is None or found["category"] in _TASKS:
            prose.append(line)
            continue
        category, text = found["category"].strip(), found["text"].strip()
        kind = kind_or_note(category)
        tags = [*_TAG.findall(text), *([category] if kind == "note" else [])]
        # By its place among them: a line that is edited is the same observation, changed.
        count += 1
        yield ImportedMemory(
            f"{project}/{name}#{count}",
            text,
            kind,
            tuple(dict.fromkeys([*tags, *note_tags])),
            title,
            when,
            parent=name,
            project=project,
            metadata=metadata,
            follows=True,
        )
    if not body.endswith("\n") and prose and _BEGUN.match(prose[-1]):
        prose.pop()  # An observation that is still being written.
    text = "\n".join(prose).strip()
    if not any(line.strip() and not line.lstrip().startswith("#") for line in prose):
        yield SkippedRecord("note of nothing but observations" if text else "empty note")
        return
    yield ImportedMemory(
        f"{project}/{name}",
        text,
        "document",
        note_tags,
        title,
        when,
        parent=name,
        project=project,
        metadata=metadata,
        follows=True,
    )

"""Obsidian: the notes of a vault."""

from __future__ import annotations

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
    parse_mapping,
    read_text,
    read_time,
    text_list,
)
from zapomni_core.shared.front_matter import split_front_matter

__all__ = ["SOURCE"]

_FENCED = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"(?<![\w#/&])#([^\W\d][\w/-]{0,79}|\d+[^\W\d][\w/-]{0,79})")
_LINK = re.compile(r"\[\[([^\[\]|#^\n]{1,200})")
MAX_TAGS = 20


class _Obsidian:
    name = "obsidian"
    title = "Obsidian vaults"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        if environment.path is None:
            vaults = [vault for vault in _registered(environment) if vault.is_dir()]
            inside = [environment.folder, *environment.folder.parents]
            vaults += [folder for folder in inside if (folder / ".obsidian").is_dir()][:1]
        else:
            vaults = [environment.path.resolve()]
            if not (vaults[0] / ".obsidian").is_dir():
                raise FormatError("This folder has no .obsidian in it; name the folder of a vault")
        files = [file for vault in dict.fromkeys(vaults) for file in _notes(vault)]
        return sorted(files, key=lambda file: (file.oldest, file.path))

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:  # noqa: ARG002 - no offsets
        yield _read_note(file)


SOURCE = _Obsidian()


def _registered(environment: SourceEnvironment) -> list[Path]:
    """Return the vaults that the application has in its list."""
    home = environment.home
    for base in (
        home / ".config" / "obsidian",
        home / "Library" / "Application Support" / "obsidian",
        home / ".var" / "app" / "md.obsidian.Obsidian" / "config" / "obsidian",
    ):
        listed = _json(base / "obsidian.json").get("vaults")
        if isinstance(listed, dict):
            paths = [vault.get("path") for vault in listed.values() if isinstance(vault, dict)]
            return [Path(path) for path in paths if isinstance(path, str) and path]
    return []


def _json(path: Path) -> dict[str, Any]:
    try:
        return parse_mapping(read_text(path, 1_000_000))
    except OSError:
        return {}


def _notes(vault: Path) -> Iterator[FoundFile]:
    settings = vault / ".obsidian"
    ignored = [
        one.rstrip("/")
        for one in text_list(_json(settings / "app.json").get("userIgnoreFilters"))
        if not one.startswith("/")
    ]
    templates = _json(settings / "templates.json").get("folder")
    if isinstance(templates, str) and templates.strip("/ "):
        ignored.append(templates.strip("/ "))
    for path in find_files(vault, ".md"):
        inside = path.relative_to(vault)
        name = inside.as_posix()
        hidden = any(part.startswith(".") for part in inside.parts)
        if hidden or name.endswith(".excalidraw.md"):
            continue
        if any(name == one or name.startswith(f"{one}/") for one in ignored):
            continue
        file = describe_file(path, data={"vault": vault.name, "name": name})
        if file is not None:
            yield file


def _read_note(file: FoundFile) -> Item:
    head, body = split_front_matter(read_text(file.path))
    if "excalidraw-plugin" in head:
        return SkippedRecord("drawing")
    if not body.strip():
        return SkippedRecord("empty note")
    vault, name = str(file.data["vault"]), str(file.data["name"])
    prose = _FENCED.sub("", body)
    tags = [tag.lstrip("#") for tag in text_list(head.get("tags") or head.get("tag"))]
    tags = list(dict.fromkeys([*tags, *_TAG.findall(prose)]))[:MAX_TAGS]
    links = list(dict.fromkeys(link.strip() for link in _LINK.findall(prose)))[:50]
    aliases = text_list(head.get("aliases"))
    when = read_time(head.get("created"), head.get("date"))
    metadata: dict[str, Any] = {"vault": vault, "note": name}
    if links:
        metadata["links"] = links
    if aliases:
        metadata["aliases"] = aliases
    if when is None:
        when, metadata["time"] = file.newest, "file"
    return ImportedMemory(
        f"{vault}/{name}",
        body.strip(),
        "document",
        tuple(tags),
        file.path.stem,
        when,
        project=vault,
        parent=f"{vault}/{name}",
        metadata=metadata,
        follows=True,
    )

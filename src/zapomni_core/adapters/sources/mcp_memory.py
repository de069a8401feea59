"""The MCP reference server of a knowledge graph: its memory.jsonl.

It has neither times nor ids: an entity's name is its key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zapomni_core.adapters.sources import (
    FoundFile,
    ImportedMemory,
    Item,
    SkippedRecord,
    SourceEnvironment,
    open_regular,
    parse_object,
    read_lines,
)
from zapomni_core.adapters.sources.foreign import (
    find_named,
    parse_mapping,
    read_text,
    short_hash,
)

__all__ = ["SOURCE"]

_NAMES = ("memory.jsonl", "memory.json")
# Clients that start the server with a path of the user's. Only those of the user: what a
# repository has in its own settings may name any file.
_CLIENTS = (
    ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    ".cursor/mcp.json",
    ".codeium/windsurf/mcp_config.json",
    ".gemini/settings.json",
)


class _McpMemory:
    name = "mcp-memory"
    title = "memory of the MCP reference server"

    def find(self, environment: SourceEnvironment) -> list[FoundFile]:
        named = environment.environ.get("MEMORY_FILE_PATH")
        usual = [Path(named)] if named else []
        usual += [path for name in _CLIENTS for path in _configured(environment.home / name)]
        # Without a path of its own it writes into the package that npx unpacked.
        packages = environment.home / ".npm" / "_npx"
        for name in _NAMES:
            pattern = f"*/node_modules/@modelcontextprotocol/server-memory/dist/{name}"
            usual += sorted(packages.glob(pattern))
        return find_named(
            environment, usual, _accepts,
            "the file of the server's MEMORY_FILE_PATH", ".jsonl", ".json",
        )  # fmt: skip

    def read(self, file: FoundFile, offset: int) -> Iterator[Item]:
        with open_regular(file.path) as stream:
            for line in read_lines(stream, offset):
                # The whole file is written anew with every change, so its end is never half.
                record = parse_object(line.data)
                if record is None:
                    yield SkippedRecord("too long" if line.is_too_long else "not JSON")
                else:
                    yield from _read_record(record)


SOURCE = _McpMemory()


def _configured(settings: Path) -> list[Path]:
    """Return the files that a client's settings name for the server."""
    try:
        servers = parse_mapping(read_text(settings, 1_000_000)).get("mcpServers")
    except OSError:
        return []
    named = [
        parse_mapping(parse_mapping(server).get("env")).get("MEMORY_FILE_PATH")
        for server in (servers.values() if isinstance(servers, dict) else [])
    ]
    return [Path(os.path.expanduser(path)) for path in named if isinstance(path, str) and path]  # noqa: PTH111 - never raises


def _accepts(path: Path) -> bool:
    with open_regular(path) as stream:
        line = next(read_lines(stream), None)
    record = parse_object(line.data) if line else None
    return record is not None and record.get("type") in ("entity", "relation")


def _read_record(record: dict[str, Any]) -> Iterator[Item]:
    kind = record.get("type")
    if kind == "entity":
        name, category = record.get("name"), record.get("entityType")
        observations = record.get("observations")
        if not isinstance(name, str) or not name or not isinstance(observations, list):
            yield SkippedRecord("entity without a name or observations")
            return
        tags = (category,) if isinstance(category, str) and category.strip() else ()
        for text in observations:
            if isinstance(text, str) and text.strip():
                yield ImportedMemory(
                    f"{name}:{short_hash(text)}",
                    f"{name}: {text.strip()}",
                    tags=tags,
                    parent=name,
                    metadata={"entity": name},
                )
            else:
                yield SkippedRecord("without text")
        if not observations:
            yield SkippedRecord("entity without observations")
    elif kind == "relation":
        ends = [record.get(name) for name in ("from", "relationType", "to")]
        if not all(isinstance(end, str) and end.strip() for end in ends):
            yield SkippedRecord("relation without its ends")
            return
        subject, verb, target = map(str, ends)
        # A sentence, so that the graph can be read from it: "Anna works on shop."
        text = f"{subject} {verb.replace('_', ' ')} {target}."
        yield ImportedMemory(
            f"relation:{short_hash(chr(0).join((subject, verb, target)))}",
            text,
            metadata={"relation": verb},
        )
    else:
        yield SkippedRecord("unknown type of record")

"""The MCP server: as a process with pipes and a log, or in this process, ten times as quick."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver.tools import Tool

from zapomni_core import engine as engine_module
from zapomni_core.settings import load_settings
from zapomni_db.falkordb.server import LocalServer, find_server
from zapomni_mcp.server import ZapomniServer, build_server
from zapomni_mcp.tools import building
from zapomni_mcp.tools.observations import ObservationTools

PATIENCE = 180
"""Seconds a test waits for what must happen: a busy machine is slow."""


@dataclass
class Serving:
    """The client of one server process, and the file its stderr goes to."""

    client: Client
    stderr: Path

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Return what a tool says when it fails."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        return result.content[0].text

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Return the log's lines, or those of one event; every line must be JSON."""
        # What follows the last end of a line is still being written.
        written = self.stderr.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
        lines = [json.loads(line) for line in written]
        return [line for line in lines if event in ("", line["event"])]

    async def until(self, event: str) -> dict[str, Any]:
        """Wait until the log has an event."""
        with anyio.fail_after(PATIENCE):
            while not (found := self.lines(event)):  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.02)
        return found[-1]


def kill(server: LocalServer) -> None:
    """Kill a FalkorDB server and wait until it is gone."""
    os.kill(server.pid, signal.SIGKILL)
    while find_server(server.folder) is not None:
        time.sleep(0.01)


def server_here(*given: Any, **options: Any) -> ZapomniServer:
    """Build a server of tools whose schemas are made once: a process makes one server, tests many.

    A schema depends on a function's signature and documentation alone.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(building, "Tool", SimpleNamespace(from_function=_make_tool))
        return build_server(*given, **options)


_made: dict[tuple[object, ...], Tool] = {}


def _make_tool(function: Callable[..., Any], **options: Any) -> Tool:
    signature = str(inspect.signature(function))
    key = (function.__module__, function.__qualname__, signature, repr(options))
    if key not in _made:
        _made[key] = Tool.from_function(function, **options)
    made = _made[key]
    # What is changed later is the copy's own.
    return made.model_copy(update={"fn": function, "fn_metadata": made.fn_metadata.model_copy()})


@asynccontextmanager
async def piped(
    *options: str, mode: str = "legacy", cwd: Path | None = None, **env: str
) -> AsyncIterator[Client]:
    """Connect to a server process of our own, started as a host starts it."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "zapomni_cli", "serve", *options],
        env={**os.environ, **env},
        cwd=cwd,
    )
    async with Client(server, mode=mode) as client:
        yield client


@asynccontextmanager
async def in_process(*, mode: str = "legacy", every_tool: bool = True) -> AsyncIterator[Client]:
    """Connect to a server in this process that does all that `zapomni serve` does.

    For what the tools answer. What pipes, start and end have to do with it needs a process.
    """
    settings = load_settings()

    async def open_engine() -> engine_module.ZapomniEngine:
        engine = await engine_module.create_engine(settings, wait=False)
        engine.start_background_work()
        return engine

    server = server_here(open_engine, ObservationTools(settings), every_tool=every_tool)
    async with Client(server, mode=mode) as client:
        yield client


@asynccontextmanager
async def serving(folder: Path, **env: str) -> AsyncIterator[Serving]:
    """Run a server; `env` is added to the environment."""
    stderr = folder / f"stderr-{uuid.uuid4()}"
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "zapomni_cli", "serve"],
        env={**os.environ, **env},
        cwd=str(folder),
    )
    with stderr.open("w", encoding="utf-8") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            yield Serving(client, stderr)

"""A real `zapomni serve` process, spoken to over its pipes, with its log to read."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from zapomni_db.falkordb.server import LocalServer, find_server

PATIENCE = 60
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
        written = self.stderr.read_text(encoding="utf-8").splitlines()
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

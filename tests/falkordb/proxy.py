"""A way to the server that can be cut, delayed and overheard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class Proxy:
    """Passes bytes on, between a socket of its own and the server's."""

    def __init__(self, server: Path, folder: Path) -> None:
        self.path = folder / "proxy.sock"
        self._server = str(server)
        self._writers: set[asyncio.StreamWriter] = set()
        self.cut_requests = 0
        """How many of the next writes are cut off before the server sees them."""
        self.cut_answers = 0
        """How many of the next writes the server does without anybody hearing of it."""
        self.writes = 0
        self.rewrite: Callable[[bytes], bytes] = lambda answer: answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._server)
        self._writers |= {writer, server_writer}
        cut = asyncio.Event()
        ways = [
            asyncio.create_task(self._requests(reader, server_writer, cut)),
            asyncio.create_task(self._answers(server_reader, writer, cut)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, server_writer):
            self._writers.discard(end)
            end.close()

    async def _requests(self, reader, server_writer, cut) -> None:
        while data := await reader.read(1 << 20):
            if b"GRAPH.QUERY" in data:
                self.writes += 1
                if self.cut_requests:
                    self.cut_requests -= 1
                    return
                if self.cut_answers:
                    self.cut_answers -= 1
                    cut.set()
            server_writer.write(data)
            await server_writer.drain()

    async def _answers(self, server_reader, writer, cut) -> None:
        while data := await server_reader.read(1 << 20):
            if cut.is_set():
                return
            writer.write(self.rewrite(data))
            with suppress(ConnectionError):
                await writer.drain()


@asynccontextmanager
async def proxy_to(server: Path, folder: Path) -> AsyncIterator[Proxy]:
    proxy = Proxy(server, folder)
    listening = await asyncio.start_unix_server(proxy.serve, str(proxy.path))
    try:
        yield proxy
    finally:
        listening.close()
        for writer in list(proxy._writers):
            writer.close()
        await asyncio.sleep(0)

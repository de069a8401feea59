"""The process that `zapomni serve` processes share: one engine, one model, one connection each.

`zapomni_cli.proxy` starts it and hands it the socket it listens on; `zapomni_core.infra.sharing`
describes what is said there. It ends when it was idle for a while, when a client of a newer version
or with changed settings connects, and when its socket or home folder is gone: it stops reading,
finishes the calls it has begun, and says so. Each connection has limits of its own, so that a
client that floods, hangs or crashes takes nothing from the others.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before pydantic is imported: as `zapomni` itself does, and for the same reasons.
gc.set_threshold(100_000, 20, 20)
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import anyio  # noqa: E402
from mcp.server import MCPServer  # noqa: E402
from mcp.shared._context_streams import ContextSendStream, create_context_streams  # noqa: E402
from mcp.shared.message import ServerMessageMetadata, SessionMessage  # noqa: E402
from mcp.types import (  # noqa: E402
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from zapomni_core.exceptions import ZapomniError  # noqa: E402
from zapomni_core.infra.correlation import operation  # noqa: E402
from zapomni_core.infra.logging import get_logger, setup_logging  # noqa: E402
from zapomni_core.infra.recall_log import recall_log  # noqa: E402
from zapomni_core.infra.sharing import (  # noqa: E402
    VERSION,
    LineBuffer,
    ShareKey,
    is_newer,
    is_same_user,
)
from zapomni_core.settings import Settings, load_settings  # noqa: E402
from zapomni_mcp.connection import enter_folder  # noqa: E402
from zapomni_mcp.instructions import client_of  # noqa: E402
from zapomni_mcp.lazy_engine import LazyEngine  # noqa: E402
from zapomni_mcp.server import ZapomniServer, build_server, engine_opener  # noqa: E402

if TYPE_CHECKING:
    from mcp.server.mcpserver.tools import Tool

    from zapomni_core.engine import ZapomniEngine

__all__ = ["ClientConnection", "SharedProcess", "main"]

log = get_logger("zapomni_mcp.shared_process")  # It runs as __main__.

IDLE_SECONDS = 15 * 60.0
WATCH_SECONDS = 2.0
# For the calls it has begun, when it gives way and when it is asked to stop.
FINISH_SECONDS, STOP_SECONDS = 60.0, 3.0
CLOSE_SECONDS = 10.0
GREETING_SECONDS = 10.0
MAX_CONNECTIONS = 64
MAX_LOG = 5 << 20
# Of one connection: calls at a time, and what may wait for its turn. What is more stays with the
# client. A memory has at most ten million characters, each up to six bytes on the wire.
MAX_RUNNING = 8
MAX_WAITING, MAX_WAITING_BYTES = 256, 1 << 20
MAX_GREETING, MAX_FRAME = 1 << 20, 1 << 26
BLOCK = 1 << 16
LONGEST_QUESTION = 10.0


def main() -> None:
    """Serve on the socket that was handed over as descriptor 3, under the lock in descriptor 4."""
    settings = load_settings()
    setup_logging(settings.log_level or "INFO")
    listener = socket.socket(fileno=3)
    process = SharedProcess(settings, ShareKey(os.environ), sys.argv[1], listener, 4)
    try:
        asyncio.run(process.run())
    except Exception:
        log.exception("shared_process_stopped")
        sys.exit(1)


class SharedProcess:
    """The engine, and the connections it answers.

    Args:
        settings: Of every connection.
        key: Whose settings these are.
        path: The socket's.
        listener: The socket, listening.
        lock: A descriptor whose lock says that this is the only one; closed at the end.
    """

    def __init__(
        self, settings: Settings, key: ShareKey, path: str, listener: socket.socket, lock: int
    ) -> None:
        self.settings = settings
        self.key = key
        self.engine = LazyEngine(self._open_engine)
        self.connections: set[ClientConnection] = set()
        self.last_used = time.monotonic()
        self._environments: list[dict[str, str]] = []
        self._servers: dict[str, ZapomniServer] = {}
        self._path = path
        self._listener: socket.socket | None = listener
        self._lock = lock
        self._started = time.time()
        # With the socket elsewhere it may be missing yet; made later it would look replaced.
        Path(key.home).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket = _identity(self._path)
        self._home = _identity(key.home)
        self._ended = asyncio.Event()
        self._finish_seconds = FINISH_SECONDS
        self._tasks: set[asyncio.Task[None]] = set()
        # Elsewhere these paths would mean other files.
        paths = [v for v in dict(settings).values() if isinstance(v, Path)] + settings.code_roots
        self._is_portable = all(p.expanduser().is_absolute() for p in paths)

    async def run(self) -> None:
        """Accept connections until there is a reason to end, then finish what was begun."""
        assert self._listener is not None
        self._listener.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        log.info("shared_process_started", version=VERSION)
        accepting = asyncio.create_task(self._accept())
        watching = asyncio.create_task(self._watch())
        try:
            await self._ended.wait()
        finally:
            accepting.cancel()
            watching.cancel()
            self.give_way()
        finishing = [connection.finish() for connection in self.connections]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._finish_seconds):
                await asyncio.gather(*finishing, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with anyio.move_on_after(CLOSE_SECONDS):
            for server in self._servers.values():
                await server.close()
            await self.engine.close()
        log.info("shared_process_ended")

    def give_way(self) -> None:
        """Leave the socket to another process; what was begun is finished here."""
        if self._listener is None:
            return
        if _identity(self._path) == self._socket:
            self._remove_files()
        self._listener.close()
        self._listener = None
        os.close(self._lock)
        self._ended.set()

    def server(self, tools: str) -> ZapomniServer:
        """Return the server with the usual tools, or with all."""
        if tools not in self._servers:
            self._servers[tools] = build_server(
                self.engine.get,
                every_tool=tools == "all",
                tool_seconds=self.settings.tool_timeout_seconds,
                lifespan=self._share_engine,
                settings=self.settings,
                at_once=False,
            )
        return self._servers[tools]

    async def _open_engine(self) -> ZapomniEngine:
        engine = await engine_opener(self.settings)()
        for environ in self._environments:
            engine.learn_secrets(environ)
        self._environments.clear()
        return engine

    def _learn(self, environ: object) -> None:
        """Have the secrets of a client's environment found in what is stored, as in its own."""
        if not isinstance(environ, dict):
            return
        known = {str(name): str(value) for name, value in environ.items()}
        recall_log(self.settings).learn(known)
        if self.engine.opened is not None:
            self.engine.opened.learn_secrets(known)
        else:
            self._environments.append(known)

    @asynccontextmanager
    async def _share_engine(self, _server: MCPServer[LazyEngine]) -> AsyncIterator[LazyEngine]:
        yield self.engine  # A connection that ends leaves it open for the others.

    def _stop(self) -> None:
        self._finish_seconds = STOP_SECONDS
        self._ended.set()

    # --- Why it ends ----------------------------------------------------------------------

    def _remove_files(self) -> None:
        """Remove the socket, and outside of the home folder all that would be left."""
        path = Path(self._path)
        with suppress(OSError):
            path.unlink()
            if path.parent != Path(self.key.home, "run"):
                path.with_suffix(".log").unlink()
                path.with_suffix(".lock").unlink()
                path.parent.rmdir()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(WATCH_SECONDS, IDLE_SECONDS / 4))
            if _identity(self._path) != self._socket or _identity(self.key.home) != self._home:
                log.info("shared_process_home_gone")
                break
            opened = self.engine.opened
            works = opened is not None and opened.tasks.is_working
            if works or any(c.is_busy for c in self.connections):
                self.last_used = time.monotonic()
            if time.monotonic() - self.last_used > IDLE_SECONDS:
                break
            with suppress(OSError):
                if os.fstat(2).st_size > MAX_LOG:
                    os.ftruncate(2, 0)
        self._ended.set()

    # --- Connections ----------------------------------------------------------------------

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while self._listener is not None:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(0.1)  # Too many open files, for example.
                continue
            accepted.setblocking(False)
            task = asyncio.create_task(self._serve(ClientConnection(self, accepted)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: ClientConnection) -> None:
        try:
            if not is_same_user(connection.socket):
                return
            async with asyncio.timeout(GREETING_SECONDS):
                hello = await connection.receive()
            if hello is None:
                return
            kind = hello.get("kind")
            if kind == "status":
                await connection.send({"ok": True, **self._describe()})
                return
            if reason := self._refusal(hello):
                await connection.send({"ok": False, "reason": reason})
                return
            self.last_used = time.monotonic()
            self.connections.add(connection)
            if kind == "ask":
                await connection.send({"ok": True, **self._describe()})
                await connection.answer_questions()
                return
            await connection.send({"ok": True, **self._describe()})
            self._learn(hello.get("environ"))
            enter_folder(str(hello.get("cwd")))
            await connection.serve(self.server(str(hello.get("tools"))))
        except (OSError, TimeoutError, ValueError) as error:
            log.info("connection_ended", error_type=type(error).__name__)
        except Exception:
            log.exception("connection_failed")
        finally:
            self.connections.discard(connection)
            connection.socket.close()
            self.last_used = time.monotonic()

    def _refusal(self, hello: dict[str, Any]) -> str:
        """Return why a client is not served here, if it is not."""
        if self._ended.is_set():
            return "closing"
        if not self._is_portable:
            return "alone"
        if is_newer(str(hello.get("version")), VERSION):
            self.give_way()
            return "older"
        if hello.get("digest") != self.key.digest:
            if ShareKey(os.environ).digest == self.key.digest:
                return "settings"
            self.give_way()  # config.toml was changed.
            return "closing"
        return "full" if len(self.connections) >= MAX_CONNECTIONS else ""

    def _describe(self) -> dict[str, Any]:
        clients = [c.client for c in self.connections if c.client]
        return {
            "zapomni": 1,
            "pid": os.getpid(),
            "version": VERSION,
            "digest": self.key.digest,
            "started": int(self._started),
            "connections": len(self.connections),
            "clients": sorted(clients),
            "model_loaded": self.engine.opened is not None and self.engine.opened.has_model,
        }


class ClientConnection:
    """One client, and what it is still to be answered."""

    def __init__(self, process: SharedProcess, accepted: socket.socket) -> None:
        self.socket = accepted
        self.client = ""
        self._process = process
        self._lines: deque[bytes] = deque()
        self._buffer = LineBuffer()
        self._sending = asyncio.Lock()
        self._running: set[str | int] = set()
        self._waiting: deque[tuple[SessionMessage | Exception, int]] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Condition()
        self._is_finishing = False
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call is being answered or waits for its turn."""
        return bool(self._running or self._waiting)

    # --- Lines ----------------------------------------------------------------------------

    async def receive_line(self, longest: int) -> bytes | None:
        """Return the next whole line; None at the end, where half a line is dropped.

        Raises:
            ValueError: It is too long.
        """
        loop = asyncio.get_running_loop()
        while not self._lines:
            received = await loop.sock_recv(self.socket, BLOCK)
            if not received:
                return None
            self._lines.extend(self._buffer.feed(received))
            if self._buffer.size > longest:
                raise ValueError("a message is too long")
        return self._lines.popleft()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message of our own; None at the end."""
        line = await self.receive_line(MAX_GREETING)
        if line is None:
            return None
        value = json.loads(line.decode("utf-8", "surrogateescape"))
        return value if isinstance(value, dict) else {}

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message of our own."""
        await self._send_line(json.dumps(message).encode())

    async def _send_line(self, line: bytes) -> None:
        loop = asyncio.get_running_loop()
        async with self._sending:
            await loop.sock_sendall(self.socket, line + b"\n")

    # --- Questions ------------------------------------------------------------------------

    async def answer_questions(self) -> None:
        """Answer one question after the other until the client closes."""
        while (question := await self.receive()) is not None:
            self._running.add("question")
            try:
                with operation():
                    await self.send(await self._answer(question))
            finally:
                self._running.discard("question")

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        from zapomni_core.interfaces import SearchRequest

        try:
            if question.get("request") != "search":
                return {"ok": False, "reason": "unknown"}
            seconds = min(float(question.get("seconds", LONGEST_QUESTION)), LONGEST_QUESTION)
            async with asyncio.timeout(seconds):
                engine = await self._process.engine.get()
                within = question.get("within", "memories")
                folder = question.get("folder", "") if within == "memories" else question["folder"]
                request = SearchRequest(
                    query=question["query"],
                    limit=question.get("limit", 10),
                    filters=question.get("filters"),
                    within=within,
                    folder=str(folder),
                    agent=True,
                    explain=question.get("explain", False),
                )
                found = await engine.search_memory(request)
            return {"ok": True, **found.model_dump(mode="json")}
        except TimeoutError:
            return {"ok": False, "reason": "time"}
        except ZapomniError as error:
            return {"ok": False, "reason": error.error_code}
        except (KeyError, TypeError, ValueError):
            return {"ok": False, "reason": "invalid"}

    # --- Frames ---------------------------------------------------------------------------

    async def serve(self, server: ZapomniServer) -> None:
        """Answer MCP until the client closes, or `finish` has let every begun call end."""
        to_server, read = create_context_streams[SessionMessage | Exception](0)
        write, from_server = create_context_streams[SessionMessage](0)
        async with anyio.create_task_group() as group:

            async def send_answers() -> None:
                with suppress(OSError):
                    async for message in from_server:
                        await self._send_message(message)
                    return
                group.cancel_scope.cancel()  # The client is gone.

            group.start_soon(send_answers)
            group.start_soon(self._forward, to_server, server)
            self._reading = asyncio.create_task(self._read(to_server))
            try:
                await server.serve_streams(read, write)
            finally:
                self._reading.cancel()
                group.cancel_scope.cancel()

    async def finish(self) -> None:
        """Begin nothing more, wait for what was begun, say so and close."""
        self._is_finishing = True
        if self._reading is None:  # A question is not waited for: its client does without.
            return
        self._reading.cancel()
        async with self._changed:
            self._changed.notify_all()
            await self._changed.wait_for(lambda: not self._running)
        with suppress(OSError):
            await self.send({"zapomni": "closing"})
            self.socket.shutdown(socket.SHUT_RDWR)

    async def _read(self, to_server: ContextSendStream[SessionMessage | Exception]) -> None:
        """Take messages as long as there is room for them; the rest stays with the client."""
        try:
            while (line := await self.receive_line(MAX_FRAME)) is not None:
                message = self._parse(line)
                self._process.last_used = time.monotonic()
                if (cancelled := _cancelled_id(message)) is not None:
                    if not self._drop_waiting(cancelled):
                        await to_server.send(message)
                    continue
                async with self._changed:
                    self._waiting.append((message, len(line)))
                    self._waiting_bytes += len(line)
                    self._changed.notify_all()
                    await self._changed.wait_for(
                        lambda: (
                            len(self._waiting) < MAX_WAITING
                            and self._waiting_bytes < MAX_WAITING_BYTES
                        )
                    )
        except (OSError, ValueError) as error:
            log.warning("connection_unreadable", error_type=type(error).__name__)
        # As with a pipe: the end of the input is the end of the session.
        await to_server.aclose()

    def _parse(self, line: bytes) -> SessionMessage | Exception:
        try:
            message = jsonrpc_message_adapter.validate_json(
                line.decode("utf-8", "replace"), by_name=False
            )
        except Exception as error:  # noqa: BLE001 - the server answers it
            return error
        if not isinstance(message, JSONRPCRequest):
            return SessionMessage(message)
        if not self.client:
            self.client = client_of(message.params)
        number = message.id

        async def settle() -> None:
            await self._settle(number)

        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=settle))

    def _drop_waiting(self, number: str | int) -> bool:
        """Forget a request that was cancelled before its turn."""
        for item in self._waiting:
            if _request_id(item[0]) == number:
                self._waiting.remove(item)
                self._waiting_bytes -= item[1]
                return True
        return False

    async def _forward(
        self, to_server: ContextSendStream[SessionMessage | Exception], server: ZapomniServer
    ) -> None:
        """Hand messages to the server in their order, so many requests at a time."""
        names = None
        while True:
            async with self._changed:
                await self._changed.wait_for(self._is_next_due)
                if self._is_finishing:
                    return
                message, size = self._waiting.popleft()
                self._waiting_bytes -= size
                if (number := _request_id(message)) is not None:
                    self._running.add(number)
                self._changed.notify_all()
            if names is None and not _is_initialize(message):
                names = [t.name for t in server.load().tools if _only_reads(t)]
                with suppress(OSError):
                    await self.send({"zapomni": "tools", "reading": names})
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await to_server.send(message)

    def _is_next_due(self) -> bool:
        if self._is_finishing:
            return True
        if not self._waiting:
            return False
        return len(self._running) < MAX_RUNNING or _request_id(self._waiting[0][0]) is None

    async def _send_message(self, session_message: SessionMessage) -> None:
        message = session_message.message
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._send_line(text.encode())
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            await self._settle(message.id)

    async def _settle(self, number: str | int) -> None:
        self._process.last_used = time.monotonic()
        async with self._changed:
            self._running.discard(number)
            self._changed.notify_all()


def _identity(path: str) -> tuple[int, int] | None:
    """Return what a path is on disk; None if it is gone."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _request_id(message: SessionMessage | Exception) -> str | int | None:
    if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCRequest):
        return message.message.id
    return None


def _is_initialize(message: SessionMessage | Exception) -> bool:
    return isinstance(message, SessionMessage) and (
        getattr(message.message, "method", "") == "initialize"
    )


def _only_reads(tool: Tool) -> bool:
    return bool(tool.annotations and tool.annotations.read_only_hint)


def _cancelled_id(message: SessionMessage | Exception) -> str | int | None:
    if not isinstance(message, SessionMessage):
        return None
    notice = message.message
    if isinstance(notice, JSONRPCNotification) and notice.method == "notifications/cancelled":
        number = (notice.params or {}).get("requestId")
        return number if isinstance(number, str | int) else None
    return None


if __name__ == "__main__":
    main()

"""`zapomni serve` as hosts start it: forwards MCP frames between a host and the shared process.

Standard library only: it starts in a tenth of the time and an eighth of the memory of a server.
The shared process is started when none answers, and again when it ends in the middle of a session:
`initialize` is sent to the new one, and what was not begun or only reads is asked again. A call
that may have written something is answered with an error instead, so that nothing is done twice.
"""
# pathlib would cost a start milliseconds:
# ruff: noqa: PTH108, PTH109, PTH116

from __future__ import annotations

import _socket
import errno
import os
import select
import sys
import time
from _collections import deque  # type: ignore[import-not-found] # without all of `collections`

from zapomni_core.infra.sharing import (
    LineBuffer,
    ShareKey,
    connect,
    greet,
    make_folder,
    receive_line,
)
from zapomni_core.shared.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["main"]

# How long a process may take to start and to answer. A busy machine needs seconds; a host that
# waits thirty must still get an answer from this process alone.
START_SECONDS = 20.0
# One that has had its time to start answers at once, or it hangs and is left alone.
ANSWER_SECONDS = 3.0
# One without a socket is about to end, within two seconds, or hangs too.
LEAVE_SECONDS = 6.0
STARTS = 2
RESTARTS = 3
BLOCK = 1 << 16
# A pipe that can be written to takes so much without blocking.
PIPE_BLOCK = 4096
# Above this, the other side waits until it is read.
MAX_WAITING = 1 << 20
# What a host is given after it closed its side.
LAST_SECONDS = 15.0
LOST = -32000
PROCESS = ["-P", "-m", "zapomni_mcp.shared_process"]
_REFUSED = (errno.ENOENT, errno.ECONNREFUSED)


def main(argv: Sequence[str]) -> int | None:
    """Serve a host through the shared process.

    Args:
        argv: What follows `zapomni serve`.

    Returns:
        The exit code; None if this process has to serve by itself.
    """
    tools = _tools_option(argv)
    key = ShareKey(os.environ)
    if tools is None or not key.wanted:
        return None
    try:
        proxy = _Proxy({"cwd": os.getcwd(), "tools": tools, "environ": dict(os.environ)})
        if not proxy.reach():
            return None
    except OSError:
        return None  # A sandbox that lets us have no folder, socket or process.
    try:
        return proxy.run()
    except KeyboardInterrupt:
        return 130


def _tools_option(argv: Sequence[str]) -> str | None:
    """Return which tools are wanted; None for anything that the full command must read."""
    given = list(argv)
    if not given:
        return "default"
    if len(given) == 1 and given[0].startswith("--tools="):
        given = ["--tools", given[0].partition("=")[2]]
    if len(given) == 2 and given[0] == "--tools" and given[1] in ("default", "all"):
        return given[1]
    return None


class _Request:
    """A request of the host that is not answered yet."""

    __slots__ = ("line", "resent", "tool")

    def __init__(self, line: bytes, tool: Any) -> None:
        self.line = line
        self.tool = tool  # None if it calls none
        self.resent = False


class _Proxy:
    def __init__(self, about: dict[str, Any]) -> None:
        self._about = about
        self._link: _socket.socket | None = None
        self._reading_tools: list[str] = []
        self._is_closing = False  # The process said that it begins nothing more.
        self._from_host = LineBuffer()
        self._from_link = LineBuffer()
        self._to_host = bytearray()
        # Whole lines with the ids of requests, their size, and how much of the first one is sent.
        self._to_link: deque[tuple[bytes, Any]] = deque()
        self._waiting = 0
        self._sent = 0
        self._open: dict[Any, _Request] = {}
        self._initialize: tuple[Any, bytes] | None = None
        self._initialized = b""

    # --- Finding and starting the process -------------------------------------------------

    def reach(self) -> bool:
        """Connect to the process, or to one that is started for it; return whether that worked."""
        until = time.monotonic() + START_SECONDS
        key = ShareKey(os.environ)  # Read again: config.toml may have changed.
        folder = key.folder()
        make_folder(folder)
        path = key.socket_in(folder, own=False)
        starts = silences = 0
        leaves = 0.0
        while (left := until - time.monotonic()) > 0:
            seconds = left if _may_be_starting(path) else min(left, ANSWER_SECONDS)
            try:
                link = connect(path, seconds)
            except OSError as error:
                if error.errno not in _REFUSED:
                    raise
                if starts >= STARTS:
                    return False
                if _start(key, path):
                    starts += 1
                    continue
                # Another one starts it, or it is about to end.
                leaves = leaves or time.monotonic() + LEAVE_SECONDS
                if time.monotonic() > leaves:
                    return False
                time.sleep(0.02)
                continue
            try:
                answer = greet(link, key.hello("mcp", **self._about), seconds)
            except (OSError, ValueError):
                link.close()
                return False
            if answer.get("ok"):
                link.setblocking(False)
                self._link, self._is_closing = link, False
                return True
            link.close()
            reason = answer.get("reason")
            silences += not answer
            if reason in ("full", "alone") or silences > STARTS:
                return False
            if reason == "settings":
                path = key.socket_in(folder, own=True)
            else:
                time.sleep(0.02)  # It ends; the next one is started when its socket is gone.
        return False

    # --- Forwarding -----------------------------------------------------------------------

    def run(self) -> int:
        """Forward until the host closes its side and has all answers."""
        is_open = True
        last = 0.0
        while True:
            if self._link is None and self._to_link and not self._restart():
                self._refuse_waiting()
            if not is_open and not self._to_link and not self._to_host and self._link is None:
                return 0
            if not is_open and time.monotonic() > last:
                return 1
            poll = select.poll()
            if is_open and self._waiting < MAX_WAITING:
                poll.register(0, select.POLLIN)
            if self._to_host:
                poll.register(1, select.POLLOUT)
            if self._link is not None:
                wanted = select.POLLIN if len(self._to_host) < MAX_WAITING else 0
                poll.register(self._link, wanted | (select.POLLOUT if self._to_link else 0))
            timeout = None if is_open else max(0.0, last - time.monotonic()) * 1000
            link = self._link.fileno() if self._link is not None else -1
            for descriptor, events in poll.poll(timeout):
                if descriptor == 0:
                    is_open = self._read_host()
                    if not is_open:
                        last = time.monotonic() + LAST_SECONDS
                elif descriptor == 1:
                    try:
                        written = os.write(1, self._to_host[:PIPE_BLOCK])
                    except BrokenPipeError:
                        return 0
                    del self._to_host[:written]
                elif descriptor == link and self._link is not None:
                    if events & select.POLLOUT:
                        self._write_link()
                    if events & ~select.POLLOUT and self._link is not None:
                        self._read_link()
            if not is_open and not self._to_link and self._link is not None:
                # All is delivered; the process answers what it has begun and closes.
                try:
                    self._link.shutdown(_socket.SHUT_WR)
                except OSError:
                    self._lose_link()

    def _read_host(self) -> bool:
        received = os.read(0, BLOCK)
        lines = self._from_host.feed(received)
        if not received and (rest := self._from_host.rest()):
            lines.append(rest)
        for line in lines:
            self._take(line + b"\n")
        return bool(received)

    def _take(self, line: bytes) -> None:
        """Note what a message of the host is, and put it into the queue."""
        message = _parse(line)
        number = message.get("id")
        method = message.get("method")
        if method == "initialize":
            self._initialize = (number, line)
        elif method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled":
            params = message.get("params")
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(cancelled, str | int):
                self._open.pop(cancelled, None)
        if method is not None and isinstance(number, str | int):
            called = message.get("params") if method == "tools/call" else None
            tool = called.get("name") if isinstance(called, dict) else None
            self._open[number] = _Request(line, tool)
        else:
            number = None
        self._to_link.append((line, number))
        self._waiting += len(line)

    def _write_link(self) -> None:
        assert self._link is not None
        line, _ = self._to_link[0]
        try:
            self._sent += self._link.send(memoryview(line)[self._sent :])
        except BlockingIOError:
            return
        except OSError:
            self._read_link()  # What it answered before it ended.
            return
        if self._sent == len(line):
            self._to_link.popleft()
            self._waiting -= len(line)
            self._sent = 0

    def _read_link(self) -> None:
        assert self._link is not None
        try:
            received = self._link.recv(BLOCK)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._lose_link()
            return
        for line in self._from_link.feed(received):
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        message = _parse(line)
        if own := message.get("zapomni"):
            self._is_closing = own == "closing"
            self._reading_tools = message.get("reading", self._reading_tools)
            return
        number = message.get("id")
        if "method" not in message and isinstance(number, str | int):
            self._open.pop(number, None)
        self._to_host += line + b"\n"

    # --- When the process ends ------------------------------------------------------------

    def _lose_link(self) -> None:
        """Answer what may have been done with an error; what is safe is asked again."""
        self._drop_link()
        queued = {number for _, number in self._to_link}
        again = []
        for number, request in list(self._open.items()):
            if number in queued:
                continue  # The process has not received it whole.
            is_safe = request.tool is None or request.tool in self._reading_tools
            if self._is_closing or (is_safe and not request.resent):
                request.resent = not self._is_closing
                again.append((request.line, number))
            else:
                self._refuse(
                    number,
                    "The memory process ended during this call. It may have been done: search for "
                    "it before you call again.",
                )
        self._to_link.extendleft(reversed(again))
        self._waiting += sum(len(line) for line, _ in again)

    def _drop_link(self) -> None:
        assert self._link is not None
        self._link.close()
        self._link, self._from_link, self._sent = None, LineBuffer(), 0

    def _restart(self) -> bool:
        for _ in range(RESTARTS):
            try:
                if not self.reach():
                    return False
                self._repeat_start()
            except (OSError, ValueError):
                if self._link is not None:
                    self._drop_link()
            else:
                return True
        return False

    def _repeat_start(self) -> None:
        """Send the new process what a session starts with; the host has its answer already.

        Raises:
            OSError: The process ended again.
        """
        if self._initialize is None:
            return
        link = self._link
        assert link is not None
        number, line = self._initialize
        until = time.monotonic() + START_SECONDS
        link.settimeout(START_SECONDS)
        link.sendall(line)
        answer, rest = receive_line(link, b"", until)
        if not answer:
            raise ConnectionResetError
        if number in self._open:
            self._answer(answer)
        if self._initialized:
            link.sendall(self._initialized)
        link.setblocking(False)
        self._from_link.feed(rest)
        start = (line, self._initialized)
        self._to_link = deque(item for item in self._to_link if item[0] not in start)
        self._waiting = sum(len(queued) for queued, _ in self._to_link)

    def _refuse_waiting(self) -> None:
        for _, number in self._to_link:
            if number in self._open:
                self._refuse(
                    number, "The memory process could not be started. Run `zapomni doctor`."
                )
        self._to_link.clear()
        self._waiting = 0

    def _refuse(self, number: Any, message: str) -> None:
        del self._open[number]
        error = {"jsonrpc": "2.0", "id": number, "error": {"code": LOST, "message": message}}
        self._to_host += dumps(error, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    """Return a message; {} for anything else, which the server refuses by itself."""
    try:
        message = loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


# --- Starting ---------------------------------------------------------------------------


def _may_be_starting(path: str) -> bool:
    """Return whether a socket is so new that its process may still be loading."""
    try:
        return time.time() - os.stat(path).st_mtime < START_SECONDS
    except OSError:
        return True  # There is none yet.


def _start(key: ShareKey, path: str) -> bool:
    """Start a process that listens on the socket; return whether it is ours to start.

    The lock is its as long as it lives, so there is one; the socket is open before it has loaded
    anything, so that no one waits for it by trying again.
    """
    import fcntl

    lock = os.open(
        path.removesuffix(".sock") + ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
    )
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if os.path.lexists(path):
            os.unlink(path)
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            mask = os.umask(0o177)
            try:
                listener.bind(path)
            finally:
                os.umask(mask)
            listener.listen(128)
            _spawn(key, path, listener.fileno(), lock)
        finally:
            listener.close()
    finally:
        os.close(lock)
    return True


def _spawn(key: ShareKey, path: str, listener: int, lock: int) -> None:
    """Run the process apart from us: no child of ours, in a session of its own.

    Hosts end their servers with all children and the process group.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        log = os.open(
            path.removesuffix(".sock") + ".log",
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW,
            0o600,
        )
        null = os.open(os.devnull, os.O_RDWR)
        # Far up first: none may overwrite another.
        high = [os.dup2(one, 100 + at) for at, one in enumerate((null, log, log, listener, lock))]
        for number, descriptor in enumerate(high):
            os.dup2(descriptor, number)
        os.closerange(5, 1 << 16)
        os.chdir("/")
        os.umask(0o077)
        environment = {**os.environ, "ZAPOMNI_HOME": key.home}
        command = [sys.executable, *PROCESS, path]
        os.execve(sys.executable, command, environment)  # noqa: S606 - ourselves
    finally:
        os._exit(1)

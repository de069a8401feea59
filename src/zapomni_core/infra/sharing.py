"""The socket of the shared process: where it is, who may connect, and how to ask through it.

`zapomni serve` processes of one home folder share one process that holds the engine and the model.
It listens on `$ZAPOMNI_HOME/run/zapomni.sock`. Processes with other settings use a second socket in
the same folder, named after the digest of their settings. Every message is a line of JSON. The
first one says who connects and why:

    {"zapomni": 1, "kind": "mcp", "version": "0.1.0", "digest": "...", "cwd": "/", "tools": "all"}

`mcp` is followed by the frames of the Model Context Protocol, `ask` by questions (below), `status`
by nothing. With `mcp` comes `environ`, the client's environment: its secrets are found in texts.
The process answers {"ok": true, "pid": ..., "version": ...} or {"ok": false, "reason": ...}:
`settings` (connect to the other socket), `older` (it ends, start a newer one), `closing` (it ends),
`full`, `alone` (these settings cannot be shared). Two messages of its own come between the frames:
{"zapomni": "tools", "reading": [...]} names the tools that change nothing; {"zapomni": "closing"}
comes before it ends and means that no request without an answer was begun.

A program that wants to search without loading the engine, such as a hook, calls `ask`:

    from zapomni_core.infra.sharing import ShareKey, ask

    found = ask(ShareKey(os.environ), {"request": "search", "query": "...", "limit": 5}, 0.15)
    if found is not None:
        found["results"]  # ranked: memory_id, text, score, kind, project, created_at, ...

`search` takes `query` and optionally `limit` (10), `filters` (the fields of `MemoryFilter`, such as
{"project": "api"}), `within` ("memories" unless "everything" or "observations" is given), `folder`
(whose observations may be shown: needed unless `within` is "memories") and `explain`. It ranks as
`zapomni search` does. None means: no process runs, or it did not answer in time; it is never
started by a question.

Standard library only, and as little of it as possible: hooks and `zapomni serve` import this.
"""
# pathlib and socket would cost a hook milliseconds:
# ruff: noqa: PTH100, PTH101, PTH102, PTH103, PTH111, PTH118, PTH120, PTH123

from __future__ import annotations

import _socket
import os
import stat
import sys
import time

from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "VERSION",
    "LineBuffer",
    "ShareKey",
    "ask",
    "connect",
    "describe_process",
    "greet",
    "is_newer",
    "is_same_user",
    "make_folder",
    "receive_line",
]

VERSION = "0.1.0"
"""The version of this distribution, which `pyproject.toml` reads here.

Reading it from the metadata at run time would cost 30 ms.
"""

PROTOCOL = 1
# What a socket's path may have in bytes: 107 on Linux, 103 on macOS and BSD.
LONGEST_PATH = 100
# These settings do not decide what a process does for its clients.
NOT_SHARED = frozenset(["ZAPOMNI_HOME", "ZAPOMNI_SHARE"])
_NO = frozenset(["0", "f", "false", "n", "no", "off"])
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1  # macOS and BSD


class ShareKey:
    """Who may share a process: those with the same home folder and the same settings.

    Attributes:
        home: The home folder, absolute.
        digest: Of the settings in the environment and in config.toml, and of where the code is.
        wanted: Whether the user lets processes be shared.
    """

    __slots__ = ("digest", "home", "wanted")

    def __init__(self, environ: Mapping[str, str]) -> None:
        home = environ.get("ZAPOMNI_HOME") or "~/.zapomni"
        self.home = os.path.abspath(os.path.expanduser(home))
        try:
            with open(os.path.join(self.home, "config.toml"), "rb") as stream:
                config = stream.read()
        except OSError:
            config = b""
        settings = [
            f"{name}={environ[name]}"
            for name in sorted(environ)
            if name.startswith("ZAPOMNI_") and name not in NOT_SHARED
        ]
        # Another installation may have other extras, and another HOME another meaning of `~`.
        settings += [environ.get("HOME", ""), os.path.dirname(os.path.abspath(__file__))]
        text = "\0".join(settings).encode("utf-8", "surrogateescape")
        self.digest = keyed_hash(text + b"\0" + config, b"settings", 16)
        self.wanted = _is_wanted(environ, config)

    def folder(self) -> str:
        """Return where the sockets are: in the home folder, or in a short path for a long one."""
        folder = os.path.join(self.home, "run")
        if len(os.fsencode(self.socket_in(folder, own=True))) <= LONGEST_PATH:
            return folder
        name = keyed_hash(os.fsencode(os.path.realpath(self.home)), b"home", 8)
        return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"zapomni-{os.geteuid()}-{name}")  # noqa: S108 - a folder of mode 0700 in it

    def socket_in(self, folder: str, *, own: bool) -> str:
        """Return the path of the home's socket, or of the one for these settings alone."""
        return os.path.join(folder, f"zapomni-{self.digest[:16]}.sock" if own else "zapomni.sock")

    def hello(self, kind: str, **more: Any) -> dict[str, Any]:
        """Return the first message of a connection."""
        about = {"zapomni": PROTOCOL, "kind": kind, "version": VERSION, "digest": self.digest}
        return {**about, **more}


def _is_wanted(environ: Mapping[str, str], config: bytes) -> bool:
    if given := environ.get("ZAPOMNI_SHARE"):
        return given.lower() not in _NO
    if b"share" not in config and b"\\" not in config:
        return True  # To load the parser costs as much as all the rest.
    import tomllib

    try:
        return tomllib.loads(config.decode()).get("share", True) is not False
    except ValueError:
        return False  # The server says what is wrong with it.


def is_newer(version: str, other: str) -> bool:
    """Return whether a version is newer than another one."""
    return _parts(version) > _parts(other)


def _parts(version: str) -> list[int]:
    digits = ("".join(c for c in part if c.isdecimal()) for part in version.split("."))
    return [int(part or 0) for part in digits]


# --- Connections ------------------------------------------------------------------------


def make_folder(path: str) -> None:
    """Make the folder of the sockets, and close it to others.

    Raises:
        OSError: It cannot be made, or is not ours alone.
    """
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            os.chmod(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError("the folder of the socket is not ours alone")


def is_same_user(connection: _socket.socket) -> bool:
    """Return whether the process at the other end runs as this user."""
    if sys.platform == "linux":
        found = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        uid = int.from_bytes(found[4:8], sys.byteorder)
    else:  # struct xucred: its version, then the user
        found = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        uid = int.from_bytes(found[4:8], sys.byteorder)
    return uid == os.geteuid()


def connect(path: str, seconds: float) -> _socket.socket:
    """Connect to a socket whose other end is ours.

    Raises:
        OSError: Nothing listens there, or it is another user's.
    """
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(path)
        if not is_same_user(connection):
            raise PermissionError("the socket is another user's")  # noqa: TRY301
    except BaseException:
        connection.close()
        raise
    return connection


def greet(connection: _socket.socket, hello: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Send the first message and return the answer; {} if the other end closes without one.

    Raises:
        OSError: There is no answer in time.
        ValueError: The answer is none of ours.
    """
    connection.settimeout(seconds)
    try:
        connection.sendall(dumps(hello).encode("utf-8", "surrogateescape") + b"\n")
        line, _ = receive_line(connection, b"", time.monotonic() + seconds)
    except (BrokenPipeError, ConnectionResetError):
        return {}
    return _as_object(line) if line else {}


def receive_line(
    connection: _socket.socket, rest: bytes, until: float, longest: int = 1 << 26
) -> tuple[bytes, bytes]:
    """Return the next line and what was received after it; an empty line at the end.

    Raises:
        OSError: There is none in time.
        ValueError: It is too long.
    """
    while b"\n" not in rest:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        connection.settimeout(left)
        received = connection.recv(1 << 16)
        if not received:
            return b"", b""
        rest += received
        if len(rest) > longest:
            raise ValueError("the answer is too long")
    line, _, rest = rest.partition(b"\n")
    return line, rest


class LineBuffer:
    """Cuts what is received into lines; a long one is joined once, at its end."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def feed(self, received: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their ends."""
        if b"\n" not in received:
            self._parts.append(received)
            self.size += len(received)
            return []
        *lines, rest = b"".join([*self._parts, received]).split(b"\n")
        self._parts, self.size = [rest], len(rest)
        return lines

    def rest(self) -> bytes:
        """Return what follows the last end of a line, and forget it."""
        rest = b"".join(self._parts)
        self._parts, self.size = [], 0
        return rest


def _as_object(line: bytes) -> dict[str, Any]:
    value = loads(line.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - what a peer sends is a value
    return value


def describe_process(key: ShareKey, seconds: float) -> dict[str, Any] | None:
    """Return what the shared process says about itself; None if none runs for these settings.

    Raises:
        OSError: There is one, and it does not answer in time.
        ValueError: What it answers is none of ours.
    """
    folder = key.folder()
    for own in (False, True):
        try:
            connection = connect(key.socket_in(folder, own=own), seconds)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            continue
        try:
            found = greet(connection, key.hello("status"), seconds)
        finally:
            connection.close()
        if found.get("digest") == key.digest:
            return found
    return None


def ask(key: ShareKey, question: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
    """Ask the shared process; None if none runs, it refuses, or it takes longer than `seconds`.

    Args:
        key: Whose process.
        question: `request` and what it needs; see the module's description.
        seconds: How long connecting, asking and answering may take together.
    """
    until = time.monotonic() + seconds
    if not key.wanted:
        return None
    folder = key.folder()
    for own in (False, True):
        connection = None
        try:
            connection = connect(key.socket_in(folder, own=own), until - time.monotonic())
            hello = dumps(key.hello("ask")).encode("utf-8", "surrogateescape")
            asked = dumps({**question, "seconds": seconds}).encode("utf-8", "surrogateescape")
            # Both at once: the first is answered whatever the second is.
            connection.sendall(hello + b"\n" + asked + b"\n")
            line, rest = receive_line(connection, b"", until)
            greeting = _as_object(line)
            if greeting.get("ok"):
                line, _ = receive_line(connection, rest, until)
                answer = _as_object(line)
                return answer if answer.get("ok") else None
            if greeting.get("reason") != "settings":
                return None
        except (OSError, ValueError):
            return None
        finally:
            if connection is not None:
                connection.close()
    return None

"""Addresses of FalkorDB and Redis servers, as users write them."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

__all__ = ["SERVER_SCHEMES", "ServerAddress", "parse_server"]

DEFAULT_PORT = 6379
DEFAULT_GRAPH = "zapomni"
SERVER_SCHEMES = frozenset({"falkordb", "falkordbs", "redis", "rediss", "unix"})
_WITH_TLS = frozenset({"falkordbs", "rediss"})


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens, how it lets one in, and which graph is meant.

    Printed without name and password: what is printed ends up in logs and on screens.
    """

    host: str = ""
    port: int = DEFAULT_PORT
    socket: str = ""
    """Path of a unix socket; host and port mean nothing then."""
    tls: bool = False
    ca: str = ""
    """File of the authority that vouches for the server; empty: those the system trusts."""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    graph: str = DEFAULT_GRAPH

    def __str__(self) -> str:
        return self._written("")

    def url(self) -> str:
        """Return the address whole, password included: not to be shown."""
        if not (self.username or self.password):
            return str(self)
        return self._written(f"{quote(self.username, safe='')}:{quote(self.password, safe='')}@")

    def _written(self, login: str) -> str:
        graph = quote(self.graph, safe="")
        if self.socket:
            return f"unix://{login}{quote(self.socket)}?graph={graph}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        ca = f"?ca={quote(self.ca, safe='')}" if self.ca else ""
        return f"falkordb{'s' if self.tls else ''}://{login}{host}:{self.port}/{graph}{ca}"


def parse_server(url: str) -> ServerAddress:
    """Read `falkordb://[user:password@]host[:port][/graph]` or `unix:///path[?graph=name]`.

    `falkordbs` and `rediss` mean TLS; `?ca=/path` names who vouches for the server then. Letters
    with a meaning of their own are written as `%40`.

    Raises:
        ValueError: It is no such address. The message quotes nothing of it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        # Its message may quote what it took for a port: half of a password, perhaps.
        raise ValueError("the host or the port is not readable") from None
    if parts.scheme not in SERVER_SCHEMES:
        raise ValueError("it must start with falkordb://, falkordbs:// or unix://")
    if parts.fragment:
        raise ValueError("it contains #; write %23 if it belongs to a name or a password")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme == "unix":
        graph = _asked(parts, "graph") or DEFAULT_GRAPH
        if parts.hostname or not parts.path.startswith("/") or parts.path == "/":
            raise ValueError("the path of the socket must be absolute: unix:///run/falkordb.sock")
        where = unquote(parts.path)
        return ServerAddress(socket=where, username=username, password=password, graph=graph)
    if not host:
        raise ValueError("it names no host")
    tls = parts.scheme in _WITH_TLS
    return ServerAddress(
        host=host,
        port=DEFAULT_PORT if port is None else port,
        tls=tls,
        ca=_asked(parts, "ca" if tls else ""),
        username=username,
        password=password,
        graph=unquote(parts.path.removeprefix("/")) or DEFAULT_GRAPH,
    )


def _asked(parts: SplitResult, name: str) -> str:
    """Return the one thing that may be asked for after a question mark."""
    asked = parse_qs(parts.query, keep_blank_values=True)
    if asked.keys() - {name}:
        raise ValueError("what follows ? is unknown; write %3F if it belongs to a password")
    return asked.get(name, [""])[-1]

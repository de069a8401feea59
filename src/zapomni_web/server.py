"""`zapomni ui`: serve the page to this user's browser until it is no longer needed."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.infra.sharing import make_folder
from zapomni_core.settings import Settings
from zapomni_web.guard import SHARED_HOST, Guard, mint_token

if TYPE_CHECKING:
    import uvicorn

    from zapomni_web.live import Live

__all__ = ["HOST", "Options", "run"]

HOST = "zapomni.localhost"
IDLE_SECONDS = 1800.0
CHECK_SECONDS = 5.0
START_SECONDS = 30.0
# What says that there is a browser to open: a display, the user's word, a Windows around us.
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


@dataclass(frozen=True)
class Options:
    """What a user chooses on the command line."""

    host: str = HOST
    port: int = 0
    browser: bool = True
    read_only: bool = False
    project: str = ""
    keep: bool = False


def run(settings: Settings, options: Options) -> None:
    """Serve the page, or open a tab on the one that is served already."""
    folder = settings.home / "run"
    settings.home.mkdir(0o700, parents=True, exist_ok=True)
    make_folder(str(folder))
    with _lock(folder / "ui.lock") as is_first:
        if not is_first:
            _open_another(folder, options)
            return
        try:
            asyncio.run(_serve(settings, options, folder))
        except KeyboardInterrupt:
            pass  # How a user ends it.
        finally:
            for left in [folder / "ui.json", *folder.glob("ui-*.html")]:
                left.unlink(missing_ok=True)


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Yield whether no other process serves the page; it is the one that holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _open_another(folder: Path, options: Options) -> None:
    """Open a tab on the page that another process serves."""
    until = time.monotonic() + START_SECONDS
    while True:
        with suppress(OSError, ValueError, KeyError):
            found = json.loads((folder / "ui.json").read_text(encoding="utf-8"))
            pid, port, host = int(found["pid"]), int(found["port"]), str(found["host"])
            secret = bytes.fromhex(found["secret"])
            os.kill(pid, 0)
            break
        if time.monotonic() > until:
            raise ConfigurationError(
                "Another `zapomni ui` is starting or hangs; end it and try again", "CONF_001"
            )
        time.sleep(0.05)
    sys.stderr.write(f"The page is served already, by process {pid}.\n")
    changed = options.read_only or options.keep or options.project or options.port not in (0, port)
    if changed or options.host != host:
        sys.stderr.write("It keeps its own options; to change them end it first (Ctrl-C).\n")
    _show(folder, host, port, mint_token(secret), browser=options.browser)


def _show(folder: Path, host: str, port: int, token: str, *, browser: bool) -> Path | None:
    """Print the link, and open it by a file: arguments of a process are seen by everyone."""
    link = f"http://{host}:{port}/login?t={token}"
    sys.stdout.write(f"{link}\n")
    sys.stdout.flush()
    if not browser:
        return None
    path = folder / f"ui-{secrets.token_hex(8)}.html"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Zapomni</title>'
            f'<meta http-equiv="refresh" content="0;url={link}"><a href="{link}">Open Zapomni</a>'
        )
    opened = False
    # Without a display, one that takes over the terminal would be found.
    if sys.platform != "linux" or any(os.environ.get(name) for name in DISPLAYS):
        with suppress(webbrowser.Error, OSError):
            opened = webbrowser.open(path.as_uri())
    if not opened:
        sys.stderr.write("No browser was opened; follow the link above.\n")
    return path


async def _serve(settings: Settings, options: Options, folder: Path) -> None:
    import uvicorn

    from zapomni_core.engine import create_engine
    from zapomni_web.app import create_app, static_address
    from zapomni_web.live import POLL_SECONDS, SERVER_POLL_SECONDS, Live
    from zapomni_web.page import Site

    with _listen(options.port) as listener:
        port = listener.getsockname()[1]
        secret = secrets.token_bytes(32)
        async with await create_engine(settings, wait=False) as engine:
            seconds = POLL_SECONDS if settings.server is None else SERVER_POLL_SECONDS
            live = Live(engine, seconds)
            site = Site(engine, settings, live, options.project, options.read_only, works=True)
            guard = Guard(
                create_app(site),
                host=options.host,
                port=port,
                secret=secret,
                read_only=options.read_only,
                style=static_address("zapomni.css"),
                on_login=lambda _: _remove_links(folder),
            )
            config = uvicorn.Config(
                guard,
                http="h11",
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )

            class PageServer(uvicorn.Server):
                async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                    await live.close()  # A stream would be waited for, and then cut off.
                    await super().shutdown(sockets)

            server = PageServer(config)
            _write_state(folder / "ui.json", port, options.host, secret)
            watcher = asyncio.create_task(_watch(server, live, options, folder, port, secret))
            try:
                await server.serve(sockets=[listener])
            finally:
                watcher.cancel()
                await live.close()


@contextmanager
def _listen(port: int) -> Iterator[socket.socket]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((SHARED_HOST, port))
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} cannot be used; choose another one with --port, or none",
                "CONF_001",
                original_exception=error,
            ) from error
        yield listener
    finally:
        listener.close()


def _write_state(path: Path, port: int, host: str, secret: bytes) -> None:
    state: dict[str, Any] = {"pid": os.getpid(), "port": port, "host": host, "secret": secret.hex()}
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(state, stream)
    fresh.replace(path)


def _remove_links(folder: Path) -> None:
    for path in folder.glob("ui-*.html"):
        path.unlink(missing_ok=True)


async def _watch(
    server: uvicorn.Server,
    live: Live,
    options: Options,
    folder: Path,
    port: int,
    secret: bytes,
) -> None:
    """Open the page as soon as it is served; end the server when it is no longer needed."""
    while not server.started:  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0.02)
    token = mint_token(secret)
    await asyncio.to_thread(_show, folder, options.host, port, token, browser=options.browser)
    if sys.stderr.isatty():
        sys.stderr.write("Ctrl-C ends it.\n")
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if not options.keep and live.idle_seconds > IDLE_SECONDS:
            sys.stderr.write("No tab has been open for 30 minutes; the page ends.\n")
            server.should_exit = True
            return

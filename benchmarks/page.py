"""What the page costs on a large home: 50,000 memories and 500,000 observations in one file.

    python -m benchmarks.page [--memories 50000] [--observations 500000] [--requests 60]
                              [--home FOLDER]

Server time of one request at a time, in the process that serves it, guard and templates included,
without a model (the embedder is none). Bars are compared with CPU time, all threads included: on an
idle machine it is the time a user waits, and unlike wall time it does not rise with the load. Also:
what an open tab costs while nothing changes, how heavy pages are, how long our scripts are, and
that a first page and `zapomni search` load nothing that they do not need. One JSON line each. A
home named with --home is filled once and used again.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import observations, scale
from benchmarks.scoring import percentile
from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.settings import Settings, load_settings
from zapomni_db.models import ChunkData, MemoryData
from zapomni_db.sqlite.storage import SqliteStorage
from zapomni_web.app import create_app
from zapomni_web.guard import Guard, mint_token
from zapomni_web.live import Live
from zapomni_web.page import Site
from zapomni_web.routes import PAGES

BATCH = 1000
WORDS = 60
KINDS = ("note", "decision", "fact", "preference", "document")


# --- A large home -----------------------------------------------------------------------


async def fill(home: Path, memories: int, observed: int) -> None:
    path = home / "zapomni.db"
    async with SqliteStorage(path) as storage:
        for start in range(0, memories, BATCH):
            await storage.store_memories(list(made(start, min(BATCH, memories - start))))
            await asyncio.sleep(0)
    observations.fill(path, observed)


def made(start: int, count: int) -> Iterator[MemoryData]:
    """Memories of one passage each, of a Zipf vocabulary, a hundred projects and forty tags."""
    words, vectors = SOURCE.batch(start, count)
    for row in range(count):
        number = start + row
        text = " ".join(SOURCE.words[words[row][:WORDS]])
        chunk = ChunkData.model_construct(
            text=text, index=0, start_char=0, end_char=len(text), metadata={},
            embedding=vectors[row].tolist(), tokens=None,
        )  # fmt: skip
        yield MemoryData.model_construct(
            memory_id=str(uuid.UUID(int=number)), text=text, chunks=[chunk], space=scale.SPACE,
            project=f"p{number % scale.PROJECTS}", kind=KINDS[number % len(KINDS)],
            tags=[f"tag{number % 40}"],
            timestamp=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=5 * number),
        )  # fmt: skip


SOURCE = scale.Synthetic()


# --- Requests ---------------------------------------------------------------------------

HOST, PORT, SECRET = "zapomni.localhost", 7411, b"a secret of the benchmark, 32 by"
Made = Callable[[random.Random], str]


class Page:
    """The site without a socket: its pages are asked for by ASGI calls through the guard."""

    def __init__(self, engine: ZapomniEngine, settings: Settings) -> None:
        site = Site(engine, settings, Live(engine))
        self._app = Guard(create_app(site), host=HOST, port=PORT, secret=SECRET, read_only=False)
        self._headers = [(b"host", f"{HOST}:{PORT}".encode())]

    async def log_in(self) -> None:
        _, headers, _ = await self.get(f"/login?t={mint_token(SECRET)}")
        cookie = dict(headers)[b"set-cookie"].partition(b";")[0]
        self._headers += [(b"cookie", cookie), (b"sec-fetch-site", b"same-origin")]

    async def get(self, target: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        path, _, query = target.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "headers": self._headers, "server": ("127.0.0.1", PORT),
            "client": ("127.0.0.1", 1),
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        body = b"".join(one.get("body", b"") for one in sent[1:])
        return sent[0]["status"], sent[0]["headers"], body


def pages(memories: int, sessions: list[str]) -> dict[str, tuple[Made, float | None]]:
    """Return what is asked for, by name, and the milliseconds it may take."""

    def memory(dice: random.Random) -> str:
        return f"/m/{uuid.UUID(int=dice.randrange(memories))}"

    def search(dice: random.Random) -> str:
        words, _ = SOURCE.batch(BATCH * dice.randrange(max(1, memories // BATCH)), 1)
        chosen = dice.sample(list(SOURCE.words[words[0][:WORDS]]), 4)
        return f"/search?q={'+'.join(chosen)}"

    fixed = {
        name: (lambda _, path=path: path, None)
        for name, path in (
            ("list", "/search"), ("today", "/today"), ("sessions", "/sessions"),
            ("timeline", "/timeline"), ("context", "/context"), ("review", "/review"),
            ("graph", "/graph"), ("code", "/code"), ("recalls", "/recalls"), ("tasks", "/tasks"),
            ("health", "/health"), ("settings", "/settings"), ("import", "/import"),
            ("trash", "/trash"),
        )
        if path in {one.path for one in PAGES}
    }  # fmt: skip
    return {
        "search": (search, 150),
        "memory": (memory, 60),
        "session": (lambda dice: f"/s/{dice.choice(sessions)}", 60),
        **fixed,
    }


async def ask(home: Path, memories: int, requests: int) -> None:
    settings = load_settings({}, home=home, embedder="none", share=False)
    async with await create_engine(settings) as engine:
        sessions = [one.session_id for one in await engine.observations.sessions(None, 50)]
        page = Page(engine, settings)
        await page.log_in()
        for name, (make, bar) in pages(memories, sessions).items():
            dice, wall, cpu, sizes = random.Random(3), [], [], []
            for number in range(requests + 2 if bar else 12):
                target = make(dice)
                began = time.perf_counter(), time.process_time()
                status, _, body = await page.get(target)
                if number >= 2:  # the first ones import the page and fill caches
                    wall.append(1000 * (time.perf_counter() - began[0]))
                    cpu.append(1000 * (time.process_time() - began[1]))
                    sizes.append(len(body))
                assert status == 200, (target, status)
            figures = {
                "p50_ms": round(percentile(wall, 0.5), 1),
                "p95_ms": round(percentile(wall, 0.95), 1),
                "p95_cpu_ms": round(percentile(cpu, 0.95), 1),
                "most_bytes": max(sizes),
            }
            ok = max(sizes) <= MOST_BYTES and (bar is None or figures["p95_cpu_ms"] <= bar)
            report(name, ok=ok, **figures, **({"bar_ms": bar} if bar else {}))


# --- A process --------------------------------------------------------------------------

MOST_BYTES, MOST_LINES, MOST_IDLE = 80_000, 900, 1.0


def idle(home: Path, seconds: int) -> None:
    """Open the page and one stream of events; measure the process while nothing changes."""
    environ = {
        **os.environ,
        "ZAPOMNI_HOME": str(home),
        "ZAPOMNI_MODELS_DIR": str(load_settings().models_path),
        "ZAPOMNI_SHARE": "false",
    }
    command = [sys.executable, "-m", "zapomni_cli", "ui", "--no-browser"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        link = served.stdout.readline().strip()
        address = urlsplit(link)
        connection = http.client.HTTPConnection("127.0.0.1", address.port)
        host = {"Host": address.netloc}
        connection.request("GET", f"{address.path}?{address.query}", headers=host)
        answer = connection.getresponse()
        answer.read()
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        own = {**host, "Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
        connection.request("GET", "/search", headers=own)
        answer = connection.getresponse()
        answer.read()
        mapped = Path(f"/proc/{served.pid}/maps").read_text(encoding="utf-8")
        report("first_paint", ok="onnxruntime" not in mapped, loads_onnxruntime="onnx" in mapped)
        connection.request("GET", "/events", headers=own)
        connection.getresponse().readline()
        time.sleep(2)
        before = cpu_seconds(served.pid)
        time.sleep(seconds)
        percent = 100 * (cpu_seconds(served.pid) - before) / seconds
        report("idle_events", ok=percent <= MOST_IDLE, percent_cpu=round(percent, 2), s=seconds)
        connection.close()
        served.terminate()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scripts() -> None:
    folder = resources.files("zapomni_web") / "static"
    texts = [one.read_text(encoding="utf-8") for one in folder.iterdir() if one.name[-3:] == ".js"]
    lines = sum(len(text.splitlines()) for text in texts)
    report("scripts", ok=lines <= MOST_LINES, lines=lines)


def search_starts_without_it(home: Path) -> None:
    """`zapomni search` must not import what the page needs."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "zapomni_cli", "search", "x", "--all"],
        env={**os.environ, "ZAPOMNI_HOME": str(home), "ZAPOMNI_EMBEDDER": "none"},
        capture_output=True,
        text=True,
        check=False,
    )
    imported = set(re.findall(r"\| +(zapomni_web|starlette|uvicorn|jinja2)\b", done.stderr))
    report("search_start", ok=not imported and "zapomni_core" in done.stderr, imports=len(imported))


def report(name: str, **figures: Any) -> None:
    print(json.dumps({"what": name, **figures}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--memories", type=int, default=50_000)
    parser.add_argument("--observations", type=int, default=500_000)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--idle-seconds", type=int, default=20)
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = options.home or Path(temporary) / "home"
        if not (home / "zapomni.db").exists():
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            asyncio.run(fill(home, options.memories, options.observations))
        asyncio.run(ask(home, options.memories, options.requests))
        idle(home, options.idle_seconds)
        scripts()
        search_starts_without_it(home)


if __name__ == "__main__":
    main()

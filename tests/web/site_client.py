"""Ask the site as a browser would, without one: ASGI calls through the guard."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from command import record_here, zapomni
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import Settings, load_settings
from zapomni_web.app import create_app
from zapomni_web.guard import Guard, _digest, mint_token
from zapomni_web.live import Live
from zapomni_web.page import Site

HOST, PORT, SECRET = "zapomni.localhost", 7411, b"a secret of the tests, 32 bytes!"
ORIGIN = f"http://{HOST}:{PORT}"

# Everything a stored text may try on a page, in one text.
HOSTILE = (
    "<script>window.hurt=1</script><img src=x onerror='window.hurt=1'>\n\n"
    "<svg onload=window.hurt=1><a xlink:href='javascript:window.hurt=1'>x</a></svg>\n\n"
    "[link](javascript:window.hurt=1) [data](data:text/html,<script>1</script>) "
    "![pic](https://tracker.example/pixel.png) <javascript:window.hurt=1>\n\n"
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202eesrever\u202c zero\u200bwidth "
    "\U000e0041tag \"><b onmouseover=window.hurt=1>' {{ 7*7 }} {% raw %} $(touch /tmp/x) `id`\n\n"
    "<style>*{display:none}</style><base href='https://evil.example/'>"
    "<form action='https://evil.example'><button>free</button></form>"
    "<meta http-equiv=refresh content='0;url=https://evil.example'>"
)


@contextmanager
def without_loop() -> Iterator[None]:
    """Hide the loop that an open browser of playwright leaves running in this thread."""
    running = asyncio.events._get_running_loop()
    asyncio.events._set_running_loop(None)
    try:
        yield
    finally:
        asyncio.events._set_running_loop(running)


# The name of a file that may try the same.
HOSTILE_FILE = "<script>window.hurt=1;'><b>.py"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def shown(self) -> str:
        """The text of the page, tags taken out."""
        bare = re.sub(r"<(script|style)\b.*?</\1>", "", self.text, flags=re.DOTALL)
        return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", bare).split()))

    @property
    def data(self) -> Any:
        return json.loads(self.body)


async def call(
    app: Any, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b""
) -> Answer:
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "server": ("127.0.0.1", PORT),
        "client": ("127.0.0.1", 1),
    }
    sent: list[dict[str, Any]] = []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    content = b"".join(one.get("body", b"") for one in sent[1:])
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        content,
    )


class Client:
    """A logged-in browser without a browser. It runs the engine in a loop of its own."""

    def __init__(
        self,
        settings: Settings,
        *,
        read_only: bool = False,
        host: str = HOST,
        project: str = "",
    ) -> None:
        self.origin = f"http://{host}:{PORT}"
        self._runner = asyncio.Runner()
        self.engine = self.run(create_engine(settings))
        self.site = Site(self.engine, settings, Live(self.engine), project, read_only)
        self.guard = Guard(
            create_app(self.site), host=host, port=PORT, secret=SECRET, read_only=read_only
        )
        welcome = self.raw("GET", f"/login?t={mint_token(SECRET)}")
        assert welcome.status == 200, welcome.text
        self.cookie = welcome.headers["set-cookie"].partition(";")[0]
        self.welcome = welcome

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.site.live.close())
        self.run(self.engine.close())
        with without_loop():
            self._runner.close()

    def run(self, work: Any) -> Any:
        with without_loop():
            return self._runner.run(work)

    def raw(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Send exactly this; by default with our host alone."""
        if headers is None:
            headers = [("Host", self.origin.removeprefix("http://"))]
        return self.run(call(self.guard, method, target, headers, body))

    def own_headers(self) -> list[tuple[str, str]]:
        return [
            ("Host", self.origin.removeprefix("http://")),
            ("Cookie", self.cookie),
            ("Sec-Fetch-Site", "same-origin"),
        ]

    def get(self, target: str, status: int = 200) -> Answer:
        answer = self.raw("GET", target, self.own_headers())
        assert answer.status == status, answer.shown
        return answer

    def json(self, target: str) -> Any:
        return self.get(target).data

    def csrf(self) -> str:
        """Return the token that the forms of this session have."""
        return _digest(SECRET, "csrf", self.cookie.partition("=")[2])

    def post(
        self, target: str, fields: Mapping[str, str] | None = None, status: int = 303, **more: str
    ) -> Answer:
        """Send a form of our own page."""
        sent = {"csrf": self.csrf(), **(fields or {})}
        headers = [
            *self.own_headers(),
            ("Origin", self.origin),
            ("Content-Type", "application/x-www-form-urlencoded"),
            *more.items(),
        ]
        answer = self.raw("POST", target, headers, urlencode(sent).encode())
        assert answer.status == status, answer.shown
        return answer

    def follow(self, answer: Answer) -> Answer:
        """Open the page that a change leads to."""
        return self.get(answer.headers["location"])

    def undo(self, page: Answer) -> Answer:
        """Press Undo on a page that shows what was done."""
        found = re.search(r'action="(/undo/[^"]+)"', page.text)
        assert found is not None, page.shown
        return self.follow(self.post(found[1]))


@dataclass(frozen=True)
class Home:
    """What the shared home folder has in it."""

    folder: Path
    repository: Path
    deploy: str
    """A short decision with two versions."""
    document: str
    """A document with Markdown that cites code."""
    hostile: str
    session: str


def fill(base: Path, models: str) -> Home:
    """Fill a home folder as a user would."""
    folder, repository = base / "home", base / "shop"
    environ = {
        "ZAPOMNI_HOME": str(folder),
        "ZAPOMNI_MODELS_DIR": models,
        "ZAPOMNI_SHARE": "false",
        "HOME": str(base),
    }
    old = {name: os.environ.get(name) for name in environ}
    os.environ.update(environ)
    here = Path.cwd()
    try:
        repository.mkdir(parents=True)
        os.chdir(repository)
        (repository / "auth.py").write_text(
            "def check_token(token):\n    return token == 'never'\n", encoding="utf-8"
        )
        (repository / HOSTILE_FILE).write_text(
            'def hurt_others():\n    """<script>window.hurt=1</script> \u202e"""\n',
            encoding="utf-8",
        )
        git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "Begin"], check=True)
        _run("index", ".")
        deploy = _add("We deploy on Wednesdays.", "--tag", "deploy", "--kind", "decision")
        _run("update", deploy, "--text", "We deploy on Tuesdays; Friday deploys are forbidden.")
        document = _add(
            "# Tokens\n\nTokens expire after **an hour**; `check_token` decides.\n\n"
            "| code | meaning |\n|---|---:|\n| 401 | too old |\n\n"
            "Ada Lovelace works at Acme Corp. Acme Corp uses PostgreSQL.",
            *("--kind", "document", "--source", "docs/auth.md", "--tag", "auth"),
            *("--cites", "auth.py:check_token"),
        )
        _add("PostgreSQL is backed up every night by Acme Corp.", "--global")
        with without_loop():
            asyncio.run(_add_windows())
        hostile = _add(HOSTILE, "--tag", "<b>tag</b>", "--source", "javascript:alert(1)")
        forgotten = _add(f"Forgotten. {HOSTILE}")
        _run("forget", forgotten, "--yes")
        session = "11111111-2222-4333-8444-555555555555"
        for event in _events(session, repository):
            record_here(json.dumps(event).encode(), "--host", "claude-code")
        _run("graph", "build")
        _run("review")
        _run("search", "<script>window.hurt=1</script> esrever", "--all")
    finally:
        os.chdir(here)
        for name, value in old.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return Home(folder, repository, deploy, document, hostile, session)


async def _add_windows() -> None:
    """Add enough memories for several pages, at once."""
    async with await create_engine(load_settings()) as engine:
        await engine.add_memories(
            [
                AddMemoryRequest(
                    text=f"Window {number}: the staging database is rebuilt at {number % 24}:00.",
                    tags=["ops"],
                    occurred_at=datetime(2026, 1 + number % 9, 11, tzinfo=UTC),
                )
                for number in range(1, 30)
            ]
            + [AddMemoryRequest(text=f"From elsewhere. {HOSTILE}", origin="import", trusted=False)]
        )


def _run(*args: str) -> str:
    done = zapomni(*args)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def _add(text: str, *options: str) -> str:
    return _run("add", text, *options)


def _events(session: str, folder: Path) -> list[dict[str, Any]]:
    base = {"session_id": session, "cwd": str(folder), "transcript_path": "", "permission_mode": ""}
    bash = {"tool_name": "Bash", "tool_use_id": "1"}
    return [
        {**base, "hook_event_name": "SessionStart", "source": "startup"},
        {**base, "hook_event_name": "UserPromptSubmit", "prompt": f"Fix the login. {HOSTILE}"},
        {
            **base,
            **bash,
            "hook_event_name": "PostToolUse",
            "tool_input": {"command": "pytest -q tests/test_login.py"},
            "tool_response": {
                "stdout": "FAILED test_login.py::test_token - AssertionError",
                "stderr": "",
                "interrupted": False,
            },
        },
        {
            **base,
            "hook_event_name": "PostToolUse",
            "tool_name": "Edit",
            "tool_use_id": "2",
            "tool_input": {
                "file_path": str(folder / "auth.py"),
                "old_string": "never",
                "new_string": "always",
            },
            "tool_response": {"filePath": str(folder / "auth.py")},
        },
        {
            **base,
            **bash,
            "hook_event_name": "PostToolUse",
            "tool_input": {"command": "git commit -m 'Fix the login'"},
            "tool_response": {
                "stdout": "[main abc1234] Fix the login",
                "stderr": "",
                "interrupted": False,
            },
        },
    ]

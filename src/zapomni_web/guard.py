"""The guard of everything that is served over HTTP: who may ask, and what an answer may do.

It wraps an ASGI application and knows nothing about it. Every request passes the same checks in the
same order; one that fails gets an answer that says what to do and nothing about what is stored.

1. The target is a path, and `Host` is exactly ours: a name that an attacker points at this machine
   (DNS rebinding) is another host.
2. The method is GET, HEAD or POST. A GET changes nothing, `/login` excepted.
3. `Origin`, `Referer` and `Sec-Fetch-Site`, as far as they are sent, say that our own page asks. A
   POST must have an `Origin`. `/login` alone may be opened from elsewhere: it takes a token.
4. A cookie proves the login. Browsers send cookies to every port of a host, so its name carries the
   port; the default host, `zapomni.localhost`, is one that no other local server has.
5. A POST carries the token of its form, and on `127.0.0.1`, a host that is shared with every other
   local server, a second secret that lives in the tab (`sessionStorage` is per port).
"""

from __future__ import annotations

import hashlib
import hmac
import html
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

__all__ = ["SHARED_HOST", "Guard", "Visitor", "mint_token"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SHARED_HOST = "127.0.0.1"
TOKEN_SECONDS = 600
# The longest text of a memory, each byte of it escaped, and some fields.
MAX_BODY = 40_000_000
MAX_FIELDS = 1000
MAX_SESSIONS = 200
FORM = b"application/x-www-form-urlencoded"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    # Not no-referrer: with that, browsers send `Origin: null` with our own forms.
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


@dataclass(frozen=True)
class Visitor:
    """A browser that has logged in, as the application sees it in `scope["visitor"]`."""

    csrf: str
    """What every form has to send back as `csrf`."""
    form: dict[str, list[str]]
    """The fields of a POST, its token taken out."""


class _RefusedError(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, title: str, advice: str) -> None:
        super().__init__(title)
        self.status, self.title, self.advice = status, title, advice


def mint_token(secret: bytes, now: float | None = None) -> str:
    """Return a token that logs in once, for those who can read the secret."""
    until = int((time.time() if now is None else now) + TOKEN_SECONDS)
    stem = f"{until:x}.{secrets.token_urlsafe(16)}"
    return f"{stem}.{_digest(secret, 'login', stem)}"


def _digest(secret: bytes, purpose: str, text: str) -> str:
    return hmac.new(secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


class Guard:
    """Lets our own page through to an application, and no other.

    Args:
        app: What answers. Static files are under `/static/` and hold nothing private.
        host: `zapomni.localhost`, or `127.0.0.1` for browsers and tunnels that do not know that.
        port: Where we listen.
        secret: Known to this user's processes alone.
        read_only: Whether every POST is refused.
        style: The address of a stylesheet for refusals.
        on_login: Called with each token that was used.
        now: The clock.
    """

    def __init__(
        self,
        app: Application,
        *,
        host: str,
        port: int,
        secret: bytes,
        read_only: bool = False,
        style: str = "",
        on_login: Callable[[str], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._authority = f"{host}:{port}".encode()
        self._origin = b"http://" + self._authority
        self._cookie = f"zapomni-{port}"
        self._is_shared = host == SHARED_HOST
        self._secret = secret
        self._read_only = read_only
        self._style = style
        self._on_login = on_login
        self._now = now
        self._used: dict[str, float] = {}
        self._sessions: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and answer it or let the application answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            path = self._check_sender(scope)
            if path == "/login":
                await self._log_in(scope, send)
                return
            if not path.startswith("/static/"):
                scope["visitor"] = await self._check_visitor(scope, receive)
        except _RefusedError as refused:
            await self._answer(send, refused.status, refused.title, html.escape(refused.advice))
            return
        await self._app(scope, receive, _with_headers(send))

    # --- Where a request comes from -----------------------------------------------------

    def _check_sender(self, scope: Scope) -> str:
        """Return the path of a request that our own page, or the user, may have sent."""
        raw = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
        path = str(scope["path"])
        if not raw.startswith(b"/") or raw.startswith(b"//") or not path.startswith("/"):
            raise _RefusedError(400, "Not a path", "Ask for a page of this server.")
        if _values(scope, b"host") != [self._authority]:
            raise _RefusedError(
                421, "Another host", "This page is not served under that name. Run: zapomni ui"
            )
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise _RefusedError(405, "Method not allowed", "Only GET, HEAD and POST are.")
        is_login = path == "/login"
        if is_login and method != "GET":
            raise _RefusedError(405, "Method not allowed", "A login is a GET.")
        origins = _values(scope, b"origin")
        if any(one != self._origin for one in origins) or len(origins) > 1:
            raise _RefusedError(403, "Another page asks", "Only this page itself may ask.")
        if method == "POST" and not origins:
            raise _RefusedError(403, "No origin", "A change must come from this page.")
        if is_login:
            return path
        sites = _values(scope, b"sec-fetch-site")
        own = {b"same-origin"} if method == "POST" else {b"same-origin", b"none"}
        if any(one not in own for one in sites) or len(sites) > 1:
            raise _RefusedError(
                403,
                "Another page led here",
                "Type the address yourself, or run: zapomni ui",
            )
        for one in _values(scope, b"referer"):
            if not (one + b"/").startswith(self._origin + b"/"):
                raise _RefusedError(403, "Another page led here", "Run: zapomni ui")
        return path

    # --- Who sends it -------------------------------------------------------------------

    async def _log_in(self, scope: Scope, send: Send) -> None:
        asked = parse_qsl(scope["query_string"].decode("latin-1"))
        token = asked[0][1] if [name for name, _ in asked] == ["t"] else ""
        if any(b"prefetch" in one for one in _values(scope, b"sec-purpose")):
            raise _RefusedError(403, "Not opened", "A login is not fetched in advance.")
        if not self._redeem(token):
            raise _RefusedError(
                401,
                "This link has been used, or is too old",
                "Each link opens the page once. For another one run: zapomni ui",
            )
        session = secrets.token_urlsafe(32)
        self._sessions = [*self._sessions[-MAX_SESSIONS + 1 :], session]
        if self._on_login is not None:
            self._on_login(token)
        cookie = f"{self._cookie}={session}; Path=/; HttpOnly; SameSite=Strict"
        # A page of our own that goes on, not a redirect: if the link was followed from another
        # site, a strict cookie is sent with a navigation that our own page starts, and only then.
        second = ""
        if self._is_shared:
            second = f' data-second="{self._second(session)}"'
        await self._answer(
            send,
            200,
            "Welcome",
            f'<a href="/" id="enter"{second}>Open Zapomni</a>',
            head='<meta http-equiv="refresh" content="1;url=/">'
            + (f'<script src="{self._script}" defer></script>' if self._is_shared else ""),
            headers=[(b"set-cookie", cookie.encode())],
        )

    def _redeem(self, token: str) -> bool:
        """Return whether a token is ours, fresh, and used for the first time."""
        stem, _, digest = token.rpartition(".")
        until, _, _ = stem.partition(".")
        expected = _digest(self._secret, "login", stem)
        if not hmac.compare_digest(digest.encode(), expected.encode()):
            return False
        now = self._now()
        self._used = {used: at for used, at in self._used.items() if at > now}
        expires = int(until, 16)
        if expires <= now or stem in self._used:
            return False
        self._used[stem] = expires
        return True

    def _second(self, session: str) -> str:
        return _digest(self._secret, "second", session)

    async def _check_visitor(self, scope: Scope, receive: Receive) -> Visitor:
        session = self._find_session(scope)
        if session is None:
            raise _RefusedError(
                401,
                "Zapomni does not know this browser",
                "A fresh link opens the page here. Run: zapomni ui",
            )
        csrf = _digest(self._secret, "csrf", session)
        if scope["method"] != "POST":
            return Visitor(csrf, {})
        if self._read_only:
            raise _RefusedError(403, "Read-only", "It was started with --read-only.")
        if self._is_shared:
            seconds = _values(scope, b"x-zapomni-second")
            expected = self._second(session).encode()
            if len(seconds) != 1 or not hmac.compare_digest(seconds[0], expected):
                raise _RefusedError(
                    403,
                    "This tab may read only",
                    "With --host 127.0.0.1 only the tab that `zapomni ui` opened can change "
                    "something, with JavaScript. Run it again for another one.",
                )
        types = [one.split(b";")[0].strip().lower() for one in _values(scope, b"content-type")]
        if types != [FORM]:
            raise _RefusedError(415, "Not a form", "Use the forms of this page.")
        try:
            form = _read_fields(await _read_body(receive))
        except ValueError as error:
            raise _RefusedError(400, "Not a form", "Use the forms of this page.") from error
        tokens = form.pop("csrf", [])
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0].encode(), csrf.encode()):
            raise _RefusedError(
                403, "This form is too old", "Go back, reload the page and try again."
            )
        return Visitor(csrf, form)

    def _find_session(self, scope: Scope) -> str | None:
        for header in _values(scope, b"cookie"):
            for part in header.decode("latin-1").split(";"):
                try:
                    cookies = SimpleCookie(part.strip())
                except CookieError:
                    continue
                given = cookies.get(self._cookie)
                for session in self._sessions if given is not None else ():
                    assert given is not None
                    if hmac.compare_digest(given.value.encode(), session.encode()):
                        return session
        return None

    # --- Answers ------------------------------------------------------------------------

    async def _answer(
        self,
        send: Send,
        status: int,
        title: str,
        body: str,
        *,
        head: str = "",
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        style = f'<link rel="stylesheet" href="{self._style}">' if self._style else ""
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
            f"<title>{html.escape(title)} · Zapomni</title>{style}{head}</head>"
            f'<body class="door"><main><h1>{html.escape(title)}</h1><p>{body}</p></main></body>'
            "</html>"
        ).encode()
        content = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(page)).encode()),
        ]
        guarded = _with_headers(send)
        await guarded(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*content, *headers],
            }
        )
        await guarded({"type": "http.response.body", "body": page})

    @property
    def _script(self) -> str:
        return self._style.rpartition("/")[0] + "/zapomni.js"


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value.strip() for key, value in scope["headers"] if key.lower() == name]


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ValueError("the request ended early")
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            raise ValueError("the form is too long")
        if not message.get("more_body", False):
            return b"".join(parts)


def _read_fields(body: bytes) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    pairs = parse_qsl(
        body.decode("ascii"),
        keep_blank_values=True,
        errors="strict",
        max_num_fields=MAX_FIELDS,
    )
    for name, value in pairs:
        # Browsers send the line ends of a form as CRLF, whatever they were.
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return fields


def _with_headers(send: Send) -> Send:
    """Return a `send` that adds the headers every answer has."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", []))
            cached = any(name.lower() == b"cache-control" for name, _ in given)
            fresh = [] if cached else [(b"cache-control", b"no-store")]
            message = {**message, "headers": [*given, *HEADERS, *fresh]}
        await send(message)

    return guarded

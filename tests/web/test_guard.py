"""Only our own page is answered: forged requests get nothing and change nothing."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.parse import urlencode

import pytest
from site_client import HOST, ORIGIN, PORT, SECRET, Client

from zapomni_core.settings import load_settings
from zapomni_web.guard import TOKEN_SECONDS, mint_token

AUTHORITY = f"{HOST}:{PORT}"
FORM = ("Content-Type", "application/x-www-form-urlencoded")


# What a browser may be made to send by another page, or a program by its user. Each line is a
# change of the headers that our own page sends: None takes one away, a list sends it twice.
FORGED_READS = {
    "the host of another site": {"Host": "evil.example"},
    "a rebound name with our port": {"Host": f"evil.example:{PORT}"},
    "our name without the port": {"Host": HOST},
    "our name with another port": {"Host": f"{HOST}:80"},
    "the address in place of the name": {"Host": f"127.0.0.1:{PORT}"},
    "localhost": {"Host": f"localhost:{PORT}"},
    "a name below ours": {"Host": f"x.{AUTHORITY}"},
    "our name in capitals": {"Host": AUTHORITY.upper()},
    "no host": {"Host": None},
    "two hosts": {"Host": [AUTHORITY, "evil.example"]},
    "two equal hosts": {"Host": [AUTHORITY, AUTHORITY]},
    "a user in the host": {"Host": f"evil@{AUTHORITY}"},
    "another origin": {"Origin": "https://evil.example"},
    "a page of another port": {"Origin": f"http://{HOST}:8080"},
    "the origin null": {"Origin": "null"},
    "https in place of http": {"Origin": f"https://{AUTHORITY}"},
    "two origins": {"Origin": [ORIGIN, "https://evil.example"]},
    "a fetch across sites": {"Sec-Fetch-Site": "cross-site"},
    "a fetch of the same site": {"Sec-Fetch-Site": "same-site"},
    "two fetch sites": {"Sec-Fetch-Site": ["same-origin", "cross-site"]},
    "a referrer from elsewhere": {"Referer": "https://evil.example/page"},
    "a referrer that begins like us": {"Referer": f"{ORIGIN}.evil.example/"},
    "no cookie": {"Cookie": None},
    "an empty cookie": {"Cookie": f"zapomni-{PORT}="},
    "a guessed cookie": {"Cookie": f"zapomni-{PORT}={'A' * 43}"},
    "a cookie that cannot be read": {"Cookie": f"zapomni-{PORT}=\xff\xfe; ]["},
}
FORGED_WRITES = {
    **FORGED_READS,
    "no origin": {"Origin": None},
    "typed by hand": {"Sec-Fetch-Site": "none"},
    "JSON": {"Content-Type": "application/json"},
    "a file upload": {"Content-Type": "multipart/form-data; boundary=x"},
    "plain text": {"Content-Type": "text/plain"},
    "no content type": {"Content-Type": None},
}


def forge(headers, change):
    changed = [(name, value) for name, value in headers if name not in change]
    for name, value in change.items():
        values = value if isinstance(value, list) else [value]
        changed += [(name, one) for one in values if one is not None]
    return changed


@pytest.mark.parametrize("change", FORGED_READS.values(), ids=FORGED_READS)
@pytest.mark.parametrize("path", ["/search", "/search.json?q=deploy", "/events"])
def test_no_forged_request_reads_anything(site, path, change):
    answer = site.raw("GET", path, forge(site.own_headers(), change))

    assert answer.status in (401, 403, 421)
    assert "deploy on" not in answer.text.lower()
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("change", FORGED_WRITES.values(), ids=FORGED_WRITES)
def test_no_forged_request_changes_anything(site, home, change):
    headers = forge([*site.own_headers(), ("Origin", ORIGIN), FORM], change)
    body = urlencode({"csrf": site.csrf(), "on": "1"}).encode()

    answer = site.raw("POST", f"/m/{home.deploy}/pin", headers, body)

    assert answer.status in (401, 403, 415, 421)
    assert site.json(f"/m/{home.deploy}.json")["pinned"] is False


@pytest.mark.parametrize(
    "fields",
    [{}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "é"}],
    ids=["none", "empty", "guessed", "no ASCII"],
)
def test_a_form_without_its_token_changes_nothing(site, home, fields):
    headers = [*site.own_headers(), ("Origin", ORIGIN), FORM]

    answer = site.raw(
        "POST", f"/m/{home.deploy}/pin", headers, urlencode({**fields, "on": "1"}).encode()
    )

    assert answer.status == 403
    assert site.json(f"/m/{home.deploy}.json")["pinned"] is False


def test_the_token_of_another_session_is_no_token(site, home):
    other = site.csrf()
    welcome = site.raw("GET", f"/login?t={mint_token(SECRET)}")
    cookie = welcome.headers["set-cookie"].partition(";")[0]
    headers = forge([*site.own_headers(), ("Origin", ORIGIN), FORM], {"Cookie": cookie})

    answer = site.raw("POST", f"/m/{home.deploy}/pin", headers, f"csrf={other}&on=1".encode())

    assert answer.status == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_do_nothing(site, home, method):
    assert site.raw(method, f"/m/{home.deploy}/pin", site.own_headers()).status == 405


@pytest.mark.parametrize(
    "override", [("X-HTTP-Method-Override", "POST"), ("X-HTTP-Method", "POST")]
)
def test_a_get_does_not_become_a_post(site, home, override):
    target = f"/m/{home.deploy}/pin?_method=POST&on=1&csrf={site.csrf()}"

    answer = site.raw("GET", target, [*site.own_headers(), override])

    assert answer.status in (404, 405)
    assert site.json(f"/m/{home.deploy}.json")["pinned"] is False


def test_a_cookie_of_another_port_is_no_cookie(site):
    value = site.cookie.partition("=")[2]

    answer = site.raw(
        "GET", "/search", forge(site.own_headers(), {"Cookie": f"zapomni-8080={value}"})
    )

    assert answer.status == 401


def test_a_login_link_works_once(site):
    token = mint_token(SECRET)

    first, second = (site.raw("GET", f"/login?t={token}") for _ in range(2))

    assert (first.status, second.status) == (200, 401)
    assert "set-cookie" not in second.headers


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "..",
        mint_token(b"another secret"),
        mint_token(SECRET, now=1_000_000),
        mint_token(SECRET)[:-1],
        f"ffffffffff.{mint_token(SECRET).partition('.')[2]}",
    ],
    ids=["empty", "short", "dots", "another secret", "too old", "cut", "made younger"],
)
def test_a_link_that_is_not_ours_does_not_log_in(site, token):
    answer = site.raw("GET", f"/login?{urlencode({'t': token})}")

    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_a_link_is_not_used_up_by_a_head_or_in_advance(site):
    token = mint_token(SECRET)
    host = ("Host", AUTHORITY)

    assert site.raw("HEAD", f"/login?t={token}").status == 405
    assert site.raw("GET", f"/login?t={token}", [host, ("Sec-Purpose", "prefetch")]).status == 403
    assert site.raw("GET", f"/login?t={token}").status == 200


def test_the_cookie_is_for_this_page_alone(site):
    cookie = site.welcome.headers["set-cookie"]

    assert cookie.startswith(f"zapomni-{PORT}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert TOKEN_SECONDS <= 600


@pytest.mark.parametrize("path", ["/search", "/nothing-here", "/search.json", "/help"])
def test_every_answer_forbids_what_no_page_of_ours_does(site, path):
    for headers in (site.own_headers(), [("Host", AUTHORITY)], [("Host", "evil.example")]):
        answer = site.raw("GET", path, headers)

        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(
            policy.split("; ")
        )
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


def test_read_only_refuses_every_change(home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))
    with Client(load_settings(), read_only=True) as site:
        page = site.get(f"/m/{home.deploy}")
        assert "Forget" not in page.shown
        # Nothing to press, and nothing that could be sent all the same.
        assert 'method="post"' not in page.text
        answer = site.raw(
            "POST",
            f"/m/{home.deploy}/pin",
            [*site.own_headers(), ("Origin", ORIGIN), FORM],
            b"on=1&csrf=",
        )
        assert answer.status == 403


def test_on_a_shared_host_a_change_needs_the_secret_of_the_tab(home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))
    with Client(load_settings(), host="127.0.0.1") as site:
        second = re.search(r'data-second="([0-9a-f]+)"', site.welcome.text)
        assert second is not None
        path = f"/m/{home.deploy}/pin"
        site.post(path, {"on": "1"}, 403)
        site.post(path, {"on": "1"}, 403, **{"X-Zapomni-Second": "0" * 64})
        assert site.json(f"/m/{home.deploy}.json")["pinned"] is False

        site.post(path, {"on": "1"}, **{"X-Zapomni-Second": second[1]})
        assert site.json(f"/m/{home.deploy}.json")["pinned"] is True
        site.post(path, {"on": "0"}, **{"X-Zapomni-Second": second[1]})


# --- A real process, asked through a socket ------------------------------------------------


@pytest.fixture(scope="module")
def served(home):
    """A served page: its port and a login link."""
    environ = {**os.environ, "ZAPOMNI_HOME": str(home.folder.parent / "served")}
    command = [sys.executable, "-m", "zapomni_cli", "ui", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
    assert process.stdout is not None
    link = process.stdout.readline().strip()
    yield int(re.search(r":(\d+)/", link)[1]), link
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    process.stdout.close()


def send(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET http://zapomni.localhost:%d/search HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"GET http://evil.example/search HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"GET //evil.example/search HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"GET /search HTTP/1.1\r\nHost: zapomni.localhost:%d\r\nHost: evil.example\r\n",
        b"GET /search HTTP/1.1\r\nHost: evil.example\r\n",
        b"GET /search HTTP/1.1\r\n",
        b"GET /search HTTP/1.0\r\n",
        b"GET /search HTTP/1.1\r\nHost: zapomni.localhost:%d\r\nOrigin: null\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"CONNECT zapomni.localhost:%d HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"GET /static/../server.py HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"GET /static/%%2e%%2e/server.py HTTP/1.1\r\nHost: zapomni.localhost:%d\r\n",
        b"GET /search HTTP/1.1\r\nHost : zapomni.localhost:%d\r\n",
        b"GET /search HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: x\r\nX: %d\r\n",
    ],
)
def test_no_odd_request_through_a_socket_is_answered(served, request_line):
    port, _ = served
    line = request_line % ((port,) * request_line.replace(b"%%", b"").count(b"%d"))

    answer = send(port, line + b"Connection: close\r\n\r\n")

    status = int(answer.split(b" ")[1]) if answer else 400
    assert status in (400, 401, 403, 404, 405, 421)
    assert b"set-cookie" not in answer.lower()


def test_the_page_is_bound_to_this_machine_and_its_link_logs_in(served):
    port, link = served
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Host": f"{HOST}:{port}"}
    connection.request("GET", link.partition(f":{port}")[2], headers=headers)
    welcome = connection.getresponse()
    cookie = welcome.getheader("Set-Cookie").partition(";")[0]
    welcome.read()

    connection.request("GET", "/search", headers={**headers, "Cookie": cookie})
    page = connection.getresponse()

    assert page.status == 200
    assert b"Nothing is remembered yet" in page.read()
    connection.close()

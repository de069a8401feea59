"""`zapomni ui` as a process: how it opens a browser, who may enter, and when it ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command import refused, until, zapomni_process
from zapomni_web.server import DISPLAYS

# A browser of the tests: writes down its arguments, and the page it was opened on.
BROWSER = """#!/bin/sh
echo "$@" > {folder}/arguments
cp "${{1#file://}}" {folder}/opened.new
stat -c %a "${{1#file://}}" > {folder}/mode
mv {folder}/opened.new {folder}/opened
"""


@pytest.fixture
def browser_script(tmp_path, monkeypatch):
    script = tmp_path / "browser.sh"
    script.write_text(BROWSER.format(folder=tmp_path), encoding="utf-8")
    script.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{script} %s")
    return tmp_path


class Served:
    """A `zapomni ui` of its own."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "zapomni_cli", "ui", *options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        self.port = int(re.search(r":(\d+)/login", self.link)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()


def get(port: int, path: str, cookie: str = "", host: str = "zapomni.localhost"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Host": f"{host}:{port}", **({"Cookie": cookie} if cookie else {})}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def log_in(port: int, link: str) -> str:
    answer, _ = get(port, "/login?" + link.partition("?")[2])
    assert answer.status == 200
    return answer.getheader("Set-Cookie").partition(";")[0]


def test_the_browser_is_opened_on_a_private_file_and_no_token_is_in_a_process_list(
    browser_script, private_home
):
    with Served() as served:
        until((browser_script / "opened").exists)
        token = served.link.partition("t=")[2]
        assert token not in (browser_script / "arguments").read_text(encoding="utf-8")
        assert served.link in (browser_script / "opened").read_text(encoding="utf-8")
        assert (browser_script / "mode").read_text(encoding="utf-8").strip() == "600"
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert token.encode() not in entry.read_bytes()
            except OSError:
                continue  # It has ended meanwhile.
        assert list((private_home / "run").glob("ui-*.html"))

        log_in(served.port, served.link)

        assert not list((private_home / "run").glob("ui-*.html"))


def test_without_a_display_the_link_is_printed_and_nothing_is_opened(private_home, monkeypatch):
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    with Served() as served:
        assert "No browser was opened" in served.process.stderr.readline()
        assert log_in(served.port, served.link)


def test_a_second_call_opens_a_tab_on_the_first(private_home):
    with Served("--no-browser") as first:
        state = private_home / "run" / "ui.json"
        assert state.stat().st_mode & 0o777 == 0o600
        assert json.loads(state.read_text(encoding="utf-8"))["pid"] == first.process.pid

        second = zapomni_process("ui", "--no-browser", "--read-only")

        assert second.returncode == 0
        link = second.stdout.decode().strip()
        assert f":{first.port}/login" in link
        assert link != first.link
        assert b"keeps its own options" in second.stderr
        cookies = {log_in(first.port, link), log_in(first.port, first.link)}
        assert len(cookies) == 2
        for cookie in cookies:
            assert get(first.port, "/search", cookie)[0].status == 200
    assert first.process.returncode == 0
    assert not state.exists()


def test_what_a_killed_page_left_behind_stops_no_other(private_home):
    with Served("--no-browser") as first:
        first.process.kill()
        first.process.wait(60)
    with Served("--no-browser") as second:
        assert second.port != first.port or second.link != first.link
        assert log_in(second.port, second.link)


def test_it_ends_by_itself_when_no_tab_was_open_for_a_while(private_home):
    code = (
        "import zapomni_web.server as server; from zapomni_core.settings import load_settings;"
        "server.IDLE_SECONDS = server.CHECK_SECONDS = 0.05;"
        "server.run(load_settings(), server.Options(browser=False))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=120, check=True
    )

    assert b"No tab has been open" in done.stderr
    assert not (private_home / "run" / "ui.json").exists()


def test_ctrl_c_ends_it_quietly_while_a_tab_listens(private_home):
    with Served("--no-browser") as served:
        cookie = log_in(served.port, served.link)
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        headers = {"Host": f"zapomni.localhost:{served.port}", "Cookie": cookie}
        connection.request("GET", "/events", headers=headers)
        stream = connection.getresponse()
        assert stream.getheader("Content-Type").startswith("text/event-stream")
        assert b"event: hello" in stream.read1()

        served.process.send_signal(signal.SIGINT)

        assert served.process.wait(60) == 0
        assert served.process.stderr.read() == ""
        connection.close()


def test_a_port_in_use_is_said_in_words(private_home, tmp_path, monkeypatch):
    with Served("--no-browser") as first:
        monkeypatch.setenv("ZAPOMNI_HOME", str(tmp_path / "another"))
        told = refused(2, "ui", "--no-browser", "--port", str(first.port))
    assert f"Port {first.port} cannot be used" in told


def test_the_first_paint_loads_no_model(private_home):
    code = (
        "import sys; sys.path.insert(0, 'tests/web'); sys.path.insert(0, 'tests');"
        "from site_client import Client; from zapomni_core.settings import load_settings\n"
        "with Client(load_settings()) as site:\n"
        "    site.get('/search')\n"
        "    print(*[m for m in ('onnxruntime', 'tokenizers', 'mcp') if m in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout.split() == []

"""The home folder is the user's alone: modes are repaired, a foreign owner is refused."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from test_purge import row_for_the_spool

from command import NOTE, add, answer, as_json, patient_hook, refused, zapomni
from zapomni_core.infra import home as home_module
from zapomni_core.infra.home import secure_home
from zapomni_core.modules.observations.spool import spool_row

OTHER_USER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


@pytest.fixture(autouse=True)
def words_only(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def hook(home: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    event = {"session_id": "s", "cwd": str(home.parent), "hook_event_name": "UserPromptSubmit"}
    return subprocess.run(
        patient_hook("claude-code"),
        input=json.dumps({**event, "prompt": "A prompt"}).encode(),
        capture_output=True,
        timeout=300,
        check=False,
        env={**os.environ, **env},
    )


def by_command(home: Path) -> None:
    answer("list")


def by_hook(home: Path) -> None:
    done = hook(home)
    assert (done.returncode, done.stderr) == (0, b"")


def by_server(home: Path) -> None:
    request = {"protocolVersion": "2025-06-18", "capabilities": {}}
    client = {"clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"id": 1, "method": "initialize", "params": {**request, **client}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "get_stats", "arguments": {}}},
    ]
    sent = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    process = subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(sent.encode())
    process.stdin.flush()
    while json.loads(process.stdout.readline()).get("id") != 2:
        pass
    process.stdin.close()
    process.wait(timeout=300)
    process.stdout.close()


@pytest.mark.parametrize("opened", [0o755, 0o777])
@pytest.mark.parametrize("way", [by_command, by_hook, by_server])
def test_an_open_home_is_closed_when_it_is_used(private_home, opened, way):
    add(NOTE)
    answer("backup")
    (private_home / "config.toml").write_text("", encoding="utf-8")
    (private_home / "notes of the user.txt").write_text("", encoding="utf-8")
    spool_row(str(private_home), row_for_the_spool("waiting"))
    ours = [path for path in private_home.rglob("*") if "notes" not in path.name]
    for path in [private_home, *private_home.rglob("*")]:
        path.chmod(opened if path.is_dir() else opened & 0o666)

    way(private_home)

    assert mode(private_home) == 0o700
    for path in filter(Path.exists, ours):
        assert mode(path) & 0o077 == 0, path
    assert mode(private_home / "zapomni.db") == 0o600
    # Protected by the folder, and not ours to change.
    assert mode(private_home / "notes of the user.txt") == opened & 0o666


@needs_root
def test_a_home_of_another_user_is_refused_and_can_be_accepted(private_home):
    add(NOTE)
    os.chown(private_home, OTHER_USER, OTHER_USER)
    before = (private_home / "zapomni.db").read_bytes()

    assert "belongs to another user" in refused(2, "list")
    assert "belongs to another user" in refused(2, "add", "Another note")
    done = hook(private_home)
    assert done.returncode == 1
    assert b"belongs to another user" in done.stderr
    assert (private_home / "zapomni.db").read_bytes() == before

    accepted = {"ZAPOMNI_ALLOW_OPEN_HOME": "true"}
    assert len(as_json("list", **accepted)["items"]) == 1
    assert hook(private_home, **accepted).returncode == 0
    # A folder of another user cannot accept itself.
    (private_home / "config.toml").write_text("allow_open_home = true", encoding="utf-8")
    assert "cannot accept its own folder" in refused(2, "list")


@needs_root
def test_a_file_another_user_left_in_an_open_home_is_refused(private_home):
    add(NOTE)
    private_home.chmod(0o777)
    (private_home / "config.toml").write_text("", encoding="utf-8")
    os.chown(private_home / "config.toml", OTHER_USER, OTHER_USER)
    assert "belongs to another user" in refused(2, "list")


def test_modes_that_cannot_hold_are_warned_of_once(private_home, monkeypatch):
    add(NOTE)
    private_home.chmod(0o777)
    monkeypatch.setattr(home_module.os, "chmod", lambda *_: None)  # as on a mount without modes
    assert "ZAPOMNI_ALLOW_OPEN_HOME=true" in secure_home(str(private_home))
    assert secure_home(str(private_home)) == ""
    assert secure_home(str(private_home), allow_open=True) == ""


@pytest.mark.parametrize("shared", ["sticky", "home"])
def test_a_folder_that_others_need_is_never_closed(shared, tmp_path, monkeypatch):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777 if shared == "sticky" else 0o755)
    if shared == "home":
        monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("ZAPOMNI_HOME", str(folder))
    done = zapomni("add", NOTE)
    assert done.returncode == 0, done.stderr
    assert b"Other users of this machine" in done.stderr
    assert mode(folder) & 0o077
    assert mode(folder / "zapomni.db") == 0o600
    assert b"Other users" not in zapomni("list").stderr

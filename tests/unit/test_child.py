"""A child process keeps to its limits and does not outlive its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zapomni_core.infra.child import ChildError, ChildLimits, run_in_child

TARGETS = """
import ctypes, os, sys, time
from pathlib import Path

def double(request):
    return request * 2

def eat(request):
    return b"".join(bytes(10_000_000) for _ in range(1_000))

def spin(request):
    while True:
        pass

def sleep(request):
    Path(os.fsdecode(request)).write_text(str(os.getpid()))
    time.sleep(600)

def sleep_unwatched_by_the_kernel(request):
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    sleep(request)

def crash(request):
    os.abort()

def fail(request):
    raise ValueError
"""


@pytest.fixture(autouse=True)
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child_targets.py").write_text(TARGETS, encoding="utf-8")
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{inherited}".rstrip(os.pathsep))


def call(name: str, request: bytes = b"", **limits: float) -> bytes:
    return run_in_child(f"child_targets:{name}", request, ChildLimits(**limits))


def wait_until(condition) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan in a container may have no one to collect it.
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").split()[2] != "Z"


def test_a_child_answers_whatever_the_size():
    assert call("double", b"word") == b"wordword"
    assert call("double", b"\0" * 5_000_000) == b"\0" * 10_000_000


@pytest.mark.parametrize(
    ("name", "limits", "reason"),
    [
        ("eat", {"memory_bytes": 200 << 20}, "memory"),
        ("spin", {"cpu_seconds": 1}, "time"),
        ("sleep", {"seconds": 0.5}, "time"),
        ("crash", {}, "crash"),
        ("fail", {}, "crash"),
    ],
)
def test_a_child_that_reaches_a_limit_or_breaks_is_an_error_that_says_which(
    tmp_path, name, limits, reason
):
    with pytest.raises(ChildError) as caught:
        call(name, os.fsencode(tmp_path / "pid"), **limits)
    assert caught.value.reason == reason


@pytest.mark.parametrize("name", ["sleep", "sleep_unwatched_by_the_kernel"])
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_ends_with_its_parent_however_that_ends(tmp_path, name, ending):
    pid = tmp_path / "pid"
    code = (
        "from zapomni_core.infra.child import ChildLimits, run_in_child\n"
        f"run_in_child('child_targets:{name}', {os.fsencode(pid)!r}, ChildLimits())"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: pid.exists() and pid.read_text(encoding="utf-8"))
        child = int(pid.read_text(encoding="utf-8"))
        assert os.getpgid(child) == child
        parent.send_signal(ending)
        parent.wait(180)
        wait_until(lambda: not is_running(child))
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no kernel ends a stopped child")
def test_the_parser_of_code_ends_with_its_parent_even_when_it_cannot_notice(tmp_path):
    pid = tmp_path / "pid"
    code = (
        "import pathlib, time\n"
        "from zapomni_core.modules.codebase import CodeParser\n"
        "parser = CodeParser(None)\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(parser._start().pid))\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_until(lambda: pid.exists() and pid.read_text(encoding="utf-8"))
        child = int(pid.read_text(encoding="utf-8"))
        os.kill(child, signal.SIGSTOP)
        parent.kill()
        parent.wait(180)
        wait_until(lambda: not is_running(child))
    finally:
        parent.kill()
        parent.wait()


def test_a_file_in_the_current_folder_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "resource.py").write_text("raise SystemExit(0)", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    assert call("double", b"x") == b"xx"

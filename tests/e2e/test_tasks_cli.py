"""Background tasks as users meet them: `zapomni tasks`, in processes that end in every way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from counting import counting, queue, status_of, wait_until

from command import UNKNOWN, add, on_terminal, zapomni, zapomni_process
from zapomni_cli.main import run

pytestmark = pytest.mark.usefixtures("counting")
assert counting  # the fixture


@pytest.fixture
def tasks(capsys):
    """Look after tasks in this process; faster than starting another."""

    def call(*args: str) -> tuple[int, str, str]:
        code = run(["tasks", *args])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return call


def start(*args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", "tasks", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def work() -> tuple[int, list[dict]]:
    """Work until the queue is empty; return the exit code and what ended."""
    done = zapomni("tasks", "run", "--json")
    return done.returncode, json.loads(done.stdout)


def fields(text: str) -> dict[str, str]:
    return dict(line.split("\t") for line in text.splitlines())


def is_running(task) -> bool:
    return task.status == "running" and task.done > 0


def test_an_empty_queue_says_so(tasks):
    assert tasks() == (0, "", "No tasks.\n")
    assert tasks("--json") == (0, "[]\n", "")
    assert tasks("run") == (0, "", "Nothing to do.\n")


def test_queued_work_is_listed_done_and_shown(tasks):
    first, second = queue(to=3), queue(to=0)
    _, listed, hint = tasks()
    assert [line.split("\t")[:4] for line in listed.splitlines()] == [
        [second, "count", "pending", ""],
        [first, "count", "pending", ""],
    ]
    assert "zapomni tasks run" in hint

    code, done = work()

    assert code == 0
    assert {task["task_id"]: task["status"] for task in done} == dict.fromkeys(
        (first, second), "completed"
    )
    shown = json.loads(tasks("show", first, "--json")[1])
    assert shown["result"] == {"counted": 3}
    assert (shown["progress"], shown["attempts"], shown["total"]) == (1.0, 1, 3)
    lines = fields(tasks("show", first)[1])
    assert lines["status"] == "completed"
    assert lines["result"] == '{"counted": 3}'
    assert lines["parameters"] == '{"to": 3}'
    assert lines["progress"] == "2/3"
    assert tasks("--limit", "1")[1].startswith(second)
    assert tasks("--status", "failed", "--json")[1] == "[]\n"


def test_a_failed_task_says_why_without_anybodys_words_and_can_be_retried(tasks):
    task_id = queue(to=1, fail=True)
    ran = zapomni_process("tasks", "run")
    assert ran.returncode == 1
    assert f"{task_id}\tcount\tfailed" in ran.stdout.decode()

    lines = fields(tasks("show", task_id)[1])
    assert "zapomni doctor" in lines["error"]
    assert lines["error code"] == "UNKNOWN"
    retried = zapomni_process("tasks", "retry", task_id)
    assert retried.returncode == 1
    assert "zapomni doctor" in retried.stderr.decode()
    told = ran.stdout + ran.stderr + retried.stdout + retried.stderr
    assert b"secret words" not in told + json.dumps(lines).encode()
    assert status_of(task_id).attempts == 2


def test_watching_ends_as_the_task_does(tasks):
    good, bad = queue(to=2), queue(to=0, fail=True)
    watcher = start("watch", good, "--json")
    assert work()[0] == 1
    out, _ = watcher.communicate(timeout=300)
    assert watcher.returncode == 0
    assert json.loads(out)["result"] == {"counted": 2}
    code, shown, _ = tasks("watch", bad)
    assert (code, fields(shown)["status"]) == (1, "failed")


def test_who_watches_a_task_nobody_works_on_is_told_what_would_help():
    watcher = start("watch", queue(to=0, ids=["x" * 50] * 50))
    assert b"zapomni tasks run" in watcher.stderr.readline()
    assert work()[0] == 0
    out, _ = watcher.communicate(timeout=300)
    assert watcher.returncode == 0
    assert "parameters" not in fields(out.decode())


def test_a_waiting_task_is_cancelled_at_once(tasks):
    task_id = queue(to=3)
    assert tasks("cancel", task_id) == (0, f"{task_id}\tcancelled\n", "")
    assert json.loads(tasks("cancel", task_id, "--json")[1])["status"] == "cancelled"
    assert tasks("run") == (0, "", "Nothing to do.\n")


def test_a_running_task_is_cancelled_by_another_process(tasks):
    task_id = queue(to=10_000, pause=0.01)
    worker = start("run", "--json")
    wait_until(task_id, is_running)

    assert tasks("cancel", task_id) == (0, f"{task_id}\tstopping\n", "")

    out, _ = worker.communicate(timeout=300)
    assert worker.returncode == 0
    assert [task["status"] for task in json.loads(out)] == ["cancelled"]
    assert tasks("watch", task_id)[0] == 1


def test_an_interrupted_worker_gives_its_task_back():
    task_id = queue(to=10_000, pause=0.01)
    worker = start("run")
    wait_until(task_id, is_running)
    worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=300)
    assert worker.returncode == 130
    assert status_of(task_id).status == "pending"


def test_interrupting_work_in_the_foreground_cancels_it(tasks):
    task_id = queue(to=10_000, pause=0.01)
    tasks("cancel", task_id)
    worker = start("retry", task_id)
    wait_until(task_id, is_running)
    worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=300)
    assert worker.returncode == 130
    assert status_of(task_id).status == "cancelled"


def test_a_killed_workers_task_is_shown_as_stalled_and_taken_over(tasks):
    task_id = queue(to=40, pause=0.05)
    worker = start("run")
    wait_until(task_id, is_running)
    worker.kill()
    worker.communicate(timeout=300)
    wait_until(task_id, lambda task: task.stalled)
    _, listed, hint = tasks()
    assert "\tstalled\t" in listed
    assert "zapomni tasks run" in hint

    _, (done,) = work()

    assert (done["task_id"], done["status"], done["attempts"]) == (task_id, "completed", 2)


def test_work_in_the_background_outlives_the_command(tasks, tmp_path):
    # A folder may hold a module with the name of one of ours, and must not be believed.
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "click.py").write_text("raise SystemExit('not this one')", encoding="utf-8")
    task_id = queue(to=5, pause=0.1)
    tasks("cancel", task_id)
    command = os.path.join(os.path.dirname(sys.executable), "zapomni")  # noqa: PTH118, PTH120

    done = subprocess.run(
        [command, "tasks", "retry", task_id, "--background"],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=300,
    )

    assert (done.returncode, done.stdout) == (0, f"{task_id}\n".encode()), done.stderr
    status = wait_until(task_id, lambda task: task.finished_at is not None)
    assert (status.status, status.result) == ("completed", {"counted": 5})


def test_work_left_to_the_background_is_described_as_json(tasks):
    task_id = queue(to=1)
    tasks("cancel", task_id)
    done = zapomni_process("tasks", "retry", task_id, "--background", "--json")
    assert json.loads(done.stdout)["task_id"] == task_id
    wait_until(task_id, lambda task: task.status == "completed")


def test_the_graph_is_built_in_the_background(tasks):
    add("Anna Smith uses PostgreSQL 16 at Acme.")
    done = zapomni_process("graph", "build", "--background")
    assert done.returncode == 0, done.stderr
    code, shown, _ = tasks("watch", done.stdout.decode().strip(), "--json")
    assert code == 0
    built = json.loads(shown)
    assert built["task_type"] == "build_graph"
    assert built["result"]["passages_read"] == 1


def test_a_terminal_shows_a_bar_and_what_is_being_done(tasks):
    task_id = queue(to=6, pause=0.3)
    tasks("cancel", task_id)
    code, shown = on_terminal("tasks", "retry", task_id)
    assert code == 0
    # Colours and cursor moves stand between the words.
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert re.search(r"counted \[[1-5]\] ━+╸?.* [1-5]/6", plain)
    assert "completed" in shown


def test_a_terminal_is_told_how_to_follow_and_what_became_of_a_task(tasks):
    task_id = queue(to=50, pause=0.1)
    tasks("cancel", task_id)
    code, shown = on_terminal("tasks", "retry", task_id, "--background")
    assert code == 0
    assert f"zapomni tasks watch {task_id[:8]}" in shown
    wait_until(task_id, is_running)
    _, shown = on_terminal("tasks", "cancel", task_id[:8])
    assert "stops at its next step" in shown
    code, shown = on_terminal("tasks", "watch", task_id[:8])
    assert code == 1
    _, shown = on_terminal("tasks", "cancel", task_id)
    assert "is cancelled" in shown
    _, shown = on_terminal("tasks")
    assert task_id[:8] in shown


@pytest.mark.parametrize("command", ["show", "watch", "cancel", "retry"])
def test_an_unknown_task_is_refused_with_what_to_do(tasks, command):
    code, _, told = tasks(command, UNKNOWN)
    assert code == 3
    assert "no task with this id" in told
    assert "zapomni tasks" in told


def test_what_cannot_be_retried_and_what_nobody_knows_is_refused(tasks):
    task_id = queue(to=0)
    code, _, told = tasks("retry", task_id)
    assert code == 2
    assert "failed or cancelled" in told
    code, _, told = tasks("--status", "lost")
    assert code == 2
    assert "cancelled" in told

"""Code memory as users meet it: `zapomni index`, `zapomni code`, and memories that cite code."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from code_trees import AUTH, Repository

from command import on_terminal, zapomni
from zapomni_cli.main import run

FRESH = "src/auth.py:check_token: fresh"


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Repository:
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    made = Repository(tmp_path / "shop")
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def cli(capsys):
    """Run a command in this process; faster than starting another."""

    def call(*args: str, code: int = 0) -> str:
        ended = run(list(args))
        told = capsys.readouterr()
        assert ended == code, told.err
        assert "Traceback" not in told.err
        call.err = told.err
        return told.out

    return call


@pytest.fixture
def indexed(cli, repository):
    cli("index")
    return cli


def lines(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


# --- Indexing -----------------------------------------------------------------------------


def test_indexing_says_what_it_did(cli, repository):
    assert cli("index") == "shop: 5 files, 5 new; 70 lines read.\n"
    repository.edit("src/auth.py", '"too late"', '"late"')
    repository.move("src/shop.py", "src/store.py")
    repository.path("docs/notes.md").unlink()
    assert cli("index", ".") == ("shop: 4 files, 1 changed, 1 moved, 1 gone; 49 lines read.\n")
    told = json.loads(cli("index", "--json"))
    assert (told["status"], told["task_type"]) == ("completed", "index_codebase")
    assert told["result"]["unchanged"] == 4


def test_what_is_left_out_is_counted_and_the_limit_told(cli, repository, monkeypatch):
    from zapomni_core.modules.codebase import SourceTree, TreeLimits

    repository.path("logo.bin").write_bytes(b"\0\1\2")
    cli("index")
    assert "Left out: binary (1)." in cli.err
    start = SourceTree.__init__
    monkeypatch.setattr(
        SourceTree, "__init__", lambda self, root, _=None: start(self, root, TreeLimits(files=2))
    )
    cli("index")
    assert "too many files" in cli.err


def test_indexing_in_the_background(cli, repository):
    task_id = zapomni("index", "--background").stdout.decode().strip()
    done = zapomni("tasks", "watch", task_id, "--json")
    assert json.loads(done.stdout)["result"]["added"] == 5
    assert "leave out --background" in refused(cli, 2, "index", "--watch", "--background")


def refused(cli, code: int, *args: str) -> str:
    cli(*args, code=code)
    return cli.err


def test_what_cannot_be_indexed_is_refused_with_what_to_do(cli, repository, tmp_path, monkeypatch):
    assert "no such folder" in refused(cli, 2, "index", "missing")
    assert "not a folder" in refused(cli, 2, "index", "src/auth.py")
    monkeypatch.setenv("ZAPOMNI_CODE_ROOTS", str(tmp_path / "elsewhere"))
    assert "code_roots" in refused(cli, 2, "index")
    monkeypatch.setenv("ZAPOMNI_CODE_ROOTS", f"{tmp_path}:{tmp_path / 'elsewhere'}")
    cli("index")


def test_the_home_folder_is_asked_about_first(repository, tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "a.py").write_text("A = 1\n", encoding="utf-8")
    told = zapomni("index", str(home))
    assert told.returncode == 2
    assert b"home folder" in told.stderr
    assert b"--yes" in told.stderr
    assert on_terminal("index", str(home), typed="n\n")[0] == 130
    code, shown = on_terminal("index", str(home), typed="y\n")
    assert code == 0
    assert "1 new" in shown
    assert zapomni("index", str(home), "--yes").returncode == 0


def test_following_edits(repository):
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", "index", "--watch", "--json"],
        stdout=subprocess.PIPE,
        stderr=follower,
        env=dict(os.environ),
    )
    os.close(follower)
    drain = threading.Thread(target=_drain, args=(leader,), daemon=True)
    drain.start()
    try:
        first = json.loads(child.stdout.readline())
        assert first["result"]["added"] == 5
        repository.edit("src/auth.py", '"too late"', '"late"')
        second = json.loads(child.stdout.readline())
        assert second["result"]["changed"] == 1
        repository.path("src/shop.py").unlink()
        third = json.loads(child.stdout.readline())
        assert third["result"]["removed"] == 1
    finally:
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        ended = child.wait(timeout=300)
        child.stdout.close()
    assert ended == 130


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        os.close(terminal)


# --- Asking -------------------------------------------------------------------------------


def test_code_is_searched(indexed):
    first = lines(indexed("code", "search", "too", "late"))[0]
    assert first[1:4] == ["src/auth.py:27-30", "method", "Token.renew"]
    hits = json.loads(indexed("code", "search", "total", "--language", "javascript", "--json"))[
        "hits"
    ]
    assert {hit["path"] for hit in hits} == {"web/cart.js"}
    assert indexed("code", "search", "token", "--kind", "interface") == ""
    assert "Nothing found" in indexed.err
    assert "not both" in refused(indexed, 2, "code", "search", "x", "--repo", "a", "--all")
    assert "CODE_002" in refused(indexed, 3, "code", "search", "x", "--repo", "nothing")


def test_a_file_is_outlined(indexed, repository):
    shown = lines(indexed("code", "outline", "auth.py"))
    assert ["27", "30", "method", "Token.renew", "def renew(self, now)"] in shown
    assert json.loads(indexed("code", "outline", "src/auth.py", "--json"))["state"] == "fresh"
    repository.write("src/auth.py", AUTH.replace("issue", "hand_out"))
    assert "hand_out" in indexed("code", "outline", "auth.py")
    assert "changed since" in indexed.err
    assert "CODE_001" in refused(indexed, 3, "code", "outline", "nothing.py")
    repository.write("web/auth.py", "A = 1\n")
    indexed("index")
    assert len(lines(indexed("code", "outline", "auth.py"))) == 2
    assert "Several files" in indexed.err


def test_a_symbol_comes_alone_in_a_pipe(indexed, repository):
    start = AUTH.index("def check_token")
    assert (
        indexed("code", "symbol", "check_token")
        == AUTH[start : AUTH.index("\n\n\ndef issue")] + "\n"
    )
    told = json.loads(indexed("code", "symbol", "Token.renew", "--json"))
    assert (told["symbol"]["path"], told["symbol"]["start_line"]) == ("src/auth.py", 27)
    assert "check_token" in refused(indexed, 3, "code", "symbol", "chek_token")
    repository.path("src/auth.py").unlink()
    assert indexed("code", "symbol", "check_token").startswith("def check_token")
    assert "no longer in the file" in indexed.err


def test_callers_and_callees_are_told(indexed):
    assert lines(indexed("code", "callers", "check_token")) == [
        ["1.00", "call", "src/auth.py:28", "src/auth.py:Token.renew"],
        ["1.00", "call", "src/shop.py:5", "src/shop.py:order"],
    ]
    callees = lines(indexed("code", "callees", "order"))
    assert ["1.00", "call", "src/shop.py:5", "src/auth.py:check_token"] in callees
    assert json.loads(indexed("code", "callers", "check_token", "--json"))["more"] is False
    indexed("code", "callers", "check_token", "--limit", "1")
    assert "more than 1" in indexed.err
    assert indexed("code", "callers", "left") == ""
    assert "None that is known" in indexed.err


def test_references_that_are_no_calls_are_shown(indexed, repository):
    repository.write(
        "src/jobs.py",
        "from src.auth import Token, check_token, left\n\n"
        "CHECKS = [check_token]\n\n"
        "class Pass(Token):\n    def renew(self, now):\n        return schedule(left)\n\n"
        "@cron.daily\ndef sweep():\n    return left(1)(2)\n",
    )
    repository.write("tests/test_pass.py", "class Fake:\n    def renew(self, now): ...\n")
    indexed("index")
    assert ["1.00", "use", "src/jobs.py:3", "src/jobs.py"] in lines(
        indexed("code", "callers", "check_token")
    )
    assert lines(indexed("code", "callers", "left")) == [
        ["1.00", "use", "src/jobs.py:7", "src/jobs.py:Pass.renew"],
        ["1.00", "call", "src/jobs.py:11", "src/jobs.py:sweep"],
    ]
    assert lines(indexed("code", "callers", "sweep")) == [
        ["1.00", "register", "src/jobs.py:9", "src/jobs.py by @daily"]
    ]
    assert lines(indexed("code", "callers", "Token.renew")) == [
        ["0.95", "override", "src/jobs.py:6", "src/jobs.py:Pass.renew"]
    ]


def test_a_name_that_may_mean_several_lists_them(indexed, repository):
    repository.write("src/other.py", "def check_token(token):\n    return True\n")
    indexed("index")
    for command in ("symbol", "callers", "callees"):
        rows = lines(indexed("code", command, "check_token"))
        assert [row[2] for row in rows] == ["src/auth.py:8", "src/other.py:1"]
        assert "Several are meant" in indexed.err
        by_id = indexed("code", command, rows[0][0], "--json")
        assert json.loads(by_id)["symbol"]["path"] == "src/auth.py"


def test_a_symbols_history_is_told(indexed, repository):
    event = {
        "session_id": "s-1",
        "cwd": str(repository.root),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "make the tokens last longer",
    }
    edit = {
        **event,
        "hook_event_name": "PostToolUse",
        "tool_name": "Edit",
        "tool_input": {
            "file_path": str(repository.path("src/auth.py")),
            "old_string": "def renew(self, now):\n    pass",
            "new_string": "def renew(self, now):\n    self.issued = now",
        },
        "tool_response": {"filePath": str(repository.path("src/auth.py"))},
    }
    failure = {
        **event,
        "hook_event_name": "PostToolUseFailure",
        "tool_name": "Bash",
        "tool_input": {"command": "pytest tests"},
        "error": "Exit code 1\nE   AssertionError: expired",
    }
    for one in (event, edit, failure):
        assert zapomni("record", given=json.dumps(one).encode()).returncode == 0

    told = json.loads(indexed("code", "symbol", "Token.renew", "--history", "--json"))["edits"]

    assert [(e["session_id"], e["prompt"]) for e in told] == [
        ("s-1", "make the tokens last longer")
    ]
    assert "pytest tests" in told[0]["failures"][0]["content"]
    shown = indexed("code", "symbol", "Token.renew", "--history")
    assert "asked: make the tokens last longer" in shown
    assert "then failed: pytest tests" in shown
    indexed("code", "symbol", "Cart", "--history")
    assert "No agent was seen" in indexed.err
    indexed("code", "symbol", "check_token", "--history")
    assert "its file's" in indexed.err


def test_what_is_indexed_is_listed_and_forgotten(cli, repository):
    assert cli("code", "list") == ""
    assert "zapomni index" in cli.err
    assert cli("code", "list", "--json") == "[]\n"
    cli("index")
    (row,) = lines(cli("code", "list"))
    assert row[:3] == [str(repository.root), "5 files", "70 lines"]
    assert json.loads(cli("code", "list", "--json"))[0]["symbols"] == 16
    assert cli("code", "forget", "shop") == "Forgot 5 files of shop.\n"
    assert "CODE_002" in refused(cli, 3, "code", "forget", "shop")
    cli("index")
    assert json.loads(cli("code", "forget", ".", "--json"))["name"] == "shop"


def test_what_is_still_being_indexed_can_be_forgotten(cli, repository):
    assert zapomni("index", "--background").returncode == 0  # In a process that may not have begun.
    assert re.fullmatch(r"Forgot \d files? of shop\.\n", cli("code", "forget", "."))
    cli("tasks", "run")
    assert cli("code", "list", "--json") == "[]\n"
    (task,) = json.loads(cli("tasks", "--json"))
    assert task["status"] in ("cancelled", "completed")


def test_on_a_terminal_answers_are_laid_out(repository):
    assert zapomni("index").returncode == 0
    for args, words in (
        (("code", "search", "too late"), ["Token.renew", "raise ValueError"]),
        (("code", "outline", "auth.py"), ["class Token", "    def renew(self, now)"]),
        (("code", "symbol", "check_token"), ["src/auth.py:8-11", "def check_token"]),
        (("code", "list"), ["5 files"]),
    ):
        code, shown = on_terminal(*args)
        assert code == 0, shown
        assert all(word in shown for word in words), shown


# --- Memories that cite code --------------------------------------------------------------


def test_a_memory_says_whether_its_code_is_still_fresh(indexed, repository):
    memory_id = indexed(
        "add", "Zebras check tokens twice.", "--cites", "src/auth.py:check_token"
    ).strip()
    assert json.loads(indexed("get", memory_id, "--json"))["citations"][0]["status"] == "fresh"
    repository.edit("src/auth.py", "still counts", "counts")
    (cited,) = json.loads(indexed("get", memory_id, "--json"))["citations"]
    assert (cited["place"], cited["content"], cited["status"]) == ("same", "reworded", "fresh")
    repository.edit("src/auth.py", " counts", " still counts")
    assert lines(indexed("search", "zebras", "--kind", "note"))[0][-1] == FRESH
    assert indexed("doctor", "--memories") == ""
    assert "fresh" in indexed.err

    repository.edit("src/auth.py", "def check_token", "def verify")

    moved = "src/auth.py:check_token: moved, now src/auth.py:verify"
    assert lines(indexed("search", "zebras", "--kind", "note"))[0][-1] == moved
    assert lines(indexed("doctor", "--memories")) == [
        [memory_id, moved, "Zebras check tokens twice."]
    ]
    assert memory_id[:8] in on_terminal("doctor", "--memories")[1]
    (stale,) = json.loads(indexed("doctor", "--memories", "--json"))
    assert stale["citations"][0]["now"] == "src/auth.py:verify"
    indexed("update", memory_id, "--cites", "src/auth.py:verify")
    assert indexed("doctor", "--memories") == ""
    indexed("forget", memory_id, "--yes")
    assert json.loads(indexed("doctor", "--memories", "--json")) == []


def test_a_file_of_code_is_kept_as_a_document_cut_at_its_symbols(cli, repository):
    cli("add", "--file", "src/auth.py", "--file", "docs/notes.md")
    found = json.loads(cli("search", "moment counts", "--kind", "document", "--json"))["results"]
    assert found[0]["source"] == "src/auth.py"  # Several files may have one name.
    assert found[0]["text"].startswith("def check_token")
    memory_id = found[0]["memory_id"]
    repository.edit("src/auth.py", "def issue", "def hand_out")
    cli("update", memory_id, "--file", "src/auth.py")
    (again,) = json.loads(cli("search", "hand out", "--in", "memories", "--json"))["results"][:1]
    assert again["text"].startswith("def hand_out")


def test_a_text_that_names_code_cites_it(indexed):
    memory_id = indexed("add", "Mind check_token() in src/auth.py.").strip()
    told = json.loads(indexed("get", memory_id, "--json"))["citations"]
    assert [(one["path"], one["symbol"]) for one in told] == [
        ("src/auth.py", ""),
        ("src/auth.py", "check_token"),
    ]
    code, shown = on_terminal("get", memory_id)
    assert code == 0
    assert FRESH in shown
    code, shown = on_terminal("search", "mind")
    assert f"cites {FRESH}" in shown


def test_a_wrong_citation_is_refused(cli, repository):
    assert "cites" in refused(cli, 2, "add", "x", "--cites", "nothing.py")
    assert cli("list") == ""


def test_listing_and_counting_leave_code_apart(indexed):
    indexed("add", "A note.")
    assert len(lines(indexed("list"))) == 1
    assert len(lines(indexed("list", "--kind", "code"))) == 4
    stats = json.loads(indexed("stats", "--json"))
    assert (stats["total_memories"], stats["code_files"]) == (1, 4)


def test_a_crash_in_the_middle_is_repaired_by_the_next_run(repository, tmp_path, cli):
    for number in range(150):
        body = "\n\n".join(f"def f{number}_{n}():\n    return {n}" for n in range(20))
        repository.write(f"many/m{number}.py", body + "\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", "index"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 180
    while not _some_files(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.kill()
    child.wait()

    cli("index")

    listed = json.loads(cli("code", "list", "--json"))
    assert (listed[0]["files"], listed[0]["indexed_at"] is not None) == (155, True)
    assert "155 files, nothing changed" in cli("index")
    stats = json.loads(cli("stats", "--json"))
    assert stats["code_files"] == 154
    assert cli("doctor", code=0)


def _some_files(tmp_path) -> bool:
    import sqlite3

    database = tmp_path / "home" / ".zapomni" / "zapomni.db"
    if not database.exists():
        return False
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT count(*) FROM code_files").fetchone()[0]
    except sqlite3.Error:
        return False
    return found > 50

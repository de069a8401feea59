"""What agents did, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command import add, answer, as_json, on_terminal, refused, zapomni
from observation_rows import observe, open_database
from zapomni_core.infra.projects import project_of

OTHER = "github.com/acme/other"


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return project_of(str(folder)).key


@pytest.fixture
def db(private_home):
    connection = open_database(private_home / "zapomni.db")
    yield connection
    connection.close()


def test_observations_are_searched_with_their_own_filters(db, here):
    bad = observe(db, "command_error", "pytest failed", project=here, signature="s")
    edit = observe(db, "file_edit", "pytest.ini", file_path="/w/pytest.ini", project=here)
    other = observe(db, "command", "pytest there", project=OTHER)

    def ids(*options):
        return {hit["id"] for hit in as_json("search", "pytest", "--in", "observations", *options)}

    assert ids() == {bad, edit}
    assert ids("--all") == {bad, edit, other}
    assert ids("--project", "other") == {other}
    assert ids("--failed") == {bad}
    assert ids("--path", "pytest.ini") == {edit}
    assert ids("--type", "file_edit", "--order-by", "recent", "--since", "1d") == {edit}
    assert ids("--until", "1d") == set()
    line = answer("search", "pytest", "--in", "observations", "--failed")
    assert line.split("\t")[0] == f"#{bad}"


def test_one_search_finds_what_was_kept_and_what_was_done(db, here):
    number = observe(db, "user_prompt", "replace the kettle", session_id="s-9", project=here)
    old = add("The kettle is red.", "--parent", "talk", "--position", "1")
    add("It whistles.", "--parent", "talk", "--position", "2")

    lines = [line.split("\t") for line in answer("search", "kettle").splitlines()]
    assert {line[1] for line in lines} >= {old, f"#{number}"}
    (first, *_) = as_json("search", "kettle", "--in", "memories")["results"]
    assert first["memory_id"] == old
    (mine,) = as_json("search", "kettle", "--session", "s-9")["results"]
    assert mine["observation_id"] == number
    assert "whistles" in answer("search", "kettle red", "--beside", "--limit", "1")
    assert as_json("search", "kettle", "--as-of", "2020-01-01")["total"] == 0
    (first, *_) = as_json("search", "kettle", "--explain", "--fusion", "rrf")["results"]
    assert first["explanation"]["arms"]["unit"]["rank"] in (1, 2)
    done = zapomni("search", "kettle", "--limit", "1", "--explain")
    assert b"cosine" in done.stdout
    assert b"(#1)" in done.stdout
    assert b"1 of 3; see more with --offset 1." in done.stderr
    code, shown = on_terminal("search", "kettle")
    assert code == 0
    assert f"#{number}" in shown


def test_filters_of_one_kind_are_refused_for_the_other(here):
    assert "--failed" in refused(2, "search", "x", "--failed")
    assert "--tag" in refused(2, "search", "x", "--in", "observations", "--tag", "t")
    assert "unbalanced quotes" in refused(2, "search", '"x', "--in", "observations")


def test_recent_timeline_and_sessions_tell_the_same_story(db, here):
    prompt = observe(db, "user_prompt", "build it", project=here, session_id="abc-1", age=30)
    step = observe(db, "command", "make", project=here, session_id="abc-1", age=20)
    assert [o["id"] for o in as_json("recent")] == [step, prompt]
    around = as_json("timeline", str(step), "--before", "1")
    assert around["before"][0]["id"] == prompt
    assert answer("timeline", str(step)).count("\n") == 2
    (listed,) = as_json("sessions")
    assert (listed["session_id"], listed["prompts"]) == ("abc-1", 1)
    assert answer("sessions").startswith("abc-1\t")
    story = as_json("session", "abc")
    assert [o["id"] for o in story["observations"]] == [prompt, step]
    assert "build it" in answer("session", "abc-1")
    code, shown = on_terminal("session", "abc-1")
    assert code == 0
    assert "build it" in shown


def test_what_does_not_exist_is_said_and_has_its_own_exit_code(here):
    assert "no observation with this id" in refused(3, "timeline", "999")
    assert "no session with this id" in refused(3, "session", "999")
    done = zapomni("recent")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"zapomni init" in done.stderr
    assert as_json("sessions") == []


def test_errors_that_came_back_are_listed_with_their_fix(db, here):
    for age in (90, 80):
        observe(db, "command_error", "make test\nE", signature="s", project=here, age=age)
    passed = observe(db, "command", "make test", project=here, age=70)
    (failure,) = as_json("recent", "--failing")
    assert failure["passed"]["id"] == passed
    assert f"passed in #{passed}" in answer("recent", "--failing")


def test_context_prints_what_is_injected_and_why(db, here):
    edit = observe(db, "file_edit", "cart.py", file_path="cart.py", project=here)
    shown = answer("context")
    assert shown.startswith("## zapomni: Recent Context")
    assert f"| #{edit} | " in shown
    why = answer("context", "--why")
    assert "score" in why
    told = as_json("context", "--source", "compact")
    assert told["project"] == here
    assert [line["section"] for line in told["lines"]][-1] == "Recent actions"


def test_context_is_switched_off_and_on_per_project(db, here):
    observe(db, "file_edit", "cart.py", file_path="cart.py", project=here)
    answer("context", "--off")
    done = zapomni("context")
    assert done.stdout == b""
    assert b"--off" in done.stderr
    event = {"session_id": "s", "cwd": str(Path.cwd()), "hook_event_name": "SessionStart"}
    given = json.dumps({**event, "source": "startup"}).encode()
    assert answer("record", "--host", "claude-code", given=given) == ""
    answer("context", "--on")
    assert "cart.py" in answer("context")
    assert "cart.py" in answer("record", "--host", "claude-code", given=given)


def test_commands_about_observations_start_without_the_memory_engine():
    modules = "zapomni_cli.observations, zapomni_cli.projects, zapomni_cli.purge, zapomni_cli.tasks"
    code = f"import sys, {modules}; print('zapomni_core.engine' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

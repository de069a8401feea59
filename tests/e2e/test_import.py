"""`zapomni import`: transcripts of Claude Code, from the folder of the host to a search."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

import transcripts
from command import answer, as_json, on_terminal, refused, zapomni
from transcripts import RESUMED, SECRET, SESSION, write_all
from zapomni_core.adapters.sources import SOURCES

pytestmark = pytest.mark.usefixtures("no_model")


@pytest.fixture
def projects(tmp_path) -> Path:
    """Return the folder where Claude Code keeps its transcripts."""
    folder = tmp_path / "home" / ".claude" / "projects"
    write_all(folder)
    return folder


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch) -> None:
    """Stay away from a repository: its history is a source, too."""
    monkeypatch.chdir(tmp_path)


def listed() -> dict:
    (found,) = [one for one in as_json("import") if one["name"] == "claude-code"]
    return found


def run(*options: str) -> dict:
    return as_json("import", "claude-code", "--yes", *options)


def stored(home: Path) -> dict[str, list]:
    """Return everything that an import stores, without ids and times of storing."""
    database = sqlite3.connect(home / "zapomni.db")
    queries = {
        "observations": "SELECT session_id, project, timestamp, obs_type, content, file_path,"
        " metadata FROM observations ORDER BY 1, 3, 4, 5",
        "sessions": "SELECT id, project, host, branch, started_at, last_at, ended_at FROM sessions"
        " ORDER BY 1",
        "memories": "SELECT kind, preview, origin, trusted, parent FROM memories ORDER BY 1, 2",
        "items": "SELECT source, native FROM import_items ORDER BY 1, 2",
    }
    try:
        return {name: database.execute(query).fetchall() for name, query in queries.items()}
    finally:
        database.close()


def contents(session: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in as_json("session", session)["observations"]:
        found.setdefault(one["obs_type"], []).append(one["content"])
    return found


def test_the_list_says_how_much_there_is_and_what_is_deleted_soon(projects, tmp_path):
    (tmp_path / "home" / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 5}')
    found = listed()
    assert (found["records"], found["files"], found["new_files"]) == (2, 3, 3)
    assert found["bytes"] == sum(path.stat().st_size for path in projects.rglob("*.jsonl"))
    assert found["oldest"].startswith("2026-05-01")
    assert found["deleted_soon"] == 2
    said = on_terminal("import")[1]
    assert "Claude Code sessions: 2" in said
    assert "3 files are not imported yet. Import with: zapomni import claude-code" in said
    assert "2 of them will be deleted within a week" in said
    assert "2 deleted within a week" in answer("import")
    (tmp_path / "home" / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 365}')
    assert "claude-code" in answer("import")
    assert listed()["deleted_soon"] == 0
    run()
    assert listed()["new_files"] == 0


def test_nothing_to_import_is_said(tmp_path):
    assert as_json("import") == []
    said = zapomni("import").stderr.decode()
    assert "Nothing to import" in said
    assert "--path" in said


def test_the_help_names_every_source():
    assert set(SOURCES) <= set(answer("import", "--help").split())


def test_a_session_is_replayed_as_hooks_would_have_captured_it(projects, private_home):
    report = run()
    found = contents(SESSION)
    assert found["user_prompt"] == [
        "make the login work\u2028please",
        "/deploy to staging on Tuesday",
        "also bump the version to 4.2",
        "ship it",
    ]
    assert found["assistant_message"] == [
        "The proxy dropped the cookie because SameSite was missing. The tests pass now.",
        "Which region should the deployment of the shop use for staging?",
        "Shipped version 4.2 of the shop to staging in Frankfurt.",
    ]
    assert found["user_answer"] == ["Which region? → Frankfurt"]
    assert found["command_error"] == ["make test\nAssertionError: cookie missing"]
    assert [one.split()[0] for one in found["file_edit"]] == ["login.py"]
    assert "Set SameSite on the session cookie" in found["git_commit"][0]
    assert found["session_compact"] == ["Context compacted"]
    assert found["marker"] == [
        "Session: Cookies of the proxy",
        "Pull request: https://github.com/shop/shop/pull/7",
        "Session: Fix the login",
    ]
    assert found["session_start"] == ["Session started: startup"]
    assert found["session_end"] == ["Session ended: other"]
    # A subagent's: between the session's own, by time.
    assert "Plan finished: The cookie is set in session.py" in found["task_spawn"][0]
    assert "rg cookie" in found["command"]
    story = as_json("session", SESSION)
    assert story["summary"]["branch"] == "main"
    times = [one["timestamp"] for one in story["observations"]]
    assert times == sorted(times)
    assert times[0] == int(transcripts.BEGAN.timestamp()) + 1
    # Of a resumed file only what is new.
    assert contents(RESUMED)["user_prompt"] == ["continue with the checkout page"]
    # What is never imported.
    everything = json.dumps(stored(private_home), default=str)
    never = ("no one must read this", "injected by another memory", "search_memory", "Lost")
    for text in (SECRET, "remembered before", *never):
        assert text not in everything
    assert report["kept"] == report["observations"] + report["memories"]
    skipped = report["skipped"]
    assert skipped["unknown record type shiny-new-record"] == 1
    assert skipped["damaged line"] == 1
    assert skipped["call without a result"] == 1
    assert report["duplicates"] == 3  # two records of the session before, one uuid twice
    assert report["read"] >= report["kept"] + report["duplicates"] + sum(skipped.values())


def test_a_summary_becomes_a_memory_that_waits_for_trust(projects):
    batch = run()["batch"]
    (hit,) = as_json("list", "--project", "/w/shop")["items"]
    assert (hit["kind"], hit["origin"], hit["trusted"]) == ("summary", "import:claude-code", False)
    assert hit["occurred_at"].startswith("2026-05-01")
    assert as_json("import", "--trust", batch)["memories"] == 1
    assert as_json("list", "--project", "/w/shop")["items"][0]["trusted"] is True


def test_memories_of_an_import_that_is_taken_back_are_in_the_trash(projects):
    batch = run()["batch"]
    (hit,) = as_json("list", "--project", "/w/shop")["items"]
    assert as_json("import", "--undo", batch, "--yes")["trash"] == "f-1"
    (trashed,) = as_json("forget", "--trash")
    assert (trashed["why"], trashed["count"]) == ("import", 1)
    answer("forget", "--undo", "f-1")
    assert as_json("list", "--project", "/w/shop")["items"] == [hit]


def test_importing_twice_changes_nothing(projects, private_home):
    run()
    before = stored(private_home)
    backups = sorted((private_home / "backups").glob("*"))
    again = run()
    assert (again["kept"], again["batch"], again["unchanged"]) == (0, None, 3)
    # Not even if every file looks new: what was imported is recognized by its ids.
    for path in projects.rglob("*.jsonl"):
        path.rename(path.with_name(f"moved-{path.name}"))
    moved = run()
    assert (moved["kept"], moved["unchanged"]) == (0, 0)
    assert moved["duplicates"] > 20
    assert stored(private_home) == before
    assert sorted((private_home / "backups").glob("*")) == backups
    assert len(as_json("import", "--batches")) == 1


def test_a_file_that_grows_is_continued(projects, private_home, tmp_path):
    path = projects / "-w-shop" / f"{SESSION}.jsonl"
    whole = path.read_bytes()
    run()
    expected = stored(private_home)
    wanted = answer(
        "import", "--undo", "i-" + time.strftime("%Y%m%d", time.gmtime()) + "-1", "--yes"
    )
    assert wanted.startswith("Removed ")
    assert stored(private_home) == {"observations": [], "sessions": [], "memories": [], "items": []}
    # A live session: it may go on, so its last words are not its answer yet.
    for end in (len(whole) // 3, len(whole) // 2, len(whole)):
        path.write_bytes(whole[:end])
        run()
    assert "session_end" not in contents(SESSION)
    os.utime(path, (time.time() - 7200,) * 2)
    run()
    assert stored(private_home) == expected
    assert run()["kept"] == 0


def test_what_hooks_captured_is_not_doubled(projects, private_home):
    began = int(transcripts.BEGAN.timestamp())
    event = {
        "event": "prompt",
        "host": "claude-code",
        "session_id": SESSION,
        "cwd": "/w/shop",
        "text": "/deploy to staging on Tuesday",
        "timestamp": began
        + next(
            number
            for number, line in enumerate(transcripts.main_session().lines)
            if "/deploy" in line
        ),
    }
    assert zapomni("record", given=json.dumps(event).encode()).returncode == 0
    report = run()
    prompts = contents(SESSION)["user_prompt"]
    # What hooks did not see, before and after, is imported.
    assert prompts.count("/deploy to staging on Tuesday") == 1
    assert prompts[0] == "make the login work\u2028please"
    assert prompts[-1] == "ship it"
    assert report["skipped"]["captured by hooks already"] > 2
    assert run()["kept"] == 0


def test_an_excluded_project_and_private_files_are_left_out(projects):
    made = transcripts.Transcript("44444444-4444-4444-8444-444444444444", folder="/w/secret")
    made.prompt("look at the environment")
    made.shell("t40", "ls")
    made.write(projects / "-w-secret" / f"{made.session}.jsonl")
    other = transcripts.Transcript("55555555-5555-4555-8555-555555555555")
    other.prompt("what is <private>the code name</private> again")
    other.shell("t50", "cat .env")
    other.write(projects / "-w-shop" / f"{other.session}.jsonl")
    assert zapomni("projects", "--exclude", "/w/secret").returncode == 0
    report = run()
    assert report["skipped"]["excluded project"] == 4
    assert report["skipped"]["private file"] == 1
    assert [one["session_id"] for one in as_json("sessions", "--project", "/w/secret")] == []
    assert contents(other.session)["user_prompt"] == ["what is [private] again"]


def test_a_dry_run_stores_nothing(projects, private_home):
    report = as_json("import", "claude-code", "--dry-run")
    assert report["dry_run"]
    assert report["observations"] > 20
    assert as_json("sessions") == []
    assert not list((private_home / "backups").glob("*"))
    assert run()["observations"] == report["observations"]


def test_since_and_project_select(projects):
    report = run("--since", "2026-05-02", "--project", "elsewhere")
    assert report["skipped"]["older than --since"] > 20
    (session,) = as_json("sessions", "--project", "elsewhere")
    assert session["session_id"] == RESUMED
    # What was left out before is imported when it is asked for.
    assert run()["kept"] > 15


def test_a_backup_is_made_before_anything_is_stored(projects, private_home):
    answer("add", "We deploy on Tuesdays.")
    run()
    assert len(list((private_home / "backups").glob("*-before-import.db"))) == 1


def test_an_import_in_the_background_ends_in_the_list_of_tasks(projects):
    status = as_json("import", "claude-code", "--yes", "--background")
    assert status["task_type"] == "import_source"
    as_json("tasks", "run")  # Or the process that was started; both may.
    done = as_json("tasks", "watch", status["task_id"])
    assert done["status"] == "completed"
    assert done["result"]["kept"] > 20


def test_links_and_credentials_are_not_read(projects, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    transcripts.long_session(3, RESUMED).write(outside / "secret.jsonl")
    (projects / "-w-shop" / "linked.jsonl").symlink_to(outside / "secret.jsonl")
    (projects / "linked").symlink_to(outside)
    os.mkfifo(projects / "-w-shop" / "pipe.jsonl")
    transcripts.long_session(3, RESUMED).write(projects / "-w-shop" / "auth.json")
    assert listed()["files"] == 3
    credentials = transcripts.long_session(3).write(tmp_path / ".credentials.json")
    assert "no transcript" in refused(
        2, "import", "claude-code", "--yes", "--path", str(credentials)
    )


def test_what_is_not_asked_for_properly_says_what_to_do(projects, tmp_path):
    assert "claude-code" in refused(2, "import", "nonsense", "--yes")
    assert "--yes" in refused(2, "import", "claude-code")
    assert "lists them" in refused(2, "import", "--dry-run")
    assert "There is no import" in refused(3, "import", "--undo", "i-20200101-1", "--yes")
    text = tmp_path / "notes.jsonl"
    text.write_text('{"a": 1}\n')
    assert "no transcript" in refused(2, "import", "claude-code", "--yes", "--path", str(text))
    assert "no transcript" in refused(
        2, "import", "claude-code", "--yes", "--path", str(tmp_path / "x")
    )


def test_on_a_terminal_it_asks_and_reports(projects):
    code, shown = on_terminal("import", "claude-code", typed="y\n")
    assert code == 0
    assert "Claude Code sessions: 2" in shown
    assert "Imported" in shown
    assert "zapomni import --undo i-" in shown


def test_a_purge_leaves_nothing_of_what_was_imported(projects, private_home):
    run()
    report = as_json("purge", "--search", "samesite", "--yes")
    assert report["deleted"] >= 2
    for path in private_home.rglob("*"):
        if path.is_file():
            assert b"samesite" not in path.read_bytes().lower(), path.name
    # What was purged stays away: its records are known.
    for path in projects.rglob("*.jsonl"):
        path.rename(path.with_name(f"moved-{path.name}"))
    assert run()["kept"] == 0
    assert as_json("purge", "--search", str(projects).rpartition("/")[2] + "/", "--yes")["mentions"]


def test_init_ends_by_offering_what_is_there(projects, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = zapomni("init", "--host", "claude-code", "--yes")
    assert b"Found Claude Code sessions: 2" in shown.stdout
    assert b"Import with: zapomni import claude-code" in shown.stderr
    assert as_json("sessions") == []
    assert b"Found" not in zapomni("init", "--host", "claude-code", "--dry-run").stdout
    # On a terminal it asks, and only for what is new.
    code, asked = on_terminal("init", "--host", "claude-code", typed="y\n")
    assert (code, "Import now?" in asked, "Imported" in asked) == (0, True, True)
    assert b"Found" not in zapomni("init", "--host", "claude-code", "--yes").stdout


def test_memories_of_an_import_are_stored_on_a_server_too(
    projects, falkordb_server, falkordb_graph, private_home, monkeypatch
):
    where = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"
    monkeypatch.setenv("ZAPOMNI_STORAGE", where)
    report = run()
    assert (report["memories"], report["observations"]) == (1, 28)
    (memory,) = as_json("list", "--project", "/w/shop")["items"]
    assert (memory["origin"], memory["trusted"]) == ("import:claude-code", False)
    assert run()["kept"] == 0
    assert as_json("import", "--undo", report["batch"], "--yes")["memories"] == 1
    assert as_json("list", "--project", "/w/shop")["items"] == []
    assert run()["kept"] == report["kept"]


def test_prompts_of_deleted_transcripts_are_imported_once_from_the_history(
    projects, private_home, tmp_path
):
    kept = sorted(path.stem for path in projects.rglob("*.jsonl") if len(path.stem) == 36)
    gone, day = "0a0a0a0a-0000-4000-8000-000000000001", 1_700_000_000_000

    def line(text: str, session: str, stamp: int = day, **more: object) -> str:
        said = {"display": text, "timestamp": stamp, "project": "/w/shop", "pastedContents": {}}
        return json.dumps({**said, **({"sessionId": session} if session else {}), **more})

    history = tmp_path / "home" / ".claude" / "history.jsonl"
    lines = [
        line("Why does the basket lose its vouchers?", gone),
        line("/clear", gone, day + 1),
        line(f"The token is {SECRET}", gone, day + 2),
        line("Said before sessions had names", "", day + 3),
        line("In a transcript that is here", kept[0], day + 4),
        line("Without a name, in a transcript", "", int(time.time() * 1000)),
        "{damaged",
        '{"display": "half a li',
    ]
    history.write_text("\n".join(lines), "utf-8")
    run()
    before = stored(private_home)
    assert gone in json.dumps(as_json("sessions", "--all"))
    assert contents(gone)["user_prompt"][0] == "Why does the basket lose its vouchers?"
    assert len(contents(gone)["user_prompt"]) == 2
    assert SECRET.encode() not in (private_home / "zapomni.db").read_bytes()
    found = json.dumps(as_json("search", "vouchers basket", "--all"))
    assert "lose its vouchers" in found
    everything = json.dumps(as_json("search", "said sessions names transcript", "--all"))
    assert "Said before sessions had names" in everything
    assert "In a transcript that is here" not in everything
    assert "Without a name" not in everything
    assert run()["kept"] == 0
    assert stored(private_home) == before

    # A transcript that was imported and then deleted is not repeated by its prompts.
    for path in list(projects.rglob("*.jsonl")):
        path.unlink()
    with history.open("a", encoding="utf-8") as file:
        file.write('ne"}\n' + line("And the shipping?", gone, day + 9) + "\n")
        file.write(line("In a transcript that was here", kept[0], day + 10) + "\n")
    assert run()["kept"] == 1
    assert contents(gone)["user_prompt"][-1] == "And the shipping?"

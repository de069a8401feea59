"""`zapomni import` of what lies in files: auto memory, instructions, decisions, git, Codex."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command import as_json, record_here, zapomni
from project_shapes import git, repository
from source_files import (
    CODEX_PROMPT,
    NYGARD_NEW,
    SECRET,
    THREAD,
    jsonl,
    rollout,
    write_auto_memory,
    write_decisions,
    write_rollouts,
)

pytestmark = pytest.mark.usefixtures("no_model")

SOURCES = ("claude-memory", "instructions", "adr", "git", "codex")


@pytest.fixture
def user(tmp_path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def shop(tmp_path, user, monkeypatch) -> Path:
    """Return a repository with something of every source, and go there."""
    repo = repository(tmp_path / "shop")
    write_decisions(repo / "docs" / "adr")
    (repo / "CLAUDE.md").write_text(f"Never push. The token is {SECRET}.\n", "utf-8")
    (repo / "AGENTS.md").write_text("Always run the linter before commits.\n", "utf-8")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Use uv\n\nBecause pip resolves too slowly on the small machine.\n")
    write_auto_memory(user, repo)
    age(write_rollouts(user, repo))
    monkeypatch.chdir(repo)
    return repo


def age(path: Path) -> None:
    day_ago = time.time() - 86_400
    os.utime(path, (day_ago, day_ago))


def run(source: str, *options: str) -> dict:
    return as_json("import", source, "--yes", *options)


def rows(query: str) -> list[tuple]:
    database = sqlite3.connect(Path(os.environ["ZAPOMNI_HOME"]) / "zapomni.db")
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def texts(source: str) -> list[str]:
    return [
        text
        for (text,) in rows(
            "SELECT t.text FROM memories m JOIN memory_texts t ON t.memory_key = m.key"
            f" WHERE m.origin = 'import:{source}' ORDER BY m.key"
        )
    ]


def everything() -> dict[str, list[tuple]]:
    return {
        "memories": rows("SELECT * FROM memories ORDER BY key"),
        "versions": rows("SELECT count(*) FROM memory_history"),
        "observations": rows("SELECT * FROM observations ORDER BY id"),
        "items": rows("SELECT * FROM import_items ORDER BY source, native"),
    }


def test_all_of_them_are_listed_where_they_are(shop):
    found = {one["name"]: one for one in as_json("import")}
    assert set(SOURCES) <= set(found)
    assert {name: found[name]["records"] for name in ("adr", "instructions", "codex")} == {
        "adr": 4, "instructions": 2, "codex": 1,
    }  # fmt: skip


def test_importing_twice_changes_nothing_and_nothing_is_given_or_leaked(shop):
    reports = {source: run(source) for source in SOURCES}
    assert {source: report["memories"] for source, report in reports.items()} == {
        "claude-memory": 4, "instructions": 2, "adr": 4, "git": 1, "codex": 1,
    }  # fmt: skip
    before = everything()
    for source in SOURCES:
        again = run(source)
        assert (again["kept"], again["updated"], again["batch"]) == (0, 0, None), source
    assert everything() == before

    assert rows("SELECT DISTINCT trusted FROM memories") == [(0,)]
    assert {origin for (origin,) in rows("SELECT DISTINCT origin FROM memories")} == {
        f"import:{source}" for source in SOURCES
    }
    projects = rows("SELECT DISTINCT project FROM memories")
    assert projects == rows("SELECT DISTINCT project FROM observations")
    assert len(projects) == 1
    home = Path(os.environ["ZAPOMNI_HOME"])
    assert not [path for path in home.rglob("*.db*") if SECRET.encode() in path.read_bytes()]
    context = as_json("context")["text"]
    assert "Postgres" not in context
    assert "linter" not in context


def test_a_batch_can_be_taken_back_and_imported_again(shop):
    for source in SOURCES:
        report = run(source)
        zapomni("import", "--undo", report["batch"], "--yes")
        assert texts(source) == []
        again = run(source)
        assert (again["memories"], again["observations"]) == (
            report["memories"], report["observations"],
        ), source  # fmt: skip


# --- auto memory ------------------------------------------------------------------------


def test_a_memory_follows_its_file_and_a_file_that_is_gone_is_named(shop, user):
    run("claude-memory")
    (fact,) = (user / ".claude" / "projects").rglob("real-database.md")
    (memory_id,) = [one["memory_id"] for one in as_json("list", "--kind", "preference")["items"]]
    zapomni("import", "--trust", as_json("import", "--batches")[0]["id"])
    fact.write_text(fact.read_text("utf-8").replace("a real database", "a copy of it"), "utf-8")

    report = run("claude-memory")
    assert (report["updated"], report["memories"]) == (1, 0)
    shown = as_json("get", memory_id)
    assert "hit a copy of it" in shown["text"]
    assert shown["trusted"] is False
    history = as_json("history", memory_id)
    assert "hit a real database" in history[0]["text"]

    fact.unlink()
    report = run("claude-memory")
    assert report["gone"] == {str(fact): [memory_id]}
    assert "hit a copy of it" in as_json("get", memory_id)["text"]
    told = zapomni("import", "claude-memory", "--yes").stderr.decode()
    assert f"zapomni forget {memory_id}" in told
    zapomni("forget", memory_id, "--yes")
    assert run("claude-memory")["gone"] == {}


def test_a_point_that_is_gone_from_the_index_is_named_until_it_is_forgotten(shop, user):
    (index,) = (user / ".claude" / "projects").rglob("MEMORY.md")
    whole = index.read_text("utf-8")
    index.write_text(f"{whole}\n- Releases are cut on Mondays.\n- Lunch is at noon.\n", "utf-8")
    run("claude-memory")
    (gone,) = [one for one in as_json("list")["items"] if "Mondays" in one["preview"]]
    index.write_text(f"{whole}\n- Lunch is at noon.\n", "utf-8")
    for _ in range(2):  # The second time the file is unchanged.
        assert run("claude-memory")["gone"] == {str(index): [gone["memory_id"]]}
    index.write_text(f"{whole}\n- Releases are cut on Mondays.\n- Lunch is at noon.\n", "utf-8")
    assert run("claude-memory")["gone"] == {}
    index.write_text(f"{whole}\n- Lunch is at noon.\n", "utf-8")
    run("claude-memory")
    zapomni("forget", gone["memory_id"], "--yes")
    assert run("claude-memory")["gone"] == {}


def test_undoing_an_import_gives_what_it_changed_its_earlier_text(shop, user):
    first = run("claude-memory")
    zapomni("import", "--trust", first["batch"])
    (fact,) = (user / ".claude" / "projects").rglob("real-database.md")
    (memory_id,) = [one["memory_id"] for one in as_json("list", "--kind", "preference")["items"]]
    before = as_json("get", memory_id)
    old = fact.read_text("utf-8")
    fact.write_text(old.replace("a real database", "a copy of it"), "utf-8")
    second = run("claude-memory")
    assert as_json("import", "--trust", second["batch"])["memories"] == 1

    undone = as_json("import", "--undo", second["batch"], "--yes")
    assert (undone["memories"], undone["returned"]) == (0, 1)
    after = as_json("get", memory_id)
    same = ("text", "kind", "tags", "trusted")
    assert {one: after[one] for one in same} == {one: before[one] for one in same}

    third = run("claude-memory")
    assert third["updated"] == 1, "what was taken back can be imported again"
    zapomni("update", memory_id, "--text", "Said by the user since.")
    assert as_json("import", "--undo", third["batch"], "--yes")["returned"] == 0
    assert as_json("get", memory_id)["text"] == "Said by the user since."


def test_a_batch_that_was_killed_is_continued_in_its_own_repository_only(
    shop, tmp_path, monkeypatch
):
    other = repository(tmp_path / "other")
    write_decisions(other / "docs" / "adr")
    git(other, "add", ".")
    git(other, "commit", "-qm", "Decide")
    for source in ("adr", "git", "instructions"):
        monkeypatch.chdir(shop)
        killed = run(source)["batch"]
        with sqlite3.connect(Path(os.environ["ZAPOMNI_HOME"]) / "zapomni.db") as database:
            database.execute("UPDATE import_batches SET state = 'running' WHERE id = ?", [killed])
        database.close()
        monkeypatch.chdir(other)
        (other / "AGENTS.md").write_text("Write tests first.\n", "utf-8")
        assert run(source)["batch"] not in (killed, None), source
        monkeypatch.chdir(shop / "docs")
        assert run(source)["batch"] == killed, source


def test_a_cut_file_and_the_whole_one_make_one_memory(shop, user):
    (fact,) = (user / ".claude" / "projects").rglob("ci-setup.md")
    whole = fact.read_text("utf-8")
    for end in (0, 5, 30, 45, len(whole) - 10, len(whole)):
        fact.write_text(whole[:end], "utf-8")
        run("claude-memory")
    found = [text for text in texts("claude-memory") if text.startswith("ci-setup\n")]
    assert len(found) == 1
    assert found[0].endswith("because the browsers are slow.")


def test_a_memory_of_the_user_with_the_same_text_is_left_alone(shop, user):
    text = "ci-setup\n\nCI runs in two stages because the browsers are slow."
    own = as_json("add", text)["memory_id"]
    report = run("claude-memory")
    assert report["duplicates"] == 1
    (fact,) = (user / ".claude" / "projects").rglob("ci-setup.md")
    fact.write_text(fact.read_text("utf-8").replace("two", "three"), "utf-8")
    again = run("claude-memory")
    assert (again["memories"], again["updated"]) == (1, 0)
    for batch in (report["batch"], again["batch"]):
        zapomni("import", "--undo", batch, "--yes")
    assert texts("claude-memory") == []
    assert as_json("get", own)["text"] == text


def test_an_import_says_what_it_takes_for_sessions_to_be_given_its_memories(shop):
    said = zapomni("import", "adr", "--yes").stderr.decode()
    ((batch,),) = rows("SELECT id FROM import_batches")
    assert f"once you trust them: zapomni import --trust {batch}; or one by one" in said
    assert "trust" not in zapomni("import", "git", "--yes").stderr.decode()


# --- instructions -----------------------------------------------------------------------


def test_instructions_are_found_and_never_given_even_if_trusted(shop):
    batch = run("instructions")["batch"]
    zapomni("import", "--trust", batch)
    assert rows("SELECT DISTINCT trusted FROM memories") == [(1,)]
    found = as_json("search", "linter before commits")["results"]
    assert found[0]["text"].startswith("AGENTS.md")
    assert "linter" not in as_json("context")["text"]
    assert rows("SELECT count(*) FROM memory_digest") == [(0,)]
    zapomni("doctor")
    assert rows("SELECT count(*) FROM memory_digest") == [(0,)]


def test_private_files_and_spans_are_left_out(shop, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_PRIVATE_PATHS", "docs/adr/0003-*")
    (shop / "CLAUDE.md").write_text("Public. <private>never stored</private>\n", "utf-8")
    assert run("adr")["skipped"]["private file"] == 1
    run("instructions")
    found = [*texts("adr"), *texts("instructions")]
    assert len(found) == 5
    assert not any("never stored" in text or "ADR 3" in text for text in found)


# --- decisions --------------------------------------------------------------------------


def test_decisions_have_their_date_status_file_and_what_replaced_them(shop):
    run("adr")
    found = {one["metadata"]["number"]: one for one in listed("--kind", "decision", "--superseded")}
    assert sorted(found) == [2, 3, 4, 5]
    assert found[2]["superseded_by"] == found[3]["memory_id"]
    assert found[3]["occurred_at"].startswith("2026-03-02")
    assert found[5]["metadata"]["status"] == "rejected"
    cited = as_json("get", found[3]["memory_id"])["citations"]
    assert [one["path"] for one in cited] == ["docs/adr/0003-use-postgres.md"]
    assert "Postgres" in as_json("search", "which database do we use")["results"][0]["text"]


def listed(*options: str) -> list[dict]:
    return [as_json("get", one["memory_id"]) for one in as_json("list", *options)["items"]]


def test_a_decision_that_is_replaced_later_is_linked_then(shop):
    folder = shop / "docs" / "adr"
    (folder / "0006-use-sqlite.md").write_text(
        "# 6. Use SQLite\n\n## Status\n\nAccepted\n", "utf-8"
    )
    run("adr")
    (folder / "0003-use-postgres.md").write_text(
        NYGARD_NEW.replace("Accepted", "Superseded by 6"), "utf-8"
    )
    report = run("adr")
    assert (report["updated"], report["memories"]) == (1, 0)
    found = {one["metadata"]["number"]: one for one in listed("--kind", "decision", "--superseded")}
    assert found[3]["superseded_by"] == found[6]["memory_id"]
    assert found[3]["metadata"]["status"] == "superseded"
    (folder / "0005-deploy-by-hand.md").unlink()
    gone = run("adr")["gone"]
    assert gone == {str(folder / "0005-deploy-by-hand.md"): [found[5]["memory_id"]]}


# --- git --------------------------------------------------------------------------------


def test_history_becomes_observations_and_reasons_become_memories(shop):
    report = run("git")
    assert report["observations"] == len(git(shop, "rev-list", "HEAD").split())
    (commit,) = rows(
        "SELECT obs_type, content, json_extract(metadata, '$.commit_hash') FROM observations"
        " WHERE content LIKE 'Use uv%'"
    )
    head = git(shop, "rev-parse", "HEAD").strip()
    assert commit == (
        "git_commit",
        "Use uv\n\nBecause pip resolves too slowly on the small machine.",
        head,
    )
    (memory,) = listed("--kind", "commit")
    assert memory["metadata"]["commit_hash"] == head
    git(shop, "commit", "-q", "--allow-empty", "-m", "Nothing to see")
    again = run("git")
    assert (again["observations"], again["memories"]) == (1, 0)


def test_history_is_searched_and_given_to_no_session(shop):
    run("git")
    hits = as_json("search", "pip resolves too slowly on the small machine")
    assert "git_commit" in {one["kind"] for one in hits["results"]}
    assert "resolves" not in as_json("context")["text"]
    event = {
        "session_id": "s", "cwd": str(shop), "hook_event_name": "UserPromptSubmit",
        "prompt": "pip resolves too slowly on the small machine, use uv", "prompt_id": "p",
    }  # fmt: skip
    code, given = record_here(json.dumps(event).encode(), "--host", "claude-code")
    assert (code, given) == (0, "")


# --- Codex ------------------------------------------------------------------------------


def test_a_session_of_codex_is_replayed_as_hooks_would_have_captured_it(shop):
    run("codex")
    found: dict[str, list[str]] = {}
    for one in as_json("session", THREAD)["observations"]:
        found.setdefault(one["obs_type"], []).append(one["content"])
    assert found["user_prompt"] == [CODEX_PROMPT, "now make it faster\u2028please"]
    assert found["command_error"] == [
        "pytest tests/test_login.py\nAssertionError: login returned None"
    ]
    assert [text.split(" ")[0] for text in found["file_edit"]] == ["src/login.py,"]
    assert "pytest" in found["command"][0]
    assert found["mcp_call"] == ['tracker.get_issue {"number":7}']
    assert found["marker"] == ["Session: Fix the login"]
    assert found["session_compact"] != []
    assert [text[:20] for text in found["assistant_message"]] == [
        "The login test passe", "The password hash is",
    ]  # fmt: skip
    assert not any(
        "never imported" in text or "tabs" in text for all_ in found.values() for text in all_
    )


def test_prompts_of_sessions_that_codex_deleted_and_its_own_memory_are_imported(shop, user):
    codex = user / ".codex"
    with sqlite3.connect(codex / "state_6.sqlite") as database:
        database.execute("CREATE TABLE threads (id TEXT, title TEXT, cwd TEXT)")
        database.execute("INSERT INTO threads VALUES ('gone', '', ?)", [str(shop)])
    database.close()
    said = [
        {"session_id": "gone", "ts": 1_777_000_000, "text": "Why is the invoice rounded twice?"},
        {"session_id": "gone", "ts": 1_777_000_001, "text": "/status"},
        {"session_id": "nowhere", "ts": 1_777_000_002, "text": "In a folder that is not known"},
        {"session_id": THREAD, "ts": 1_777_000_003, "text": "In a session that is here"},
    ]
    (codex / "history.jsonl").write_bytes(jsonl(said))
    (codex / "memories").mkdir()
    own = codex / "memories" / "MEMORY.md"
    own.write_text(f"# Shop\n\nInvoices round once, at the end. {SECRET}\n", "utf-8")
    (codex / "memories" / "raw_memories.md").write_text("Not this one.\n", "utf-8")

    run("codex")
    prompts = rows("SELECT session_id, content FROM observations WHERE obs_type = 'user_prompt'")
    assert ("gone", "Why is the invoice rounded twice?") in prompts
    assert not [text for _, text in prompts if text.startswith(("/", "In a "))]
    assert rows("SELECT count(DISTINCT project) FROM observations") == [(1,)]
    (text,) = [text for text in texts("codex") if "Invoices" in text]
    assert text.startswith("Codex: MEMORY.md")
    assert SECRET not in text
    assert run("codex")["kept"] == 0
    own.write_text("# Shop\n\nInvoices round per line.\n", "utf-8")
    assert run("codex")["updated"] == 1


def test_a_session_that_hooks_captured_is_not_doubled(shop):
    event = {
        "session_id": THREAD, "cwd": str(shop), "hook_event_name": "UserPromptSubmit",
        "prompt": CODEX_PROMPT, "turn_id": "t", "model": "x", "permission_mode": "default",
    }  # fmt: skip
    record_here(json.dumps(event).encode(), "--host", "codex")
    ((moment,),) = rows("SELECT timestamp FROM observations")
    stamp = datetime.fromtimestamp(moment, UTC).isoformat()
    moved = [{**record, "timestamp": stamp} for record in rollout(str(shop))]
    (file,) = Path(os.environ["HOME"], ".codex", "sessions").rglob("*.jsonl")
    file.write_bytes(jsonl(moved))
    age(file)
    report = run("codex")
    assert report["observations"] == 0
    assert report["skipped"]["captured by hooks already"] > 5


def test_a_compressed_session_without_the_library_is_counted_and_read_later(shop, monkeypatch):
    import zstandard

    (file,) = Path(os.environ["HOME"], ".codex", "sessions").rglob("*.jsonl")
    packed = file.with_name(f"rollout-2026-04-01T10-00-00-{THREAD[:-1]}f.jsonl.zst")
    other = [{**record} for record in rollout(str(shop))]
    other[0]["payload"]["id"] = f"{THREAD[:-1]}f"
    packed.write_bytes(zstandard.compress(jsonl(other)))
    age(packed)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "zstandard", None)
        report = as_json("import", "codex", "--dry-run")
        reason = "compressed session: install zapomni[codex]"
        assert report["skipped"][reason] == 1
        file.unlink()
        refused = zapomni("import", "codex", "--dry-run")
        assert refused.returncode
        assert b"zapomni[codex]" in refused.stderr
    report = run("codex")
    assert reason not in report["skipped"]
    assert report["observations"] > 5


def test_a_session_cut_and_then_whole_is_imported_once(shop):
    (file,) = Path(os.environ["HOME"], ".codex", "sessions").rglob("*.jsonl")
    data = file.read_bytes()
    for end in (0, 100, 700, 2100, 3333, len(data) - 20, len(data)):
        file.write_bytes(data[:end])
        run("codex") if end != 0 else zapomni("import", "codex", "--yes")
    age(file)
    run("codex")
    cut = rows("SELECT obs_type, content FROM observations ORDER BY obs_type, content")
    batches = [one["id"] for one in as_json("import", "--batches")]
    for batch in batches:
        zapomni("import", "--undo", batch, "--yes")
    assert rows("SELECT count(*) FROM observations") == [(0,)]
    run("codex")
    assert rows("SELECT obs_type, content FROM observations ORDER BY obs_type, content") == cut


# --- on a server ------------------------------------------------------------------------


def test_a_server_stores_follows_links_and_gives_the_same(
    shop, user, falkordb_server, falkordb_graph, monkeypatch
):
    address = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"
    monkeypatch.setenv("ZAPOMNI_STORAGE", address)
    batches = [run(source)["batch"] for source in ("claude-memory", "instructions", "adr")]
    found = {one["metadata"]["number"]: one for one in listed("--tag", "adr", "--superseded")}
    assert found[2]["superseded_by"] == found[3]["memory_id"]
    for batch in batches:
        zapomni("import", "--trust", batch)
    zapomni("doctor")
    digested = {text for (text,) in rows("SELECT text FROM memory_digest")}
    assert any("Postgres" in text for text in digested)
    assert not any("linter" in text for text in digested)
    (fact,) = (user / ".claude" / "projects").rglob("real-database.md")
    fact.write_text(fact.read_text("utf-8").replace("a real database", "a copy of it"), "utf-8")
    assert run("claude-memory")["updated"] == 1
    assert [run(source)["batch"] for source in ("claude-memory", "instructions", "adr")] == [
        None
    ] * 3
    assert not any("a copy of it" in text for (text,) in rows("SELECT text FROM memory_digest"))

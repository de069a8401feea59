"""Readers of other programs' files: what each record becomes, and that damage never raises."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from project_shapes import git, repository
from source_files import (
    CODEX_PROMPT,
    DECISIONS,
    FACTS,
    PATCH,
    THREAD,
    jsonl,
    rollout,
    write_auto_memory,
    write_decisions,
    write_rollouts,
)
from zapomni_core.adapters.sources import (
    FormatError,
    ImportedEvent,
    ImportedMemory,
    SkippedRecord,
    SourceEnvironment,
    git_history,
)
from zapomni_core.adapters.sources.claude_memory import SOURCE as AUTO_MEMORY
from zapomni_core.adapters.sources.claude_memory import index_entries
from zapomni_core.adapters.sources.codex import SOURCE as CODEX
from zapomni_core.adapters.sources.decision_text import read_decision, replaced_records
from zapomni_core.adapters.sources.decisions import SOURCE as ADR
from zapomni_core.adapters.sources.git_history import SOURCE as GIT
from zapomni_core.adapters.sources.git_history import explanation, split_trailers
from zapomni_core.adapters.sources.instructions import SOURCE as INSTRUCTIONS


def environment(home: Path, folder: Path | None = None, path: Path | None = None):
    return SourceEnvironment(home, {}, folder or home, path)


def read_all(source, where):
    return [item for file in source.find(where) for item in source.read(file, 0)]


def memories(items):
    return [item for item in items if isinstance(item, ImportedMemory)]


def events(items):
    return [item for item in items if isinstance(item, ImportedEvent)]


def reasons(items):
    return [item.reason for item in items if isinstance(item, SkippedRecord)]


def age(path: Path) -> None:
    """Let a file look as if nothing had written to it for a day."""
    day_ago = time.time() - 86_400
    os.utime(path, (day_ago, day_ago))


# --- decision records -------------------------------------------------------------------


def test_both_forms_of_a_decision_record_are_read():
    found = {name: read_decision(name, text) for name, text in DECISIONS.items()}
    assert found["template.md"] is None
    assert found["README.md"] is None
    mysql, postgres = found["0002-use-mysql.md"], found["0003-use-postgres.md"]
    assert (mysql.number, mysql.title, mysql.status) == (2, "Use MySQL", "superseded")
    assert mysql.date == datetime(2026, 1, 15, tzinfo=UTC)
    assert mysql.text.startswith("ADR 2: Use MySQL\nStatus: Superseded by 3. Use Postgres\n")
    assert "Date: 2026-01-15" in mysql.text
    assert "mysqldump" in mysql.text
    assert (postgres.status, postgres.replaces) == ("accepted", ("0002-use-mysql.md",))
    madr, old = found["0004-queue-in-database.md"], found["0005-deploy-by-hand.md"]
    assert (madr.status, madr.deciders) == ("accepted", ("Anna", "Ben"))
    assert madr.date == datetime(2026, 4, 5, tzinfo=UTC)
    assert 'Chosen option: "A table in Postgres"' in madr.text
    assert (old.status, old.deciders, old.date) == (
        "rejected", ("Anna",), datetime(2026, 2, 1, tzinfo=UTC),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "status", "expected"),
    [
        ("0007-x.md", "Superseded by ADR-9", ("9",)),
        ("0007-x.md", "superseded by [ADR-0009](0009-y.md)", ("0009-y.md",)),
        ("0007-x.md", "Superceded by [9. Y](./0009-y.md)", ("0009-y.md",)),
        ("0007-x.md", "Replaced by 0009-y.md", ("0009-y.md",)),
        ("0007-x.md", "Superseded by 9 and #12", ("9", "12")),
        ("0007-x.md", "Accepted", ()),
    ],
)
def test_a_status_names_what_replaced_the_record(name, status, expected):
    record = read_decision(name, f"# X\n\n## Status\n\n{status}\n\n## Decision\n\nX.\n")
    assert record.replaced_by == expected


def test_what_replaces_what_is_the_same_from_either_side_and_never_a_circle():
    def record(name, status):
        return read_decision(name, f"# T {name}\n\n## Status\n\n{status}\n\n## Decision\n\nx\n")

    one = record("0001-a.md", "Superseded by 2")
    two = record("0002-b.md", "Supersedes ADR-0001; superseded by 3")
    three = record("0003-c.md", "Supersedes 2")
    circle = record("0004-d.md", "Supersedes 3; superseded by 3; superseded by 4")
    links = replaced_records([one, two, three, circle])
    assert links == {
        "0001-a.md": [], "0002-b.md": ["0001-a.md"], "0003-c.md": ["0002-b.md"],
        "0004-d.md": ["0003-c.md"],
    }  # fmt: skip


def test_records_of_a_repository_name_their_file_and_what_they_replace(tmp_path):
    repo = repository(tmp_path / "shop")
    write_decisions(repo / "docs" / "adr")
    items = read_all(ADR, environment(tmp_path, repo))
    found = {item.metadata["file"]: item for item in memories(items)}
    assert sorted(found) == [f"docs/adr/{name}" for name in sorted(DECISIONS)[:4]]
    assert all(item.kind == "decision" and item.follows for item in found.values())
    mysql, postgres = found["docs/adr/0002-use-mysql.md"], found["docs/adr/0003-use-postgres.md"]
    assert postgres.supersedes == (mysql.native_id,)
    assert mysql.cites == ("docs/adr/0002-use-mysql.md",)
    assert reasons(items) == ["no decision record"] * 2
    order = [item.native_id for item in memories(items)]
    assert order.index(mysql.native_id) < order.index(postgres.native_id)


@pytest.mark.parametrize("folder", ["ADR", "architecture-decision-record", "Docs/Decisions"])
def test_a_folder_of_records_may_be_written_in_capitals(tmp_path, folder):
    repo = repository(tmp_path / "shop")
    write_decisions(repo / folder)
    found = memories(read_all(ADR, environment(tmp_path, repo)))
    assert f"{folder}/0002-use-mysql.md" in {item.metadata["file"] for item in found}


def test_records_may_be_among_other_pages_about_the_architecture(tmp_path):
    folder = repository(tmp_path / "shop") / "docs" / "architecture"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Architecture\n", "utf-8")
    (folder / "adr-002-docs.md").write_text("# ADR 002: Docs\n\n## Decision\n\nX.\n", "utf-8")
    (found,) = memories(read_all(ADR, environment(tmp_path, tmp_path / "shop")))
    assert found.metadata["file"] == "docs/architecture/adr-002-docs.md"


def test_a_record_without_a_date_has_that_of_its_first_commit(tmp_path):
    repo = repository(tmp_path / "shop")
    (repo / "adr").mkdir()
    (repo / "adr" / "0001-x.md").write_text("# 1. X\n\n**Decision.** X.\n", "utf-8")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "x", "--date=2024-02-03T04:05:06Z")
    (repo / "adr" / "0001-x.md").write_text("# 1. X\n\n**Decision.** Y.\n", "utf-8")
    git(repo, "commit", "-qam", "y")
    (found,) = memories(read_all(ADR, environment(tmp_path, repo)))
    assert found.when == datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_the_records_of_this_repository_are_read():
    here = Path(__file__).parents[2]
    found = memories(read_all(ADR, environment(here, here)))
    assert len(found) == len(list((here / "docs" / "adr").glob("0*.md"))) > 25
    assert all(item.text.startswith("ADR ") for item in found)


# --- auto memory ------------------------------------------------------------------------


def test_facts_are_read_with_their_kinds_and_the_index_without_lines_of_files(tmp_path):
    folder = tmp_path / "work" / "my_shop"
    folder.mkdir(parents=True)
    write_auto_memory(tmp_path, folder)
    items = read_all(AUTO_MEMORY, environment(tmp_path))
    found = {item.native_id.rpartition("/")[2]: item for item in memories(items)}
    assert {item.folder for item in found.values()} == {str(folder)}
    assert all(item.follows for item in found.values())
    fact = found["real-database"]
    assert (fact.kind, fact.title) == ("preference", "real-database")
    assert fact.metadata["description"] == "integration tests and their database"
    assert fact.metadata["links"] == ["ci-setup"]
    assert found["ci-setup"].kind == "decision"
    lines = {key: item.text for key, item in found.items() if key.startswith("MEMORY.md#")}
    assert sorted(lines.values()) == [
        "Build: Node 22 is needed for the web page",
        "Build: The wheel is built with `make dist`\n  and signed by the release key",
    ]
    assert reasons(items) == ["index line of a file"]


def test_memories_of_agents_are_global_or_of_the_repository_they_are_in(tmp_path):
    repo = repository(tmp_path / "shop")
    for folder in (tmp_path / "home" / ".claude", repo / ".claude"):
        memory = folder / "agent-memory" / "reviewer"
        memory.mkdir(parents=True)
        (memory / "style.md").write_text(f"Of {folder.parent.name}.\n", "utf-8")
    (tmp_path / "home" / ".claude" / "projects").mkdir()
    found = memories(read_all(AUTO_MEMORY, environment(tmp_path / "home", repo)))
    assert {(one.text, one.project, one.folder) for one in found} == {
        ("Of home.", "*", ""), ("Of shop.", "", str(repo)),
    }  # fmt: skip
    assert len({one.native_id for one in found}) == 2
    assert {one.tags for one in found} == {("agent-reviewer",)}


def test_a_line_of_the_index_that_changes_at_its_end_stays_the_same_one():
    before = dict(index_entries("- Tests of the web page run with make test\n- Other\n"))
    after = dict(index_entries("- Tests of the web page run with make check\n- Other\n"))
    assert list(before) == list(after)
    assert before != after


def test_a_folder_is_found_by_its_name_where_no_session_names_it(tmp_path):
    folder = tmp_path / "a.b" / "my-shop_x"
    folder.mkdir(parents=True)
    memory = write_auto_memory(tmp_path, folder)
    (memory.parent / "s.jsonl").unlink()
    found = memories(read_all(AUTO_MEMORY, environment(tmp_path)))
    assert {item.folder for item in found} == {str(folder)}


# --- instructions -----------------------------------------------------------------------


def test_instructions_are_documents_with_the_hosts_that_load_them(tmp_path):
    repo = repository(tmp_path / "shop")
    (repo / "CLAUDE.md").write_text("# Shop\n\nSee @docs/style.md and @../outside.md.\n", "utf-8")
    (repo / "docs").mkdir()
    (repo / "docs" / "style.md").write_text("Use tabs.\n", "utf-8")
    (tmp_path / "outside.md").write_text("never read\n", "utf-8")
    rules = repo / ".cursor" / "rules"
    rules.mkdir(parents=True)
    (rules / "api.mdc").write_text("---\nglobs: src/api/**\n---\nNo globals.\n", "utf-8")
    (repo / "AGENTS.md").symlink_to("CLAUDE.md")
    (repo / "sub").mkdir()
    (repo / "sub" / "GEMINI.md").write_text("Short answers.\n", "utf-8")
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "CLAUDE.md").write_text("I like short answers.\n", "utf-8")

    found = {m.title: m for m in memories(read_all(INSTRUCTIONS, environment(home, repo)))}
    assert sorted(found) == [
        ".cursor/rules/api.mdc", "CLAUDE.md", "docs/style.md", "sub/GEMINI.md",
        "~/.claude/CLAUDE.md",
    ]  # fmt: skip
    assert {item.kind for item in found.values()} == {"document"}
    assert found["CLAUDE.md"].metadata["hosts"] == ["claude-code"]
    assert found[".cursor/rules/api.mdc"].metadata["paths"] == "src/api/**"
    assert found[".cursor/rules/api.mdc"].text == "No globals."
    assert (found["~/.claude/CLAUDE.md"].project, found["CLAUDE.md"].project) == ("*", "")


# --- git --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "is_memory"),
    [
        ("Fix typo", False),
        ("Fix typo\n\nSigned-off-by: A <a@example.org>", False),
        ("Fix login\n\nFixes #12", False),
        ("Fix login\n\nThe session was dropped because the cookie had no path.", True),
        ("Use Postgres\n\nMySQL locks whole tables while it migrates. Postgres does not.", True),
        ("Squash\n\n* one\n* two\n* three", False),
        ('Revert "x"\n\nThis reverts commit 0123456789abcdef0123456789abcdef01234567.', False),
        ("Drop v1\n\nBREAKING CHANGE: clients of the first version are refused", True),
    ],
)
def test_a_commit_is_a_memory_where_it_says_why(message, is_memory):
    subject, _, rest = message.partition("\n")
    body, trailers = split_trailers(rest)
    assert bool(explanation(subject, body, trailers)) is is_memory


def test_trailers_are_read_without_addresses():
    body, trailers = split_trailers(
        "\nWhy: it was slow.\n\nReviewed-by: Anna <anna@example.org>\nRefs: #1,\n  #2\n"
        "(cherry picked from commit 0123456789)\n"
    )
    assert body == "Why: it was slow."
    assert trailers == {"Reviewed-by": ["Anna"], "Refs": ["#1, #2"]}
    assert split_trailers("Note: this\nis a sentence") == ("Note: this\nis a sentence", {})


def test_commits_become_events_oldest_first_without_bots(tmp_path):
    repo = repository(tmp_path / "shop")
    git(repo, "commit", "-q", "--allow-empty", "-m",
        "Use uv\n\nBecause pip resolves too slowly on the small machine.")  # fmt: skip
    git(repo, "commit", "-q", "--allow-empty", "-m", "Bump x", "--author",
        "dependabot[bot] <1+dependabot[bot]@users.noreply.github.com>")  # fmt: skip
    items = read_all(GIT, environment(tmp_path, repo))
    assert reasons(items) == ["commit of a bot"]
    found = events(items)
    assert found[-1].payload["message"].startswith("Use uv\n\nBecause pip")
    assert found[-1].payload["event"] == "commit"
    (memory,) = memories(items)
    assert (memory.kind, memory.metadata["commit_hash"]) == ("commit", found[-1].payload["id"])


def test_only_the_newest_commits_are_read_and_the_others_counted(tmp_path, monkeypatch):
    repo = repository(tmp_path / "shop")
    for number in range(4):
        git(repo, "commit", "-q", "--allow-empty", "-m", f"commit {number}")
    every = len(git(repo, "rev-list", "HEAD").split())
    monkeypatch.setattr(git_history, "MOST_COMMITS", 3)
    (file,) = GIT.find(environment(tmp_path, repo))
    assert file.records == 3
    items = list(GIT.read(file, 0))
    assert items[0] == SkippedRecord("older than the newest 3 commits", every - 3)
    assert [one.payload["message"] for one in events(items)] == ["commit 1", "commit 2", "commit 3"]


def test_a_folder_without_commits_is_no_source_and_naming_it_says_so(tmp_path):
    assert GIT.find(environment(tmp_path)) == []
    with pytest.raises(FormatError, match="no git repository with commits"):
        GIT.find(environment(tmp_path, path=tmp_path))


# --- Codex ------------------------------------------------------------------------------


def test_a_rollout_becomes_what_hooks_would_have_reported(tmp_path):
    age(write_rollouts(tmp_path, Path("/w/shop")))
    items = read_all(CODEX, environment(tmp_path))
    by_name: dict[str, list[dict]] = {}
    for event in events(items):
        name = event.payload.get("hook_event_name", event.payload.get("event"))
        by_name.setdefault(name, []).append(event.payload)
    prompts = [payload["prompt"] for payload in by_name["UserPromptSubmit"]]
    assert prompts == [CODEX_PROMPT, "now make it faster\u2028please"]
    tools = {payload["tool_use_id"]: payload for payload in by_name["PostToolUse"]}
    assert tools["call_1"]["tool_response"]["metadata"] == {"exit_code": 1}
    assert tools["call_2"]["tool_input"] == {"input": PATCH}
    assert tools["call_3"]["tool_response"]["metadata"] == {"exit_code": 0}
    answers = [payload["last_assistant_message"] for payload in by_name["Stop"]]
    assert answers == [
        "The login test passes now: the session was never returned.",
        "The password hash is cached now.",
    ]
    assert [payload["text"] for payload in by_name["marker"]] == ["Session: Fix the login"]
    (summary,) = memories(items)
    assert (summary.kind, summary.parent) == ("summary", THREAD)
    assert "unknown record type brand_new_kind" in reasons(items)
    assert {event.branch for event in events(items)} == {"login"}


def test_a_session_that_goes_on_keeps_its_last_answer_until_it_is_quiet(tmp_path):
    file = write_rollouts(tmp_path, Path("/w/shop"))
    items = read_all(CODEX, environment(tmp_path))
    assert items[-1] == SkippedRecord("turn that has not ended", resume=1)
    early = {event.native_id for event in events(items)}
    age(file)
    late = {event.native_id for event in events(read_all(CODEX, environment(tmp_path)))}
    assert early < late


def test_a_compressed_rollout_reads_the_same(tmp_path):
    file = write_rollouts(tmp_path, Path("/w/shop"))
    age(file)
    plain = read_all(CODEX, environment(tmp_path))
    packed = file.with_name(f"{file.name}.zst")
    packed.write_bytes(zstandard.compress(file.read_bytes()))
    age(packed)
    file.unlink()
    assert read_all(CODEX, environment(tmp_path)) == plain


def test_a_small_archive_that_would_expand_without_end_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("zapomni_core.adapters.sources.codex.MAX_EXPANDED", 4 << 20)
    file = write_rollouts(tmp_path, Path("/w/shop"))
    record = b'{"timestamp":"2026-05-01T10:00:00Z","type":"world_state","payload":{}}\n'
    packed = file.with_name(f"{file.name}.zst")
    packed.write_bytes(zstandard.compress(file.read_bytes() + record * 150_000, 9))
    file.unlink()
    assert packed.stat().st_size < 20_000
    assert reasons(read_all(CODEX, environment(tmp_path)))[-1] == "archive that expands too far"


def test_an_agent_of_an_agent_has_no_prompts_and_none_of_its_inherited_records(tmp_path):
    records = rollout("/w/shop", parent_thread_id="p", agent_role="reviewer",
                      subagent_history_start_ordinal=12)  # fmt: skip
    for ordinal, record in enumerate(records):
        record["ordinal"] = ordinal
    file = write_rollouts(tmp_path, Path("/w/shop"))
    file.write_bytes(jsonl(records))
    age(file)
    items = read_all(CODEX, environment(tmp_path))
    found = events(items)
    assert {event.payload["agent_type"] for event in found} == {"reviewer"}
    assert "call_1" not in {event.payload.get("tool_use_id") for event in found}
    assert "UserPromptSubmit" not in {event.payload["hook_event_name"] for event in found}


def test_what_a_fork_copied_is_not_read_again(tmp_path):
    records = rollout("/w/shop", forked_from_id="019a2b3c-0000-7000-8000-00000000aaaa")
    for record in records[:15]:
        record["timestamp"] = records[0]["timestamp"]
    file = write_rollouts(tmp_path, Path("/w/shop"))
    file.write_bytes(jsonl(records))
    age(file)
    items = read_all(CODEX, environment(tmp_path))
    assert [e.payload["prompt"] for e in events(items) if "prompt" in e.payload] == [
        "now make it faster\u2028please"
    ]


def test_a_prompt_is_one_whichever_of_its_two_records_comes_first_or_alone(tmp_path):
    file = write_rollouts(tmp_path, Path("/w/shop"))
    records = rollout("/w/shop")
    first, second = records[5], records[6]
    found = []
    for order in ([first, second], [second, first], [first], [second]):
        lines = [records[0], *order, *records[8:]]
        if order == [first]:  # Then no other prompt is confirmed either.
            lines = [one for one in lines if one["payload"].get("type") != "user_message"]
        file.write_bytes(jsonl(lines))
        age(file)
        items = events(read_all(CODEX, environment(tmp_path)))
        found.append([one.native_id for one in items if "prompt" in one.payload])
    assert len(found[0]) == 2
    assert found == [found[0]] * 4


def test_a_rollout_of_the_first_versions_is_read(tmp_path):
    context = "<environment_context>\n<cwd>/w/old</cwd>\n</environment_context>"
    records = [
        {"id": THREAD, "timestamp": "2025-05-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        *(record["payload"] for record in (rollout("/w/old")[2], rollout("/w/old")[5])),
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Ok."}],
        },
    ]
    records[2]["content"][0]["text"] = context
    file = write_rollouts(tmp_path, Path("/w/old"))
    file.write_bytes(jsonl(records))
    age(file)
    found = events(read_all(CODEX, environment(tmp_path)))
    assert [one.payload["prompt"] for one in found if "prompt" in one.payload] == [CODEX_PROMPT]
    assert {one.folder for one in found if "prompt" in one.payload} == {"/w/old"}
    assert all(one.when == datetime(2025, 5, 1, 10, tzinfo=UTC) for one in found)


def test_another_file_in_the_folder_is_no_rollout(tmp_path):
    file = write_rollouts(tmp_path, Path("/w/shop"))
    file.write_text('{"some": "json"}\n', "utf-8")
    with pytest.raises(FormatError, match="no rollout"):
        read_all(CODEX, environment(tmp_path))
    with pytest.raises(FormatError, match="no rollout"):
        CODEX.find(environment(tmp_path, path=file.parent.parent / "nothing"))


# --- damage -----------------------------------------------------------------------------


def cut(data: bytes):
    """Every place in a small file, some places in a larger one."""
    step = max(len(data) // 400, 1)
    return range(0, len(data), step)


def test_a_rollout_cut_anywhere_never_raises_and_brings_nothing_else(tmp_path):
    file = write_rollouts(tmp_path, Path("/w/shop"))
    data = file.read_bytes()
    age(file)
    whole = {
        item.native_id
        for item in read_all(CODEX, environment(tmp_path))
        if hasattr(item, "native_id")
    }
    for end in cut(data):
        file.write_bytes(data[:end])
        items = read_all(CODEX, environment(tmp_path))
        found = [item.native_id for item in items if hasattr(item, "native_id")]
        assert len(found) == len(set(found))
        assert set(found) <= whole
    packed = zstandard.compress(data)
    file.unlink()
    file = file.with_name(f"{file.name}.zst")
    for end in range(0, len(packed), 7):
        file.write_bytes(packed[:end])
        read_all(CODEX, environment(tmp_path))
        file.write_bytes(packed[:end] + b"\xff" * 9 + packed[end:])
        read_all(CODEX, environment(tmp_path))


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_fact_cut_anywhere_stays_the_same_record(tmp_path, name):
    memory = write_auto_memory(tmp_path, tmp_path)
    for other in FACTS.keys() - {name}:
        (memory / other).unlink()
    whole = {item.native_id for item in memories(read_all(AUTO_MEMORY, environment(tmp_path)))}
    data = FACTS[name].encode()
    for end in cut(data):
        (memory / name).write_bytes(data[:end])
        found = [item.native_id for item in memories(read_all(AUTO_MEMORY, environment(tmp_path)))]
        assert len(found) == len(set(found))
        # The first words of a point may be what is cut.
        assert name == "MEMORY.md" or set(found) <= whole


@pytest.mark.parametrize("name", sorted(DECISIONS))
def test_a_decision_cut_anywhere_never_raises(name):
    for end in range(len(DECISIONS[name])):
        read_decision(name, DECISIONS[name][:end])


def test_links_out_of_a_repository_are_not_followed(tmp_path):
    outside = write_decisions(tmp_path / "private")
    (outside / "CLAUDE.md").write_text("never read", "utf-8")
    repo = repository(tmp_path / "shop")
    (repo / "docs").mkdir()
    (repo / "docs" / "adr").symlink_to(outside)
    (repo / ".claude").symlink_to(outside)
    (repo / "CLAUDE.md").symlink_to(outside / "CLAUDE.md")
    (repo / "AGENTS.md").write_text("@docs/adr/0002-use-mysql.md @/etc/hosts.md @~/x.md", "utf-8")
    assert read_all(ADR, environment(tmp_path, repo)) == []
    found = read_all(INSTRUCTIONS, environment(tmp_path / "home", repo))
    assert [one.title for one in memories(found)] == ["AGENTS.md"]
    assert read_all(AUTO_MEMORY, environment(tmp_path / "home", repo)) == []


def test_links_pipes_and_binary_files_are_not_read(tmp_path):
    folder = write_decisions(tmp_path / "adr")
    (folder / "0006-link.md").symlink_to(folder / "0002-use-mysql.md")
    (folder / "0007-binary.md").write_bytes(b"# 7. X\n\0\1\2")
    os.mkfifo(folder / "0008-pipe.md")
    (folder / "0009-large.md").write_bytes(b"# 9. X\n" + b"x" * (1 << 20))
    items = read_all(ADR, environment(tmp_path, path=folder))
    assert len(memories(items)) == 4
    assert sorted(reasons(items)) == [
        "no decision record",
        "no decision record",
        "no text",
        "too large",
    ]

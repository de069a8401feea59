"""The observation tools in both protocol eras, on what was really recorded."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from mcp.client import Client

from command import patient_hook
from observation_rows import observe, open_database
from serving import in_process, piped
from zapomni_core.infra.projects import project_of

pytestmark = pytest.mark.anyio

OTHER = "github.com/acme/other"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    return folder


@pytest.fixture
def here(workspace):
    return project_of(str(workspace)).key


@pytest.fixture
def db(private_home):
    connection = open_database(private_home / "zapomni.db")
    yield connection
    connection.close()


@pytest.fixture(params=["legacy", "2026-07-28"])
async def client(request, workspace):
    async with in_process(mode=request.param, every_tool=False) as connected:
        yield connected


async def call(client: Client, tool: str, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


async def test_the_tools_say_that_they_only_read(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name in ("search", "get_observations", "timeline", "recent_context"):
        tool = tools[name]
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.open_world_hint is False
        assert tool.title
        assert len(tool.description) > 100
        assert tool.output_schema["properties"]
        assert tool.input_schema["additionalProperties"] is False


async def test_search_then_timeline_then_get(client, db, here):
    before = observe(db, "user_prompt", "make auth work", project=here)
    hit = observe(db, "command_error", "cargo test -- auth failed", project=here,
                  metadata={"exit_code": 101}, tool_name="Bash")  # fmt: skip
    after = observe(db, "file_edit", "src/auth.rs", file_path="/w/src/auth.rs", project=here)
    (found,) = (await call(client, "search", query="cargo"))["result"]
    assert set(found) == {"id", "timestamp", "obs_type", "content_preview", "session_id"}
    around = await call(client, "timeline", anchor=found["id"], before=1, after=1)
    assert [o["id"] for o in around["before"]] == [before]
    assert around["anchor"]["id"] == hit
    assert [o["id"] for o in around["after"]] == [after]
    (whole,) = (await call(client, "get_observations", ids=[hit, 999_999]))["result"]
    assert whole["content"] == "cargo test -- auth failed"
    assert whole["metadata"] == {"exit_code": 101}
    assert (whole["project"], whole["tool_name"]) == (Path(here).name, "Bash")


async def test_no_project_means_this_one_and_null_means_all(client, db, here):
    own = observe(db, "command", "deploy here", project=here, age=50)
    other = observe(db, "command", "deploy there", project=OTHER, age=5)

    async def ids(**arguments):
        found = (await call(client, "search", query="deploy", **arguments))["result"]
        return [hit["id"] for hit in found]

    assert await ids() == [own]
    assert await ids(project="other") == [other]
    assert sorted(await ids(project=None)) == [own, other]
    assert await ids(project="unknown") == []
    recent = (await call(client, "recent_context"))["result"]
    assert [o["id"] for o in recent] == [own, other]
    assert (await call(client, "recent_context", project="unknown"))["result"] == []


async def test_order_time_file_and_failure_filters(client, db, here):
    old = observe(db, "file_edit", "kettle", file_path="/w/a/b.py", project=here, age=9 * 86_400)
    bad = observe(db, "command_error", "kettle", project=here, signature="s")

    async def ids(**arguments):
        found = (await call(client, "search", query="kettle", **arguments))["result"]
        return [hit["id"] for hit in found]

    assert await ids(order_by="recent") == [bad, old]
    assert await ids(order_by="blended") == [bad, old]
    assert await ids(file="a/b.py") == [old]
    assert await ids(failed=True) == [bad]
    assert await ids(obs_type="file_edit") == [old]
    assert await ids(before="2020-01-01") == []
    assert sorted(await ids(after="2020-01-01T00:00:00Z")) == [old, bad]
    assert len(await ids(limit=5000)) == 2


async def test_wrong_calls_are_explained(client, db, here):
    observe(db, "command", "x", project=here)
    assert "unbalanced quotes" in await refusal(client, "search", query='say "hello')
    assert "ids array must not be empty" in await refusal(client, "get_observations", ids=[])
    assert "at most 50" in await refusal(client, "get_observations", ids=list(range(51)))
    assert "anchor observation not found" in await refusal(client, "timeline", anchor=999)
    assert "Unknown arguments" in await refusal(client, "search", query="x", projekt="y")
    assert (await call(client, "get_observations", ids=[998, 999]))["result"] == []
    assert (await call(client, "search", query="nowhere"))["result"] == []


async def test_before_anything_is_recorded_answers_are_empty_and_no_file_is_made(
    client, private_home
):
    assert (await call(client, "search", query="anything"))["result"] == []
    assert (await call(client, "recent_context"))["result"] == []
    assert "unbalanced quotes" in await refusal(client, "search", query='"')
    assert not (private_home / "zapomni.db").exists()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_what_hooks_record_is_found_and_pushed_back(mode, workspace):
    def record(**event) -> str:
        payload = {"session_id": "s-1", "cwd": str(workspace), **event}
        done = subprocess.run(
            patient_hook("claude-code"),
            input=json.dumps(payload).encode(), capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    record(hook_event_name="UserPromptSubmit", prompt="teach the parser about commas")
    record(
        hook_event_name="PostToolUse",
        tool_name="Edit",
        tool_input={
            "file_path": str(workspace / "parser.py"),
            "old_string": "a",
            "new_string": "b",
        },
        tool_response={},
    )
    told = record(hook_event_name="SessionStart", source="compact", session_id="s-2")
    context = json.loads(told)["hookSpecificOutput"]["additionalContext"]
    assert context.startswith("## zapomni: Recent Context")
    assert "teach the parser about commas → 1 action" in context
    assert "parser.py" in context
    async with piped(mode=mode, cwd=workspace) as client:
        (prompt,) = (await call(client, "search", query="commas"))["result"]
        (edit,) = (await call(client, "search", query="parser*", obs_type="file_edit"))["result"]
        around = await call(client, "timeline", anchor=edit["id"])
    assert prompt["obs_type"] == "user_prompt"
    assert around["before"][-1]["id"] == prompt["id"]
    assert around["anchor"]["prompt_id"] == prompt["id"]

"""What the tools cost a session: descriptions, schemas and answers, counted as JSON bytes / 4."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from observation_rows import observe, open_database
from serving import in_process
from zapomni_core.infra.projects import project_of
from zapomni_core.settings import load_settings
from zapomni_core.shared.fencing import DATA_NOTICE

pytestmark = pytest.mark.anyio

TOOLS_TOKENS = 2600
SCHEMAS_TOKENS = 5600
RECENT_TOKENS = 900


@pytest.fixture
async def client(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    async with in_process() as connected:
        yield connected


def tokens(value: Any) -> float:
    text = value if isinstance(value, str) else json.dumps(value)
    return len(text.encode()) / 4


def first_words(description: str) -> set[str]:
    line = description.splitlines()[0].lower()
    return {word for word in "".join(c if c.isalnum() else " " for c in line).split() if word[3:]}


def empty_fields(value: Any, place: str = "") -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in empty_fields(item, f"{place}[]")]
    if not isinstance(value, dict):
        return [place] if value is None or value == "" else []
    found = [f"{place}.{key}" for key, item in value.items() if item in ([], {})]
    return found + [f for key, item in value.items() for f in empty_fields(item, f"{place}.{key}")]


# --- Before any call ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_usual_tools_cost_a_session_2600_tokens(mode):
    async with in_process(mode=mode, every_tool=False) as client:
        listed = await client.list_tools()
    whole = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
    compact = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
    assert tokens(compact) <= SCHEMAS_TOKENS
    for tool in whole["tools"]:
        del tool["outputSchema"]
    assert tokens(json.dumps(whole, separators=(",", ":"), ensure_ascii=False)) <= TOOLS_TOKENS


async def test_the_two_searches_cannot_be_confused_by_their_first_lines(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    memories, actions = tools["search_memory"], tools["search"]
    assert not first_words(memories.description) & first_words(actions.description)
    assert memories.title != actions.title
    assert "search_memory" in actions.description


async def test_every_field_of_every_schema_says_what_it_is(client):
    def untyped(schema: Any, place: str) -> list[str]:
        if "properties" not in schema:
            return []
        return [
            f"{place}.{name}"
            for name, field in schema["properties"].items()
            if not field.keys() & {"type", "$ref", "anyOf", "enum"}
        ]

    for tool in (await client.list_tools()).tools:
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            parts = {tool.name: schema, **schema.get("$defs", {})}
            assert [u for place, part in parts.items() for u in untyped(part, place)] == []


async def test_limits_that_are_not_listed_are_enforced(client):
    listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    assert "maxLength" not in listed["add_memory"]["properties"]["project"]
    refused = await client.call_tool("add_memory", {"text": "x", "project": "p" * 1001})
    assert refused.is_error
    assert "VAL_003" in refused.content[0].text
    # Models send null for what they leave out, whether it is offered or not.
    added = await client.call_tool("add_memory", {"text": "x", "tags": None})
    assert not added.is_error


# --- Answers ------------------------------------------------------------------------------


async def test_every_answer_is_marked_as_quoted_fits_its_schema_and_has_no_empty_field(client):
    with closing(open_database(load_settings().database_path)) as db:
        here = project_of(".").key
        seen = observe(db, "command", "boil the kettle", project=here)
    (load_settings().home.parent.parent / "shop" / "a.py").write_text("def boil():\n    pour()\n")
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    answers: dict[str, dict[str, Any]] = {}

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, (tool, result.content)
        answers[tool] = result.structured_content
        return result.structured_content

    metadata = {"kept": None, "as": "", "it": [], "is": {}}
    added = await call("add_memory", text="Alice Novak works at Acme.", metadata=metadata)
    memory_id = added["memory_id"]
    assert (await call("get_memory", memory_id=memory_id)).pop("metadata") == metadata
    await call("search_memory", query="who works at Acme")
    await call("get_stats")
    task = (await call("build_graph"))["task_id"]
    done = await call("get_task_status", task_id=task, wait_seconds=300)
    assert done["status"] == "completed"
    await call("get_related", entity="Acme")
    assert await call("find_path", source="Alice Novak", target="Acme")
    await call("find_entities", query="Acme")
    await call("graph_status")
    await call("merge_entities", source="Alice Novak", into="Acme")
    await call("undo_merge")
    Path((await call("export_graph"))["path"]).unlink()  # noqa: ASYNC240 - a moment
    task = (await call("index_codebase"))["task_id"]
    await call("get_task_status", task_id=task, wait_seconds=300)
    await call("search_code", query="boil")
    await call("outline", path="a.py")
    await call("get_symbol", name="boil")
    await call("find_callers", name="boil")
    await call("find_callees", name="boil")
    await call("search", query="kettle")
    await call("get_observations", ids=[seen])
    await call("timeline", anchor=seen)
    await call("recent_context")
    await call("update_memory", memory_id=memory_id, tags=["people"])
    await call("get_history", memory_id=memory_id)
    await call("cancel_task", task_id=task)
    await call("review_memories")
    await call("delete_memory", memory_id=memory_id)

    assert answers.keys() == schemas.keys()
    for tool, answer in answers.items():
        assert answer["data_notice"] == DATA_NOTICE, tool
        Draft202012Validator(schemas[tool]).validate(answer)
        # The list that an answer is about is there even if it is empty.
        own = {f".{name}" for name in schemas[tool]["required"]}
        inside = {place for place in empty_fields(answer) if ".fields" not in place}
        assert inside <= own, tool


async def test_35_recent_observations_are_read_for_900_tokens(client):
    here = project_of(".").key
    texts = [
        "please make the parser accept commas at the end of a list, and do not change its speed "
        * 5,
        "src/packages/parser/grammar/expressions.py +12 -3 in def parse_list: while self.peek()",
        "error[E0433]: failed to resolve <tokio>\ncargo test --workspace --all-features -- auth",
        "žluťoučký kůň úpěl ďábelské ódy " * 20,
        "ls",
    ]
    kinds = ["user_prompt", "file_edit", "command_error", "git_commit", "command"]
    with closing(open_database(load_settings().database_path)) as db:
        ids = [
            observe(db, kinds[n % 5], texts[n % 5], project=here, age=(40 - n) * 1200,
                    metadata={"output": "x" * 300}, tool_name="Bash")
            for n in range(40)
        ]  # fmt: skip

    result = await client.call_tool("recent_context", {"limit": 35})

    found = result.structured_content["result"]
    assert [item["id"] for item in found] == ids[:-36:-1]
    assert tokens(json.dumps(result.structured_content, ensure_ascii=False)) <= RECENT_TOKENS
    assert tokens(result.content[0].text) <= RECENT_TOKENS
    assert {item["content"] for item in found if item["obs_type"] == "command"} == {"ls"}
    (edit,) = {item["content"] for item in found if item["obs_type"] == "file_edit"}
    assert edit.startswith("…/grammar/expressions.py +12")
    (prompt,) = {item["content"] for item in found if item["obs_type"] == "user_prompt"}
    assert prompt.startswith("please make the parser accept")
    times = [item["timestamp"] for item in found if "timestamp" in item]
    assert "timestamp" in found[0]
    assert all(before - after >= 3600 for before, after in itertools.pairwise(times))


async def test_a_few_recent_observations_are_shown_at_length_with_their_project(client):
    text = "teach the parser about commas and everything else that may follow a value in a list"
    with closing(open_database(load_settings().database_path)) as db:
        observe(db, "user_prompt", text, project=project_of(".").key)
        observe(db, "command", "make", project="github.com/acme/other", age=90)

    own, other = (await client.call_tool("recent_context", {})).structured_content["result"]

    assert (own["content"], "project" in own) == (text, False)
    assert (other["content"], other["project"]) == ("make", "other")


async def test_a_search_says_how_sure_it_is_and_shortens_what_is_not_close(client):
    text = "The staging database listens on port 5433." + " It is slow on Mondays." * 20
    await client.call_tool("add_memory", {"text": text})
    near = await client.call_tool("search_memory", {"query": "staging database port"})
    (hit,) = near.structured_content["results"]
    assert (hit["evidence_word"], hit["text"]) == ("strong", text)
    assert hit["evidence"] >= 0.65
    far = await client.call_tool(
        "search_memory", {"query": "penguins hatch slow on ice shelves near colonies"}
    )
    (hit,) = far.structured_content["results"]
    assert hit["evidence_word"] == "none"
    assert len(hit["text"]) <= 120
    assert hit["truncated"]
    assert "Nothing close" in far.structured_content["note"]
    assert "Nothing close" in far.content[0].text

"""Characters that cheat the eye, the ends of the calendar, NUL, and changes that change nothing."""

from __future__ import annotations

import json

import pytest
from mcp.client import Client

from command import answer, as_json, on_terminal, refused
from serving import in_process
from zapomni_cli.output import clean

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_model")]

# Right-to-left override, isolates, marks, zero-width space and joiners, soft hyphen, byte order
# mark, tag characters, Hangul filler, invisible operators, a variation selector after a letter.
UNSEEN = [
    *"\u202e\u202d\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u200b\u200c\u200d\u00ad\ufeff\u2060",
    *"\U000e0041\U000e007f\u3164\u2063\u034f\u180e\u2028\u2029",
    "a\ufe0f",
]
# On their own in no terminal's way: accents, other scripts, emoji with their own selector.
SEEN = "é ö 日本 مرحبا שלום ⚠️ ❤️ 1️⃣ नमस्ते ☎︎"
SPLIT = ("9999-12-31", "0001-01-01", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00")


def unseen_in(shown: str) -> list[str]:
    return [f"{ord(c):x}" for c in shown if any(c == one[-1] for one in UNSEEN)]


@pytest.mark.parametrize("character", UNSEEN, ids=lambda c: f"{ord(c[-1]):x}")
def test_a_character_one_cannot_see_is_written_as_an_escape(character):
    assert (
        clean(f"pay {character}now") == f"pay {character[:-1]}{json.dumps(character[-1])[1:-1]}now"
    )


def test_what_one_can_see_stays():
    assert clean(SEEN) == SEEN


def test_no_unseen_character_reaches_a_terminal(private_home):
    text = "invoice " + " ".join(UNSEEN) + " paid"
    stored = answer("add", text, "--source", "bank\u202e", "--tag", "x\u200by").strip()
    answer("record", given=json.dumps({
        "session_id": "s", "cwd": "/x\u202e", "hook_event_name": "UserPromptSubmit",
        "prompt_id": "p", "prompt": "the invoice\u2066",
    }).encode())  # fmt: skip
    commands = [
        ("search", "invoice"), ("search", "invoice", "--explain"), ("search", "invoice", "--json"),
        ("get", stored), ("get", stored, "--json"), ("list",), ("history", stored), ("recent",),
        ("sessions",), ("projects",), ("context",), ("get", "no\u202esuch"),
        ("search", "invoice", "--kind", "\u202ekind"), ("serch\u202e",),
        ("add", "x", "--ki\u202end"), ("add", "--file", "no\u202efile"),
        ("index", "/no\u202efolder"),
        ("graph", "show", "x\u202e"),
    ]  # fmt: skip
    for command in commands:
        _, shown = on_terminal(*command)
        assert unseen_in(shown) == [], command
    _, shown = on_terminal("get", stored)
    assert "\\u202e" in shown


def test_programs_get_every_character_as_it_is(private_home):
    text = "invoice " + " ".join(UNSEEN) + " paid"
    stored = answer("add", text).strip()

    assert answer("get", stored) == text
    assert as_json("get", stored)["text"] == text
    _, shown = on_terminal("get", stored, "--json")
    assert json.loads(shown)["text"] == text
    assert unseen_in(answer("search", "invoice")) == []


async def refuse(client: Client, tool: str, code: str, **arguments) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, (tool, arguments)
    told = result.content[0].text
    assert code in told, (tool, arguments, told)
    return told


@pytest.mark.parametrize("moment", SPLIT)
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
def test_commands_refuse_the_ends_of_the_calendar(private_home, moment, zone):
    for command in (
        ("add", "a note", "--when", moment),
        ("search", "note", "--since", moment),
        ("search", "note", "--until", moment),
        ("search", "note", "--as-of", moment),
        ("list", "--since", moment),
        ("graph", "related", "Ada", "--as-of", moment),
        ("purge", "--older-than", moment),
    ):
        assert "use " in refused(2, *command, TZ=zone)


async def test_tools_refuse_the_ends_of_the_calendar_and_nul(private_home):
    async with in_process(mode="auto") as client:
        added = await client.call_tool("add_memory", {"text": "a note"})
        memory_id = added.structured_content["memory_id"]
        for moment in (*SPLIT, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"):
            await refuse(client, "add_memory", "VAL_00", text="x", occurred_at=moment)
            for name in ("since", "until", "as_of", "known_at"):
                await refuse(client, "search_memory", "VAL_00", query="x", **{name: moment})
            await refuse(client, "get_related", "VAL_00", entity="Ada", as_of=moment)
            await refuse(client, "get_history", "VAL_00", memory_id=memory_id, as_of=moment)
            await refuse(client, "search", "VAL_00", query="x", date_from=moment)
        nul = "a\0b"
        await refuse(client, "add_memory", "VAL_004", text=nul)
        for name in ("project", "source", "kind", "parent", "supersedes", "idempotency_key"):
            await refuse(client, "add_memory", "VAL_004", text="x", **{name: nul})
        await refuse(client, "add_memory", "VAL_004", text="x", tags=[nul])
        await refuse(client, "add_memory", "VAL_004", text="x", metadata={"a": [{"b": nul}]})
        await refuse(client, "add_memory", "VAL_004", text="x", metadata={nul: 1})
        await refuse(client, "update_memory", "VAL_004", memory_id=memory_id, text=nul)
        await refuse(client, "search_memory", "VAL_004", query=nul)
        await refuse(client, "search_memory", "VAL_004", query="x", project=nul)
        for tool in ("get_memory", "delete_memory"):
            await refuse(client, tool, "VAL_004", memory_id=nul)
        await refuse(client, "get_related", "VAL_004", entity=nul)
        await refuse(client, "get_task_status", "VAL_004", task_id=nul)
        await refuse(client, "search", "VAL_004", query=nul)
        found = await client.call_tool("search_memory", {"query": "9999-12-31 or 0001-01-01 note"})
        assert not found.is_error, found.content
        assert found.structured_content["results"]


def test_a_nul_in_a_file_or_in_the_input_is_refused(private_home, tmp_path):
    assert "NUL" in refused(2, "add", "-", given=b"a\0b")
    assert "NUL" in refused(2, "add", "x", "--metadata", '{"a": "b\\u0000"}')


async def test_an_update_without_a_change_is_refused(private_home):
    stored = answer("add", "a note").strip()
    refused(2, "update", stored)
    async with in_process(mode="auto") as client:
        told = await refuse(client, "update_memory", "VAL_001", memory_id=stored)
        assert "Nothing to change" in told
        await refuse(client, "update_memory", "VAL_001", memory_id=stored, text="")
        for change in ({"pinned": False}, {"tags": []}, {"project": ""}, {"cites": []}):
            result = await client.call_tool("update_memory", {"memory_id": stored, **change})
            assert not result.is_error, (change, result.content)

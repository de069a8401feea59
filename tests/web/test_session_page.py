"""A session's story, its changes, and the list of sessions, without a browser."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from site_client import Client

from command import as_json, record_here
from zapomni_core.settings import load_settings

SESSION = "22222222-2222-4333-8444-555555555555"


def event(name: str, number: int, **more: object) -> dict[str, object]:
    return {
        "session_id": SESSION,
        "cwd": str(Path.cwd()),
        "transcript_path": "",
        "hook_event_name": name,
        "tool_use_id": str(number),
        **more,
    }


def run(number: int, command: str, output: str = "", *, failed: bool = False) -> dict[str, object]:
    call = {"tool_name": "Bash", "tool_input": {"command": command}}
    if failed:
        return event("PostToolUseFailure", number, **call, error=f"Exit code 1\n{output}")
    return event("PostToolUse", number, **call, tool_response={"stdout": output, "stderr": ""})


def edit(number: int, path: Path) -> dict[str, object]:
    given = {"file_path": str(path), "old_string": "never", "new_string": f"always {number}"}
    return event(
        "PostToolUse",
        number,
        tool_name="Edit",
        tool_input=given,
        tool_response={"filePath": str(path)},
    )


def read(number: int, path: Path) -> dict[str, object]:
    return event(
        "PostToolUse",
        number,
        tool_name="Read",
        tool_input={"file_path": str(path)},
        tool_response={"file": {"content": "x", "numLines": 1}},
    )


@pytest.fixture
def own(private_home, tmp_path, monkeypatch):
    """A site of its own, with one session: a failure that is fixed, a commit, an outcome."""
    monkeypatch.chdir(tmp_path)
    auth = tmp_path / "auth.py"
    events = [
        event("SessionStart", 0, source="startup"),
        event("UserPromptSubmit", 1, prompt="Why do tokens never expire?"),
        read(2, auth),
        read(3, tmp_path / "tokens.py"),
        run(4, "pytest -q", "FAILED test_tokens.py::test_expiry - AssertionError", failed=True),
        edit(5, auth),
        run(6, "pytest -q", "12 passed"),
        run(7, "mypy src", "error: incompatible type", failed=True),
        run(8, "git commit -m 'Let tokens expire'", "[main abc1234] Let tokens expire"),
        event("Stop", 9, last_assistant_message="Tokens expire after an hour now."),
    ]
    for one in events:
        record_here(json.dumps(one).encode(), "--host", "claude-code")
    with Client(load_settings()) as site:
        yield site


def number_of(site: Client, obs_type: str) -> int:
    """Return the id of the session's first observation of a type."""
    story = site.json(f"/s/{SESSION}.json")["observations"]
    return next(one["id"] for one in story if one["obs_type"] == obs_type)


def test_a_session_is_a_story_from_the_prompt_to_the_outcome(own):
    page = own.get(f"/s/{SESSION}")

    assert re.search(r"<h1>Why do tokens never expire\?</h1>", page.text)
    order = [
        "Asked",
        "Read 2 files",
        "failed",
        "edited auth.py",
        "committed Let tokens expire",
        "Outcome",
        "Tokens expire after an hour now.",
    ]
    story = page.shown[page.shown.index("Story") :]
    places = [story.index(words) for words in order]
    assert places == sorted(places)


def test_a_failure_says_what_fixed_it_or_that_nothing_did(own):
    page = own.get(f"/s/{SESSION}?only=failures")

    assert re.search(r"pytest -q.*Fixed: passed .* later, after .*auth\.py changed\.", page.shown)
    assert re.search(r"mypy src.*Not seen to pass in this session\.", page.shown)
    assert "2 failures , 1 open" in page.shown
    assert "Committed Let tokens expire Files changed auth.py" in page.shown
    assert "committed" not in page.shown[page.shown.index("Not seen") :]


def test_every_observation_has_its_anchor_and_is_shown_whole_when_opened(own):
    ids = [one["id"] for one in own.json(f"/s/{SESSION}.json")["observations"]]
    page = own.get(f"/s/{SESSION}").text
    assert all(f'id="o{number}"' in page for number in ids)

    opened = own.get(f"/s/{SESSION}?at={number_of(own, 'file_edit')}")

    assert "always 5" in opened.shown
    assert "always 5" not in own.get(f"/s/{SESSION}").shown


def test_json_is_what_session_prints_and_the_beginning_of_an_id_is_enough(own):
    assert own.json(f"/s/{SESSION[:8]}.json") == as_json("session", SESSION)
    assert own.json("/sessions.json") == as_json("sessions", "--all")


def test_a_long_session_has_pages_and_an_observation_is_found_on_its_own(own, tmp_path):
    for number in range(100, 170):
        record_here(json.dumps(edit(number, tmp_path / f"file{number}.py")).encode())
    first = own.get(f"/s/{SESSION}")
    last = as_json("session", SESSION)["observations"][-1]["id"]
    assert f'id="o{last}"' not in first.text
    assert "1 to 60 of" in first.shown

    assert f'id="o{last}"' in own.get(f"/s/{SESSION}?at={last}").text
    second = own.get(f"/s/{SESSION}?from=60")
    assert f'id="o{last}"' in second.text
    assert "Asked, continued Why do tokens never expire?" in second.shown
    shown = own.json(f"/s/{SESSION}.json?from=60")
    assert shown == as_json("session", SESSION, "--limit", "60", "--offset", "60")
    assert 'href="/s/' + SESSION in own.get("/sessions").text


def test_an_observation_is_pinned_and_that_is_undone(own):
    number = number_of(own, "assistant_message")

    done = own.follow(own.post(f"/s/{SESSION}/pin", {"pin": str(number)}))

    assert f"Pinned #{number}" in done.shown
    assert "Pinned 1" in done.shown
    assert number_of(own, "assistant_message") == number
    own.undo(done)
    assert "Pinned 1" not in own.get(f"/s/{SESSION}").shown
    own.post(f"/s/{SESSION}/pin", {"pin": "12²"}, status=404)
    own.post(f"/s/{SESSION}/pin", {"pin": "999999"}, status=404)


def test_a_memory_is_made_of_an_observation(own):
    number = number_of(own, "assistant_message")
    assert f"/add?observation={number}" in own.get(f"/s/{SESSION}").text

    form = own.get(f"/add?observation={number}")

    assert "Tokens expire after an hour now." in form.shown
    assert f"session {SESSION}" in form.text


def test_purging_a_session_asks_first_and_leaves_nothing(own):
    question = own.get(f"/s/{SESSION}/purge")
    assert "Why do tokens never expire?" in question.shown
    assert "cannot be undone" in question.shown

    done = own.follow(own.post(f"/s/{SESSION}/purge"))

    assert "Purged" in done.shown
    own.get(f"/s/{SESSION}", 404)
    assert as_json("sessions", "--all") == []


def test_sessions_are_listed_by_day_and_can_be_limited(own):
    page = own.get("/sessions")
    assert re.search(r"Today Why do tokens never expire\?", page.shown)
    assert "1 prompt 1 edit 2 failures 1 commit" in page.shown

    assert own.json("/sessions.json?host=claude-code&since=1d")[0]["session_id"] == SESSION
    assert own.json("/sessions.json?host=codex") == []
    assert own.json("/sessions.json?until=7d") == []
    assert "No session passes these filters" in own.get("/sessions?host=codex").shown


def test_an_empty_home_says_how_sessions_come_to_be(empty):
    page = empty.get("/sessions")

    assert "No session is recorded yet" in page.shown
    assert "zapomni init" in page.shown
    empty.get("/s/unknown", 404)


def test_a_long_talk_is_cut_so_that_the_page_stays_light(own):
    for number in range(200, 260):
        said = f"Question {number}. " + "Why is that so? " * 60
        one = event("UserPromptSubmit", number, prompt=said)
        record_here(json.dumps(one).encode(), "--host", "claude-code")

    page = own.get(f"/s/{SESSION}?from=0")

    assert page.shown.count("Asked") > 45
    assert len(page.body) < 80_000


def test_a_person_follows_a_session_live_and_pins_what_matters(tab, home):
    page = tab.page
    number = 4
    # A link to an observation that this view does not show leads to where it is shown.
    tab.open(f"/s/{home.session}?only=prompts#o{number}")
    page.wait_for_url(f"**/s/{home.session}?at={number}#o{number}")
    with page.expect_request("**/events", timeout=60_000):
        tab.open(f"/s/{home.session}")
    # A stream that has just been opened reads the state first.
    time.sleep(1.5)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZAPOMNI_HOME", str(home.folder))
        one = {
            **event("UserPromptSubmit", 99, prompt="And now make it live."),
            "session_id": home.session,
            "cwd": str(home.repository),
        }
        record_here(json.dumps(one).encode(), "--host", "claude-code")
    page.get_by_text("And now make it live.").wait_for(timeout=60_000)

    page.locator(".asked").last.hover()
    page.locator(".asked").last.get_by_role("button", name="Pin").click()
    page.get_by_role("status").get_by_text("Pinned #").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("status").get_by_text("as it was").wait_for()

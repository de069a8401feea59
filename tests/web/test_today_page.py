"""Today and the timeline, without a browser."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from pathlib import Path

import pytest
from site_client import Client
from test_session_page import SESSION, edit, event, run

from command import add, as_json, record_here, zapomni
from zapomni_core.settings import load_settings


@pytest.fixture
def own(private_home, tmp_path, monkeypatch):
    """A site of its own, with one session whose failure came back, and one memory."""
    monkeypatch.chdir(tmp_path)
    for one in [
        event("UserPromptSubmit", 1, prompt="Make the build pass."),
        run(2, "make build", "error: missing header", failed=True),
        edit(3, tmp_path / "header.py"),
        run(4, "make build", "error: missing header", failed=True),
    ]:
        record_here(json.dumps(one).encode(), "--host", "claude-code")
    add("Builds need the header.", "--kind", "fact")
    with Client(load_settings()) as site:
        yield site


def day_of_session() -> datetime:
    (session,) = as_json("sessions", "--all")
    return datetime.fromtimestamp(session["last_at"]).astimezone()


def test_today_is_the_first_page(site):
    assert site.raw("GET", "/", site.own_headers()).headers["location"] == "/today"


def test_today_shows_what_goes_on_what_is_open_and_what_is_captured(own):
    page = own.get("/today")

    assert "Now Make the build pass. live" in page.shown
    assert re.search(r"Still failing make build 2 times .* never seen to pass", page.shown)
    assert f"/s/{SESSION}?at=" in page.text
    assert "Remembered last Builds need the header." in page.shown
    assert re.search(r"Claude Code last event (just now|\d+ minutes? ago)", page.shown)
    assert "1 memory 1 session 4 observations" in page.shown


def test_a_failure_that_passed_since_is_not_open(own):
    record_here(json.dumps(run(5, "make build", "done")).encode(), "--host", "claude-code")

    assert "Still failing" not in own.get("/today").shown


def test_a_host_that_was_not_heard_of_for_long_is_marked(own):
    def age(connection):
        old = int(time.time()) - 9 * 86_400
        connection.execute("UPDATE sessions SET last_at = ?", (old,))
        connection.execute("UPDATE capture_counters SET last_at = ?", (old,))

    own.run(own.engine.observations._file.write(age))
    page = own.get("/today")

    assert "Claude Code last event 9 days ago" in page.shown
    assert 'class="dot warn"' in page.text
    assert "Last sessions Make the build pass." in page.shown


def test_an_empty_home_says_what_to_do_and_what_can_be_imported(empty, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    folder = tmp_path / ".claude" / "projects" / "-shop"
    folder.mkdir(parents=True)
    said = {"role": "user", "content": "Make the build pass."}
    line = {
        "type": "user",
        "sessionId": SESSION,
        "uuid": "1",
        "cwd": str(tmp_path),
        "timestamp": "2026-10-01T10:00:00Z",
        "message": said,
    }
    (folder / f"{SESSION}.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")

    page = empty.get("/today")

    assert "Nothing is remembered yet" in page.shown
    assert "zapomni init" in page.shown
    assert "zapomni import claude-code" in page.shown
    assert 'href="/add"' in page.text


def test_the_heat_map_counts_what_was_done_per_day_and_project(own):
    day = day_of_session()
    today = f"{day:%Y-%m-%d}"
    name = Path.cwd().name

    found = own.json("/timeline.json")
    page = own.get("/timeline")

    assert found["days"] == {name: {today: 4}}
    assert f"{name}, {day:%a %d %b}: 4" in page.shown
    assert f"/timeline?day={today}&amp;project={name}" in page.text
    assert re.search(r"Make the build pass\..*Builds need the header\.", page.shown)


def test_the_list_of_a_day_has_its_sessions_and_memories_alone(own):
    zapomni("add", "Something from spring.", "--when", "2026-03-02")
    today = f"{day_of_session():%Y-%m-%d}"

    assert own.json(f"/timeline.json?day={today}")["sessions"] == as_json("sessions", "--all")
    spring = own.get("/timeline?day=2026-03-02")
    assert "Something from spring." in spring.shown
    assert "Make the build pass." not in spring.shown
    assert own.json("/timeline.json?day=2026-03-02")["sessions"] == []
    assert "use a day" in own.get("/timeline?day=spring", 400).shown


def test_older_weeks_are_one_press_away_and_come_back(own):
    page = own.get("/timeline")
    older = re.search(r'href="(/timeline\?end=[\d-]+)" rel="next"', page.text)
    assert older is not None
    before = own.get(older[1])

    assert "Nothing happened then" in before.shown
    newer = re.search(r'href="(/timeline[^"]*)" rel="prev"', before.text)
    assert newer is not None
    assert "Make the build pass." in own.get(newer[1]).shown

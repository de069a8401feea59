"""Tasks, health and settings, without a browser."""

from __future__ import annotations

import tomllib

import pytest
from site_client import Client

from command import UNKNOWN, add, as_json, zapomni
from zapomni_core.exceptions import ValidationError
from zapomni_core.settings import explain_settings, load_settings
from zapomni_web.pages.tasks import _shown

TOKEN = "not-a-real-key-0123456789"


@pytest.fixture
def own(private_home):
    """A site of its own, with one memory and no worker."""
    add("We deploy on Tuesdays.")
    with Client(load_settings()) as one:
        yield one


def _queue(site, **params):
    return site.run(site.engine.tasks.submit_task("build_graph", params))


# --- Tasks ------------------------------------------------------------------------------


def test_tasks_are_those_of_the_command(site, home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))

    assert site.json("/tasks.json") == as_json("tasks")
    assert "Build the graph completed" in site.get("/tasks").shown
    assert "No task is failed" in site.get("/tasks?status=failed").shown


def test_a_waiting_task_is_cancelled_and_that_is_undone(own):
    task = _queue(own)
    assert "0 percent done" in own.get("/tasks").text

    done = own.follow(own.post(f"/tasks/{task}/cancel"))

    assert "“Build the graph” is cancelled." in done.shown
    assert as_json("tasks", "show", task)["status"] == "cancelled"
    assert "is queued again" in own.undo(done).shown
    assert as_json("tasks", "show", task)["status"] == "pending"


def test_a_task_that_failed_is_retried_and_that_is_undone(own):
    async def work(params, task):
        raise ValidationError("The folder is empty.", "VAL_001")

    own.engine.tasks.register("read_all", work)
    task = own.run(own.engine.tasks.submit_task("read_all", {"why": "<script>"}))
    own.run(own.engine.tasks.run_task(task, lambda status: None))
    failed = own.get("/tasks?status=failed")
    assert "Read all failed" in failed.shown
    assert "why <script>" in failed.shown
    assert as_json("tasks", "show", task)["error"] in failed.shown

    done = own.follow(own.post(f"/tasks/{task}/retry"))

    assert "“Read all” is queued again." in done.shown
    own.undo(done)
    assert as_json("tasks", "show", task)["status"] == "cancelled"


def test_a_running_task_shows_how_far_it_is_and_says_when_it_stops(own):
    shown = []

    async def work(params, task):
        del params
        await task.report(30, 120, "reading")
        shown.append(await own.engine.tasks.list_tasks())
        await own.engine.tasks.cancel_task(shown[0][0].task_id)
        shown.append(await own.engine.tasks.list_tasks())
        await task.report(31, 120, "reading")

    own.engine.tasks.register("read_all", work)
    task = own.run(own.engine.tasks.submit_task("read_all", {}))
    own.run(own.engine.tasks.run_task(task, lambda status: None))

    first, second = (_shown(found[0]) for found in shown)
    assert (first.word, first.percent, first.share) == ("running", 25, "30 of 120")
    assert first.can_cancel
    assert (second.word, second.can_cancel) == ("stopping", False)


def test_an_unknown_task_and_an_unknown_status_are_refused_in_words(own):
    assert own.post(f"/tasks/{UNKNOWN}/retry", status=404)
    assert "status must be one of" in own.get("/tasks?status=lost", 400).shown


def test_without_tasks_the_page_says_what_makes_some(empty):
    page = empty.get("/tasks")
    assert "Nothing is running" in page.shown
    assert "zapomni index ." in page.shown


# --- Health -----------------------------------------------------------------------------


def test_opening_health_loads_no_model_and_writes_nothing(own):
    before = own.run(own.engine.storage.get_version())

    page = own.get("/health")

    assert "1 memory" in page.shown
    assert "These are the quick checks." in page.shown
    assert own.run(own.engine.storage.get_version()) == before
    assert not own.engine.has_model


def test_all_checks_are_run_when_asked_for(own):
    done = own.follow(own.post("/health/check"))

    names = {one["name"] for one in own.json("/health.json")["checks"]}
    assert names == {one["name"] for one in as_json("doctor")["checks"]}
    assert "All checks were run just now" in done.shown
    assert "stored, found, read and deleted" in done.shown
    assert own.json("/search.json")["total"] == 1


def test_a_problem_is_shown_first_with_the_command_that_fixes_it(own, private_home):
    assert "none yet" in own.get("/health").shown
    bad = private_home / "spool" / "bad"
    bad.mkdir(parents=True)
    (bad / "1.json").write_text("{", encoding="utf-8")

    page = own.get("/health")

    assert 'data-copy="zapomni backup"' in page.text
    assert "1 check failed" in page.shown
    assert "1 put aside because no database takes them" in page.shown
    assert page.shown.index("put aside") < page.shown.index("checks without a problem")
    zapomni("backup")
    assert "none yet" not in own.get("/health").shown


def test_a_read_only_page_shows_the_command_instead_of_the_button(private_home):
    with Client(load_settings(), read_only=True) as site:
        page = site.get("/health")
        assert "Run all checks" not in page.shown
        assert 'data-copy="zapomni doctor"' in page.text


# --- Settings ---------------------------------------------------------------------------


def test_settings_name_where_each_comes_from_and_mask_secrets(private_home, monkeypatch):
    private_home.mkdir(mode=0o700, exist_ok=True)
    (private_home / "config.toml").write_text(
        'context_tokens = 700\ntrust = "all"\n[observation_retention_days]\ncommand = 9\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("ZAPOMNI_CONTEXT_TOKENS", "800")
    monkeypatch.setenv("ZAPOMNI_OPENAI_API_KEY", TOKEN)
    monkeypatch.setenv("ZAPOMNI_BACKUP_PASSPHRASE", TOKEN)

    with Client(load_settings()) as site:
        page, given = site.get("/settings"), site.json("/settings.json")
        assert "extractor" not in site.get("/settings?only=set").shown

    found = {one["name"]: one for one in given}
    assert given == as_json("status", "--settings")
    assert TOKEN not in page.text + str(given)
    assert found["context_tokens"]["origin"] == "environment"
    assert (found["trust"]["value"], found["trust"]["origin"]) == ("all", "config.toml")
    assert found["chunk_size"]["origin"] == "default"
    assert found["openai_api_key"] | {"description": ""} == {
        "name": "openai_api_key",
        "value": "********",
        "origin": "environment",
        "is_secret": True,
        "description": "",
        "line": 'openai_api_key = "********"',
    }


def test_the_password_of_a_server_is_not_shown():
    settings = load_settings({}, storage=f"falkordb://ada:{TOKEN}@db.example:6380/notes")
    storage = next(one for one in explain_settings(settings, {}) if one.name == "storage")

    assert storage.value == "falkordb://db.example:6380/notes"


def test_the_lines_to_copy_are_a_config_file_that_gives_the_same(private_home):
    private_home.mkdir(mode=0o700, exist_ok=True)
    (private_home / "config.toml").write_text(
        'code_roots = ["/srv/a b", "/srv/\\"c\\""]\nobservation_retention_days = { command = 9 }\n'
        'openai_base_url = "http://127.0.0.1:1/v1"\n',
        encoding="utf-8",
    )
    before = load_settings()
    lines = [one["line"] for one in as_json("status", "--settings")]
    wanted = [line for line in lines if not line.startswith(("export ", "log_level", "reranker"))]
    assert tomllib.loads("\n".join(wanted))["observation_retention_days"] == {"command": 9}
    names = ("code_roots", "observation_retention_days", "openai_base_url", "chunk_size")
    (private_home / "config.toml").write_text(
        "\n".join(line for line in wanted if line.startswith(names)), encoding="utf-8"
    )

    assert load_settings() == before

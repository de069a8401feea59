"""Import and export: sources, a dry run, a background import and its way back, copies."""

from __future__ import annotations

import pytest
from site_client import Client

from command import answer, as_json
from transcripts import write_all
from zapomni_core.settings import load_settings


@pytest.fixture
def own(private_home, tmp_path, monkeypatch):
    """A site of its own, on a machine where Claude Code has transcripts."""
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    write_all(tmp_path / "home" / ".claude" / "projects")
    monkeypatch.chdir(tmp_path)
    with Client(load_settings()) as one:
        yield one


def work(site):
    site.run(site.engine.tasks.run_all(lambda *_: None))


def run_import(site):
    done = site.follow(site.post("/import/claude-code/start"))
    work(site)
    return done


def counts():
    observations = sum(one["observations"] for one in as_json("projects"))
    return as_json("list", "--all")["total"], observations


def test_sources_of_this_machine_are_listed_as_the_command_lists_them(own):
    page = own.get("/import")

    assert "Claude Code" in page.shown
    assert "Nothing was imported yet." in page.shown
    assert own.json("/import.json") == as_json("import")


def test_a_dry_run_says_what_would_be_stored_and_stores_nothing(own):
    before = counts()

    page = own.get("/import/claude-code")

    found = own.json("/import/claude-code.json")
    assert found == as_json("import", "claude-code", "--dry-run")
    assert f"Would import {found['observations']} observations" in page.shown
    for reason in found["skipped"]:
        assert reason in page.shown
    assert counts() == before
    assert own.json("/import/claude-code.json?since=1h")["kept"] == 0


def test_an_import_runs_in_the_background_and_is_taken_back(own):
    before = counts()
    question = own.get("/import/claude-code/start?since=3650d")
    (source,) = [one for one in own.json("/import.json") if one["name"] == "claude-code"]
    assert f"{source['title']}:" in question.shown
    assert 'name="since" value="3650d"' in question.text

    done = own.follow(own.post("/import/claude-code/start", {"since": "3650d"}))
    assert "Importing in the background: Claude Code" in done.shown
    assert "An import is waiting" in done.shown
    assert counts() == before
    work(own)
    assert counts() > before
    (batch,) = as_json("import", "--batches")
    assert batch["id"] in own.get("/import").shown

    assert "Removed" in own.undo(done).shown
    assert counts() == before
    assert "taken back" in own.get("/import").shown


def test_an_import_that_waits_is_cancelled(own):
    done = own.follow(own.post("/import/claude-code/start"))

    assert "The import was cancelled." in own.undo(done).shown
    work(own)

    assert as_json("import", "--batches") == []


def test_a_batch_is_trusted_and_taken_back_by_name(own):
    run_import(own)
    (batch,) = as_json("import", "--batches")
    waiting = own.run(own.engine.imports.list_untrusted(batch["id"]))
    assert waiting
    assert batch["id"] in own.get(f"/import/batch/{batch['id']}/trust").shown

    done = own.follow(own.post(f"/import/batch/{batch['id']}/trust"))
    assert own.json(f"/m/{waiting[0]}.json")["trusted"] is True
    own.undo(done)
    assert own.run(own.engine.imports.list_untrusted(batch["id"])) == waiting

    assert batch["id"] in own.get(f"/import/batch/{batch['id']}/undo").shown
    removed = own.follow(own.post(f"/import/batch/{batch['id']}/undo"))
    assert "Removed" in removed.shown
    own.get(f"/m/{waiting[0]}", 404)
    own.post(f"/import/batch/{batch['id']}/undo", status=404)


def test_backups_and_exports_are_listed_with_path_and_size(own, tmp_path):
    assert "There is no backup yet." in own.get("/import").shown
    run_import(own)
    answer("export", "--jsonl", str(tmp_path / "memories.jsonl"))

    done = own.follow(own.post("/import/backup"))

    assert "Made and checked zapomni-" in done.shown
    made = {one["path"] for one in as_json("restore")}
    assert len(made) == 2
    for path in made:
        assert path in done.shown
    assert str(tmp_path / "memories.jsonl") in done.shown


def test_what_is_wrong_is_said(own):
    own.get("/import/nothing", 404)
    own.get("/import/claude-code?since=x", 400)
    own.get("/import/claude-code/start?since=x", 400)
    own.post("/import/claude-code/start", {"since": "x"}, 400)
    own.get("/import/batch/i-1/undo", 404)

"""The pages on the server engine: search, a memory and its changes, as on a file."""

from __future__ import annotations

import pytest
from site_client import Client

from command import add, as_json
from transcripts import write_all
from zapomni_core.settings import load_settings


@pytest.fixture
def on_server(falkordb_server, falkordb_graph, private_home, monkeypatch):
    socket = falkordb_server.socket
    monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{socket}?graph={falkordb_graph}")
    memory_id = add(
        "Ada Lovelace works at Acme Corp. Acme Corp uses PostgreSQL.", "--tag", "people"
    )
    with Client(load_settings()) as site:
        yield site, memory_id


def test_pages_and_changes_work_on_the_server_engine(on_server):
    site, memory_id = on_server
    from zapomni_core.modules.graph import BuildGraphRequest

    task = site.run(site.engine.graph.build(BuildGraphRequest()))
    site.run(site.engine.tasks.run_task(task, lambda *_: None))

    assert "Acme Corp" in site.get("/search?q=where+does+Ada+work").shown
    page = site.get(f"/m/{memory_id}")
    assert "Acme Corp uses PostgreSQL." in page.shown.partition("What was read in it")[2]

    done = site.follow(site.post(f"/m/{memory_id}/edit", {"text": "Ada left Acme."}))
    assert "<ins>Ada left Acme.</ins>" in done.text
    assert "as it was" in site.undo(done).shown

    newer = site.follow(site.post("/add", {"text": "Ada works at Initech."}))
    by = newer.text.split('href="/m/')[1].partition("/")[0]
    replaced = site.follow(site.post(f"/m/{memory_id}/supersede", {"by": by}))
    assert "is current again" in site.undo(replaced).shown
    assert site.json(f"/m/{memory_id}.json")["superseded_by"] is None

    forgotten = site.follow(site.post(f"/m/{memory_id}/forget"))
    site.get(f"/m/{memory_id}", 404)
    assert "is back" in site.undo(forgotten).shown
    assert site.json(f"/m/{memory_id}.json")["tags"] == ["people"]
    assert "versions" not in site.run(site.site.live._read())


def test_today_and_the_timeline_work_on_the_server_engine(on_server):
    site, _ = on_server

    assert "Remembered last Ada Lovelace works at Acme Corp." in site.get("/today").shown
    assert "Ada Lovelace works at Acme Corp." in site.get("/timeline").shown


def test_context_review_recalls_and_imports_work_on_the_server_engine(
    on_server, tmp_path, monkeypatch
):
    site, memory_id = on_server
    write_all(tmp_path / "home" / ".claude" / "projects")
    monkeypatch.chdir(tmp_path)
    old = add("We deploy to production on Tuesdays.")
    new = add("We deploy to production on Thursdays.")

    assert "1 more waits" in site.follow(site.post("/review/look")).shown
    (item,) = site.json("/review.json")["items"]
    done = site.follow(site.post(f"/review/{item['id']}", {"decision": "supersede"}))
    assert site.json(f"/m/{old}.json")["superseded_by"] == new
    site.undo(done)
    assert site.json(f"/m/{old}.json")["superseded_by"] is None

    site.post("/import/claude-code/start")
    site.run(site.engine.tasks.run_all(lambda *_: None))
    (batch,) = site.run(site.engine.imports.list_batches())
    (imported,) = site.run(site.engine.imports.list_untrusted(batch.id))
    site.post(f"/import/batch/{batch.id}/trust")
    assert site.json(f"/m/{imported}.json")["trusted"] is True

    project = site.json("/context.json")["project"]
    site.post("/context/pin", {"item": imported, "on": "1", "project": project})
    lines = site.json(f"/context.json?project={project}")["lines"]
    assert imported in [line["id"] for line in lines]

    as_json("search", "where does Ada work")
    (recall,) = site.json(f"/recalls.json?item={memory_id}")
    assert recall["query"] == "where does Ada work"
    assert f'href="/m/{memory_id}"' in site.get("/recalls").text


def test_health_tasks_and_settings_are_shown_of_the_server(on_server):
    site, _ = on_server
    done = site.follow(site.post("/health/check"))

    assert "checks: all is well" in done.shown
    checks = {one["name"]: one for one in site.json("/health.json")["checks"]}
    assert checks["probe memory"]["status"] == "ok"
    assert checks["database"]["detail"].startswith("unix://")
    assert "Tasks" in site.get("/tasks").shown
    storage = next(one for one in site.json("/settings.json") if one["name"] == "storage")
    assert storage["origin"] == "environment"

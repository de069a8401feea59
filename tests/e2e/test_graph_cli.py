"""The graph as a user meets it on the command line."""

from __future__ import annotations

import asyncio
import io
import json
import stat
from contextlib import redirect_stderr, redirect_stdout
from xml.etree import ElementTree as ET

import pytest

import command
from command import UNKNOWN, add, on_terminal
from graph_builders import entity, stated
from project_shapes import repository
from zapomni_cli.main import run
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.storage import SqliteStorage

NOTES = ("Celery depends on Redis.", "Sentry uses Celery.", "Kubernetes runs on Linux.")


@pytest.fixture(autouse=True)
def by_words(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def zapomni(*args: str) -> tuple[int, str, str]:
    """Run a command in this process: starting one for each would take minutes."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(args)
    out.flush()
    return code, out.buffer.getvalue().decode(), err.getvalue()


def answer(*args: str) -> str:
    code, out, err = zapomni(*args)
    assert code == 0, err
    return out


def as_json(*args: str):
    return json.loads(answer(*args, "--json"))


def refused(wanted: int, *args: str) -> str:
    code, _, err = zapomni(*args)
    assert code == wanted, err
    assert "Traceback" not in err
    return err


@pytest.fixture
def graph():
    ids = [add(note) for note in NOTES]
    answer("graph", "build")
    return ids


def test_build_says_what_it_read_and_reads_nothing_twice():
    add(NOTES[0])
    assert answer("graph", "build") == "Read 1 passage: 2 new entities, 1 new relationship.\n"
    assert answer("graph", "build") == "Read 0 passages: 0 new entities, 0 new relationships.\n"
    done = as_json("graph", "build")
    assert (done["status"], done["result"]["passages_read"]) == ("completed", 0)


def test_build_takes_a_project_or_ids_and_can_be_left_to_the_background():
    first = add(NOTES[0], "--project", "a")
    add(NOTES[1], "--project", "b")
    assert as_json("graph", "build", first)["result"]["passages_read"] == 1
    assert as_json("graph", "build", "--project", "b")["result"]["passages_read"] == 1
    add(NOTES[2])
    task_id = command.answer("graph", "build", "--background").strip()
    assert "completed" in answer("tasks", "watch", task_id)
    assert as_json("graph", "status")["unread_passages"] == 0
    assert "no memory with this id" in refused(3, "graph", "build", UNKNOWN)


def test_status_counts_by_type_and_says_what_to_do_about_the_unread(graph):
    add("Flask uses Jinja.")
    found = as_json("graph", "status")
    assert found["entities"] == 5
    assert found["relationship_types"] == {"DEPENDS_ON": 1, "RUNS_ON": 1, "USES": 1}
    assert (found["passages"], found["unread_passages"]) == (4, 1)
    _, out, err = zapomni("graph", "status")
    assert "entities\t5" in out
    assert "zapomni graph build" in err


def test_entities_are_listed_and_found(graph):
    lines = [line.split("\t") for line in answer("graph", "entities").splitlines()]
    assert lines[0][1:4] == ["TECHNOLOGY", "2", "Celery"]
    assert [e["name"] for e in as_json("graph", "entities", "kube")] == ["Kubernetes"]
    assert as_json("graph", "entities", "--type", "PERSON") == []
    assert as_json("graph", "entities", "--as-of", "2020-01-01") == []
    assert "No entities" in zapomni("graph", "entities", "--limit", "1", "--offset", "99")[2]


def test_related_shows_the_way_and_the_sentence(graph):
    lines = [line.split("\t") for line in answer("graph", "related", "redis").splitlines()]
    assert lines[1][0] == "2"
    assert lines[1][4:] == [
        "Sentry",
        "Redis ←DEPENDS_ON─ Celery ←USES─ Sentry",
        NOTES[1],
        graph[1],
    ]
    found = as_json("graph", "related", "Redis", "--depth", "1", "--type", "DEPENDS_ON")
    assert [hit["name"] for hit in found["related"]] == ["Celery"]
    assert found["related"][0]["path"][0]["evidence"][0]["text"] == NOTES[0]
    assert "Nothing is related" in zapomni("graph", "related", "Redis", "--type", "CAUSES")[2]


def test_what_is_unknown_or_too_deep_is_said_with_what_to_do(graph):
    told = refused(3, "graph", "related", "Reddis")
    assert "GRAPH_001" in told
    assert "Did you mean: Redis?" in told
    assert "depth must be from 1 to 3" in refused(2, "graph", "related", "Redis", "--depth", "4")
    assert "how long ago" in refused(2, "graph", "related", "Redis", "--as-of", "soon")
    assert "GRAPH_002" in refused(3, "graph", "undo")


def test_an_empty_graph_is_no_failure():
    assert as_json("graph", "status")["entities"] == 0
    assert as_json("graph", "entities") == []
    assert answer("graph", "export", "--format", "cypher") == ""
    assert "GRAPH_001" in refused(3, "graph", "related", "anything")


def test_show_reads_like_a_card(graph):
    card = answer("graph", "show", "Redis")
    today = as_json("get", graph[0])["occurred_at"][:10]
    assert card.splitlines() == [
        "Redis  TECHNOLOGY",
        f"1 mention, first {today}, last {today}",
        "",
        "Relationships",
        "  ←DEPENDS_ON─ Celery",
        f"      {NOTES[0]}  {today}  {graph[0]}",
        "",
        "Further away",
        "  Redis ←DEPENDS_ON─ Celery ←USES─ Sentry",
        "",
        "Memories",
        f"  {today}  {graph[0]}  {NOTES[0]}",
    ]
    code, shown = on_terminal("graph", "show", "Redis")
    assert code == 0
    assert "←DEPENDS_ON─ Celery" in shown
    assert f"{today}  {graph[0][:8]}  {NOTES[0]}" in shown
    found = as_json("graph", "show", "Redis")
    assert found["entity"]["name"] == "Redis"
    assert [hit["name"] for hit in found["related"]] == ["Celery", "Sentry"]
    assert found["candidates"] == []
    assert "Did you mean: Redis?" in refused(3, "graph", "show", "Reddis")


def test_a_card_says_what_changed_and_leaves_out_what_says_nothing():
    add("Grace Hopper works at Acme Corp. See src/navy.py and 2026-01-10.", "--when", "2026-01-10")
    add("Grace Hopper works at Globex Inc.", "--when", "2026-06-10")
    answer("graph", "build")

    card = answer("graph", "show", "Grace Hopper")

    related, changed = card.partition("Changed")[::2]
    assert "─WORKS_AT→ Globex" in related
    assert "2 mentions, first 2026-01-10, last 2026-06-10" in related
    assert "─WORKS_AT→ Acme from 2026-01-10 until 2026-06-10; now Globex Inc" in changed
    assert "Grace Hopper works at Acme Corp." in changed
    assert "src/navy.py" in card.partition("\nFiles\n")[2]
    names = [one["target"] for one in as_json("graph", "show", "Grace Hopper")["relationships"]]
    assert "2026-01-10" not in names
    (ended,) = as_json("graph", "show", "Grace Hopper")["ended"]
    assert (ended["target"], ended["replaced_by"]) == ("Acme", ["Globex Inc"])
    then = answer("graph", "show", "Grace Hopper", "--as-of", "2026-03-01")
    assert "─WORKS_AT→ Acme" in then.partition("Memories")[0]
    assert "Changed" not in then


def test_a_path_explains_a_connection_step_by_step(graph):
    lines = [line.split("\t") for line in answer("graph", "path", "sentry", "redis").splitlines()]
    assert [line[:4] for line in lines] == [
        ["Sentry", "USES", "Celery", NOTES[1]],
        ["Celery", "DEPENDS_ON", "Redis", NOTES[0]],
    ]
    assert [line[5] for line in lines] == [graph[1], graph[0]]
    code, shown = on_terminal("graph", "path", "Redis", "Sentry")
    assert code == 0
    assert "Redis and Sentry: 2 steps" in shown
    assert shown.index("1. Celery ─DEPENDS_ON→ Redis") < shown.index("2. Sentry ─USES→ Celery")
    assert f"{graph[1][:8]}  {NOTES[1]}" in shown
    assert answer("get", graph[1][:8]) == NOTES[1]
    found = as_json("graph", "path", "Redis", "Sentry")
    assert [step["forward"] for step in found["steps"]] == [False, False]
    assert {one["memory_id"] for one in found["memories"]} == {graph[0], graph[1]}


def test_a_path_that_is_not_there_is_said(graph):
    code, out, err = zapomni("graph", "path", "Redis", "Linux")
    assert (code, out) == (0, "")
    assert "No way of at most 6 steps connects them" in err
    assert "same entity" in zapomni("graph", "path", "Redis", "redis")[2]
    assert "Did you mean: Linux?" in refused(3, "graph", "path", "Redis", "Linus")
    assert as_json("graph", "path", "Redis", "Linux")["steps"] == []


def test_on_a_terminal_related_and_entities_are_laid_out(graph):
    code, shown = on_terminal("graph", "related", "Redis")
    assert code == 0
    assert NOTES[0] in shown
    assert graph[0][:8] in shown
    assert "Celery" in on_terminal("graph", "entities")[1]
    assert "passages" in on_terminal("graph", "status")[1]


def test_entities_are_merged_and_parted(graph):
    assert answer("graph", "merge", "Sentry", "Linux") == "Sentry is Linux from now on.\n"
    merged = as_json("graph", "entities", "sentry")
    assert [e["name"] for e in merged] == ["Linux"]
    assert answer("graph", "undo") == "Sentry and Linux are two again.\n"
    assert as_json("graph", "merge", "Sentry", "Linux")["target"] == "Linux"
    assert as_json("graph", "undo", "Sentry")["source"] == "Sentry"
    assert "one entity already" in refused(2, "graph", "merge", "Redis", "redis")


def test_a_name_of_two_things_lists_both(graph):
    async def tell():
        async with SqliteStorage(load_settings().database_path) as storage:
            both = [entity("Mercury", "PLACE"), entity("Mercury", "TECHNOLOGY")]
            await storage.store_entities(both, [])

    asyncio.run(tell())
    code, out, err = zapomni("graph", "related", "mercury")
    assert code == 0
    assert "Several entities have this name" in err
    assert sorted(line.split("\t")[1] for line in out.splitlines()) == ["PLACE", "TECHNOLOGY"]
    assert len(as_json("graph", "related", "mercury")["candidates"]) == 2


def test_names_and_types_steer_no_terminal(graph):
    red = "\x1b[31mred\n"
    ends = [entity(f"{red}one", f"{red}TYPE"), entity("Two")]
    said = stated(f"{red}said", ends[0], f"{red}USES", ends[1])

    async def tell():
        async with SqliteStorage(load_settings().database_path) as storage:
            await storage.store_entities(ends, [said])

    asyncio.run(tell())
    for args in (("show", "Two"), ("show", f"{red}one"), ("path", f"{red}one", "Two")):
        assert "\x1b[31m" not in answer("graph", *args)
        code, shown = on_terminal("graph", *args)
        assert code == 0
        assert "\x1b[31m" not in shown
        assert "red" in shown


def test_export_writes_a_private_file_and_overwrites_none(graph, tmp_path):
    path = tmp_path / "out.graphml"
    told = answer("graph", "export", "--to", str(path))
    assert told == f"Wrote {path} ({path.stat().st_size:,} bytes).\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(ET.parse(path).getroot().findall(".//{*}node")) == 5
    assert "--force" in refused(2, "graph", "export", "--to", str(path))
    done = as_json(
        *("graph", "export", "--format", "cytoscape", "--to", str(path), "--force"),
    )
    assert done["bytes"] == path.stat().st_size
    assert len(json.loads(path.read_text())["elements"]["edges"]) == 3
    assert list(tmp_path.glob(".out*")) == []
    assert "--to FILE" in refused(2, "graph", "export", "--json")
    told = refused(1, "graph", "export", "--to", str(tmp_path / "no" / "folder"))
    assert "Error" in told


def test_an_export_that_fails_leaves_no_file(graph, tmp_path, monkeypatch):
    async def fail(self, name):
        yield "half"
        raise OSError

    monkeypatch.setattr("zapomni_core.modules.graph.service.KnowledgeGraph.export", fail)
    refused(1, "graph", "export", "--to", str(tmp_path / "out"))
    assert list(tmp_path.glob("*out*")) == []


@pytest.mark.parametrize("remote", ["", "https://github.com/acme/shop.git"])
def test_we_are_the_project_by_its_name(remote, tmp_path, monkeypatch):
    monkeypatch.chdir(repository(tmp_path / "shop", remote=remote))
    add("We use PostgreSQL.")
    answer("graph", "build")
    card = as_json("graph", "show", "PostgreSQL")
    (used,) = card["relationships"]
    assert (used["source"], used["type"], used["target"]) == ("shop", "USES", "PostgreSQL")


def test_history_shows_versions_and_what_superseded_what():
    first = add("We use MySQL.")
    answer("update", first, "--text", "We use MySQL 8.")
    second = add("We use PostgreSQL.", "--supersedes", first)

    found = as_json("history", second)
    assert [v["text"] for v in found] == ["We use MySQL.", "We use MySQL 8.", "We use PostgreSQL."]
    assert [v["superseded_by"] for v in found] == [None, second, None]
    assert [v["changed"] for v in found] == [[], ["text"], []]
    assert as_json("history", first, "--as-of", found[1]["valid_from"]) == [found[1]]
    lines = answer("history", first).splitlines()
    assert lines[0].split("\t")[-1] == "We use MySQL."
    code, shown = on_terminal("history", first)
    assert code == 0
    assert "changed text" in shown
    assert f"superseded by {second[:8]}" in shown
    assert "did not exist" in zapomni("history", first, "--as-of", "2020-01-01")[2]
    refused(3, "history", UNKNOWN)


def test_purging_finds_what_a_memory_said_before_and_leaves_nothing(private_home):
    memory_id = add("The password of Anna Berger at Brill GmbH is hunter2.")
    answer("graph", "build")
    answer("update", memory_id, "--text", "Nothing to see.")
    assert "hunter2" in answer("history", memory_id)

    answer("purge", "--in", "memories", "--search", "hunter2", "--yes")

    refused(3, "get", memory_id)
    left = b"".join(path.read_bytes() for path in private_home.glob("zapomni.db*"))
    for word in (b"hunter2", b"Brill GmbH", b"Anna Berger"):
        assert word not in left


def test_names_are_learned_from_what_was_added_and_facts_are_no_nodes():
    add("# 12. Use Zolid Queue\n\n## Status\n\nAccepted\n\n## Decision\n\nWe use Zolid Queue 2.1.")
    add("Quibble Yarrow: Retries of Zolid Queue took 3 minutes<br>on 2026-03-02, see #4711, .json.")
    answer("graph", "build")
    found = {one["name"]: one["type"] for one in as_json("graph", "entities", "--limit", "100")}
    assert found["ADR-12"] == "DECISION"
    assert found["Quibble Yarrow"] == "PERSON"
    assert found["Zolid Queue"] == "TECHNOLOGY"
    assert not {"#4711", "2026-03-02", "<br>", ".json", "we", "3"} & found.keys()
    assert "Use Zolid Queue" in answer("graph", "show", "ADR-12")
    shown = answer("graph", "show", "Zolid Queue")
    assert "TECHNOLOGY" in shown
    assert "Retries of Zolid Queue" in shown
    assert as_json("graph", "entities", "--type", "REFERENCE")[0]["name"] == "#4711"

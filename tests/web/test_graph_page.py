"""The page of the graph: a drawing, its table, what it was on a day, merges."""

from __future__ import annotations

import re
import sys

import pytest
from site_client import Client

from command import add, as_json, zapomni
from zapomni_core.settings import load_settings

TEXTS = (
    "Grace Hopper works at Acme Corp.",
    "Acme Corp uses PostgreSQL.",
    "The shop app is built on PostgreSQL and Redis.",
    "We moved from PostgreSQL to CockroachDB.",
)


def fill_graph() -> None:
    for number, text in enumerate(TEXTS, 1):
        add(text, "--when", f"2026-0{number}-10", "--global")
    assert zapomni("graph", "build").returncode == 0


@pytest.fixture
def own(private_home):
    fill_graph()
    with Client(load_settings()) as one:
        yield one


def nodes(page) -> list[str]:
    return re.findall(r'<a class="node[^>]*>.*?<text[^>]*>([^<]*)</text>', page.text)


def id_of(name: str) -> str:
    (found,) = [one for one in as_json("graph", "entities", name) if one["name"] == name]
    return found["entity_id"]


def test_the_drawing_and_the_table_show_the_same(site):
    drawing, table = site.get("/graph"), site.get("/graph?view=table")

    assert {"Acme", "PostgreSQL"} <= set(nodes(drawing))
    assert 'class="edge typed"' in drawing.text
    assert "“Acme Corp uses PostgreSQL.”" in drawing.shown
    assert "Acme Corp uses PostgreSQL." in table.shown
    assert '<svg class="graph"' not in table.text
    for name in nodes(drawing):
        assert name.removesuffix("…") in table.shown


def test_json_is_what_the_command_prints(site, home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))

    shown = site.json("/graph.json?entity=Acme&depth=2")

    assert shown == as_json("graph", "relationships", "Acme", "--depth", "2")
    listed = zapomni("graph", "relationships", "Acme").stdout.decode().splitlines()
    assert any(line.split("\t")[:3] == ["Acme", "USES", "PostgreSQL"] for line in listed)


def test_an_entity_is_in_the_middle_with_steps_around_it(own):
    near, wide = own.get("/graph?entity=Acme"), own.get("/graph?entity=Acme&depth=2")

    assert "<h1>Acme</h1>" in near.text
    assert set(nodes(near)) < set(nodes(wide))
    assert "node center" in near.text


def test_what_held_on_a_day_is_shown(own):
    then, now = own.get("/graph?as_of=2026-02-11"), own.get("/graph")
    never = own.get("/graph?entity=Acme&as_of=2001-01-01")

    assert "Redis" in nodes(now)
    assert "Redis" not in nodes(then)
    assert "Acme" in nodes(then)
    assert "not at that time" in never.shown
    assert 'href="/graph?entity=Acme"' in never.text
    assert 'type="range"' in now.text


def test_types_have_shapes_and_can_be_shown_alone(own):
    page = own.get("/graph")
    only = own.get("/graph?type=TECHNOLOGY")

    assert {"s-square", "s-hexagon"} <= set(re.findall(r'id="(s-\w+)"', page.text))
    assert "Acme" not in nodes(only)
    assert 'aria-current="true"' in only.text.partition('class="types"')[2].partition("</ul>")[0]


def test_more_is_shown_by_degree(own):
    few = own.get("/graph?limit=2")
    more = re.search(r'href="([^"]+)">show more', few.text)

    assert len(nodes(few)) == 2
    assert more is not None
    assert len(nodes(own.get(more[1].replace("&amp;", "&")))) > 2
    own.get("/graph?limit=301", 400)


def test_a_name_that_is_not_there_leads_to_those_that_are(own):
    page = own.get("/graph?entity=Grace+Hoper")

    assert "No entity has this name" in page.shown
    assert "/graph?entity=Grace+Hopper" in page.text


def test_a_connection_is_explained_step_by_step(own):
    page = own.get("/graph?entity=Grace+Hopper")
    assert 'action="/graph/path"' in page.text
    source = id_of("Grace Hopper")

    way = own.get(f"/graph/path?source={source}&target=PostgreSQL")

    assert "<h1>Grace Hopper and PostgreSQL</h1>" in way.text
    assert way.text.count("<blockquote>") == 2
    assert "Grace Hopper works at Acme Corp." in way.shown
    memory = as_json("graph", "path", source, "PostgreSQL")["memories"][0]["memory_id"]
    assert f'href="/m/{memory}"' in way.text
    assert own.json(f"/graph/path.json?source={source}&target=PostgreSQL") == as_json(
        "graph", "path", source, "PostgreSQL"
    )
    none = own.get("/graph/path?source=Grace+Hopper&target=Nemo")
    assert "is not in the graph" in none.shown


def test_merging_names_both_first_and_is_undone(own):
    source, into = id_of("CockroachDB"), id_of("PostgreSQL")
    assert 'action="/graph/merge"' in own.get(f"/graph?entity={source}").text
    question = own.get(f"/graph/merge?source={source}&into=PostgreSQL")
    assert "CockroachDB is PostgreSQL" in question.shown

    done = own.follow(own.post("/graph/merge", {"source": source, "into": into}))

    assert "CockroachDB is PostgreSQL from now on." in done.shown
    assert own.json(f"/graph.json?entity={into}")["merged"] == {source: "CockroachDB"}
    assert "are two again" in own.undo(done).shown
    assert own.json(f"/graph.json?entity={into}")["merged"] == {}


def test_a_merge_is_parted_on_the_page_and_that_is_undone(own):
    source, into = id_of("CockroachDB"), id_of("PostgreSQL")
    own.post("/graph/merge", {"source": source, "into": into})
    address = f"/graph/part?entity={into}&part={source}"
    assert address.replace("&", "&amp;") in own.get(f"/graph?entity={into}").text
    assert "CockroachDB is not PostgreSQL" in own.get(address).shown
    own.get(f"/graph/part?entity={into}&part=nothing", 400)

    done = own.follow(own.post("/graph/part", {"part": source}))

    assert own.json(f"/graph.json?entity={into}")["merged"] == {}
    assert "again" in own.undo(done).shown
    assert own.json(f"/graph.json?entity={into}")["merged"] == {source: "CockroachDB"}


def test_an_empty_graph_is_built_as_a_task(empty):
    assert "Nothing is in the graph yet" in empty.get("/graph").shown
    add(TEXTS[0], "--global")
    assert "Build the graph" in empty.get("/graph").shown

    empty.follow(empty.post("/graph/build"))

    (task,) = empty.run(empty.engine.tasks.list_tasks())
    assert task.task_type == "build_graph"
    empty.run(empty.engine.tasks.run_task(task.task_id, lambda _: None))
    assert "Grace Hopper" in nodes(empty.get("/graph"))
    add("Ada Byron works at Globex Inc.", "--global")
    assert "were not read into the graph yet" in empty.get("/graph").shown


def test_a_read_only_page_offers_no_change(private_home):
    fill_graph()
    with Client(load_settings(), read_only=True) as one:
        page = one.get("/graph?entity=PostgreSQL")

    assert "/graph/merge" not in page.text
    assert "Acme" in nodes(page)


def test_without_the_extra_the_table_is_shown_and_the_extra_named(own, monkeypatch):
    monkeypatch.setitem(sys.modules, "rustworkx", None)

    page = own.get("/graph")

    assert "zapomni[ui]" in page.shown
    assert "Grace Hopper works at Acme Corp." in page.shown


def test_it_works_on_the_server_engine(falkordb_server, falkordb_graph, private_home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{falkordb_server.socket}?graph={falkordb_graph}")
    fill_graph()
    with Client(load_settings()) as one:
        assert {"Acme", "PostgreSQL"} <= set(nodes(one.get("/graph")))
        assert "Redis" not in nodes(one.get("/graph?as_of=2026-02-11"))
        pair = {"source": id_of("CockroachDB"), "into": id_of("PostgreSQL")}
        done = one.follow(one.post("/graph/merge", pair))
        assert "are two again" in one.undo(done).shown


def test_a_person_points_drags_zooms_expands_and_goes_back_in_time(tab):
    page = tab.page
    page.emulate_media(reduced_motion="reduce")
    tab.open("/graph?entity=Acme")
    stage, panel = page.locator(".stage.moves svg.graph"), page.locator("#pointed")
    node = page.locator(".node", has_text="PostgreSQL").first
    before = stage.get_attribute("viewBox")

    page.get_by_role("button", name="Zoom in").click()
    assert stage.get_attribute("viewBox") != before
    page.get_by_role("button", name="Show all of it").click()
    node.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    said = "Acme Corp uses PostgreSQL."
    assert panel.locator("blockquote").all_inner_texts().count(f"“{said}”") == 1

    place = node.get_attribute("transform")
    box = node.locator("use").bounding_box()
    at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(at[0] + 40, at[1] + 25, steps=4)
    page.mouse.up()
    assert node.get_attribute("transform") != place
    assert "/graph?entity=Acme" in page.url

    page.mouse.click(at[0] + 40, at[1] + 25)
    assert panel.locator("h2").inner_text() == "PostgreSQL"
    panel.locator("a.expand").click()
    page.wait_for_url("**open=*")
    assert page.locator(".node").count() >= 2
    assert page.locator(".stage.moves").count() == 1

    page.locator("#slider").focus()
    page.keyboard.press("Home")
    page.wait_for_url("**as_of=20*")

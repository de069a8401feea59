"""The graph as one file: opened from disk by a browser, without script, and when it is hostile."""

from __future__ import annotations

import asyncio
import re
import stat
import sys
from html.parser import HTMLParser

import pytest
from site_client import HOSTILE, without_loop

from command import add, answer, as_json, refused, zapomni
from graph_builders import entity, stated
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.storage import SqliteStorage

TEXTS = (
    "Celery depends on Redis.",
    "Sentry uses Celery.",
    "Kubernetes runs on Linux.",
)


async def store_hostile() -> None:
    name = "<img src=x onerror='window.hurt=1'>\"'></script><script>window.hurt=1</script>"
    bad, good = entity(name), entity("javascript:window.hurt=1", "ORG")
    async with SqliteStorage(load_settings().database_path) as storage:
        said = stated(HOSTILE, bad, "USES", good)
        await storage.store_entities([bad, good], [said])


@pytest.fixture(scope="module")
def graph_home(tmp_path_factory):
    """A home folder with a small graph that has hostile names and sentences."""
    folder = tmp_path_factory.mktemp("graph-file")
    with pytest.MonkeyPatch.context() as patched, without_loop():
        patched.setenv("ZAPOMNI_HOME", str(folder / "home"))
        patched.setenv("ZAPOMNI_EMBEDDER", "none")
        patched.chdir(folder)
        for text in TEXTS:
            add(text, "--global", "--when", "2026-02-03")
        answer("graph", "build")
        asyncio.run(store_hostile())
        answer("graph", "export", "--html", "graph.html")
    return folder


@pytest.fixture
def at_home(graph_home, private_home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(graph_home / "home"))
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    return graph_home


@pytest.fixture
def written(graph_home):
    """The page; it is written once."""
    return graph_home / "graph.html"


class Opened:
    """A tab that notes whatever the page tries."""

    def __init__(self, browser, **options) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda sent: self.requests.append(sent.url))


@pytest.fixture
def opened(logged_in, browser):
    # What else uses the browser is set up before its first test, as always.
    tabs: list[Opened] = []

    def make(**options) -> Opened:
        tabs.append(Opened(browser, **options))
        return tabs[-1]

    yield make
    for one in tabs:
        one.context.close()


def test_one_private_file_is_written_and_says_what_is_in_it(at_home, tmp_path, monkeypatch):
    path = tmp_path / "graph.html"
    report = as_json("graph", "export", "--html", str(path))
    text = path.read_text()

    assert (report["format"], report["bytes"]) == ("html", path.stat().st_size)
    assert (report["entities"], report["relationships"]) == (7, 4)
    assert (report["drawn_entities"], report["drawn_relationships"]) == (7, 4)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert text.count("<script>") == 1
    page = Elements(text)
    assert page.tags.isdisjoint({"link", "img", "iframe", "base", "form", "object", "embed"})
    assert not [one for one in page.attributes if one.startswith("on") or one in ("src", "style")]
    assert all(one.startswith("#") for one in page.links)
    assert not re.search(r"url\(|@import", text.partition("</style>")[0])
    assert "--force" in refused(2, "graph", "export", "--html", str(path))
    assert "neither" in refused(2, "graph", "export", "--html", "x", "--format", "cypher")
    said = answer("graph", "export", "--html", str(path), "--force")
    assert "7 entities and 4 relationships; drawn: 7 and 4; left out: 0 and 0." in said
    # A purge names what was written outside.
    assert str(path) in (at_home / "home" / "exports.jsonl").read_text()
    memory = add("Nothing to see.", "--global")
    purged = zapomni("purge", "--in", "memories", "--id", memory, "--yes").stderr.decode()
    assert f"{path}: You exported it." in purged
    monkeypatch.setitem(sys.modules, "rustworkx", None)
    done = zapomni("graph", "export", "--html", str(path), "--force")
    assert b"[ui]' to draw" in done.stderr
    assert '<svg class="graph"' not in path.read_text()


class Elements(HTMLParser):
    """Which elements and attributes a page has, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name.endswith("href")}


def test_nothing_of_sessions_is_written(at_home, tmp_path):
    from contextlib import closing

    from observation_rows import observe, open_database

    with closing(open_database(load_settings().database_path)) as db:
        observe(db, "file_edit", "Celery was edited by xyzzy", file_path="/w/celery.py")
    path = tmp_path / "again.html"
    for option in (["--html"], ["--to"]):
        answer("graph", "export", *option, str(path), "--force")
        assert "xyzzy" not in path.read_text()
        assert "session-1" not in path.read_text()


def test_a_browser_opens_it_from_disk_and_nothing_hostile_runs(written, opened):
    tab = opened(offline=True)
    page = tab.page
    page.goto(written.as_uri())

    assert page.locator(".stage.moves svg.graph .node").count() == 7
    page.locator(".node", has_text="Celery").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    panel = page.locator("#pointed")
    said = {"“Celery depends on Redis.”", "“Sentry uses Celery.”"}
    assert set(panel.locator("blockquote").all_inner_texts()) == said
    # A name that is reached by keyboard comes into view.
    page.locator(".stage").focus()
    for key in ("+", "+", "+", "+", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    page.locator(".node", has_text="Celery").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    stage = page.locator(".stage").bounding_box()
    node = page.locator(".node", has_text="Celery").locator("use").bounding_box()
    assert stage["x"] < node["x"] < stage["x"] + stage["width"]
    panel.get_by_text("in the table").click()
    assert page.locator("tr:target th").inner_text() == "Celery"
    before = page.locator("svg.graph").get_attribute("viewBox")
    page.locator(".stage").focus()
    page.keyboard.press("+")
    assert page.locator("svg.graph").get_attribute("viewBox") != before
    page.keyboard.press("0")
    for node in page.locator(".node").all():
        node.hover(force=True)
    page.evaluate("document.querySelectorAll('.node').forEach(one => one.focus())")

    assert page.evaluate("window.hurt") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert tab.requests == [written.as_uri()]
    assert tab.problems == []


def test_it_is_accessible_in_light_and_dark_and_on_a_phone(written, opened):
    from axe_playwright_python.sync_playwright import Axe

    page = opened().page
    for scheme, width in (("light", 1280), ("dark", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.goto(written.as_uri())
        found = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_script_the_tables_say_everything(written, opened):
    page = opened(java_script_enabled=False).page
    page.goto(written.as_uri())

    rows = page.locator("table.relationships tbody tr").all_inner_texts()
    assert any(
        row.split("\t") == ["Celery", "depends on", "Redis", "2026-02-03", TEXTS[0]] for row in rows
    )
    assert len(rows) == 4
    assert page.locator("svg.graph .node").count() == 7
    assert page.locator(".zoom").is_hidden()


def test_a_script_that_was_put_into_the_file_does_not_run(written, opened, tmp_path):
    path = tmp_path / "changed.html"
    added = "<script>window.hurt=1</script></main>"
    path.write_text(written.read_text().replace("</main>", added))
    tab = opened()
    tab.page.goto(path.as_uri())

    assert tab.page.evaluate("window.hurt") is None
    assert any("Content Security Policy" in said for said in tab.problems)

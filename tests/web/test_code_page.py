"""The pages about code: repositories, files, symbols, calls, and memories that cite them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from site_client import Client

from command import add, as_json, zapomni
from zapomni_core.settings import load_settings

SHOP = """\
class Cart:
    def total(self):
        return add_up(self.items)


def add_up(items):
    return sum(items)
"""


@pytest.fixture
def own(private_home, tmp_path, monkeypatch):
    """A site with a repository of its own, a memory that cites a function, and its root."""
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "cart.py").write_text(SHOP, encoding="utf-8")
    (root / "README.md").write_text("# Shop\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.chdir(root)
    assert zapomni("index", ".").returncode == 0
    memory_id = add("Totals are in cents.", "--cites", "src/cart.py:add_up")
    with Client(load_settings()) as one:
        yield one, str(root.resolve()), memory_id


def test_repositories_lead_to_folders_files_and_symbols(own):
    site, root, memory_id = own

    start = site.get("/code")
    folder = site.get(f"/code/files?repo={root}")
    inner = site.get(f"/code/files?repo={root}&path=src")
    outline = site.get(f"/code/file?repo={root}&path=src/cart.py")

    assert "shop" in start.shown
    assert "2 files" in start.shown
    assert "Memories whose code has changed" not in start.shown
    assert "src/ 1 file 7" in folder.shown
    assert "README.md" in folder.shown
    assert "cart.py python 7 3" in inner.shown
    assert "class Cart" in outline.shown
    assert f"/m/{memory_id}" in outline.text
    site.get(f"/code/files?repo={root}&path=nowhere", 404)
    site.get(f"/code/file?repo={root}&path=nowhere.py", 404)


def test_a_symbol_shows_its_source_calls_and_memories(own):
    site, root, memory_id = own
    address = f"/code/symbol?repo={root}&name=src/cart.py:add_up"

    page = site.get(address)

    assert "return sum(items)" in page.shown
    called_by = page.shown.partition("Called by")[2]
    assert "Cart.total src/cart.py:3" in called_by.partition("Calls")[0]
    assert f"/m/{memory_id}" in page.text
    assert "code fresh" in page.shown
    assert f"/m/{memory_id}" not in site.get(address.replace("add_up", "Cart")).text


def test_memories_with_changed_code_come_first(own):
    site, root, memory_id = own
    changed = SHOP.replace("sum(items)", "sum(items) / 100")
    Path(root, "src", "cart.py").write_text(changed, encoding="utf-8")

    start = site.get("/code")
    page = site.get(f"/code/symbol?repo={root}&name=src/cart.py:add_up")

    assert "Memories whose code has changed Totals are in cents. code changed" in start.shown
    assert start.shown.index("Totals are in cents.") < start.shown.index("Repositories")
    assert f"/m/{memory_id}" in start.text
    assert "It has changed since it was indexed" in page.shown
    assert "sum(items) / 100" in page.shown


def test_a_repository_is_indexed_again_as_a_task(own):
    site, root, _ = own

    done = site.follow(site.post("/code/index", {"root": root}))

    assert "shop is being read again" in done.shown
    (task,) = [one for one in site.run(site.engine.tasks.list_tasks()) if one.status == "pending"]
    assert task.task_type == "index_codebase"
    site.post("/code/index", {"root": "/"}, 404)


def test_json_is_what_the_commands_print(own):
    site, root, _ = own
    scope = ("--repo", root)

    assert site.json("/code.json") == as_json("code", "list")
    files = site.json(f"/code/files.json?repo={root}&path=src")
    assert files == as_json("code", "files", "src", *scope)
    outline = site.json(f"/code/file.json?repo={root}&path=src/cart.py")
    assert outline == as_json("code", "outline", "src/cart.py", *scope)
    symbol = site.json(f"/code/symbol.json?repo={root}&name=add_up")
    assert symbol == as_json("code", "symbol", "add_up", "--history", *scope)
    listed = zapomni("code", "files", *scope).stdout.decode().splitlines()
    assert listed[0].split("\t") == ["src/", "", "7 lines", "1 file"]


def test_what_agents_did_to_a_file_is_shown(site, home):
    page = site.get(f"/code/symbol?repo={home.repository}&name=auth.py:check_token")

    assert "What agents did to" in page.shown
    assert f"/s/{home.session}#o" in page.text


def test_a_name_of_several_symbols_shows_the_choices(own):
    site, root, _ = own
    Path(root, "other.py").write_text("def add_up():\n    pass\n", encoding="utf-8")
    assert zapomni("index", root).returncode == 0

    page = site.get(f"/code/symbol?repo={root}&name=add_up")

    assert "Several symbols have this name" in page.shown
    assert "name=other.py%3Aadd_up" in page.text


def test_without_a_repository_the_next_step_is_shown(empty):
    page = empty.get("/code")

    assert "No repository is indexed" in page.shown
    assert "zapomni index" in page.shown

"""A promise without a test breaks the build."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from pathlib import Path

import pytest

from tools.promises import PAGE, ROOT, Promise, load_promises, render_page

PROMISES = load_promises()
# Next to the words that make a promise, where a reader does not see it.
MARK = re.compile(r"<!-- promise: ([a-z0-9-]+) -->")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def named(promise: Promise) -> str:
    return promise.id or "without-id"


@functools.cache
def list_tests(path: str) -> frozenset[str]:
    """Return the names of the tests of a file, `Class::name` for methods."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{part.name}" for part in node.body if _is_test(part)}
        elif _is_test(node):
            names.add(node.name)
    return frozenset(names)


def _is_test(node: ast.stmt) -> bool:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, functions) and node.name.startswith("test_")


def read_bullets(page: str, heading: str) -> list[str]:
    """Return the points of a list under a heading, each with the lines it runs over."""
    text = (ROOT / page).read_text(encoding="utf-8")
    section = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert section is not None, f"{page} has no section {heading!r}"
    return re.findall(r"^- .*(?:\n(?!- |\n).*)*", section[1], re.MULTILINE)


def test_every_id_is_there_once():
    counts = Counter(promise.id for promise in PROMISES)
    assert {name: count for name, count in counts.items() if count > 1 or not name} == {}


@pytest.mark.parametrize("promise", PROMISES, ids=named)
def test_an_entry_is_whole(promise):
    assert re.fullmatch(r"[a-z0-9-]+", promise.id), "an id is lower-case words joined by -"
    assert promise.sentence.strip(), f"{promise.id}: `sentence` is missing"
    assert promise.where, f"{promise.id}: `where` names no page"
    assert promise.tests, f"{promise.id}: `tests` names no test"
    assert promise.unknown == {}, f"{promise.id}: unknown fields"


@pytest.mark.parametrize("promise", PROMISES, ids=named)
def test_a_page_says_what_is_promised(promise):
    mark = f"<!-- promise: {promise.id} -->"
    for page in promise.where:
        assert (ROOT / page).is_file(), f"{promise.id}: there is no page {page}"
        marked = mark in (ROOT / page).read_text(encoding="utf-8")
        assert marked, f"put `{mark}` next to the words in {page} that promise it"


@pytest.mark.parametrize("promise", PROMISES, ids=named)
def test_the_tests_of_a_promise_exist(promise):
    for test in promise.tests:
        path, _, name = test.partition("::")
        assert name.split("[")[0] in list_tests(path), f"{promise.id}: there is no test {test}"


@pytest.mark.parametrize("promise", PROMISES, ids=named)
def test_the_mutation_of_a_promise_can_be_made(promise):
    mutation = promise.mutation
    assert mutation.keys() == {"file", "find", "replace"}, (
        f"{promise.id}: mutation = {{ file, find, replace }} is wanted"
    )
    assert not mutation["file"].startswith("tests/"), f"{promise.id}: mutate the program"
    text = (ROOT / mutation["file"]).read_text(encoding="utf-8")
    count = text.count(mutation["find"])
    assert count == 1, f"{promise.id}: `find` occurs {count} times in {mutation['file']}, not once"
    assert mutation["find"] != mutation["replace"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mark_of_a_page_has_its_entry(page: Path):
    name = page.relative_to(ROOT).as_posix()
    known = {promise.id for promise in PROMISES if name in promise.where}
    marks = set(MARK.findall(page.read_text(encoding="utf-8")))
    assert marks - known == set(), f"tests/promises.toml has no such promise with {name} in `where`"


@pytest.mark.parametrize(
    ("page", "heading"),
    [("README.md", "What you can rely on"), ("SECURITY.md", "What Zapomni promises")],
)
def test_every_point_of_the_promising_lists_has_an_entry(page, heading):
    bullets = read_bullets(page, heading)
    assert bullets
    bare = [bullet.splitlines()[0] for bullet in bullets if not MARK.search(bullet)]
    assert bare == [], "add `<!-- promise: ID -->` here and the entry ID to tests/promises.toml"


def test_the_page_of_promises_is_current():
    current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == render_page()
    assert current, "write docs/promises.md with `.venv/bin/python -m tools.promises`, commit it"

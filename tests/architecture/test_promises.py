"""A promise without a test breaks the build."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.promises import PAGE, ROOT, Promise, load_promises, render_page

PROMISES = load_promises()
# Next to the words that make a promise, where a reader does not see it.
MARK = re.compile(r"<!-- promise: ([a-z0-9-]+) -->")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@functools.cache
def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def list_marks(page: Path) -> set[str]:
    """Return the promises that a page marks."""
    return set(MARK.findall(read_text(page)))


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


def faults_of(promise: Promise) -> Iterator[str]:
    """Say what an entry lacks."""
    if not re.fullmatch(r"[a-z0-9-]+", promise.id):
        yield "an id is lower-case words joined by -"
    if not promise.sentence.strip():
        yield "`sentence` is missing"
    if not promise.where:
        yield "`where` names no page"
    if not promise.tests:
        yield "`tests` names no test"
    if promise.unknown:
        yield f"unknown fields {sorted(promise.unknown)}"


def test_every_entry_is_whole():
    faults = [f"{promise.id}: {fault}" for promise in PROMISES for fault in faults_of(promise)]
    assert faults == []


def test_a_page_says_what_is_promised():
    named = [(promise.id, page) for promise in PROMISES for page in promise.where]
    assert [(name, page) for name, page in named if not (ROOT / page).is_file()] == []
    bare = [(name, page) for name, page in named if name not in list_marks(ROOT / page)]
    assert bare == [], "put `<!-- promise: ID -->` next to the words of the page that promise it"


def test_the_tests_of_a_promise_exist():
    named = [(promise.id, *test.split("::", 1)) for promise in PROMISES for test in promise.tests]
    missing = [entry for entry in named if entry[2].split("[")[0] not in list_tests(entry[1])]
    assert missing == [], "there are no such tests"


def mutation_faults_of(mutation: dict[str, str]) -> Iterator[str]:
    """Say why a mutation cannot be made."""
    if mutation.keys() != {"file", "find", "replace"}:
        yield "mutation = { file, find, replace } is wanted"
        return
    if mutation["file"].startswith("tests/"):
        yield "mutate the program"
    count = read_text(ROOT / mutation["file"]).count(mutation["find"])
    if count != 1:
        yield f"`find` occurs {count} times in {mutation['file']}, not once"
    if mutation["find"] == mutation["replace"]:
        yield "`find` and `replace` are the same"


def test_the_mutation_of_a_promise_can_be_made():
    entries = [(promise, mutation_faults_of(promise.mutation)) for promise in PROMISES]
    assert [f"{promise.id}: {fault}" for promise, faults in entries for fault in faults] == []


def test_every_mark_of_a_page_has_its_entry():
    unknown = []
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        known = {promise.id for promise in PROMISES if name in promise.where}
        unknown += [(name, mark) for mark in sorted(list_marks(page) - known)]
    assert unknown == [], "tests/promises.toml has no such promise with the page in `where`"


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

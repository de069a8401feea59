"""After a change, resolving only the files it concerns gives what resolving all would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import read

from zapomni_core.modules.codebase import (
    Facts,
    Resolver,
    Snapshot,
    affected_paths,
    mentioned_names,
)


def facts(files: dict[str, str]) -> dict[str, Facts]:
    return {path: read(path, text).facts for path, text in files.items()}


def concerned(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Return the files concerned; make sure that the others really are not."""
    old, new = facts(before), facts(after)
    changes = {
        path: (old.get(path), new.get(path))
        for path in old.keys() | new.keys()
        if before.get(path) != after.get(path)
    }
    affected = affected_paths(Snapshot(new), changes)
    earlier, later = Resolver(Snapshot(old)), Resolver(Snapshot(new))
    for path in new.keys() - affected:
        assert earlier.resolve(path) == later.resolve(path)
    assert affected <= new.keys()
    return affected


FILES = {
    "a.py": "class A:\n    def run(self): ...\n\ndef make() -> A: ...\n",
    "b.py": "from a import make as build\n\ndef get(): return build()\n\nalias = build\n",
    "c.py": "from b import get\n\nget().run()\n",
    "d.py": "from b import alias\n\nalias().run()\n",
    "e.py": "def unrelated(): other()\n\ndef other(): ...\n",
    "f.py": "def f(x): x.run()\n",
}


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        # Inside of a function, a comment, a docstring: nobody else's business.
        ("a.py", FILES["a.py"].replace("...\n\n", "print()\n\n"), {"a.py"}),
        ("e.py", FILES["e.py"] + "# more\n", {"e.py"}),
        # What it returns, two files and an alias away.
        (
            "a.py",
            FILES["a.py"].replace("make() -> A", "make() -> B")
            + "class B:\n    def run(self): ...\n",
            {"a.py", "b.py", "c.py", "d.py", "f.py"},
        ),
        # A method's name.
        ("a.py", FILES["a.py"].replace("run", "go"), {"a.py", "c.py", "d.py", "f.py"}),
        # A second method of the name, far away, ends a guess.
        (
            "e.py",
            FILES["e.py"] + "class Z:\n    def run(self): ...\n",
            {"e.py", "c.py", "d.py", "f.py"},
        ),
    ],
)
def test_a_change_concerns_whom_it_should(path, text, expected):
    assert concerned(FILES, {**FILES, path: text}) == expected


def test_a_file_that_comes_or_goes_concerns_who_imports_it():
    without = {path: text for path, text in FILES.items() if path != "a.py"}

    assert concerned(without, FILES) >= {"a.py", "b.py", "c.py", "d.py"}
    assert concerned(FILES, without) >= {"b.py", "c.py", "d.py"}
    assert "a.py" not in concerned(FILES, without)


def test_a_module_that_becomes_a_package_is_found_again():
    moved = {path: text for path, text in FILES.items() if path != "a.py"}
    moved["a/__init__.py"] = FILES["a.py"]

    assert {"b.py", "c.py", "d.py"} <= concerned(FILES, moved)


def test_a_change_to_an_import_of_everything_concerns_everyone():
    files = {**FILES, "g.py": "from a import *\n"}

    assert concerned(FILES, files) == files.keys()


def test_bases_and_attributes_carry_a_change_on():
    files = {
        "base.py": "class Base:\n    def old(self): ...\n",
        "mid.py": "from base import Base as B\nclass Mid(B): ...\n",
        "top.py": "from mid import Mid\nclass Top:\n    def __init__(self): self.mid = Mid()\n",
        "use.py": "from top import Top\ndef f(t: Top): t.mid.old()\n",
    }
    rebased = (
        files["mid.py"]
        .replace("Mid(B)", "Mid(Other)")
        .replace("class Mid", "class Other:\n    def old(self): ...\nclass Mid")
    )
    assert "use.py" in concerned(files, {**files, "mid.py": rebased})
    renamed = files["base.py"].replace("old", "new")
    assert "use.py" in concerned(files, {**files, "base.py": renamed})


NAMES = st.sampled_from(["a", "b", "c", "run", "get", "A", "B"])
LINES = st.one_of(
    st.builds("from {} import {} as {}\n".format, st.sampled_from("xyz"), NAMES, NAMES),
    st.builds("def {}({}) -> {}: return {}()\n".format, NAMES, NAMES, NAMES, NAMES),
    st.builds("class {}({}):\n    {} = {}()\n    def {}(self): return self.{}\n".format,
              NAMES, NAMES, NAMES, NAMES, NAMES, NAMES),
    st.builds("{} = {}()\n".format, NAMES, NAMES),
    st.builds("def f{}({}: {}): {}.{}().{}()\n".format, NAMES, NAMES, NAMES, NAMES, NAMES, NAMES),
)  # fmt: skip
REPOSITORIES = st.fixed_dictionaries(
    {f"{name}.py": st.lists(LINES, max_size=5).map("".join) for name in "xyz"}
)


@given(REPOSITORIES, st.sampled_from(["x.py", "y.py", "z.py"]), st.lists(LINES, max_size=4))
def test_nothing_else_changes_whatever_is_edited(files, path, lines):
    concerned(files, {**files, path: "".join(lines)})
    removed = {other: text for other, text in files.items() if other != path}
    concerned(files, removed)
    concerned(removed, files)


def test_the_names_a_file_mentions_are_all_it_depends_on():
    names = mentioned_names(facts(FILES)["b.py"])

    assert {"a", "make", "build"} <= names
    assert "get" not in names
    assert set(Snapshot(facts(FILES)).mentioning("build")) == {"b.py"}

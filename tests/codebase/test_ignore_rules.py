"""What is left out without git is what git itself would leave out."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from trees import git, listed, write

from zapomni_core.modules.codebase import SourceTree
from zapomni_core.modules.codebase.tree import parse_rules

FILES = [
    *("a", "b", "ab", "a.c", "b.c", "#x", "!x", "x y", "[a]", "a*b", "-", "A"),
    *("d/a", "d/b", "d/a.c", "d/e/a", "d/e/b.c", "d/e/f/a", "d/e/f/g/b", "ad/a", "ad/d/a.c"),
    *("a.d/b", "a.d/ab", "c.c/a", "y x/a"),
]
PIECES = st.sampled_from(
    [
        *(
            "a",
            "b",
            "d",
            "e",
            "f",
            "c",
            "ab",
            "x",
            " ",
            ".",
            "*",
            "**",
            "?",
            "/",
            "/",
            "**/",
            "/**",
        ),
        *("[a]", "[!a]", "[^ab]", "[a-c]", "[]a]", "[", "]", "[a-", "\\", "\\*", "\\[", "\\ ", "-"),
        *(
            "[[:alpha:]]",
            "[[:digit:]b]",
            "[[:nope:]]",
            "[\\]a]",
            "[z-a]",
            "[!]",
            "!",
            "#",
            "\t",
            "[",
        ),
    ]
)
LINES = st.builds(
    lambda negation, pieces, end: negation + "".join(pieces) + end,
    st.sampled_from(["", "", "", "!"]),
    st.lists(PIECES, min_size=1, max_size=6),
    st.sampled_from(["", "", "/", " ", "\r"]),
).filter(
    # By its manual git takes stars behind a letter for one star; by its code, sometimes for two.
    lambda line: not re.search(r"[^/!*]\*\*", line)
)


@pytest.fixture(scope="module")
def repository():
    """One repository with git, for what git says; no part of it is under our own rules."""
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder), dict.fromkeys(FILES, ""))
        subprocess.run(["git", "init", "-q", folder], check=True)
        yield root


def kept_by_git(root: Path) -> list[str]:
    names = git(root, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    return sorted(name for name in names if name and not name.endswith(".gitignore"))


def kept_by_us(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        return [name for name in listed(root) if not name.endswith(".gitignore")]


@given(
    rules=st.lists(LINES, max_size=5),
    inner=st.lists(LINES, max_size=3),
    deeper=st.lists(LINES, max_size=2),
)
@example(rules=["d/*", "!d/a"], inner=["!e/"], deeper=[])
@example(rules=["*", "!*/", "!*.c"], inner=["*.c", "!a.c"], deeper=["!*"])
@example(rules=["d/**/a"], inner=[], deeper=[])
@example(rules=["**/e/**", "/**/f"], inner=[], deeper=[])
@example(rules=["\\#x", "\\!x", "x\\ y", "a  "], inner=["/a", "/e/b.c"], deeper=[])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rules_leave_out_what_git_leaves_out(repository, monkeypatch, rules, inner, deeper):
    for folder, lines in (("", rules), ("d", inner), ("d/e", deeper)):
        (repository / folder / ".gitignore").write_bytes("\n".join(lines).encode())

    assert kept_by_us(repository, monkeypatch) == kept_by_git(repository)


def test_a_mark_at_the_start_of_the_file_is_no_part_of_the_first_rule(tmp_path):
    write(tmp_path, {".zapomniignore": b"\xef\xbb\xbfa.py\n", "a.py": "", "b.py": ""})

    assert listed(tmp_path) == [".zapomniignore", "b.py"]


def test_a_hostile_pattern_takes_no_longer_than_any_other():
    rules = parse_rules(
        "*a*a*a*a*a*a*a*a*a*a*a*a*b\n**/a/**/a/**/a/**/a/**/a/**/b\n[a-z]*[a-z]*[!x]"
    )
    started = time.process_time()

    assert rules.ignores("a" * 200, is_folder=False) is True
    assert rules.ignores("a/" * 200 + "1", is_folder=False) is None

    assert time.process_time() - started < 1


def test_rules_beyond_reason_are_not_read():
    rules = parse_rules("\n".join(f"f{n}" for n in range(5000)))

    assert rules.ignores("f1", is_folder=False) is True
    assert rules.ignores("f4999", is_folder=False) is None


def test_own_rules_hold_with_git_too_and_do_not_take_in_what_git_leaves_out(tmp_path):
    write(
        tmp_path,
        {
            ".gitignore": "*.log\nbuilt/\n",
            ".zapomniignore": "fixtures/\n!x.log\n",
            "a.py": "",
            "x.log": "",
            "built/b.py": "",
            "fixtures/c.py": "",
            "pkg/.zapomniignore": "skip.py\n",
            "pkg/skip.py": "",
            "pkg/keep.py": "",
        },
    )
    expected = [".gitignore", ".zapomniignore", "a.py", "pkg/.zapomniignore", "pkg/keep.py"]

    assert listed(tmp_path) == expected
    git(tmp_path, "init", "-q")
    assert listed(tmp_path) == expected


def test_a_tracked_file_is_kept_though_a_rule_names_it(tmp_path):
    write(tmp_path, {".gitignore": "*.py\n", "a.py": "", "b.py": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", "a.py")

    assert listed(tmp_path) == [".gitignore", "a.py"]


def test_a_folder_that_the_repository_around_it_ignores_can_be_read_by_name(tmp_path):
    write(tmp_path, {".gitignore": "work/\n", "work/a.py": "", "work/.gitignore": "b.py\n"})
    write(tmp_path, {"work/b.py": ""})
    git(tmp_path, "init", "-q")

    assert listed(tmp_path / "work") == [".gitignore", "a.py"]


def test_only_the_folder_asked_for_is_listed_in_a_repository(tmp_path):
    write(tmp_path, {"a.py": "", "sub/b.py": "", "sub/.gitignore": "", ".gitignore": "c.py\n"})
    write(tmp_path, {"sub/c.py": ""})
    git(tmp_path, "init", "-q")

    assert listed(tmp_path / "sub") == [".gitignore", "b.py"]


def test_git_that_takes_too_long_is_not_waited_for(tmp_path, monkeypatch):
    write(tmp_path, {"repo/a.py": "", "bin/git": "#!/bin/sh\nexec sleep 60\n"})
    git(tmp_path / "repo", "init", "-q")
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr("zapomni_core.infra.git.LIST_SECONDS", 0.05)

    assert listed(tmp_path / "repo") == ["a.py"]


def test_a_bomb_of_patterns_costs_the_limit_of_git_and_no_more(tmp_path, monkeypatch):
    deep = "x/" + "a" * 100 + "/" + "/".join("abcdefghijklmnopqrstuvwxyz")
    bomb = "/x/" + "*a" * 30 + "/b\n" + "**/" * 30 + "zz\n" + "*a" * 100_000 + "\n"
    write(tmp_path, {".gitignore": bomb, f"{deep}/a.py": "", "b.py": ""})
    git(tmp_path, "init", "-q")
    monkeypatch.setattr("zapomni_core.infra.git.LIST_SECONDS", 0.5)

    with SourceTree(tmp_path) as tree:
        assert [file.path for file in tree.files()] == [".gitignore", "b.py", f"{deep}/a.py"]
        assert tree.is_complete


def test_rules_that_take_too_long_in_all_end_the_listing_and_say_so(tmp_path, monkeypatch):
    write(tmp_path, {".zapomniignore": "b.py\n", "a.py": "", "b.py": ""})
    monkeypatch.setattr("zapomni_core.modules.codebase.tree.MATCHING_SECONDS", 0.0)

    with SourceTree(tmp_path) as tree:
        assert list(tree.files()) == []
        assert not tree.is_complete
        assert tree.skipped_counts["ignore rules take too long"] == 1

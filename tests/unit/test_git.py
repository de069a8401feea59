"""Calling git: what it says is read, and it never outlives its limits or its caller."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from project_shapes import build, git, repository
from zapomni_core.infra import git as guarded
from zapomni_core.infra.projects import head_commit, project_of

# A matcher that tries every way for each star is busy for hours with this.
BOMB = "/x/" + "*a" * 30 + "/b\n" + "**/" * 30 + "zz\n"


@pytest.fixture
def bomb(tmp_path):
    repo = repository(tmp_path / "bomb")
    (repo / ".gitignore").write_text(BOMB, "utf-8")
    folder = repo / "x" / ("a" * 100) / "/".join("abcdefghijklmnopqrstuvwxyz")
    folder.mkdir(parents=True)
    (folder / "file").write_text("x", "utf-8")
    yield repo
    # A broken guard must not leave a process behind that nothing else would end.
    for process in running_in(repo):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def running_in(folder: Path) -> list[int]:
    """Return the processes that were started with this folder as an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if os.fsencode(folder) in words:
            found.append(int(entry.name))
    return found


def wait_until_none_runs(folder: Path) -> None:
    deadline = time.monotonic() + 180
    while running_in(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running_in(folder) == []


def test_no_project_has_another_key_than_the_version_before_gave_it(tmp_path):
    import json

    keys = json.loads(
        (Path(__file__).parents[1] / "fixtures" / "project_keys.json").read_text("utf-8")
    )
    shapes = build(tmp_path)
    found = {name: project_of(str(folder)).key for name, folder in shapes.items()}
    assert found == {name: key.replace("{base}", str(tmp_path)) for name, key in keys.items()}


def test_a_bare_repository_inside_a_work_tree_is_a_folder_of_it(tmp_path):
    outer = repository(tmp_path / "outer", remote="git@github.com:org/outer.git")
    git(outer, "init", "-q", "--bare", "docs")
    git(outer / "docs", "remote", "add", "origin", "git@github.com:corp/private.git")
    for folder in (outer / "docs", outer / "docs" / "refs"):
        assert project_of(str(folder)).key == "github.com/org/outer"
        assert project_of(str(folder)).root == str(outer)


def test_every_kind_of_uncommitted_change_is_found(tmp_path):
    repo = repository(tmp_path / "app")
    for name in ("same", "edited", "touched", "staged", "gone", "mode", "hidden"):
        (repo / name).write_text("one\n", "utf-8")
    (repo / ".gitignore").write_text("ignored\n", "utf-8")
    (repo / "link").symlink_to("same")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "all")
    assert guarded.changed_files(str(repo)) == []

    (repo / "edited").write_text("two\n", "utf-8")
    os.utime(repo / "touched", (1, 1))
    (repo / "staged").write_text("two\n", "utf-8")
    git(repo, "add", "staged")
    (repo / "gone").unlink()
    (repo / "mode").chmod(0o755)
    (repo / "hidden").write_text("two\n", "utf-8")
    git(repo, "update-index", "--assume-unchanged", "hidden")
    (repo / "link").unlink()
    (repo / "link").symlink_to("edited")
    (repo / "ignored").write_text("x", "utf-8")
    (repo / "new" / "deep").mkdir(parents=True)
    (repo / "new" / "deep" / "file").write_text("x", "utf-8")
    (repo / "näme\n").write_text("x", "utf-8")
    expected = ["edited", "gone", "link", "mode", "new/", "näme\n", "staged"]
    assert guarded.changed_files(str(repo)) == sorted(expected)


def test_a_change_of_equal_size_and_time_in_the_instant_of_the_index_is_found(tmp_path):
    repo = repository(tmp_path / "app")
    file, index = repo / "file.txt", repo / ".git" / "index"
    moment = file.stat().st_mtime_ns
    file.write_text(file.read_text("utf-8").swapcase(), "utf-8")
    for path in (file, index):
        os.utime(path, ns=(moment, moment))
    assert guarded.changed_files(str(repo)) == ["file.txt"]
    # Written again, the index marks what has changed in the same instant.
    git(repo, "update-index", "--force-write-index", "-q")
    assert guarded.changed_files(str(repo)) == ["file.txt"]


def test_before_the_first_commit_everything_is_new(tmp_path):
    repo = repository(tmp_path / "app", commits=0)
    (repo / "added").write_text("x", "utf-8")
    git(repo, "add", ".")
    (repo / "other").write_text("x", "utf-8")
    assert guarded.changed_files(str(repo)) == ["added", "other"]


def test_a_pipe_in_the_place_of_a_git_file_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(guarded, "HOOK_SECONDS", 0.2)
    for name in ("config", "HEAD", "commondir", "packed-refs", "index"):
        repo = repository(tmp_path / name)
        (repo / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(repo / ".git" / name)
        assert project_of(str(repo)).root == str(repo)
        guarded.changed_files(str(repo))


def test_a_listing_that_takes_too_long_is_ended_with_all_it_started(bomb, monkeypatch):
    monkeypatch.setattr(guarded, "LIST_SECONDS", 0.5)
    assert guarded.list_files(str(bomb)) is None
    wait_until_none_runs(bomb)


def test_a_listing_that_is_too_long_is_ended(tmp_path, monkeypatch):
    repo = repository(tmp_path / "app")
    monkeypatch.setattr(guarded, "MAX_LISTING", 5)
    assert guarded.list_files(str(repo)) is None
    wait_until_none_runs(repo)


def test_git_ends_when_its_caller_is_killed(bomb):
    code = (
        "import sys; from zapomni_core.infra import git;"
        "git.LIST_SECONDS = 600; git.list_files(sys.argv[1])"
    )
    caller = subprocess.Popen([sys.executable, "-c", code, str(bomb)])
    deadline = time.monotonic() + 180
    while len(running_in(bomb)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(running_in(bomb)) >= 3  # The caller, the shell and git.
    caller.send_signal(signal.SIGKILL)
    caller.wait(timeout=180)
    wait_until_none_runs(bomb)


def test_git_is_found_wherever_the_caller_is(tmp_path, monkeypatch):
    repo = repository(tmp_path / "app")
    gone = tmp_path / "gone"
    gone.mkdir()
    # A program of the user's own, above the repository and not inside.
    (tmp_path / "bin").mkdir()
    program = Path(shutil.which("git") or "")
    (tmp_path / "bin" / "git").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for folder in (Path("/"), tmp_path, repo, gone):
        monkeypatch.chdir(folder)
        gone.rmdir() if folder == gone else None
        assert guarded.list_files(str(repo)) == ["file.txt"]
        assert len(guarded.list_root_commits(str(repo))) == 1
    monkeypatch.chdir("/")


def test_commits_are_read_newest_first_with_the_files_they_changed(tmp_path):
    repo = repository(tmp_path / "shop")
    odd = "line\nbreak.txt"
    (repo / odd).write_text("x", "utf-8")
    (repo / "b.txt").write_text("x", "utf-8")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Add two\n\nBecause \x1e and \x1d are no marks.\n")
    git(repo, "checkout", "-qb", "side")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Nothing changed")
    git(repo, "checkout", "-q", "-")
    (repo / "c.txt").write_text("x", "utf-8")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Third")
    git(repo, "merge", "-q", "--no-ff", "-m", "a merge", "side")

    head = head_commit(str(repo))
    commits = list(guarded.read_commits(str(repo), head, 10))
    found = {commit.message.split("\n")[0]: commit for commit in commits}
    assert "a merge" not in found
    assert found["Add two"].files == ["b.txt", odd]
    assert found["Add two"].message == "Add two\n\nBecause \x1e and \x1d are no marks.\n"
    assert found["Nothing changed"].files == []
    assert found["Third"].files == ["c.txt"]
    assert all(len(commit.sha) == 40 and commit.time > 0 for commit in commits)
    assert len(list(guarded.read_commits(str(repo), head, 2))) == 2
    last = list(guarded.read_commits(str(repo), head, 10, len(commits) - 1))
    assert [commit.sha for commit in last] == [commits[-1].sha]
    assert guarded.count_commits(str(repo), head) == len(commits)
    assert guarded.count_commits(str(repo), head, 2) == 2


def test_commits_are_read_page_by_page(tmp_path, monkeypatch):
    repo = repository(tmp_path / "shop")
    for number in range(5):
        git(repo, "commit", "-q", "--allow-empty", "-m", f"commit {number}")
    everything = [c.sha for c in guarded.read_commits(str(repo), head_commit(str(repo)), 100)]
    monkeypatch.setattr(guarded, "LOG_PAGE", 2)
    paged = [c.sha for c in guarded.read_commits(str(repo), head_commit(str(repo)), 100)]
    assert paged == everything
    assert len(set(paged)) == len(paged) >= 5


def test_a_commit_that_changes_too_many_files_is_read_without_them(tmp_path, monkeypatch):
    repo = repository(tmp_path / "shop")
    for number in range(100):
        (repo / f"a-file-with-a-long-name-{number:04}.txt").write_text("x", "utf-8")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Many")
    run = guarded._run
    monkeypatch.setattr(guarded, "_run", lambda *given, **named: run(*given, most=2000, **named))
    first = next(guarded.read_commits(str(repo), head_commit(str(repo)), 1))
    assert (first.message, first.files) == ("Many\n", None)


@pytest.mark.parametrize("head", ["", "HEAD", "--all", "0" * 39, "g" * 40, "--output=/tmp/x"])
def test_only_a_whole_commit_id_can_be_asked_for(tmp_path, head):
    assert list(guarded.read_commits(str(repository(tmp_path / "shop")), head, 5)) == []


def test_the_history_of_a_file_has_its_contents_after_each_commit(tmp_path):
    repo = repository(tmp_path / "shop")
    start = head_commit(str(repo))
    for number in range(3):
        (repo / "one.py").write_text(f"a = {number}\n\nb = 1\n", encoding="utf-8")
        git(repo, "add", "one.py")
        git(repo, "commit", "-qm", f"number {number}")
    head = head_commit(str(repo))
    history = guarded.read_file_history(str(repo), start, head, "one.py", 10)
    assert history is not None
    assert [(one.subject, one.data) for one in history] == [
        (f"number {number}", f"a = {number}\n\nb = 1\n".encode()) for number in (2, 1, 0)
    ]
    # The oldest ones count: since one of them it is different.
    oldest = guarded.read_file_history(str(repo), start, head, "one.py", 1)
    assert [one.subject for one in oldest or []] == ["number 0"]
    assert guarded.read_file_history(str(repo), head, head, "one.py", 10) == []
    assert guarded.read_file_history(str(repo), "--output=x", head, "one.py", 10) is None
    assert guarded.read_file_history(str(repo), "0" * 40, head, "one.py", 10) is None

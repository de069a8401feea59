"""Which project a folder belongs to, asked of real repositories made by git itself."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from zapomni_core.infra import git as git_calls
from zapomni_core.infra.git import changed_files
from zapomni_core.infra.projects import normalize_remote, project_of


def git(folder, *arguments: str) -> str:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env={**os.environ, **identity, "GIT_COMMITTER_EMAIL": "a@b"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def repository(folder, remote: str = "", commits: int = 1):
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for number in range(commits):
        # A different first file makes a different root commit.
        (folder / "file.txt").write_text(f"{folder} {number}", encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"commit {number}")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize(
    "address",
    [
        "git@github.com:Org/App.git",
        "git@GitHub.com:Org/App",
        "github.com:Org/App.git",
        "https://github.com/Org/App",
        "https://github.com/Org/App.git/",
        "https://user:pa55word@github.com/Org/App.git",
        "https://token@github.com:443/Org//App.git?x=1",
        "ssh://git@github.com/Org/App.git",
        "ssh://git@github.com:22/Org/App.git",
        "git://github.com/Org/App.git",
        "git+ssh://git@github.com/Org/App.git",
    ],
)
def test_all_ways_to_write_a_remote_are_one_project(address):
    assert normalize_remote(address) == "github.com/Org/App"


def test_different_remotes_stay_different():
    addresses = [
        "https://github.com/a/app",
        "https://github.com/b/app",
        "https://gitlab.com/a/app",
        "ssh://git@host:2222/a/app",
        "ssh://git@host:2223/a/app",
        "git@host:a/app",
        "/srv/git/app.git",
        "C:\\git\\app",
        "file:///srv/git/other.git",
    ]
    assert len({normalize_remote(address) for address in addresses}) == len(addresses)
    assert normalize_remote("file:///srv/git/app.git") == normalize_remote("/srv/git/app")


def test_two_checkouts_of_one_name_never_mix(tmp_path):
    one = repository(tmp_path / "one" / "app", "git@github.com:one/app.git")
    two = repository(tmp_path / "two" / "app", "git@github.com:two/app.git")
    local = repository(tmp_path / "three" / "app")
    plain = tmp_path / "four" / "app"
    plain.mkdir(parents=True)
    found = [project_of(str(folder)) for folder in (one, two, local, plain)]
    assert len({project.key for project in found}) == 4
    assert {project.name for project in found} == {"app"}


def test_every_clone_folder_and_form_of_one_remote_is_one_project(tmp_path):
    first = repository(tmp_path / "app", "https://me:pw@github.com/org/app.git")
    second = repository(tmp_path / "copy-of-app", "git@github.com:org/app")
    (first / "src" / "deep").mkdir(parents=True)
    found = [project_of(str(f)) for f in (first, second, first / "src" / "deep")]
    assert {(project.key, project.name) for project in found} == {("github.com/org/app", "app")}


def test_a_worktree_belongs_to_its_repository_and_has_its_own_branch(tmp_path):
    for remote in ("", "git@github.com:org/app.git"):
        main = repository(tmp_path / f"app{bool(remote)}", remote)
        tree = tmp_path / f"elsewhere{bool(remote)}"
        git(main, "worktree", "add", "-q", "-b", "feature/x", str(tree))
        assert project_of(str(tree)).key == project_of(str(main)).key
        assert project_of(str(tree)).name == project_of(str(main)).name
        assert project_of(str(tree)).branch == "feature/x"
        assert project_of(str(main)).branch == "main"


def test_without_a_remote_the_root_commit_decides_and_is_asked_of_git_once(tmp_path, monkeypatch):
    main = repository(tmp_path / "app", commits=3)
    root = git(main, "rev-list", "--max-parents=0", "HEAD")
    cache = tmp_path / "roots.json"

    assert project_of(str(main), str(cache)).key == f"root:{root}"

    assert json.loads(cache.read_text(encoding="utf-8")) == {str(main / ".git"): root}
    monkeypatch.setattr(git_calls, "list_root_commits", lambda _: pytest.fail("git was asked"))
    assert project_of(str(main), str(cache)).key == f"root:{root}"


def test_a_moved_repository_without_remote_keeps_its_project(tmp_path):
    main = repository(tmp_path / "app")
    before = project_of(str(main)).key
    main.rename(tmp_path / "renamed")
    assert project_of(str(tmp_path / "renamed")).key == before


def test_another_remote_counts_if_there_is_no_origin(tmp_path):
    main = repository(tmp_path / "app")
    git(main, "remote", "add", "first", "git@github.com:first/app.git")
    git(main, "remote", "add", "mine", "git@github.com:mine/app.git")
    assert project_of(str(main)).key == "github.com/first/app"
    git(main, "config", "branch.main.remote", "mine")
    assert project_of(str(main)).key == "github.com/mine/app"


def test_a_submodule_is_a_project_of_its_own(tmp_path):
    library = repository(tmp_path / "library")
    main = repository(tmp_path / "app", "git@github.com:org/app.git")
    git(main, "submodule", "add", "-q", str(library), "vendored")
    assert project_of(str(main / "vendored")).key == str(library)
    assert project_of(str(main / "vendored")).key != project_of(str(main)).key


def test_a_folder_without_repository_and_one_without_commits_are_their_paths(tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    link = tmp_path / "link"
    link.symlink_to(plain)
    assert project_of(str(link)).key == str(plain)
    empty = repository(tmp_path / "empty", commits=0)
    assert project_of(str(empty)).key == str(empty)
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    assert project_of(str(bare)).name == "bare"


@pytest.mark.parametrize("cwd", ["/no/such/folder", "", "\0", "relative", "/" + "x" * 5000])
def test_a_project_can_always_be_named(cwd):
    assert project_of(cwd).name


def test_broken_git_files_are_no_obstacle(tmp_path):
    for number, content in enumerate(("gitdir: /nowhere", "nonsense", "")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / ".git").write_text(content, encoding="utf-8")
        assert project_of(str(folder)).name
    broken = repository(tmp_path / "broken", commits=0)
    (broken / ".git" / "config").write_bytes(b"[remote \xff\n[[[\nurl = \n= x")
    (tmp_path / "cache").write_text("[1]", encoding="utf-8")
    assert project_of(str(broken), str(tmp_path / "cache")).key == str(broken)


def test_changed_files_are_relative_to_the_checkout(tmp_path):
    main = repository(tmp_path / "app")
    (main / "file.txt").write_text("changed", encoding="utf-8")
    (main / "new one.txt").write_text("new", encoding="utf-8")
    assert changed_files(str(main)) == ["file.txt", "new one.txt"]
    assert changed_files(str(tmp_path)) == []
    assert changed_files("/no/such/folder") == []

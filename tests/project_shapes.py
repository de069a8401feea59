"""Repositories of every shape a project's key is read from, equal in every run.

`python tests/project_shapes.py SRC FOLDER` records the keys that a version of Zapomni gives them:
`fixtures/project_keys.json` was made so, by the hook of the last version that asked git freely.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
REMOTES = {
    "scp": "git@github.com:Org/App.git",
    "https": "https://user:word@GitHub.com:443/Org/Web.git/",
    "ssh-port": "ssh://git@host.example:2222/team/tool.git",
    "git": "git://host.example/a/b//c.git",
    "file": "file:///srv/git/other.git",
    "local": "/srv/git/app.git",
    "relative": "../elsewhere.git",
    "windows": "C:\\git\\app",
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, **IDENTITY},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def repository(folder: Path, *, commits: int = 1, remote: str = "") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for number in range(commits):
        (folder / "file.txt").write_text(f"{folder.name} {number}\n", encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"commit {number}")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


def build(base: Path) -> dict[str, Path]:
    """Make the repositories; return the folder to start in for each."""
    shapes = {
        f"remote-{name}": repository(base / f"remote-{name}", remote=address)
        for name, address in REMOTES.items()
    }
    plain = base / "plain"
    plain.mkdir()
    shapes |= {
        "plain": plain,
        "missing": base / "missing",
        "no-commits": repository(base / "no-commits", commits=0),
        "no-commits-remote": repository(base / "none", commits=0, remote=REMOTES["scp"]),
        "root-commit": repository(base / "root-commit", commits=3),
    }
    (shapes["root-commit"] / "deep" / "er").mkdir(parents=True)
    shapes["deep"] = shapes["root-commit"] / "deep" / "er"
    shapes["inside-git"] = shapes["root-commit"] / ".git" / "hooks"

    packed = shapes["packed"] = repository(base / "packed", commits=2)
    git(packed, "gc", "-q")
    two = shapes["two-roots"] = repository(base / "two-roots")
    git(two, "checkout", "-q", "--orphan", "second")
    git(two, "commit", "-qm", "another root")
    detached = shapes["detached"] = repository(base / "detached", commits=2)
    git(detached, "checkout", "-q", "--detach", "HEAD~1")
    replaced = shapes["replaced"] = repository(base / "replaced", commits=2)
    git(replaced, "replace", "--graft", "HEAD")
    included = shapes["included-remote"] = repository(base / "included")
    (base / "included.config").write_text('[remote "origin"]\n\turl = git@h:x/y\n', "utf-8")
    git(included, "config", "include.path", str(base / "included.config"))
    branch = shapes["branch-remote"] = repository(base / "branch-remote")
    git(branch, "remote", "add", "first", "git@github.com:first/app.git")
    git(branch, "remote", "add", "mine", "git@github.com:mine/app.git")
    git(branch, "config", "branch.main.remote", "mine")
    moved = shapes["core-worktree"] = repository(base / "core-worktree")
    git(moved, "config", "core.worktree", str(plain))

    for name, remote in (("worktree", ""), ("worktree-remote", REMOTES["scp"])):
        main = repository(base / f"{name}-main", remote=remote)
        git(main, "worktree", "add", "-q", "-b", "x", str(base / name))
        shapes[name], shapes[f"{name}-main"] = base / name, main
    separate = shapes["separate"] = base / "separate"
    separate.mkdir()
    git(separate, "init", "-q", "--separate-git-dir", str(base / "separate-git"))
    git(separate, "commit", "-q", "--allow-empty", "-m", "first")

    for name, remote in (("bare", ""), ("bare-remote", REMOTES["scp"])):
        bare = shapes[name] = base / f"{name}.git"
        git(base, "clone", "-q", "--bare", str(packed), str(bare))
        git(bare, "remote", "remove", "origin")
        if remote:
            git(bare, "remote", "add", "origin", remote)
    git(base, "init", "-q", "--bare", "bare-empty.git")
    shapes["bare-empty"] = base / "bare-empty.git"
    git(shapes["bare"], "worktree", "add", "-q", str(base / "of-bare"), "main")
    shapes["worktree-of-bare"] = base / "of-bare"
    library = repository(base / "library")
    outer = repository(base / "outer", remote=REMOTES["https"])
    git(outer, "submodule", "add", "-q", str(library), "vendored")
    shapes["submodule"] = outer / "vendored"
    shapes["nested"] = repository(outer / "nested")
    link = shapes["link"] = base / "link"
    link.symlink_to(shapes["root-commit"])
    nowhere = shapes["nowhere"] = base / "nowhere"
    nowhere.mkdir()
    (nowhere / ".git").write_text("gitdir: /no/such/folder\n", encoding="utf-8")
    return shapes


def record_keys(source: Path, base: Path, shapes: dict[str, Path]) -> dict[str, str]:
    """Return the projects that a version's own hook stores events of these folders under."""
    home = base / "home"
    hook = [sys.executable, "-I", "-S", str(source / "zapomni_cli" / "hook.py")]
    for name, folder in shapes.items():
        event = {"session_id": name, "cwd": str(folder), "event": "marker", "text": name}
        subprocess.run(
            hook,
            input=json.dumps(event).encode(),
            env={**os.environ, "ZAPOMNI_HOME": str(home)},
            check=True,
        )
    database = sqlite3.connect(home / "zapomni.db")
    found = dict(database.execute("SELECT content, project FROM observations"))
    database.close()
    return found


if __name__ == "__main__":
    source, base = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    keys = record_keys(source, base, build(base))
    print(json.dumps({n: k.replace(str(base), "{base}") for n, k in keys.items()}, indent=1))

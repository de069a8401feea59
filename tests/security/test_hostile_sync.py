"""A sync runs nothing that its repository says: a canary that must never appear."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_repositories import SETUPS, Trap

from project_shapes import git
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import ZapomniError
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

HOOKS = """
applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit post-merge
post-index-change post-receive post-rewrite post-update pre-applypatch pre-auto-gc pre-commit
pre-merge-commit pre-push pre-rebase pre-receive prepare-commit-msg proc-receive push-to-checkout
reference-transaction sendemail-validate update
""".split()
MARKER = '{\n  "format": 1,\n  "zapomni": "export"\n}\n'


def shared(trap: Trap) -> Path:
    """A repository for memories, with one commit that others pushed."""
    repo = trap.base / "memories"
    bare = trap.base / "remote.git"
    git(trap.base, "init", "-q", "--bare", "--initial-branch=main", str(bare))
    git(trap.base, "init", "-q", "--initial-branch=main", str(repo))
    (repo / "zapomni.json").write_text(MARKER, "utf-8")
    (repo / "README.md").write_text("Memories.\n", "utf-8")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Begin")
    git(repo, "remote", "add", "origin", str(bare))
    git(repo, "push", "-q", "origin", "main")
    return repo


def arm_hooks(trap: Trap, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copy(trap.program, folder / name)


def hooks(trap: Trap) -> Path:
    repo = shared(trap)
    arm_hooks(trap, repo / ".git" / "hooks")
    return repo


def hooks_elsewhere(trap: Trap) -> Path:
    repo = shared(trap)
    arm_hooks(trap, trap.base / "hooks")
    trap.configure(repo, core__hooksPath=str(trap.base / "hooks"))
    return repo


def hooks_of_a_remote_inside(trap: Trap) -> Path:
    repo = shared(trap)
    inside = repo / "sub" / "evil.git"
    inside.parent.mkdir()
    shutil.move(trap.base / "remote.git", inside)
    arm_hooks(trap, inside / "hooks")
    git(inside, "config", "core.fsmonitor", str(trap.program))
    git(inside, "config", "core.alternateRefsCommand", str(trap.program))
    git(inside, "config", "uploadpack.packObjectsHook", str(trap.program))
    git(repo, "remote", "set-url", "origin", "./sub/evil.git")
    return repo


def filters(trap: Trap) -> Path:
    repo = shared(trap)
    command = str(trap.program)
    trap.configure(
        repo,
        filter__evil__clean=command,
        filter__evil__smudge=command,
        filter__evil__process=command,
        merge__evil__driver=command,
        diff__evil__textconv=command,
        diff__evil__command=command,
    )
    (repo / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n", "utf-8")
    return repo


def programs(trap: Trap) -> Path:
    repo = shared(trap)
    command = str(trap.program)
    trap.configure(
        repo,
        core__fsmonitor=command,
        core__pager=command,
        core__editor=command,
        core__askPass=command,
        core__sshCommand=command,
        core__gitProxy=command,
        core__alternateRefsCommand=command,
        credential__helper=command,
        gpg__program=command,
        commit__gpgSign="true",
        push__gpgSign="true",
        diff__external=command,
        trailer__evil__command=command,
        uploadpack__packObjectsHook=command,
        gc__auto="1",
    )
    for name in ("fast-import", "ls-tree", "cat-file", "fetch", "push", "update-index", "config"):
        git(repo, "config", f"alias.{name}", f"!{command}")
    return repo


def programs_of_the_remote(trap: Trap) -> Path:
    repo = shared(trap)
    command = str(trap.program)
    trap.configure(
        repo, remote__origin__uploadpack=command, remote__origin__receivepack=command,
        remote__origin__vcs="evil", remote__origin__promisor="true",
    )  # fmt: skip
    return repo


def rewritten_address(trap: Trap) -> Path:
    repo = shared(trap)
    address = str(trap.base / "remote.git")
    with (repo / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(f'[url "{trap.ext} "]\n\tinsteadOf = {address}\n\tpushInsteadOf = {address}\n')
    trap.configure(repo, protocol__ext__allow="always", protocol__allow="always")
    return repo


def program_as_address(trap: Trap) -> Path:
    repo = shared(trap)
    git(repo, "remote", "set-url", "origin", trap.ext)
    trap.configure(repo, protocol__ext__allow="always")
    return repo


def option_as_address(trap: Trap) -> Path:
    repo = shared(trap)
    git(repo, "config", "remote.origin.url", f"--upload-pack={trap.program}")
    return repo


def ssh_with_an_option(trap: Trap) -> Path:
    repo = shared(trap)
    git(repo, "config", "remote.origin.url", f"ssh://-oProxyCommand={trap.program}/x")
    return repo


def included(trap: Trap) -> Path:
    repo = programs(trap)
    (repo / ".git" / "config").rename(repo / "more")
    (repo / ".git" / "config").write_text("[include]\n\tpath = ../more\n", "utf-8")
    return repo


def programs_in_the_folder(trap: Trap) -> Path:
    repo = shared(trap)
    for name in ("git", "ssh", "sh", "git-upload-pack", "git-receive-pack", "git-fast-import"):
        shutil.copy(trap.program, repo / name)
    trap.environment["PATH"] = f".:{repo}:{os.environ['PATH']}"
    return repo


def from_others(trap: Trap) -> Path:
    """What others push has attributes and a link."""
    repo = shared(trap)
    other = trap.base / "other"
    git(trap.base, "clone", "-q", str(trap.base / "remote.git"), str(other))
    (other / ".gitattributes").write_text("* filter=evil\n", "utf-8")
    (other / "link").symlink_to(trap.base / "outside")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "Evil")
    git(other, "push", "-q", "origin", "main")
    trap.configure(repo, filter__evil__smudge=str(trap.program), submodule__recurse="true")
    return repo


def module_from_others(trap: Trap) -> Path:
    """What others push has a module whose update is a program: git itself refuses that."""
    repo = from_others(trap)
    other = trap.base / "other"
    (other / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = {trap.ext}\n\tupdate = !{trap.program}\n', "utf-8"
    )
    git(other, "add", "-A")
    git(other, "commit", "-qm", "More")
    git(other, "push", "-q", "origin", "main")
    return repo


SYNCED: list[Callable[[Trap], Path]] = [
    hooks, hooks_elsewhere, hooks_of_a_remote_inside, filters, programs, programs_of_the_remote,
    rewritten_address, program_as_address, option_as_address, ssh_with_an_option, included,
    programs_in_the_folder, from_others, module_from_others,
]  # fmt: skip
# Others, which are made for readers: a folder of memories that is one of them, too.
READ = [
    "filter_clean", "fsmonitor", "hooks_path", "promisor_by_include", "git_file_pointing_inside",
    "linked_worktree", "work_tree_elsewhere", "alternates", "replace_refs", "grafts",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _identity(private_home):
    config = private_home.parent / ".gitconfig"
    config.write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n", "utf-8")


async def test_no_sync_runs_what_its_repository_says(tmp_path, monkeypatch):
    done: set[str] = set()
    async with await create_engine(load_settings(embedder="none")) as engine:
        for number, name in enumerate([*(one.__name__ for one in SYNCED), *READ]):
            folder = tmp_path / f"trap {name}"
            folder.mkdir()
            trap = Trap(folder)
            setup = SETUPS[name] if name in READ else globals()[name]
            repo = setup(trap)
            if name in READ:
                (repo / "zapomni.json").write_text(MARKER, "utf-8")
            trap.canary.unlink(missing_ok=True)
            await engine.add_memory(AddMemoryRequest(text=f"Fact {number}."))
            with monkeypatch.context() as patched:
                for variable, value in trap.environment.items():
                    patched.setenv(variable, value)
                patched.chdir(repo)
                try:
                    for _ in range(2):
                        await engine.sync.run(repo, yes=True)
                    done.add(name)
                except ZapomniError:
                    pass  # Refused, or git cannot read it: both run nothing.
            assert not trap.canary.exists(), name
            assert not (folder / "outside").exists()
    # Where the repository itself is sound, the memories have arrived.
    sound = {"hooks", "hooks_elsewhere", "hooks_of_a_remote_inside", "filters", "programs",
             "programs_of_the_remote", "rewritten_address", "programs_in_the_folder", "from_others",
             "included"}  # fmt: skip
    assert sound <= done, sound - done
    for name in sound - {"hooks_of_a_remote_inside"}:
        bare = tmp_path / f"trap {name}" / "remote.git"
        assert "memories/" in git(bare, "ls-tree", "-r", "--name-only", "main"), name


def test_the_traps_are_armed(tmp_path):
    """Careless commands spring them."""
    for setup, commands in (
        (hooks, [["commit", "-q", "--allow-empty", "-m", "x"]]),
        (filters, [["add", "-A"]]),
        (programs, [["status"]]),
        (rewritten_address, [["fetch", "-q"]]),
        (programs_of_the_remote, [["config", "--unset", "remote.origin.vcs"], ["fetch", "-q"]]),
        (hooks_of_a_remote_inside,
         [["commit", "-q", "--allow-empty", "-m", "x"], ["push", "-q", "origin", "main"]]),
    ):  # fmt: skip
        folder = tmp_path / setup.__name__
        folder.mkdir()
        trap = Trap(folder)
        repo = setup(trap)
        trap.canary.unlink(missing_ok=True)
        for command in commands:
            subprocess.run(
                ["git", *command], cwd=repo, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=120, check=False,
            )  # fmt: skip
        assert trap.canary.exists(), setup.__name__


async def test_what_a_sync_writes_is_readable_by_the_user_alone(tmp_path, private_home):
    trap = Trap(tmp_path)
    repo = shared(trap)
    async with await create_engine(load_settings(embedder="none")) as engine:
        await engine.add_memory(AddMemoryRequest(text="A fact."))
        await engine.sync.run(repo)
    written = [
        *(repo / "memories").rglob("*.json"),
        private_home,
        *(private_home / "sync").iterdir(),
    ]
    for path in written:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path

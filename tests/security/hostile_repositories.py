"""Repositories that run a command when git is asked about them carelessly.

Each set-up is a function that packs a folder and returns where an agent starts in it; what runs
leaves the file `canary`. `TRAPS` names ordinary git commands that spring some of them, to prove
that they are armed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from project_shapes import git, repository

# A number that makes the times of two files equal.
MOMENT = 1_700_000_000
HOOKS = ("post-index-change", "reference-transaction", "pre-auto-gc", "post-checkout", "fsmonitor")


class Trap:
    """A folder being packed, and the program that must never run."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.canary = base / "canary"
        self.program = base / "evil.sh"
        self.program.write_text(f'#!/bin/sh\necho run >> "{self.canary}"\nexit 1\n', "utf-8")
        self.program.chmod(0o755)
        self.environment: dict[str, str] = {}

    def repository(self, name: str = "app", commits: int = 2) -> Path:
        return repository(self.base / name, commits=commits)

    def configure(self, folder: Path, **settings: str) -> None:
        for name, value in settings.items():
            section, _, key = name.replace("__", ".").rpartition(".")
            git(folder, "config", "--add", f"{section}.{key}", value)

    @property
    def ext(self) -> str:
        return f"ext::{self.program}"


def _punch_holes(repo: Path) -> None:
    """Remove all objects but the newest commit: who wants one has to fetch it."""
    head = git(repo, "rev-parse", "HEAD")
    for file in list((repo / ".git" / "objects").glob("??/*")):
        if file.parent.name + file.name != head:
            file.unlink()


def _promisor(trap: Trap, repo: Path, url: str, **more: str) -> None:
    trap.configure(
        repo,
        core__repositoryFormatVersion="1",
        extensions__partialClone="evil",
        remote__evil__promisor="true",
        remote__evil__url=url,
        protocol__allow="always",
        protocol__ext__allow="always",
        **more,
    )
    # Any key but a remote's would hide the question for the root commit.
    _hide_remote(repo)
    _punch_holes(repo)


def _hide_remote(repo: Path) -> None:
    """Move the remote into a file that only git itself would include."""
    config = repo / ".git" / "config"
    (repo / ".git" / "more").write_text(config.read_text("utf-8"), "utf-8")
    config.write_text("[core]\n\trepositoryformatversion = 1\n[include]\n\tpath = more\n", "utf-8")


def _touch(repo: Path, name: str = "file.txt") -> None:
    (repo / name).write_text("changed since the last commit\n", "utf-8")


def _age(repo: Path, name: str = "file.txt") -> None:
    """Give a file another time and no other content: then git writes the index, and runs hooks."""
    os.utime(repo / name, (10**9, 10**9))


def _filter(trap: Trap, key: str, where: str = ".gitattributes") -> Path:
    repo = trap.repository()
    trap.configure(repo, **{f"filter__evil__{key}": str(trap.program)})
    (repo / where).write_text("* filter=evil\n", "utf-8")
    # Same length, other content: git has to read it to know.
    file = repo / "file.txt"
    file.write_text(file.read_text("utf-8").swapcase(), "utf-8")
    return repo


def filter_clean(trap: Trap) -> Path:
    return _filter(trap, "clean")


def filter_smudge(trap: Trap) -> Path:
    return _filter(trap, "smudge")


def filter_process(trap: Trap) -> Path:
    return _filter(trap, "process")


def filter_by_info_attributes(trap: Trap) -> Path:
    return _filter(trap, "clean", ".git/info/attributes")


def racy_archive(trap: Trap) -> Path:
    repo = trap.repository()
    trap.configure(
        repo,
        core__checkStat="minimal",
        core__trustctime="false",
        filter__evil__clean=str(trap.program),
    )
    file = repo / "file.txt"
    os.utime(file, (MOMENT, MOMENT))
    git(repo, "update-index", "--refresh")
    # Written in the same instant as the index, as every file of an archive is.
    file.write_text(file.read_text("utf-8").swapcase(), "utf-8")
    (repo / ".gitattributes").write_text("* filter=evil\n", "utf-8")
    for path in (file, repo / ".git" / "index"):
        os.utime(path, (MOMENT, MOMENT))
    return repo


def fsmonitor(trap: Trap) -> Path:
    repo = trap.repository()
    trap.configure(repo, core__fsmonitor=str(trap.program))
    _touch(repo)
    return repo


def hooks_path(trap: Trap) -> Path:
    repo = trap.repository()
    folder = trap.base / "hooks"
    folder.mkdir()
    for name in HOOKS:
        shutil.copy(trap.program, folder / name)
    trap.configure(repo, core__hooksPath=str(folder))
    _age(repo)
    return repo


def hooks_folder(trap: Trap) -> Path:
    repo = trap.repository()
    for name in HOOKS:
        shutil.copy(trap.program, repo / ".git" / "hooks" / name)
    _age(repo)
    return repo


def pager(trap: Trap) -> Path:
    repo = trap.repository()
    command = str(trap.program)
    trap.configure(repo, core__pager=command)
    for name in ("ls-files", "rev-list", "diff-index", "status", "log"):
        git(repo, "config", f"pager.{name}", command)
    return repo


def editor(trap: Trap) -> Path:
    repo = trap.repository()
    trap.configure(repo, core__editor=str(trap.program), sequence__editor=str(trap.program))
    return repo


def external_diff(trap: Trap) -> Path:
    repo = trap.repository()
    trap.configure(repo, diff__external=str(trap.program))
    _touch(repo)
    git(repo, "add", ".")
    return repo


def textconv(trap: Trap) -> Path:
    repo = trap.repository()
    command = str(trap.program)
    trap.configure(repo, diff__evil__textconv=command, diff__evil__command=command)
    (repo / ".gitattributes").write_text("* diff=evil\n", "utf-8")
    _touch(repo)
    git(repo, "add", ".")
    return repo


def promisor(trap: Trap) -> Path:
    repo = trap.repository()
    _promisor(trap, repo, trap.ext)
    shutil.copy(repo / ".git" / "more", repo / ".git" / "config")
    return repo


def promisor_by_include(trap: Trap) -> Path:
    repo = trap.repository()
    _promisor(trap, repo, trap.ext)
    return repo


def promisor_by_include_if(trap: Trap) -> Path:
    repo = promisor_by_include(trap)
    config = repo / ".git" / "config"
    text = config.read_text("utf-8").replace("[include]", '[includeIf "gitdir:**"]')
    config.write_text(text, "utf-8")
    return repo


def promisor_by_worktree_config(trap: Trap) -> Path:
    repo = promisor_by_include(trap)
    shutil.move(repo / ".git" / "more", repo / ".git" / "config.worktree")
    text = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"
    (repo / ".git" / "config").write_text(text, "utf-8")
    return repo


def promisor_by_ssh(trap: Trap) -> Path:
    repo = trap.repository()
    _promisor(trap, repo, "ssh://host.invalid/x", core__sshCommand=str(trap.program))
    return repo


def promisor_by_git_proxy(trap: Trap) -> Path:
    repo = trap.repository()
    _promisor(trap, repo, "git://host.invalid/x", core__gitProxy=str(trap.program))
    return repo


def promisor_by_upload_pack(trap: Trap) -> Path:
    repo = trap.repository()
    _promisor(trap, repo, str(trap.base), remote__evil__uploadpack=str(trap.program))
    return repo


def promisor_by_helper(trap: Trap) -> Path:
    repo = trap.repository()
    _promisor(trap, repo, "evil::x", remote__evil__vcs="evil")
    shutil.copy(trap.program, repo / "git-remote-evil")
    trap.environment["PATH"] = f".:{repo}:{os.environ['PATH']}"
    return repo


def promisor_by_rewritten_address(trap: Trap) -> Path:
    repo = trap.repository()
    _promisor(trap, repo, "https://host.invalid/x")
    with (repo / ".git" / "more").open("a", encoding="utf-8") as file:
        file.write(f'[url "{trap.ext} "]\n\tinsteadOf = https://host.invalid/x\n')
    return repo


def pack_objects_hook(trap: Trap) -> Path:
    repo = trap.repository()
    other = repository(trap.base / "other")
    trap.configure(other, uploadpack__packObjectsHook=str(trap.program))
    _promisor(trap, repo, str(other), uploadpack__packObjectsHook=str(trap.program))
    return repo


def ask_pass(trap: Trap) -> Path:
    repo = trap.repository()
    command = str(trap.program)
    _promisor(
        trap,
        repo,
        "http://127.0.0.1:9/x",
        core__askPass=command,
        credential__helper=command,
    )
    return repo


def signature_program(trap: Trap) -> Path:
    repo = trap.repository()
    trap.configure(repo, gpg__program=str(trap.program), log__showSignature="true")
    commit = git(repo, "cat-file", "commit", "HEAD")
    head, _, message = commit.partition("\n\n")
    signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n"
    (trap.base / "commit").write_text(f"{signed}{message}\n", "utf-8")
    name = git(repo, "hash-object", "-t", "commit", "-w", str(trap.base / "commit"))
    git(repo, "update-ref", "HEAD", name)
    return repo


def aliases(trap: Trap) -> Path:
    repo = trap.repository()
    for name in ("ls-files", "rev-list", "diff-index", "status", "rev-parse", "lsfiles"):
        git(repo, "config", f"alias.{name}", f"!{trap.program}")
    return repo


def _hidden(trap: Trap) -> Path:
    """A repository with traps of all kinds, as a git folder without work tree."""
    repo = fsmonitor(trap)
    trap.configure(repo, filter__evil__clean=str(trap.program))
    (repo / ".gitattributes").write_text("* filter=evil\n", "utf-8")
    return repo


def git_file_pointing_out(trap: Trap) -> Path:
    hidden = _hidden(trap)
    clone = trap.base / "clone"
    clone.mkdir()
    shutil.copy(hidden / ".gitattributes", clone)
    _touch(clone)
    (clone / ".git").write_text(f"gitdir: {hidden / '.git'}\n", "utf-8")
    return clone


def git_file_pointing_inside(trap: Trap) -> Path:
    repo = _hidden(trap)
    (repo / ".git").rename(repo / "data")
    (repo / ".git").write_text("gitdir: data\n", "utf-8")
    return repo


def git_link(trap: Trap) -> Path:
    hidden = _hidden(trap)
    clone = trap.base / "clone"
    clone.mkdir()
    _touch(clone)
    (clone / ".git").symlink_to(hidden / ".git")
    return clone


def linked_worktree(trap: Trap) -> Path:
    repo = trap.repository()
    tree = trap.base / "tree"
    git(repo, "worktree", "add", "-q", str(tree))
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(tree, "config", "--worktree", "core.fsmonitor", str(trap.program))
    _touch(tree)
    return tree


def submodule(trap: Trap) -> Path:
    library = repository(trap.base / "library")
    repo = trap.repository()
    git(repo, "submodule", "add", "-q", str(library), "vendored")
    git(repo, "commit", "-qm", "with a module")
    module = repo / "vendored"
    trap.configure(module, core__fsmonitor=str(trap.program), filter__evil__clean=str(trap.program))
    (module / ".gitattributes").write_text("* filter=evil\n", "utf-8")
    (module / "file.txt").write_text("LIBRARY 0\n", "utf-8")
    trap.configure(repo, submodule__recurse="true", status__submoduleSummary="true")
    return repo


def inside_submodule(trap: Trap) -> Path:
    return submodule(trap) / "vendored"


def alternates(trap: Trap) -> Path:
    repo = promisor_by_include(trap)
    trap.configure(repo, core__alternateRefsCommand=str(trap.program))
    other = repository(trap.base / "other")
    file = repo / ".git" / "objects" / "info" / "alternates"
    file.write_text(f"{other / '.git' / 'objects'}\n", "utf-8")
    return repo


def replace_refs(trap: Trap) -> Path:
    repo = trap.repository()
    head, first = git(repo, "rev-parse", "HEAD"), git(repo, "rev-parse", "HEAD~1")
    _promisor(trap, repo, trap.ext)
    replaced = repo / ".git" / "refs" / "replace"
    replaced.mkdir()
    # The one that is there is replaced by one that has to be fetched.
    (replaced / head).write_text(f"{first}\n", "utf-8")
    return repo


def grafts(trap: Trap) -> Path:
    repo = trap.repository()
    head = git(repo, "rev-parse", "HEAD")
    _promisor(trap, repo, trap.ext)
    (repo / ".git" / "info" / "grafts").write_text(f"{head} {'1' * 40}\n", "utf-8")
    return repo


def _embedded(trap: Trap) -> tuple[Path, Path]:
    """Return a clean work tree and the bare repository that came with its files."""
    hidden = promisor_by_include(trap)
    outer = repository(trap.base / "outer")
    shutil.move(hidden / ".git", outer / "docs")
    return outer, outer / "docs"


def embedded_bare(trap: Trap) -> Path:
    return _embedded(trap)[1]


def embedded_bare_below(trap: Trap) -> Path:
    return _embedded(trap)[1] / "refs"


def embedded_bare_with_work_tree(trap: Trap) -> Path:
    bare = _embedded(trap)[1]
    text = f"[core]\n\tworktree = {trap.base}\n\tfsmonitor = {trap.program}\n\tbare = false\n"
    (bare / "config").write_text(text, "utf-8")
    return bare


def around_embedded_bare(trap: Trap) -> Path:
    return _embedded(trap)[0]


def outermost_bare(trap: Trap) -> Path:
    bare = _embedded(trap)[1]
    bare.rename(trap.base / "alone.git")
    return trap.base / "alone.git"


def work_tree_elsewhere(trap: Trap) -> Path:
    repo = trap.repository()
    other = _hidden_folder(trap)
    trap.configure(repo, core__worktree=str(other), filter__evil__clean=str(trap.program))
    return repo


def _hidden_folder(trap: Trap) -> Path:
    folder = trap.base / "private"
    folder.mkdir()
    (folder / ".gitattributes").write_text("* filter=evil\n", "utf-8")
    _touch(folder)
    return folder


def git_in_the_repository(trap: Trap) -> Path:
    repo = trap.repository()
    shutil.copy(trap.program, repo / "git")
    trap.environment["PATH"] = f".:{repo}:{os.environ['PATH']}"
    return repo


def git_in_the_environment(trap: Trap) -> Path:
    repo = trap.repository()
    hidden = repository(trap.base / "other")
    trap.configure(hidden, core__fsmonitor=str(trap.program))
    command = str(trap.program)
    folder = trap.base / "exec"
    folder.mkdir()
    for name in ("git-ls-files", "git-rev-list", "git"):
        shutil.copy(trap.program, folder / name)
    trap.environment |= {
        "GIT_DIR": str(hidden / ".git"),
        "GIT_WORK_TREE": str(hidden),
        "GIT_EXTERNAL_DIFF": command,
        "GIT_SSH_COMMAND": command,
        "GIT_PAGER": command,
        "GIT_EDITOR": command,
        "GIT_ASKPASS": command,
        "GIT_PROXY_COMMAND": command,
        "GIT_EXEC_PATH": str(folder),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": command,
    }
    return repo


SETUPS: dict[str, Callable[[Trap], Path]] = {
    make.__name__: make
    for make in (
        filter_clean, filter_smudge, filter_process, filter_by_info_attributes, racy_archive,
        fsmonitor, hooks_path, hooks_folder, pager, editor, external_diff, textconv, promisor,
        promisor_by_include, promisor_by_include_if, promisor_by_worktree_config, promisor_by_ssh,
        promisor_by_git_proxy, promisor_by_upload_pack, promisor_by_helper,
        promisor_by_rewritten_address, pack_objects_hook, ask_pass, signature_program, aliases,
        git_file_pointing_out, git_file_pointing_inside, git_link, linked_worktree, submodule,
        inside_submodule, alternates, replace_refs, grafts, embedded_bare, embedded_bare_below,
        embedded_bare_with_work_tree, around_embedded_bare, outermost_bare, work_tree_elsewhere,
        git_in_the_repository, git_in_the_environment,
    )
}  # fmt: skip

# What an ordinary program would ask git, and what it would start by it.
TRAPS: dict[str, list[str]] = {
    "filter_clean": ["status", "--porcelain"],
    "filter_process": ["status", "--porcelain"],
    "filter_by_info_attributes": ["status", "--porcelain"],
    "racy_archive": ["diff-files", "--raw"],
    "fsmonitor": ["status", "--porcelain"],
    "hooks_path": ["status", "--porcelain"],
    "hooks_folder": ["status", "--porcelain"],
    "external_diff": ["diff", "--cached"],
    "textconv": ["diff", "--cached"],
    "promisor": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_include": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_include_if": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_worktree_config": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_ssh": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_git_proxy": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_upload_pack": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_helper": ["rev-list", "--max-parents=0", "--all"],
    "promisor_by_rewritten_address": ["rev-list", "--max-parents=0", "--all"],
    "signature_program": ["log", "-1"],
    "git_file_pointing_out": ["status", "--porcelain"],
    "git_file_pointing_inside": ["status", "--porcelain"],
    "git_link": ["status", "--porcelain"],
    "linked_worktree": ["status", "--porcelain"],
    "submodule": ["status", "--porcelain"],
    "inside_submodule": ["status", "--porcelain"],
    "alternates": ["rev-list", "--max-parents=0", "--all"],
    "replace_refs": ["rev-list", "--max-parents=0", "--all"],
    "grafts": ["rev-list", "--max-parents=0", "--all"],
    "embedded_bare": ["--git-dir", ".", "rev-list", "--max-parents=0", "--all"],
    "embedded_bare_with_work_tree": ["--git-dir", ".", "status", "--porcelain"],
    "outermost_bare": ["rev-list", "--max-parents=0", "--all"],
    "git_in_the_repository": ["rev-list", "--all"],
    "git_in_the_environment": ["status", "--porcelain"],
}

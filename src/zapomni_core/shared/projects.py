"""Which project a folder belongs to, read from git's own files.

The key is the normalized remote, so that every clone and worktree of a repository is one project
and two folders of the same name are two. Without a remote it is the root commit, without commits
the folder itself. Nothing here raises: a project can always be named.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH105, PTH110, PTH111, PTH112, PTH113, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import json
import os

__all__ = ["Project", "changed_files", "head_commit", "normalize_remote", "project_of"]

MAX_FILE = 256 * 1024
DEFAULT_PORTS = {"22", "80", "443", "9418"}
GIT_TIMEOUT = 2


class Project:
    """A project: what identifies it, what people call it, and where its checkout stands."""

    __slots__ = ("branch", "key", "name", "root")

    def __init__(self, key: str, name: str, branch: str = "", root: str = "") -> None:
        self.key = key
        self.name = name
        self.branch = branch
        self.root = root


def project_of(cwd: str, cache: str | None = None) -> Project:
    """Return the project of a folder, which need not exist.

    Args:
        cwd: Any folder inside the project.
        cache: A file that remembers root commits, which only git itself can find.
    """
    try:
        return _project_of(cwd, cache)
    except (OSError, ValueError):
        return Project(cwd, _last_part(cwd))


def _project_of(cwd: str, cache: str | None) -> Project:
    folder = os.path.realpath(cwd)
    found = _find_git(folder)
    if found is None:
        return Project(folder, _last_part(folder), root=folder)
    root, git_dir = found
    common = _common_dir(git_dir)
    branch = _branch(git_dir)
    remote = _remote_of(_read(os.path.join(common, "config")), branch)
    key = normalize_remote(remote, root) if remote else ""
    if key:
        return Project(key, _last_part(key), branch, root)
    # A worktree's own folder is not its repository's.
    home = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    commit = _root_commit(common, cache)
    return Project(f"root:{commit}" if commit else home, _last_part(home), branch, root)


def _last_part(path: str) -> str:
    return path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".git") or path


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_FILE)
    except OSError:
        return ""


def _find_git(folder: str) -> tuple[str, str] | None:
    """Walk up to the checkout; return it and its git folder."""
    while True:
        entry = os.path.join(folder, ".git")
        if os.path.isdir(entry):
            return folder, entry
        if os.path.isfile(entry):
            pointer = _read(entry).strip()
            if pointer.startswith("gitdir:"):
                return folder, os.path.normpath(os.path.join(folder, pointer[7:].strip()))
        if os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(
            os.path.join(folder, "objects")
        ):
            return folder, folder  # A bare repository.
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _common_dir(git_dir: str) -> str:
    pointer = _read(os.path.join(git_dir, "commondir")).strip()
    return (
        os.path.realpath(os.path.join(git_dir, pointer)) if pointer else os.path.realpath(git_dir)
    )


def _branch(git_dir: str) -> str:
    head = _read(os.path.join(git_dir, "HEAD")).strip()
    return head[16:] if head.startswith("ref: refs/heads/") else ""


def head_commit(folder: str) -> str:
    """Return the commit that is checked out in a folder; "" if there is none."""
    found = _find_git(os.path.realpath(folder))
    if found is None:
        return ""
    git_dir = found[1]
    head = _read(os.path.join(git_dir, "HEAD")).strip()
    name = head[5:] if head.startswith("ref: ") else ""
    if not name:
        return head if _is_commit(head) else ""
    common = _common_dir(git_dir)
    # A name of a repository is not to be trusted as a path.
    loose = "" if ".." in name else _read(os.path.join(common, *name.split("/"))).strip()
    packed = _read(os.path.join(common, "packed-refs")) if not _is_commit(loose) else ""
    for line in packed.splitlines():
        if line.endswith(f" {name}"):
            loose = line.partition(" ")[0]
    return loose if _is_commit(loose) else ""


def _is_commit(text: str) -> bool:
    return len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text)


def _remote_of(config: str, branch: str) -> str:
    """Return the address of origin, else of the branch's remote, else of the first one."""
    addresses: dict[str, str] = {}
    tracked = section = ""
    for line in config.splitlines():
        line = line.strip()  # noqa: PLW2901 - the same line without its indentation
        if line.startswith("["):
            section = line.split("]", 1)[0].lstrip("[").strip()
            continue
        name, _, value = line.partition("=")
        name, value = name.strip().lower(), value.strip().strip('"')
        if section.startswith('remote "') and name == "url" and value:
            addresses.setdefault(section[8:].rstrip('"'), value)
        elif section == f'branch "{branch}"' and name == "remote":
            tracked = value
    return addresses.get("origin") or addresses.get(tracked) or next(iter(addresses.values()), "")


def normalize_remote(address: str, base: str = "") -> str:
    """Return host and path of a remote, equal for all ways to write it and without credentials.

    A local remote is its canonical path; `base` is where a relative one starts.
    """
    address = address.strip().replace("\\", "/")
    scheme, separator, rest = address.partition("://")
    if not separator:
        host, colon, path = address.partition(":")
        if not colon or "/" in host or len(host) == 1:
            return _local(address, base)
        scheme, rest = "ssh", f"{host}/{path.lstrip('/')}"
    if scheme.lower() == "file":
        return _local(rest, base)
    host, _, path = rest.partition("/")
    host = host.rpartition("@")[2].lower()
    name, colon, port = host.rpartition(":")
    if colon and (not port or port in DEFAULT_PORTS):
        host = name
    path = path.partition("?")[0].partition("#")[0].strip("/").removesuffix(".git").strip("/")
    while "//" in path:
        path = path.replace("//", "/")
    return f"{host}/{path}" if host and path else ""


def _local(path: str, base: str) -> str:
    path = os.path.realpath(os.path.join(base, os.path.expanduser(path)))
    return path.removesuffix("/.git").removesuffix(".git")


def _root_commit(common: str, cache: str | None) -> str:
    known = _cached(cache)
    if common in known:
        return known[common]
    if not _has_commits(common):
        return ""
    output = _git(["--git-dir", common, "rev-list", "--max-parents=0", "--all"])
    commits = sorted(line for line in output.split() if len(line) in (40, 64))
    if not commits:
        return ""
    if cache:
        _remember(cache, {**known, common: commits[0]})
    return commits[0]


def _has_commits(common: str) -> bool:
    heads = os.path.join(common, "refs", "heads")
    return any(files for _, _, files in os.walk(heads)) or os.path.exists(
        os.path.join(common, "packed-refs")
    )


def _cached(cache: str | None) -> dict[str, str]:
    try:
        known = json.loads(_read(cache)) if cache else {}
    except (ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _remember(cache: str, known: dict[str, str]) -> None:
    part = f"{cache}.{os.getpid()}"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            json.dump(known, stream)
        os.replace(part, cache)
    except OSError:
        return


def changed_files(cwd: str) -> list[str]:
    """Return the files with uncommitted changes, relative to the checkout; [] if git cannot say."""
    options = ["-c", "core.fsmonitor=false", "-C", cwd, "status", "--porcelain", "-z"]
    entries = _git([*options, "--no-renames", "--untracked-files=normal"]).split("\0")
    return [entry[3:] for entry in entries if len(entry) > 3]


def _git(arguments: list[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - fixed words and a folder, no shell
            ["git", *arguments],  # noqa: S607 - the user's own git
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT,
            check=False,
            # Looking must not take the lock that the user's own git may want.
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""

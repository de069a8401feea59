"""Which project a folder belongs to, read from git's own files.

The key is the normalized remote, so that every clone and worktree of a repository is one project
and two folders of the same name are two. Without a remote it is the root commit, without commits
the folder itself. Nothing here raises: a project can always be named.

A key is what a folder says of itself: it was written by those who packed it. Whether
the folder may see what is stored under the key is decided where that is read.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH105, PTH110, PTH111, PTH112, PTH113, PTH116, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import os
import stat

from zapomni_core.shared.quick_json import loads

__all__ = ["Project", "find_repository", "head_commit", "normalize_remote", "project_of"]

MAX_FILE = 256 * 1024
MAX_REF_FOLDERS = 1000
DEFAULT_PORTS = {"22", "80", "443", "9418"}


class Project:
    """A project: what identifies it, what people call it, and where its checkout is.

    Attributes:
        identity: The file system's name of the checkout, which a move does not change.
        main: The main work tree, if this is another one that the main repository itself lists.
    """

    __slots__ = ("branch", "identity", "key", "main", "name", "root")

    def __init__(
        self,
        key: str,
        name: str,
        branch: str = "",
        root: str = "",
        identity: str = "",
        main: str = "",
    ) -> None:
        self.key = key
        self.name = name
        self.branch = branch
        self.root = root
        self.identity = identity
        self.main = main


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
    found = find_repository(folder)
    if found is None:
        return Project(folder, _last_part(folder), root=folder)
    root, git_dir = found
    common = _common_dir(git_dir)
    head = _read(os.path.join(git_dir, "HEAD")).strip()
    branch = head[16:] if head.startswith("ref: refs/heads/") else ""
    # A worktree's own folder is not its repository's.
    home = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    main = home if _is_listed(root, git_dir, common) else ""
    identity = _identity(root, git_dir)
    remote = _remote_of(_read(os.path.join(common, "config")), branch)
    key = normalize_remote(remote, root) if remote else ""
    if key:
        return Project(key, _last_part(key), branch, root, identity, main)
    commit = _root_commit(root, common, cache)
    key = f"root:{commit}" if commit else home
    return Project(key, _last_part(home), branch, root, identity, main)


def _identity(root: str, git_dir: str) -> str:
    """Return numbers that stay when the folder moves; another folder has others.

    One number alone is given again by the file system when its folder was deleted.
    """
    try:
        top, inner = os.stat(root), os.stat(git_dir)
    except OSError:
        return ""  # A pointer to nowhere.
    return f"{top.st_dev}:{top.st_ino}:{inner.st_ino}"


def _is_listed(root: str, git_dir: str, common: str) -> bool:
    """Return whether the repository a worktree names knows of it, in a file of its own."""
    entry = os.path.realpath(git_dir)
    if os.path.dirname(entry) != os.path.join(common, "worktrees"):
        return False
    named = _read(os.path.join(entry, "gitdir")).strip()
    return bool(named) and os.path.realpath(os.path.join(entry, named)) == os.path.join(
        root, ".git"
    )


def _last_part(path: str) -> str:
    return path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".git") or path


def _read(file: str) -> str:
    try:
        # A pipe in its place would keep us waiting for its writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with open(descriptor, encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_FILE) if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
    except OSError:
        return ""


def find_repository(folder: str) -> tuple[str, str] | None:
    """Walk up to the checkout; return it and its git folder.

    A folder that looks like a bare repository is one only where no work tree is around it: inside
    of one it is a file of the work tree like any other, which came with a clone.
    """
    bare = None
    while True:
        entry = os.path.join(folder, ".git")
        if os.path.isdir(entry):
            return folder, entry
        if os.path.isfile(entry):
            pointer = _read(entry).strip()
            if pointer.startswith("gitdir:"):
                return folder, os.path.normpath(os.path.join(folder, pointer[7:].strip()))
        if (
            bare is None
            and os.path.isfile(os.path.join(folder, "HEAD"))
            and os.path.isdir(os.path.join(folder, "objects"))
        ):
            bare = folder, folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return bare
        folder = parent


def _common_dir(git_dir: str) -> str:
    pointer = _read(os.path.join(git_dir, "commondir")).strip()
    return (
        os.path.realpath(os.path.join(git_dir, pointer)) if pointer else os.path.realpath(git_dir)
    )


def head_commit(folder: str) -> str:
    """Return the commit that is checked out in a folder; "" if there is none."""
    found = find_repository(os.path.realpath(folder))
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


def _root_commit(root: str, common: str, cache: str | None) -> str:
    known = _cached(cache)
    if common in known:
        return known[common]
    if not _has_commits(common):
        return ""
    from zapomni_core.infra.git import list_root_commits

    commits = list_root_commits(root)
    if not commits:
        return ""
    if cache:
        _remember(cache, {**known, common: commits[0]})
    return commits[0]


def _has_commits(common: str) -> bool:
    heads = os.path.join(common, "refs", "heads")
    for number, (_, _, files) in enumerate(os.walk(heads)):
        if files or number == MAX_REF_FOLDERS:
            return True
    return os.path.exists(os.path.join(common, "packed-refs"))


def _cached(cache: str | None) -> dict[str, str]:
    try:
        known = loads(_read(cache)) if cache else {}
    except (ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _remember(cache: str, known: dict[str, str]) -> None:
    import json

    part = f"{cache}.{os.getpid()}"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            json.dump(known, stream)
        os.replace(part, cache)
    except OSError:
        return

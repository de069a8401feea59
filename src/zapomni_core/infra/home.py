"""The home folder is the user's alone: its owner is checked, its modes are repaired.

Standard library only: hooks import this when one `stat` says that something is wrong.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH101, PTH111, PTH116, PTH118
# ruff: noqa: PTH208

from __future__ import annotations

import os
import stat

from zapomni_core.exceptions import ConfigurationError

__all__ = ["is_private", "secure_home"]

OTHERS = 0o077
# Left in a home folder whose modes cannot be repaired, once the user has been warned.
WARNED = "open-home"
# What Zapomni makes there. Other files are protected by the folder, and are not ours to change.
OWN = frozenset(
    [
        "backups",
        "capture.key",
        "config.toml",
        "device",
        "exports.jsonl",
        "falkordb",
        "gazetteer.txt",
        "init.json",
        "patterns",
        "roots.json",
        "run",
        "spool",
        "sync",
    ]
)


def is_private(home: str) -> bool:
    """Return whether a folder is ours and closed to others, or does not exist yet: one `stat`."""
    try:
        found = os.stat(home)
    except FileNotFoundError:
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def secure_home(home: str, *, allow_open: bool = False) -> str:
    """Close a home folder and our files in it to other users.

    Args:
        home: The folder; it need not exist.
        allow_open: The user accepts a folder that others own or can read.

    Returns:
        A warning to show, once in the life of the folder: its modes cannot be repaired. Else "".

    Raises:
        ConfigurationError: The folder, or a file of ours in it, belongs to another user.
    """
    if allow_open or is_private(home):
        return ""
    found = os.stat(home)
    if found.st_uid != os.geteuid():
        raise _foreign("home folder")
    closed = not _is_shared(home, found) and _close(home, found)
    for name in sorted(os.listdir(home)):
        # In a shared folder, what is called `backups` may belong to another program.
        if name.startswith("zapomni.db") or (closed and name in OWN):
            _close_below(os.path.join(home, name))
    return "" if closed else _warn_once(home)


def _foreign(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"The {what} belongs to another user. Set ZAPOMNI_HOME to a folder of your own, or accept "
        "this one with ZAPOMNI_ALLOW_OPEN_HOME=true, for example in a container",
        "CONF_002",
    )


def _is_shared(home: str, found: os.stat_result) -> bool:
    """Return whether others need the folder: /tmp, the user's own home, or one above it."""
    user = os.path.realpath(os.path.expanduser("~"))
    here = os.path.realpath(home)
    above = user == here or user.startswith(here.rstrip("/") + "/")
    return bool(found.st_mode & stat.S_ISVTX) or above


def _close(path: str, found: os.stat_result) -> bool:
    """Take all rights from others; return whether that has an effect."""
    try:
        os.chmod(path, stat.S_IMODE(found.st_mode) & ~OTHERS)
        return not os.stat(path).st_mode & OTHERS
    except OSError:
        return False


def _close_below(path: str) -> None:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return
    if found.st_uid != os.geteuid():
        raise _foreign("file of Zapomni in the home folder")
    if found.st_mode & OTHERS:
        _close(path, found)
    if stat.S_ISDIR(found.st_mode):
        for name in sorted(os.listdir(path)):
            _close_below(os.path.join(path, name))


def _warn_once(home: str) -> str:
    marker = os.path.join(home, WARNED)
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:  # warned before, or nothing can be written there
        return ""
    return (
        "Other users of this machine may read Zapomni's home folder: its modes cannot be changed. "
        "Set ZAPOMNI_HOME to a folder on a disk that has modes, or ZAPOMNI_ALLOW_OPEN_HOME=true if "
        "this is meant."
    )

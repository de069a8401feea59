"""Which folders other programs copy between machines, file by file.

A database must not be in one: it is copied while it is being written, without its log, and two
machines write into it at once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["find_syncing_program"]

# What the folders of a program are called, as it names them itself.
_NAMES: Final = (
    ("Dropbox", re.compile(r"dropbox( \(.+\))?", re.IGNORECASE)),
    ("OneDrive", re.compile(r"onedrive( ?- ?.+)?", re.IGNORECASE)),
    ("iCloud", re.compile(r"icloud ?drive|mobile documents|com~apple~clouddocs", re.IGNORECASE)),
    ("a cloud drive", re.compile(r"cloudstorage", re.IGNORECASE)),
    ("Google Drive", re.compile(r"google ?drive|my drive", re.IGNORECASE)),
    ("Nextcloud", re.compile(r"nextcloud\d*", re.IGNORECASE)),
    ("ownCloud", re.compile(r"owncloud\d*", re.IGNORECASE)),
    ("Syncthing", re.compile(r"syncthing", re.IGNORECASE)),
    ("MEGA", re.compile(r"mega(sync)?( downloads)?", re.IGNORECASE)),
    ("Box", re.compile(r"box( sync)?", re.IGNORECASE)),
    ("pCloud", re.compile(r"pcloud ?drive", re.IGNORECASE)),
    ("Yandex Disk", re.compile(r"yandex\.?disk.*", re.IGNORECASE)),
    ("Seafile", re.compile(r"seafile", re.IGNORECASE)),
    ("Resilio Sync", re.compile(r"resilio sync", re.IGNORECASE)),
)
# What a program leaves at the top of a folder that it copies, whatever that is called.
_MARKS: Final = (
    ("Syncthing", ".stfolder"),
    ("Dropbox", ".dropbox.cache"),
    ("Dropbox", ".dropbox"),
    ("Nextcloud", ".nextcloudsync.log"),
    ("ownCloud", ".owncloudsync.log"),
    ("Google Drive", ".tmp.drivedownload"),
    ("Seafile", ".seafile-data"),
    ("Resilio Sync", ".sync/ID"),
)


def find_syncing_program(folder: Path) -> str:
    """Return the program that copies a folder to other machines; "" if none can be seen."""
    try:
        found = folder.resolve()
    except OSError:
        found = folder.absolute()
    for part in (found, *found.parents):
        for program, name in _NAMES:
            if name.fullmatch(part.name):
                return program
        for program, mark in _MARKS:
            # A user's home has the state of programs itself.
            if part != Path.home() and (part / mark).exists():
                return program
    return ""

"""What `zapomni init` wrote, so that `--uninstall` takes back exactly that."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from zapomni_cli.host_setup.files import read, replace

__all__ = ["ABSENT", "FileRecord", "Records", "fingerprint", "load_records"]

ABSENT = ""


@dataclass(frozen=True)
class FileRecord:
    """What became of one file.

    Attributes:
        written: Fingerprint of what we left there.
        original: The copy of the file before us, ABSENT if there was no file, None if no
            copy is free of our entries.
        created: Whether the file is there because of us.
    """

    written: str
    original: str | None
    created: bool


@dataclass
class Records:
    """Everything written, by file; and by which way each host's server was registered."""

    path: Path
    files: dict[str, FileRecord] = field(default_factory=dict)
    servers: dict[str, str] = field(default_factory=dict)

    def save(self) -> None:
        """Write the records, or take the file away when there are none."""
        if not self.files and not self.servers:
            replace(self.path, None)
            return
        files = {name: asdict(record) for name, record in self.files.items()}
        content = {"files": files, "servers": self.servers}
        replace(self.path, json.dumps(content, indent=2) + "\n")


def load_records(path: Path) -> Records:
    """Read the records; broken ones count as none: our entries are recognized without them."""
    try:
        content = json.loads(read(path) or "{}")
        files = {name: FileRecord(**record) for name, record in content.get("files", {}).items()}
        return Records(path, files, dict(content.get("servers", {})))
    except (ValueError, TypeError, AttributeError):
        return Records(path)


def fingerprint(text: str) -> str:
    """Identify a file's exact content."""
    return hashlib.sha256(text.encode()).hexdigest()

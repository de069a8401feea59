"""What this home is called among the devices that share memories: a random id, no host name."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

__all__ = ["DEVICE_FILE", "device_id"]

DEVICE_FILE = "device"


def device_id(home: Path) -> str:
    """Return the id of this home, making it on the first call."""
    file = home / DEVICE_FILE
    with suppress(OSError, ValueError):
        known = file.read_text(encoding="ascii").strip()
        if re.fullmatch(r"[0-9a-f]{12}", known):
            return known
        file.unlink()  # Damaged: a new id costs no more than trusting it once.
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = home / f"{DEVICE_FILE}.{os.getpid()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(secrets.token_hex(6) + "\n")
    try:
        # A link never replaces: of simultaneous first calls one wins, and all use its id.
        with suppress(FileExistsError):
            os.link(part, file)
    finally:
        part.unlink()
    return file.read_text(encoding="ascii").strip()

"""The key of this installation, with which hooks hash what must not be guessed.

Standard library only: hooks read it at every event.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH103, PTH105, PTH108, PTH110, PTH118, PTH123

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zapomni_core.shared.redaction import Redactor

__all__ = ["capture_key", "load_redactor"]

KEY_FILE = "capture.key"


def capture_key(home: str) -> bytes:
    """Return this installation's key for hashes, making it on the first call."""
    file = os.path.join(home, KEY_FILE)
    try:
        with open(file, "rb") as stream:
            key = stream.read(64)
    except FileNotFoundError:
        key = b""
    if len(key) == 32:
        return key
    os.makedirs(home, mode=0o700, exist_ok=True)
    part = f"{file}.{os.getpid()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, os.urandom(32))
    os.close(descriptor)
    try:
        # A link never replaces: of simultaneous first calls one wins, and all use its key.
        os.link(part, file)
    except FileExistsError:
        if key:
            os.replace(part, file)  # Damaged; two mentions of a secret lose their link, no more.
    finally:
        if os.path.exists(part):
            os.unlink(part)
    with open(file, "rb") as stream:
        return stream.read(64)


def load_redactor(home: str) -> Redactor:
    """Return what masks the secrets of this process's environment; its rules are imported now."""
    from zapomni_core.shared.redaction import Redactor

    try:
        key = capture_key(home)
    except OSError:
        key = os.urandom(32)  # The disk takes nothing: two mentions of a secret are not linked.
    return Redactor(os.environ, key)

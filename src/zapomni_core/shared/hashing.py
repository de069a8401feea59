"""Hashes that mean something only on this machine."""

from __future__ import annotations

try:
    # What hashlib would hand out, without loading OpenSSL: a fifth of a hook's own time.
    from _blake2 import blake2b
except ImportError:  # pragma: no cover - a Python built without it
    from hashlib import blake2b

__all__ = ["keyed_hash"]


def keyed_hash(content: str | bytes, key: bytes, size: int) -> str:
    """Return `size` bytes as hexadecimal digits; without the key no value can be tried out."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return blake2b(data, digest_size=size, key=key).hexdigest()

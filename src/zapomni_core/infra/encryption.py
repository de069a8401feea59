"""Files encrypted with a passphrase: scrypt for the key, AES-256-GCM in blocks.

A file is: a header (magic, scrypt's parameters, salt, nonce prefix), an HMAC of the header by
which a wrong passphrase is known at once, then blocks of at most 1 MiB, each with its tag. A
block's nonce carries its number and whether it is the last one, so blocks cannot be moved, dropped
or cut off without notice.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from zapomni_core.exceptions import ConfigurationError, ValidationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["decrypt_file", "encrypt_file", "is_encrypted", "require_encryption"]

MAGIC = b"ZAPMENC1"
SALT_BYTES, PREFIX_BYTES, CHECK_BYTES, TAG_BYTES = 16, 7, 32, 16
HEADER_BYTES = len(MAGIC) + 3 + SALT_BYTES + PREFIX_BYTES
BLOCK = 1 << 20
LOG_N, R, P = 17, 8, 1  # 128 MB and about half a second
# What a header may ask for: a file from elsewhere must not take all memory.
MAX_LOG_N, MAX_R, MAX_P = 20, 16, 4
MIN_CHARACTERS = 8


def is_encrypted(path: Path) -> bool:
    """Return whether a file is one of these, by its first bytes."""
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def require_encryption() -> type[AESGCM]:
    """Return the cipher.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ConfigurationError(
            "Encrypted backups need another package: pip install 'zapomni[encrypt]'",
            "CONF_002",
            original_exception=error,
        ) from error
    return AESGCM


def encrypt_file(source: Path, target: Path, passphrase: str) -> None:
    """Write an encrypted copy of a file, readable by the user alone, on disk when this returns.

    Raises:
        ValidationError: The passphrase is too short.
        ConfigurationError: The cipher is not installed.
    """
    cipher_type = require_encryption()
    if len(passphrase) < MIN_CHARACTERS:
        raise ValidationError(
            f"The passphrase must have at least {MIN_CHARACTERS} characters", "VAL_003"
        )
    header = MAGIC + bytes([LOG_N, R, P]) + os.urandom(SALT_BYTES + PREFIX_BYTES)
    key, check = _keys(passphrase, header)
    cipher = cipher_type(key)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as plain, os.fdopen(descriptor, "wb") as sealed:
        sealed.write(header + check)
        for number, block, last in _blocks(plain, BLOCK):
            sealed.write(cipher.encrypt(_nonce(header, number, last=last), block, header))
        sealed.flush()
        os.fsync(sealed.fileno())


def decrypt_file(source: Path, target: Path | None, passphrase: str) -> str:
    """Write the decrypted copy of a file, readable by the user alone, and return its sha256.

    Without a target the file is only checked.

    Raises:
        ValidationError: The passphrase is wrong, or the file is cut off or was changed.
        ConfigurationError: The cipher is not installed.
    """
    cipher_type = require_encryption()
    from cryptography.exceptions import InvalidTag

    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = (
        os.open(os.devnull, os.O_WRONLY) if target is None else os.open(target, flags, 0o600)
    )
    with source.open("rb") as sealed, os.fdopen(descriptor, "wb") as plain:
        header = sealed.read(HEADER_BYTES)
        check = sealed.read(CHECK_BYTES)
        if len(check) != CHECK_BYTES or not header.startswith(MAGIC):
            raise _cut_off()
        key, wanted = _keys(passphrase, header)
        if not hmac.compare_digest(check, wanted):
            raise ValidationError("The passphrase is wrong, or the file's header was changed.")
        cipher = cipher_type(key)
        ended = False
        for number, block, last in _blocks(sealed, BLOCK + TAG_BYTES):
            try:
                text = cipher.decrypt(_nonce(header, number, last=last), block, header)
            except InvalidTag as error:
                raise _cut_off() from error
            digest.update(text)
            plain.write(text)
            ended = last
        if not ended:
            raise _cut_off()
    return digest.hexdigest()


def _cut_off() -> ValidationError:
    return ValidationError("The encrypted file is cut off or was changed; it cannot be restored.")


def _blocks(stream: IO[bytes], size: int) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the number, the bytes and whether it is the last, of every block."""
    number, block = 0, stream.read(size)
    while block:
        following = stream.read(size)
        yield number, block, not following
        number, block = number + 1, following


def _nonce(header: bytes, number: int, *, last: bool) -> bytes:
    return header[-PREFIX_BYTES:] + number.to_bytes(4, "big") + bytes([last])


def _keys(passphrase: str, header: bytes) -> tuple[bytes, bytes]:
    """Derive the key of the cipher, and the HMAC of the header that proves it."""
    log_n, r, p = header[len(MAGIC) : len(MAGIC) + 3]
    if not (10 <= log_n <= MAX_LOG_N and 1 <= r <= MAX_R and 1 <= p <= MAX_P):
        raise _cut_off()
    derived = hashlib.scrypt(
        unicodedata.normalize("NFC", passphrase).encode(),
        salt=header[len(MAGIC) + 3 : len(MAGIC) + 3 + SALT_BYTES],
        n=1 << log_n,
        r=r,
        p=p,
        maxmem=(128 * r * (1 << log_n)) + (1 << 26),
        dklen=64,
    )
    return derived[:32], hmac.digest(derived[32:], header, "sha256")

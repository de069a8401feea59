"""Masking secrets before anything touches the disk.

Rules look for the shape of a value, never for a mention of one: prose about keys, UUIDs, commit
and lock-file hashes stay. Entropy only filters what a rule has found. Every quantifier is bounded
or runs over one class of characters, so time grows with the length of the text and no faster.
What this cannot see is listed in docs/capture.md.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64

from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.redaction_context import CONTEXT_RULES, is_secret_value
from zapomni_core.shared.redaction_rules import TOKEN_RULES
from zapomni_core.shared.redaction_services import SERVICE_RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Redactor"]

# Whether a rule's find still has to be judged; a token's own shape says enough.
_TABLES = ((TOKEN_RULES, False), (SERVICE_RULES, False), (CONTEXT_RULES, True))

PLACEHOLDER = "[REDACTED:"
MIN_ENVIRONMENT_VALUE = 8

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "_DSN")
# Names that only look secret, with values that are ordinary words.
_PUBLIC_NAMES = ("TOKENIZERS_", "KEYBOARD", "KEYMAP", "MAX_TOKENS", "KEYTIMEOUT", "PUBLIC_KEY")
_ORDINARY_VALUES = frozenset(
    "disabled enabled required optional default localhost production development testing "
    "parallel ssh-agent keychain".split()
)

# Colours as a terminal gets them, and as programs and JSON write them down.
_ESCAPES = (
    r"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,2}[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|\\{1,2}(?:u001[bB]|x1[bB]|033|e)\[[0-9;?]{0,20}[A-Za-z]"
)
_ESCAPE_SIGNS = ("\x1b", "u001b[", "u001B[", "x1b[", "x1B[", "033[", "\\e[")
_INVISIBLE = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), 127, 0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF]
)
_BASE64 = r"[A-Za-z0-9+/_-]{40,}={0,2}"
MAX_BASE64 = 65_536


class Redactor:
    """Masks secrets in texts; make one per process and keep it."""

    def __init__(self, environ: Mapping[str, str], key: bytes) -> None:
        """Remember the environment's secrets, and the key that links two mentions of one."""
        self._key = key
        self._values = sorted(
            {value for name, value in environ.items() if _is_secret_variable(name, value)},
            key=lambda value: (-len(value), value),
        )

    def redact(self, text: str) -> tuple[str, int]:
        """Return the text with placeholders for secrets, and how many there are."""
        text = _visible(text)
        text, count = self._mask(text)
        if len(text) >= 40 and ("=" in text or "/" in text or len(text) >= 64):
            text, more = self._mask_encoded(text)
            count += more
        return text, count

    def _mask(self, text: str) -> tuple[str, int]:
        count = 0
        for value in self._values:
            if value in text:
                count += text.count(value)
                text = text.replace(value, self._placeholder("env", value))
        lowered = text.lower()
        for rules, strict in _TABLES:
            for kind, keywords, pattern, entropy in rules:
                if _worth_trying(keywords, lowered):
                    text, more = self._apply(text, kind, pattern, entropy, strict=strict)
                    count += more
        return text, count

    def _apply(
        self, text: str, kind: str, pattern: str, entropy: float, *, strict: bool
    ) -> tuple[str, int]:
        """Mask group "s" of each match, or all of it."""
        count = 0

        def mask(match: re.Match[str]) -> str:
            nonlocal count
            named = "s" in match.re.groupindex
            secret = match["s"] if named else match[0]
            if not secret or PLACEHOLDER in secret or not _is_varied(secret, entropy):
                return match[0]
            if strict and not is_secret_value(kind, secret, match[0]):
                return match[0]
            count += 1
            start, end = match.span("s") if named else match.span()
            before, after = match[0][: start - match.start()], match[0][end - match.start() :]
            return before + self._placeholder(kind, secret) + after

        return re.compile(pattern).sub(mask, text), count

    def _mask_encoded(self, text: str) -> tuple[str, int]:
        """Mask base64 whose decoded text holds a secret."""
        count = 0

        def mask(match: re.Match[str]) -> str:
            nonlocal count
            decoded = _decoded(match[0])
            if not decoded or not self._mask(decoded)[1]:
                return match[0]
            count += 1
            return self._placeholder("base64", match[0])

        return re.compile(_BASE64).sub(mask, text), count

    def _placeholder(self, kind: str, secret: str) -> str:
        return f"{PLACEHOLDER}{kind}:{keyed_hash(secret, self._key, 2)}]"


def _worth_trying(keywords: tuple[str, ...], lowered: str) -> bool:
    """Plain search first: a pattern costs a hundred times as much, and must be compiled."""
    for keyword in keywords:
        if keyword in lowered:
            return True
    return not keywords and len(lowered) >= 34 and max(map(len, lowered.split()), default=0) >= 34


def _is_secret_variable(name: str, value: str) -> bool:
    name = name.upper()
    if len(value) < MIN_ENVIRONMENT_VALUE or not any(word in name for word in _SECRET_NAMES):
        return False
    if any(word in name for word in _PUBLIC_NAMES) or value.lower() in _ORDINARY_VALUES:
        return False
    # A path to a secret is not one.
    return not value.startswith(("/", "~", "./"))


def _visible(text: str) -> str:
    """Take out what a terminal does not show: it may split a token."""
    if any(sign in text for sign in _ESCAPE_SIGNS):
        text = re.sub(_ESCAPES, "", text)
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_INVISIBLE)


def _is_varied(text: str, bits: float) -> bool:
    """Whether the characters of a text differ as much as those of a random one do."""
    if not bits:
        return True
    from math import log2

    counts = [text.count(character) for character in set(text)]
    return -sum(n / len(text) * log2(n / len(text)) for n in counts) >= bits


def _decoded(run: str) -> str:
    """Return what a base64 run says, if it says anything readable."""
    body = run[:MAX_BASE64].rstrip("=").replace("-", "+").replace("_", "/")
    body = body[: len(body) - (len(body) % 4 == 1)]
    try:
        raw = a2b_base64(body + "=" * (-len(body) % 4))
        text = raw.decode("utf-8")
    except (Base64Error, UnicodeDecodeError):
        return ""
    return text if all(c.isprintable() or c in "\n\r\t" for c in text) else ""

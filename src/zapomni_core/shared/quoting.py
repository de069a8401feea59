"""Stored text made harmless: it can be read, but it cannot end its quotation or hide in it.

Characters with a meaning to Markdown, HTML or a chat template are replaced by ones that look alike,
one for one, so that a cut never splits an escape. Standard library only: hooks import this.
"""

from __future__ import annotations

__all__ = ["FENCE_NAME", "closing_fence", "opening_fence", "quoted"]

FENCE_NAME = "zapomni-context"

_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("<\uff1c\ufe64", "\u2039"),
        **dict.fromkeys(">\uff1e\ufe65", "\u203a"),
        **dict.fromkeys("|\uff5c\u2223\u01c0", "\u00a6"),
        **dict.fromkeys("`\uff40\u02cb", "'"),
        "\u2011": "-",
    }
)
# Letters and marks that show nothing: text could hide behind them although it is printable.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))


def opening_fence() -> str:
    """Return a tag whose name was not known when the text inside it was stored."""
    import os

    return f"<{FENCE_NAME}-{os.urandom(6).hex()}>"


def closing_fence(opening: str) -> str:
    """Return the tag that ends what `opening` began."""
    return f"</{opening[1:]}"


def quoted(text: str, limit: int) -> str:
    """Return a text as one line without any syntax, cut to a length."""
    # What is dropped or joined makes it shorter; what is cut anyway need not be looked at.
    shown = " ".join(text[: limit * 4].split())
    if not (shown.isascii() and shown.isprintable()):
        shown = " ".join("".join(map(_visible, shown)).split())
    shown = shown.translate(_LOOK_ALIKES).replace("](", "] (").replace("![", "! [")
    if FENCE_NAME in shown.lower():
        import re

        shown = re.sub(FENCE_NAME, FENCE_NAME.replace("-", " "), shown, flags=re.IGNORECASE)
    longer = len(shown) > limit or len(text) > limit * 4
    return shown[: limit - 1].rstrip() + "…" if longer else shown


def _visible(character: str) -> str:
    if character.isprintable():
        code = ord(character)
        hidden = code > 0x300 and (
            character in _BLANK or any(low <= code <= high for low, high in _SELECTORS)
        )
        return "" if hidden else character
    # Line ends and controls part words; zero-width and direction marks only pretend to.
    return " " if character.isspace() or character < "\xa0" else ""

"""Characters that one cannot see: what steers a terminal, and what turns or hides text."""

from __future__ import annotations

import json
import re

__all__ = ["escape_controls", "escape_unseen", "remove_controls"]

# A stored text must not be able to move the cursor or rename the window.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Half of a character pair is no character, and cannot be written as UTF-8.
_ESCAPED = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
# Nor to show other words than it has, or to hide some: what turns the direction of the text, what
# takes no room, and variation selectors where they do not choose how a symbol looks. Compiled when
# there is such a text: a command that shows plain ones does not wait for it.
_UNSEEN = (
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]|(?<![#*0-9\u00a9\u00ae\u2010-\u3300\U0001f000-\U0001faff])[\ufe00-\ufe0f]"
)


def remove_controls(text: str) -> str:
    """Take out characters that would steer a terminal."""
    return _CONTROL.sub("", text)


def escape_unseen(text: str) -> str:
    """Write characters that turn or hide text as JSON does; in JSON the value stays the same."""
    if text.isascii():
        return text
    return re.sub(_UNSEEN, _as_json, text)


def escape_controls(text: str) -> str:
    """Write these and those that steer a terminal as JSON does; line ends and tabs stay."""
    shown = escape_unseen(text.replace("\r\n", "\n"))
    if shown.isprintable():
        return shown
    return re.sub(_ESCAPED, lambda found: f"\\u{ord(found[0]):04x}", shown)


def _as_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]

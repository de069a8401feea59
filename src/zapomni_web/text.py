"""Stored text on a page: nothing in it runs, and nothing in it is hidden."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from zapomni_core.shared.unseen import escape_controls

__all__ = [
    "ago",
    "command_line",
    "finalize",
    "mark_words",
    "moment",
    "render_markdown",
    "show_bytes",
]

_WEB = re.compile(r"https?://|#", re.IGNORECASE)
_SPANS = [
    (60, "second", 1),
    (3600, "minute", 60),
    (86_400, "hour", 3600),
    (86_400 * 14, "day", 86_400),
    (86_400 * 60, "week", 86_400 * 7),
    (86_400 * 730, "month", 86_400 * 30),
]


def finalize(value: Any) -> Any:
    """Write characters that steer, turn or hide text as escapes, wherever a template shows it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_controls(value)
    return "" if value is None else value


# --- Markdown ---------------------------------------------------------------------------


class _Renderer(RendererHTML):
    """HTML without what the page's policy forbids: pictures from elsewhere, inline styles."""

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Show a picture as a link: it would tell a server that the page was opened."""
        token = tokens[idx]
        name = self.renderInlineAsText(token.children or [], options, env)
        address = str(token.attrs.get("src", ""))
        if not _WEB.match(address):
            return str(escape(f"{name} ({address})"))
        return str(
            Markup('<a href="{}" rel="noopener noreferrer" target="_blank">{}</a>').format(
                address, name or address
            )
        )

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        if str(token.attrs.get("href", "")).startswith("#"):
            return self.renderToken(tokens, idx, options, env)
        token.attrs.update({"rel": "noopener noreferrer", "target": "_blank"})
        return self.renderToken(tokens, idx, options, env)

    def _cell(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        style = str(tokens[idx].attrs.pop("style", ""))
        if style:
            tokens[idx].attrs["class"] = style.rpartition(":")[2]
        return self.renderToken(tokens, idx, options, env)

    th_open = td_open = _cell


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    # What is no link to the web stays the text that it is.
    parser.validateLink = lambda url: bool(_WEB.match(url))  # type: ignore[method-assign]
    return parser


def render_markdown(text: str) -> Markup:
    """Return a text as HTML; HTML in it is shown, not used. Its headings come below the page's."""
    tokens = _parser().parse(escape_controls(text))
    level = 1
    for token in tokens:
        if token.type == "heading_open":
            # No level is left out, whatever the text does: readers of a page hear the levels.
            level = max(2, min(int(token.tag[1]) + 1, level + 1, 6))
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{level}"
    rendered = _parser().renderer.render(tokens, _parser().options, {})
    return Markup(rendered)  # noqa: S704 - HTML in the text is escaped


def mark_words(text: str, words: Sequence[str]) -> Markup:
    """Return a text with the words that begin like one of these marked."""
    shown = escape_controls(text)
    stems = {word[: max(4, len(word) - 2)] if len(word) > 4 else word for word in words if word}
    if not stems:
        return escape(shown)
    choice = "|".join(re.escape(stem) for stem in sorted(stems, key=len, reverse=True))
    pieces: list[Markup] = []
    end = 0
    for found in re.finditer(rf"(?<!\w)(?:{choice})\w*", shown, re.IGNORECASE):
        pieces += [
            escape(shown[end : found.start()]),
            Markup("<mark>{}</mark>").format(found[0]),
        ]
        end = found.end()
    return Markup("").join([*pieces, escape(shown[end:])])


def show_bytes(size: int) -> str:
    """Return a size as people read it."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{max(1, round(size / 1e3))} KB"


# --- Commands ---------------------------------------------------------------------------


def command_line(args: Sequence[str]) -> str:
    """Return a command to copy: a shell reads exactly these arguments."""
    return " ".join(_quote(arg) for arg in args)


def _quote(arg: str) -> str:
    if escape_controls(arg) == arg and "\n" not in arg and "\t" not in arg:
        return shlex.quote(arg)
    quoted = arg.replace("\\", "\\\\").replace("'", "\\'")
    quoted = quoted.replace("\n", "\\n").replace("\t", "\\t")
    return f"$'{escape_controls(quoted)}'"


# --- Times ------------------------------------------------------------------------------


def moment(value: datetime | float | None) -> datetime | None:
    """Return a time, given as such or in seconds, in the local time zone."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.astimezone()
    return datetime.fromtimestamp(value, UTC).astimezone()


def ago(value: datetime | float, now: datetime | None = None) -> str:
    """Return how long ago something was, in words."""
    at = moment(value)
    assert at is not None
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(seconds) < 45:
        return "just now"
    for below, name, unit in _SPANS:
        if abs(seconds) < below:
            number = max(1, round(abs(seconds) / unit))
            span = f"{number} {name}{'' if number == 1 else 's'}"
            return f"{span} ago" if seconds > 0 else f"in {span}"
    return f"{at:%Y-%m-%d}"

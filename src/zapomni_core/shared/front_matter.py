"""Reads the head of a Markdown file: the part of YAML that people write there, without a library.

Keys with a text, a list or one more level of keys; quoted, folded and literal texts. Everything
else is left out, and nothing raises: such files are written by hand, and their body counts.
"""

from __future__ import annotations

import re

__all__ = ["FrontMatter", "split_front_matter"]

MAX_LINES = 200

FrontMatter = dict[str, "str | list[str] | dict[str, str]"]

_KEY = re.compile(r"(?P<key>[A-Za-z_][\w .-]{0,99}?|\"[^\"\n]{1,99}\"|'[^'\n]{1,99}')\s*:(?:\s+|$)")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(?:#.*)?$")
_ITEM = re.compile(r"-(?:\s+|$)")
# Parts of a list in one line, quoted or bare.
_PART = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^,\"']+")


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return the keys at the head of a Markdown text, and what follows; no keys if it has no head.

    Keys are in lower case. A text that is cut within its head has none.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return {}, text
    for end, line in enumerate(lines[1 : MAX_LINES + 1], 1):
        if line.rstrip() in ("---", "..."):
            return _read_mapping(lines[1:end]), "\n".join(lines[end + 1 :]).lstrip("\n")
    return {}, text


def _read_mapping(lines: list[str]) -> FrontMatter:
    found: FrontMatter = {}
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        key = _KEY.match(line)
        if key is None:
            continue
        name, value = key["key"].strip("\"'").lower(), line[key.end() :].strip()
        block = []
        # A list may begin at the margin of its key.
        while place < len(lines) and (
            not lines[place].strip()
            or lines[place][0] in " \t"
            or (_is_empty(value) and _ITEM.match(lines[place]))
        ):
            block.append(lines[place])
            place += 1
        found[name] = _read_value(value, block)
    return found


def _read_value(value: str, block: list[str]) -> str | list[str] | dict[str, str]:
    if _BLOCK.match(value):
        return _read_block(block, folded=value[0] == ">")
    if value.startswith("["):
        whole = " ".join([value, *(line.strip() for line in block)]).rstrip()
        return [part for one in _PART.findall(whole.strip("[]")) if (part := _scalar(one))]
    if not _is_empty(value):
        # A text that goes on in indented lines.
        return _scalar(" ".join([value, *(line.strip() for line in block)]))
    rest = [line.strip() for line in block if line.strip() and not line.lstrip().startswith("#")]
    if rest and _ITEM.match(rest[0]):
        items = [_scalar(line[1:]) for line in rest if _ITEM.match(line)]
        return [item for item in items if item]
    nested: dict[str, str] = {}
    for line in rest:
        if key := _KEY.match(line):
            nested[key["key"].strip("\"'").lower()] = _scalar(line[key.end() :])
    return nested or ""


def _is_empty(value: str) -> bool:
    return not value or value.startswith("#")


def _read_block(block: list[str], *, folded: bool) -> str:
    margin = min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0)
    lines = [line[margin:].rstrip() for line in block]
    if not folded:
        return "\n".join(lines).strip("\n")
    paragraphs = re.split(r"\n{2,}", "\n".join(lines).strip("\n"))
    return "\n".join(" ".join(one.split("\n")) for one in paragraphs)


def _scalar(value: str) -> str:
    value = value.strip()
    if value[:1] == '"' and (end := value.rfind('"')) > 0:
        return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]),
                      value[1:end])  # fmt: skip
    if value[:1] == "'" and (end := value.rfind("'")) > 0:
        return value[1:end].replace("''", "'")
    value = re.split(r"\s#", value, maxsplit=1)[0].strip()
    return "" if value in ("null", "~") else value

"""Reads one decision record (ADR) in the forms of Nygard and MADR, and what it replaces.

Pure functions over a file's name and text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from zapomni_core.shared.front_matter import split_front_matter

__all__ = ["DecisionRecord", "is_explained", "read_decision", "replaced_records"]

# Not a number of a record but the day it was written: 20260131-use-sqlite.md.
_NAME = re.compile(r"(?:adr|madr|decision|dr)?[-_ ]?(?P<number>\d{1,6})(?!\d)[-_. ]", re.IGNORECASE)
_DATED = re.compile(r"(?P<day>(?:19|20)\d{6})[-_]")
_NOT_RECORDS = re.compile(r"(?:readme|index|toc|(?:.*[-_ ])?template)", re.IGNORECASE)
_TITLE = re.compile(r"#\s+(?P<title>\S.*?)\s*#*\s*$", re.MULTILINE)
_LABEL = re.compile(
    r"(?:m?adr|decision(?: record)?|dr)?[-_ #]*(?:\d{1,8})\s*[-:.)\u2013\u2014]*\s+", re.IGNORECASE
)
_HEADING = re.compile(r"#{1,6}\s+(?P<name>\S.*?)\s*#*\s*$")
# "Date: 2026-01-31", "* Status: accepted", "**Deciders:** Anna", "- **Status**: accepted".
_FIELD = re.compile(
    r"[-*\s]{0,4}\**(?P<name>status|date|deciders?|decision[- ]makers?)\**\s*:\s*\**\s*"
    r"(?P<value>\S.*)?$",
    re.IGNORECASE,
)
_DAY = re.compile(r"(?<!\d)(?P<year>(?:19|20)\d\d)[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)(?!\d)")
_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\n]*)\)")
_STATUS = re.compile(
    r"\b(accepted|approved|proposed|draft|rejected|deprecated|withdrawn|super[sc]eded|implemented|adopted)\b",
    re.IGNORECASE,
)
_REPLACED_BY = re.compile(
    r"\b(?:super[sc]eded|replaced|obsoleted)\s+by\b:?(?P<rest>[^\n;]*)", re.IGNORECASE
)
_REPLACES = re.compile(
    r"\b(?:super[sc]edes|replaces|obsoletes)\b:?(?P<rest>[^\n;]*)", re.IGNORECASE
)
_REFERENCE = re.compile(
    r"(?P<file>[\w%][\w%.-]*\.md)\b"
    r"|(?<![\w.-])(?:(?:m?adr|dr)[-_ #]*|#)?0*(?P<number>\d{1,6})(?![\w-])",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"(?im)^#{1,4}\s+(?:context|decision|consequences|considered|status|decision outcome)\b"
)
# Words by which a text gives its reason.
_REASON = re.compile(
    r"\b(?:because|instead of|rather than|root cause|so that|in order to|otherwise|turned out"
    r"|the reason|decided|decision|trade-?off|BREAKING[ -]CHANGE|regression|caused by|workaround"
    r")\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One record: what was decided, when, how it is with it now, and what it replaces."""

    name: str
    """Its file's name."""
    number: int | None
    title: str
    label: str
    """Number and title."""
    text: str
    """Label, status, date and the record's body."""
    status: str
    """One lower-case word; empty if it has none."""
    date: datetime | None
    deciders: tuple[str, ...]
    replaces: tuple[str, ...]
    """Names of files or numbers, as they are written."""
    replaced_by: tuple[str, ...]


def is_explained(text: str) -> bool:
    """Return whether a text gives a reason."""
    return _REASON.search(text) is not None


def read_decision(name: str, text: str) -> DecisionRecord | None:
    """Return the record in a Markdown file; None if it is none, or only a template.

    Args:
        name: The file's name without folders.
        text: Its content, however it was cut.
    """
    stem = name.rpartition(".")[0] or name
    if _NOT_RECORDS.fullmatch(stem):
        return None
    head, body = split_front_matter(text)
    fields = {key: ", ".join(value) if isinstance(value, list) else value
              for key, value in head.items() if isinstance(value, str | list)}  # fmt: skip
    title, body = _split_title(body)
    body, found = _take_fields(body)
    fields = {**found, **{key: value for key, value in fields.items() if value}}
    title = title or fields.get("title", "")
    dated, numbered = _DATED.match(name), _NAME.match(name)
    number = int(numbered["number"]) if numbered and not dated else None
    status_line = " ".join(fields.get("status", "").split())
    if not title or not (number is not None or dated or (status_line and _FORM.search(body))):
        return None
    # What a template offers: {proposed | rejected | accepted}.
    if status_line.count("|") > 1 or "{" in title:
        return None
    label = f"ADR {number}: {title}" if number is not None else title
    plain = _LINK.sub(_link_text, status_line)
    word = _STATUS.search(plain)
    date = _read_day(fields.get("date", "")) or (
        _read_day(_dashed(dated["day"])) if dated else None
    )
    lines = [label]
    lines += [f"Status: {plain}"] if plain else []
    lines += [f"Date: {date:%Y-%m-%d}"] if date else []
    deciders = next((fields[key] for key in _DECIDERS if fields.get(key)), "")
    return DecisionRecord(
        name=name,
        number=number,
        title=title,
        label=label,
        text="\n".join([*lines, "", body.strip()]).strip(),
        status=word[1].lower().replace("superc", "supers") if word else "",
        date=date,
        deciders=tuple(part.strip() for part in re.split(r"[,;]", deciders) if part.strip())[:20],
        replaces=_references(_REPLACES, status_line),
        replaced_by=_references(_REPLACED_BY, status_line),
    )


_DECIDERS = ("decision-makers", "decision makers", "decision-maker", "deciders", "decider")


def replaced_records(records: list[DecisionRecord]) -> dict[str, list[str]]:
    """Return, by the name of each record, the names of those that it replaces, oldest first.

    Either record of a pair may say it. No record replaces itself, and none is replaced by one that
    it replaces in turn.
    """
    names = {record.name.lower(): record.name for record in records}
    numbers = {str(record.number): record.name for record in records if record.number is not None}

    def find(reference: str) -> str | None:
        return names.get(reference.lower()) or numbers.get(reference.lstrip("0") or "0")

    links: dict[str, list[str]] = {record.name: [] for record in records}
    pairs: list[tuple[str | None, str | None]] = []
    pairs += [(record.name, find(one)) for record in records for one in record.replaces]
    pairs += [(find(one), record.name) for record in records for one in record.replaced_by]
    for newer, older in pairs:
        if newer and older and older not in links[newer] and not _leads_to(links, older, newer):
            links[newer].append(older)
    return {newer: sorted(older) for newer, older in links.items()}


def _leads_to(links: dict[str, list[str]], start: str, wanted: str) -> bool:
    waiting, seen = [start], set[str]()
    while waiting:
        name = waiting.pop()
        if name == wanted:
            return True
        if name not in seen:
            seen.add(name)
            waiting += links[name]
    return False


def _split_title(body: str) -> tuple[str, str]:
    found = _TITLE.search(body[:10_000])
    if found is None:
        return "", body
    title = (
        _LABEL.sub("", found["title"], count=1) if _LABEL.match(found["title"]) else found["title"]
    )
    return title.strip("* "), body[: found.start()] + body[found.end() :]


def _take_fields(body: str) -> tuple[str, dict[str, str]]:
    """Return the body without its status and date, and these by name.

    Both come before the first other section: a line of their own, or a section "Status".
    """
    fields: dict[str, str] = {}
    kept: list[str] = []
    section = ""
    lines = body.split("\n")
    for place, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading:
            section = heading["name"].strip(" :").lower()
            if section not in ("status", "date"):
                return "\n".join([*kept, *lines[place:]]), fields
            continue
        if section:
            fields[section] = f"{fields.get(section, '')}; {line.strip(' -*')}".strip("; ")
        elif field := _FIELD.match(line):
            fields[field["name"].lower()] = (field["value"] or "").strip(" *")
        else:
            kept.append(line)
    return "\n".join(kept), fields


def _link_text(link: re.Match[str]) -> str:
    """Return how a link reads; the number of the record is in its text or in its target."""
    return link[1] if re.search(r"\d", link[1]) else f"{link[1]} ({link[2].rpartition('/')[2]})"


def _references(pattern: re.Pattern[str], line: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in pattern.finditer(line):
        rest = part["rest"]
        # The target of a link is exact; its text repeats it.
        targets = [target.rpartition("/")[2] for _, target in _LINK.findall(rest)]
        targets = [target for target in targets if target.lower().endswith(".md")]
        found += targets or [one["file"] or one["number"] for one in _REFERENCE.finditer(rest)]
    return tuple(dict.fromkeys(found))[:20]


def _dashed(day: str) -> str:
    return f"{day[:4]}-{day[4:6]}-{day[6:]}"


def _read_day(text: str) -> datetime | None:
    found = _DAY.search(text)
    try:
        return found and datetime(
            int(found["year"]), int(found["month"]), int(found["day"]), tzinfo=UTC
        )
    except ValueError:
        return None

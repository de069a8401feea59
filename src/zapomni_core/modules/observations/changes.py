"""What an edit changed: the names of changed definitions and the first changed lines."""

from __future__ import annotations

from zapomni_core.shared import quick_re as re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "Change",
    "count_edits",
    "count_hunks",
    "count_patch",
    "from_edits",
    "from_hunks",
    "from_patch",
    "from_text",
]

MAX_LINES = 2000
MAX_NAMES = 6
SHOWN_LINES = 3
SHOWN_LENGTH = 100

_DEFINITION = re.compile(
    r"^\s{0,80}(?:(?:export|default|public|private|protected|static|async|abstract|final|pub|"
    r"override|inline|virtual)\s{1,4}){0,4}"
    r"(?:def|class|function|fn|func|interface|struct|enum|trait|impl|type|module|const|let|var|"
    r"resource|CREATE TABLE|create table)"
    r"\s{1,4}(?:\([^)\n]{0,80}\)\s{0,4})?([A-Za-z_$][\w$.]{0,80})"
)
_PATCH_FILE = r"^\*\*\* (Add|Update|Delete) File: (.{1,1000})$"


class Change:
    """Lines removed and added; `around` are unchanged ones that name the place.

    The lines are those that were read; of a long text that is only its beginning. `total` says
    how many were really added and removed.
    """

    __slots__ = ("added", "around", "files", "removed", "total")

    def __init__(self) -> None:
        self.added: list[str] = []
        self.removed: list[str] = []
        self.around: list[str] = []
        self.files: list[str] = []
        self.total = (0, 0)

    def take(self, line: str) -> None:
        """Sort one line of a unified diff."""
        if line[:1] == "+":
            self.added.append(line[1:])
        elif line[:1] == "-":
            self.removed.append(line[1:])
        else:
            self.around.append(line[1:])

    def statement(self) -> str:
        """Return a summary of the change."""
        parts = [f"+{self.total[0]} -{self.total[1]}"]
        names = _names([*self.added, *self.removed]) or _names(self.around)[-1:]
        if names:
            parts.append(", ".join(names[:MAX_NAMES]))
        shown = [f"- {line}" for line in _first_lines(self.removed)]
        shown += [f"+ {line}" for line in _first_lines(self.added)]
        return "\n".join([" ".join(parts), *shown])


def _names(lines: Iterable[str]) -> list[str]:
    found = (_DEFINITION.match(line) for line in lines)
    return list(dict.fromkeys(name[1] for name in found if name))


def _first_lines(lines: list[str]) -> list[str]:
    meant = [line.strip()[:SHOWN_LENGTH] for line in lines if any(c.isalnum() for c in line)]
    return meant[:SHOWN_LINES]


def count_hunks(hunks: Any) -> tuple[int, int]:
    """Return how many lines {"lines": ["+…", "-…", " …"]} add and remove."""
    added = removed = 0
    for hunk in hunks if isinstance(hunks, list) else []:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        for line in lines if isinstance(lines, list) else []:
            if isinstance(line, str):
                added += line[:1] == "+"
                removed += line[:1] == "-"
    return added, removed


def count_edits(edits: Any) -> tuple[int, int]:
    """Return how many lines pairs of old and new text add and remove."""
    added = removed = 0
    for old, new in edits if isinstance(edits, list) else []:
        before, after = old.splitlines(), new.splitlines()
        both = set(before).intersection(after)
        removed += sum(line not in both for line in before)
        added += sum(line not in both for line in after)
    return added, removed


def count_patch(patch: str) -> tuple[int, int]:
    """Return how many lines a patch adds and removes."""
    added = removed = 0
    for line in patch.splitlines():
        added += line[:1] == "+" and line[:4] != "+++ "
        removed += line[:1] == "-" and line[:4] != "--- "
    return added, removed


def from_hunks(hunks: Any) -> Change | None:
    """Read a list of {"lines": ["+…", "-…", " …"]}."""
    change = Change()
    for hunk in hunks if isinstance(hunks, list) else []:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        for line in lines[:MAX_LINES] if isinstance(lines, list) else []:
            if isinstance(line, str):
                change.take(line)
    return change if change.added or change.removed else None


def from_edits(edits: Any) -> Change:
    """Read pairs of old and new text; lines they share are no change."""
    change = Change()
    for pair in edits if isinstance(edits, list) else []:
        old, new = pair if isinstance(pair, tuple) and len(pair) == 2 else ("", "")
        before, after = old.splitlines()[:MAX_LINES], new.splitlines()[:MAX_LINES]
        both = set(before) & set(after)
        change.removed += [line for line in before if line not in both]
        change.added += [line for line in after if line not in both]
        change.around += [line for line in before if line in both]
    return change


def from_text(text: str) -> Change:
    """Take a whole new file as added."""
    change = Change()
    change.added = text.splitlines()
    return change


def from_patch(patch: str) -> Change:
    """Read a patch in the form of `apply_patch`, or a unified diff."""
    change = Change()
    for line in patch.splitlines()[:MAX_LINES]:
        if header := re.match(_PATCH_FILE, line):
            change.files.append(header[2].strip())
        elif line.startswith("+++ "):
            change.files.append(line[4:].split("\t")[0].removeprefix("b/"))
        elif not line.startswith(("*** ", "--- ", "@@", "diff ", "index ")):
            change.take(line)
        elif line.startswith("@@") and line[2:].strip("@ "):
            change.around.append(line.split("@@")[-1].strip())
    change.files = list(dict.fromkeys(change.files))
    return change

"""Finding the line of an output that is the error, and whether two errors are the same."""

from __future__ import annotations

from zapomni_core.shared import quick_re as re

__all__ = ["error_line", "exit_code_of", "signature_of"]

# An error is searched for in the first lines and in the last ones.
EDGE_LINES = 200
LINE_LIMIT = 400
SIGNATURE_LIMIT = 200

# Texts, compiled when they are used: a hook pays for each.
_EXIT_CODE = r"(?i)\bexit (?:code|status)[: ]{1,3}(-?\d{1,6})\b"
_ONLY_EXIT_CODE = r"(?i)^(?:error: )?exit (?:code|status)[: ]{1,3}-?\d{1,6}\.?$"
_EXCEPTION = (
    r"^(?:E {1,8})?(?:\w{1,40}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Warning|Exit|Interrupt)\b"
)
_ERROR_WORDS = (
    r"(?i)\b(?:error|fatal|failed|failure|panic(?:ked)?|exception|cannot|can't|could not|"
    r"unable to|not found|no such|denied|refused|undefined|unexpected|invalid|timed out|"
    r"segmentation fault|does not exist)\b"
)
# What must occur (a zero: any digit), the pattern, and what takes its place.
_NOISE = (
    # Order matters: a timing holds a number, an address a hexadecimal one.
    ("0", r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?", "T"),
    ("0", r"\b\d{1,2}:\d\d:\d\d(?:\.\d{1,9})?\b", "T"),
    ("0", r"\b\d{1,9}(?:\.\d{1,9})? ?(?:ms|us|ns|s|sec|secs|seconds|minutes|min|m)\b", "T"),
    ("-", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "H"),
    ("/\\", r"(?:[A-Za-z]:)?(?<![\w])(?:\.{0,2}|~)[/\\][\w.@+\-/\\]{1,300}", "P"),
    ("/", r"\b[\w.@+\-]{1,80}(?:/[\w.@+\-]{1,80}){1,30}", "P"),
    ("0", r"\b0x[0-9a-fA-F]{1,32}\b", "H"),
    ("0", r"\b(?=[a-f]{0,64}\d)[0-9a-f]{7,64}\b", "H"),
    ("0", r"\d{1,20}", "N"),
)


def exit_code_of(text: str) -> int | None:
    """Read "Exit code 3" from the head of a failure's text."""
    found = re.search(_EXIT_CODE, text[:200])
    return int(found[1]) if found else None


def error_line(output: str) -> str:
    """Return the line that says what went wrong.

    A traceback says it last, a compiler first; without either the last line has to do.
    """
    lines = [line.strip()[:LINE_LIMIT] for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not re.match(_ONLY_EXIT_CODE, line)]
    if len(lines) > 2 * EDGE_LINES:
        lines = lines[:EDGE_LINES] + lines[-EDGE_LINES:]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        raised = [line for line in lines if re.match(_EXCEPTION, line)]
        if raised:
            return raised[-1]
    for pattern in (_EXCEPTION, _ERROR_WORDS):
        for line in lines:
            if re.search(pattern, line):
                return line.removeprefix("E ").strip()
    return lines[-1] if lines else ""


def signature_of(program: str, line: str) -> str | None:
    """Return a text that is the same for every repetition of a failure; None without an error."""
    has_digits = any(map(str.isdecimal, line))
    for needed, pattern, replacement in _NOISE:
        if has_digits if needed == "0" else any(sign in line for sign in needed):
            line = re.sub(pattern, replacement, line)
    line = re.sub(r"\s{1,50}", " ", line).strip()
    if not line:
        return None
    return f"{program}: {line}"[:SIGNATURE_LIMIT] if program else line[:SIGNATURE_LIMIT]

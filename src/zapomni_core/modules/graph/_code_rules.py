"""Rules for what developers type: code in backticks, commands, packages, versions, statuses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zapomni_core.modules.graph import _cues as cues
from zapomni_core.modules.graph._dates import date_at
from zapomni_core.modules.graph._shapes import is_status, is_version, shape_of
from zapomni_core.modules.graph._walk import Mention, Walk

__all__ = [
    "Quoted",
    "command",
    "date",
    "named_error",
    "numbered_reference",
    "package",
    "parts",
    "quoted",
    "shaped",
    "version",
]

LONGEST_CODE = 120
MOST_ARGUMENTS = 8
LONGEST_ERROR = 40

# One or two on either side: Markdown and reStructuredText.
_BACKTICKS = re.compile(r"(?<!`)(`{1,2})([^`\n]{1,300})\1(?!`)")
_LINK = re.compile(r" <[^<>\s]+>$")  # reStructuredText: `name <address>`_
_FENCE = re.compile(r"^(?:```|~~~)", re.MULTILINE)
_PINNED = re.compile(
    r"(@?[A-Za-z][\w.\-/]*)(?:\[[\w,]+\])?(?:==|>=|<=|~=|!=|<|>|@|\^)v?(\d[\w.\-*]*)"
)
_PACKAGE_NAME = re.compile(r"@?[a-z][a-z0-9]*(?:[-_./][a-z0-9]+)*")
_ARGUMENT = re.compile(r"--?[a-zA-Z]|\.{0,2}/\w|~/|https?:|\w+@\w")
_PART = re.compile(r"[^/,;|()=:]+")

Quoted = tuple[int, int, Mention | None]
"""A stretch that is read as a whole: from, to, and what it is."""


def quoted(walk: Walk) -> list[Quoted]:
    """Code in backticks is one thing each; blocks of code are left out."""
    if "`" not in walk.text and "~~~" not in walk.text:
        return []
    fences = [match.start() for match in _FENCE.finditer(walk.text)]
    blocks = list(zip(fences[::2], [*fences[1::2], len(walk.text)], strict=False))
    found: list[Quoted] = [(start, end + 3, None) for start, end in blocks]
    block = 0
    for match in _BACKTICKS.finditer(walk.text):
        while block < len(blocks) and blocks[block][1] + 3 <= match.start():
            block += 1
        if block == len(blocks) or match.end() <= blocks[block][0]:
            found.append((match.start(), match.end(), _in_backticks(walk, *match.span(2))))
    return sorted(found, key=lambda stretch: stretch[0])


def _in_backticks(walk: Walk, start: int, end: int) -> Mention | None:
    content = _LINK.sub("", walk.text[start:end]).strip()
    if not content or len(content) > LONGEST_CODE:
        return None
    start = walk.text.index(content, start)
    end = start + len(content)
    words = content.split()
    if _is_command(words):
        return Mention(start, end, "COMMAND", content.removeprefix("$ "), 0.9)
    for entry in walk.gazetteer.find(content):
        if entry.kind in ("TECHNOLOGY", "SERVICE") and not entry.exact:
            return Mention(start, end, "TECHNOLOGY", entry.name, 0.9, "gazetteer", entry.aliases)
    if len(words) > 1:
        return Mention(start, end, "CODE", content, 0.8)
    if walk.text[end : end + 13].lower().lstrip("` ").startswith(cues.PACKAGE_NOUNS):
        return Mention(start, end, "PACKAGE", content, 0.9)
    if is_version(content):
        return Mention(start, end, "VERSION", content, 0.9)
    shape = shape_of(content)
    if shape is not None and shape.type:
        end = end if shape.end is None else start + shape.end
        return Mention(start, end, shape.type, walk.text[start:end], shape.confidence)
    return Mention(start, end, "CODE", content, 0.8) if re.search(r"\w", content) else None


def _is_command(words: Sequence[str]) -> bool:
    first = words[0]
    if first == "$" or first.startswith("./"):
        return True
    if len(words) == 1:
        return False
    return first in cues.COMMANDS or (
        words[1].startswith("-") and first.islower() and first.isalnum()
    )


def command(walk: Walk) -> bool:
    """A command line in running text, as far as it can be told from the words after it."""
    begin = walk.at + 1 if walk.token.text == "sudo" else walk.at
    if begin > walk.at and not walk.joined(walk.at):
        return False
    if not walk.joined(begin) or not _takes(walk, begin):
        return False
    upto = begin + 1
    while upto - begin < MOST_ARGUMENTS and walk.joined(upto):
        if walk.lower[upto + 1] in cues.AFTER_COMMAND:
            break
        upto += 1
    return walk.add(walk.token.start, walk.tokens[upto].end, "COMMAND", 0.7, upto)


def _takes(walk: Walk, begin: int) -> bool:
    """Whether the word after is one this command takes."""
    name, argument = walk.tokens[begin].text, walk.tokens[begin + 1].text
    if name not in cues.COMMANDS:
        return False
    subcommands = cues.COMMANDS[name]
    if subcommands is None:
        return len(argument) > 1 and _ARGUMENT.match(argument) is not None
    told = name not in cues.ENGLISH_COMMANDS or walk.before() in cues.BEFORE_COMMAND
    return told and argument in subcommands


def date(walk: Walk) -> bool:
    """A date, unless the number is the version of what stands before it."""
    token, last = walk.token, walk.last()
    if token.text[0].isdigit() and last and last.type in ("TECHNOLOGY", "PACKAGE"):
        return False
    found = date_at(walk.text, token.start, walk.before(), walk.reference)
    if found is None:
        return False
    walk.mentions.append(Mention(token.start, found.end, "DATE", found.name, found.confidence))
    while walk.at < len(walk.tokens) and walk.token.start < found.end:
        walk.at += 1
    return True


def package(walk: Walk) -> bool:
    """A library named as something that is installed."""
    token = walk.token
    if pinned := _PINNED.fullmatch(token.text):
        walk.add(token.start, token.start + pinned.end(1), "PACKAGE", 0.9, walk.at - 1)
        return walk.add(token.start + pinned.start(2), token.end, "VERSION", 0.9, walk.at)
    if not _PACKAGE_NAME.fullmatch(token.text) or token.text in cues.ORDINARY:
        return False
    if _is_installed(walk):
        return walk.add(token.start, token.end, "PACKAGE", 0.8, walk.at)
    return False


def _is_installed(walk: Walk) -> bool:
    before, after = walk.before(), walk.after()
    following = tuple(walk.lower[walk.at + 1 : walk.at + 4]) if after else ()
    if after.startswith(cues.PACKAGE_NOUNS):
        return before not in ("a", "an") or "-" in walk.token.text
    if before in ("package", "crate", "gem"):
        return not walk.token.text.isalpha()
    if before in cues.BUMPS and after in ("from", "to"):
        return is_version(walk.after(walk.at + 1))
    if before in ("bump", "deps"):
        return bool(after)
    if walk.at and walk.lower[walk.at - 1] in ("deps", "deps)", "gemspec") and walk.token.first:
        return True
    if following[:2] in (("is", "required"), ("is", "installed")) or following == (
        "is",
        "not",
        "installed",
    ):
        return True
    return following in (("to", "the", "deps"), ("to", "the", "dependencies"))


def numbered_reference(walk: Walk) -> bool:
    """PR 1432, issue 88."""
    number = walk.after()
    if walk.lower[walk.at] not in cues.NUMBERED_REFERENCES or not number.isdigit():
        return False
    return walk.add(walk.token.start, walk.tokens[walk.at + 1].end, "REFERENCE", 0.8, walk.at + 1)


def named_error(walk: Walk) -> bool:
    """Segmentation fault, null pointer exceptions."""
    start = walk.token.start
    text = walk.text[start : start + LONGEST_ERROR].lower()
    first = walk.lower[walk.at]
    for rest in cues.NAMED_ERRORS[first]:
        name = f"{first} {rest}"
        if not text.startswith(name):
            continue
        end = start + len(name) + text.startswith("s", len(name))
        upto = walk.at + len(name.split()) - 1
        if upto < len(walk.tokens) and walk.tokens[upto].end == end:
            return walk.add(start, end, "ERROR", 0.7, upto)
    return False


def version(walk: Walk) -> bool:
    """A number that is a version, or the status of an answer, because of what stands around."""
    token, before = walk.token, walk.before()
    word = token.text.rstrip("+")
    if is_status(word) and _status(walk, before):
        return True
    if word.isdigit() and len(word) > 1 and _is_error_code(walk, before):
        return walk.add(token.start, token.end, "ERROR", 0.6, walk.at)
    if not is_version(word) and not (word.isdigit() and len(word) <= 4):
        return False
    last = walk.last(8)
    after_name = bool(before) and _stands_behind_name(walk)
    with_other = last is not None and last.type == "VERSION" and before in cues.BETWEEN_VERSIONS
    if after_name or with_other or before in cues.BEFORE_VERSION:
        return walk.add(token.start, token.start + len(word), "VERSION", 0.85, walk.at)
    if "." in word and before in ("from", "to", "until", "past"):
        return walk.add(token.start, token.end, "VERSION", 0.6, walk.at)
    return False


def _is_error_code(walk: Walk, before: str) -> bool:
    """Error 1009; the error code is 102."""
    if before == "is":
        before = walk.before(walk.at - 1)
    if before == "code":
        return "error" in walk.lower[max(0, walk.at - 4) : walk.at]
    return before in ("error", "errno")


def _stands_behind_name(walk: Walk) -> bool:
    last = walk.mentions[-1] if walk.mentions else None
    if last is None or last.type not in ("TECHNOLOGY", "PACKAGE"):
        return False
    return last.end == walk.tokens[walk.at - 1].end


def _status(walk: Walk, before: str) -> bool:
    """An error status of HTTP, with its words if they follow."""
    if before in ("a", "an", "the", "is"):  # getting a 401
        before = walk.before(walk.at - 1)
    if before not in cues.BEFORE_STATUS and walk.after() not in cues.AFTER_STATUS:
        return False
    start, upto = walk.token.start, walk.at
    if walk.before() == "http":
        start = walk.tokens[walk.at - 1].start
        if walk.mentions and walk.mentions[-1].start == start:
            walk.mentions.pop()
    if walk.after(upto) in cues.STATUS_FIRST_WORDS:
        while walk.after(upto) in cues.STATUS_WORDS:
            upto += 1
    return walk.add(start, walk.tokens[upto].end, "ERROR", 0.7, upto)


def shaped(walk: Walk) -> bool:
    """Whatever a word is by its looks."""
    token = walk.token
    shape = shape_of(token.text)
    if shape is None or token.text in cues.NOT_CODE or _is_commit_prefix(walk):
        return False
    if not shape.type or _is_branch(walk):
        walk.at += 1
        return True
    end = token.end if shape.end is None else token.start + shape.end
    return walk.add(token.start + shape.start, end, shape.type, shape.confidence, walk.at)


def _is_branch(walk: Walk) -> bool:
    """Merge pull request #12 from owner/branch."""
    last = walk.last(len(" from "))
    return walk.before() == "from" and last is not None and last.type == "REFERENCE"


def _is_commit_prefix(walk: Walk) -> bool:
    """`fix(parser):` and `TODO(anna):` begin a line, they are no calls."""
    token = walk.token
    return (
        token.first and token.text.endswith(")") and token.text.partition("(")[0] in cues.PREFIXES
    )


def parts(walk: Walk) -> bool:
    """Known names in a compound: Linux/macOS, Redis-backed; not those in `python-docx`."""
    token, found = walk.token, False
    stem, dash, tail = token.text.rpartition("-")
    if dash and tail.lower() not in cues.COMPOUND_TAILS:
        return False
    for part in _PART.finditer(stem or token.text):
        for entry in walk.gazetteer.find(part[0]):
            if entry.kind in ("TECHNOLOGY", "SERVICE") and not entry.exact:
                start, end = token.start + part.start(), token.start + part.end()
                walk.mentions.append(
                    Mention(start, end, "TECHNOLOGY", entry.name, 0.7, "gazetteer", entry.aliases)
                )
                found = True
                break
    walk.at += found
    return found

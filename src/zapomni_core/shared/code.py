"""What a file of code is for, whether others may use what is in it, and what is embedded of it."""

from __future__ import annotations

import re
from typing import Literal

__all__ = ["Role", "condense_code", "is_private", "role_of"]


Role = Literal["code", "test", "docs"]

_TEST_PATH = re.compile(
    r"""(?xi)
    (?: ^ | / ) (?: tests? | __tests__ | specs? | e2e | test[-_]?suites? | fixtures
                  | testdata | __mocks__ | __snapshots__ ) /
    | (?: ^ | / ) (?: test_[^/]* | conftest | [^/]* _tests?
                    | [^/]* [.-] (?: test | spec | cy ) ) \. \w+ $
    | (?: ^ | / ) src / test / | ^ t /
    """
)
_TEST_CLASS = re.compile(r"(?:Tests?|TestCase|Spec)\.(?:java|kt|kts|scala|cs|swift|php)$")
_DOCS_PATH = re.compile(
    r"""(?xi)
    (?: ^ | / ) (?: docs? | documentation | examples? | samples? | demos? | tutorials? | website
                  | release[-_]?notes | changelog\.d | man ) /
    | \. (?: md | mdx | markdown | mkd | rst | adoc | asciidoc | org | txt | textile | pod ) $
    | (?: ^ | / ) (?: readme | changelog | changes | history | news | authors | contributors
                  | license | licence | notice | copying | pkg-info | todo | install | upgrading ) $
    """
)


def role_of(path: str) -> Role:
    """Return what a file is for, by its path: a package named `testing` is part of the code."""
    if _TEST_PATH.search(path) or _TEST_CLASS.search(path):
        return "test"
    return "docs" if _DOCS_PATH.search(path) else "code"


_PRIVATE = re.compile(
    r"[ \t]*(?:(?:async[ \t]+)?(?:def|class|function|func|fn)[ \t]+_(?!_)|private\b|\#\w+[ \t]*\()"
)


def is_private(text: str) -> bool:
    """Return whether a passage begins with a symbol that is not for other files."""
    return bool(_PRIVATE.match(text.lstrip("\n")))


# --- What is embedded of a passage ----------------------------------------------------


# How a passage begins with which a symbol begins: its comment, decorator, modifiers or keyword, or
# a method's name and parameters.
_BEGINS = re.compile(
    r"""(?x)
    [@#*/] | --
    | (?: async | def | class | function | func | fn | pub | export | public | private | protected
        | internal | static | abstract | final | override | interface | struct | enum | trait | impl
        | type | module | namespace | template | sub | fun | val | create | local ) \b
    | (?: const | let | var ) [ ] [\w$]+ [ ] = [ ] (?: async [ ] )? (?: function | \( )
    | [\w$\#~<>:*&, ]+ \( [^()]* \) [^;]* \{ $
    """
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
# Words that every file of some language has.
_SYNTAX = frozenset(
    """self cls this def class function func fn return if else elif for in is not and or none true
    false null nil undefined import from export default try except catch finally raise throw with
    as lambda pass yield async await continue break assert del global while const let var new
    static public private protected void int str bool float double string final override end do
    then begin struct enum interface impl trait pub mut ref use mod package namespace using type
    typeof instanceof extends implements switch case""".split()
)
# How many tokens of a symbol's beginning are read as they are written, about, and how many more of
# its words. Measured by `benchmarks.code_search` and `benchmarks.code_questions`.
AS_WRITTEN: dict[Role, tuple[int, int]] = {"code": (28, 12), "test": (14, 6), "docs": (36, 14)}
# How many words of a passage in the middle of a symbol.
WORDS_INSIDE = 5


def condense_code(text: str, role: Role) -> str:
    """Return what is embedded of a passage of a repository.

    Of a symbol's beginning its head and first lines, which have its name, signature and docstring,
    and then words that are new, of a page its first lines; of the middle of a symbol a line and a
    few words. The rest of a passage is found by its words: to read all of it takes twice as
    long, and finds less.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return text
    as_written, more_words = AS_WRITTEN[role]
    begins = role == "docs" or _BEGINS.match(lines[0]) is not None
    count, tokens = 1, _tokens(lines[0])
    while begins and count < len(lines) and tokens < as_written:
        tokens += _tokens(lines[count])
        count += 1
    if role == "docs" and count == len(lines):
        return text
    written = " ".join(lines[:count])
    words: dict[str, None] = {}
    seen = {part.lower() for part in _PART.findall(written)} | _SYNTAX
    for part in _PART.findall(" ".join(lines[count:])):
        word = part.lower()
        if len(word) > 1 and word not in seen:
            words[word] = None
    return " ".join([written, *list(words)[: more_words if begins else WORDS_INSIDE]])


def _tokens(line: str) -> int:
    """Return about how many tokens of the model a line is."""
    letters = sum(map(str.isalnum, line))
    marks = len(line) - letters - line.count(" ")
    return marks + letters * 2 // 7

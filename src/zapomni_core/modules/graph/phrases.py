"""What the words between two names say about them: `phrases.txt`, read once."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

__all__ = [
    "ADVERBS",
    "AUXILIARIES",
    "BARE",
    "BLOCKERS",
    "CONDITIONS",
    "DETERMINERS",
    "HOLDING",
    "IN_FRONT",
    "PARTS",
    "PRODUCTS",
    "QUESTION_STARTS",
    "SINGLE_VALUED",
    "UNCERTAIN",
    "WEAK",
    "Wording",
    "table",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SINGLE_VALUED = frozenset({"WORKS_AT", "LOCATED_IN", "REPLACED_BY", "DEFINED_IN"})
"""Of these, a newer statement about the same subject ends the older one; others add up."""

_STATEMENT = re.compile(
    r"(?P<type>[A-Z_]+): (?P<first>.+) (?P<way>->|<-) (?P<second>[^\d]+?)(?: (?P<strength>[\d.]+))?"
)
_GROUP = re.compile(r"# (?P<name>[a-z]+) +(?P<types>[A-Z]+(?: [A-Z]+)*)")


class Wording(NamedTuple):
    """A statement: its type, what may be first and second, and which of them is the subject."""

    type: str
    first: frozenset[str]
    second: frozenset[str]
    reverse: bool
    strength: float


@lru_cache(maxsize=1)
def table() -> dict[str, list[Wording]]:
    """Return what each phrase may state, most likely first."""
    found: dict[str, list[Wording]] = {}
    groups: dict[str, frozenset[str]] = {}
    phrase: Wording | None = None
    file = resources.files(__package__).joinpath("phrases.txt")
    for line in file.read_text(encoding="utf-8").splitlines():
        if group := _GROUP.fullmatch(line):
            groups[group["name"]] = _words(group["types"])
        elif statement := _STATEMENT.fullmatch(line):
            first, second = (
                frozenset().union(*(groups.get(name, {name}) for name in statement[side].split()))
                for side in ("first", "second")
            )
            strength = float(statement["strength"] or 0.9)
            phrase = Wording(statement["type"], first, second, statement["way"] == "<-", strength)
        elif phrase is not None:
            for text in line.strip().removesuffix(",").split(", "):
                found.setdefault(text, []).append(phrase)
    return found


# Words in front of the first name, right before it, and between it and the second.
IN_FRONT = (
    (
        _words(
            "moved move moves moving switched switch switches switching migrated migrate "
            "migrates migrating changed change changing converted convert converting ported "
            "port porting went transition transitioned upgraded upgrade updated update bump "
            "перешли"
        ),
        _words("from \u0441"),
        _words("to \u043d\u0430"),
        "REPLACED_BY",
    ),
    (
        _words("replaced replace replaces replacing swap swapped substitute"),
        frozenset[str](),
        _words("with by"),
        "REPLACED_BY",
    ),
    (
        _words("prefers prefer preferred chose choose chosen picked favors recommend recommends"),
        frozenset[str](),
        _words("over"),
        "PREFERRED_OVER",
    ),
    (_words("rename renamed renames renaming"), frozenset[str](), _words("to"), "REPLACED_BY"),
    (
        _words("convert converts converting translate compile"),
        frozenset[str](),
        _words("to into"),
        "CONVERTED_TO",
    ),
    (
        _words("connect connects connected connecting"),
        frozenset[str](),
        _words("to with"),
        "CONNECTS_TO",
    ),
    (
        _words("run running runs install installed installing deploy deployed deploying"),
        frozenset[str](),
        _words("on"),
        "RUNS_ON",
    ),
)

# With one thing for a subject these are commands or wishes: "let Django use Redis".
BARE = frozenset(
    (
        "use|depend on|rely on|require|prefer|like|love|avoid|dislike|hate|choose|go with|fix"
        "|never use|do not use|don't use|no longer use|make use of|run|work with|recommend"
        "|support|raise|throw|live in|develop in|program in|code in|using|running"
    ).split("|")
)
AUXILIARIES = _words("is are was were has have had been being be am 'm 're 've it's can")
ADVERBS = _words(
    "also now currently already still always only mainly mostly primarily heavily directly "
    "internally usually just both basically simply really recently finally then actually often "
    "originally officially therefore automatically again fully natively later eventually widely "
    "commonly largely partly out"
)
DETERMINERS = _words(
    "the a an our its their his her my your this these those new old latest own same local "
    "existing current official popular simple open-source standard built-in default some any "
    "both all other another whole entire underlying"
)
# What belongs to a thing so closely that a statement about it is one about the thing.
PARTS = _words(
    "admin api app application service server client backend frontend module library framework "
    "package plugin project codebase repo cli sdk core engine runtime compiler integration "
    "extension implementation cluster container image code script tool tests docs documentation "
    "itself"
)
PRODUCTS = _words(
    "library libraries framework package module plugin extension client wrapper binding "
    "bindings driver sdk tool toolkit interface adapter backend linter formatter parser server "
    "implementation port integration support api app cli checker runner compiler interpreter "
    "editor ide orm"
)
# Behind the verb these mean that the name is not its object.
BLOCKERS = _words(
    "of for in with from to by on via using like than as into about between without against per "
    "through and or but that which who when while if because is are was were be been not no it "
    "they we you he she i at so then where what how outside inside over under after before "
    "during until"
    " avoiding removing dropping"
)
# So short that nothing but an article may follow, and the name must be meant by itself.
WEAK = _words("in from of at to 's")
# What is held is the name itself, not something called after it.
HOLDING = _words("contains includes bundles ships provides exposes offers") | {
    "ships with",
    "comes with",
}
# A sentence with one of these in front of the statement does not claim it.
UNCERTAIN = _words(
    "if whether unless should could would might maybe perhaps suppose imagine wish not never "
    "don't didn't doesn't won't can't cannot isn't wasn't wouldn't shouldn't no nobody none "
    "neither nor without consider considering n't dont doesnt didnt cant wont isnt unlike "
    "avoid avoids avoiding attempt attempting remove removes removed removing delete deleted "
    "prevent prevents let's lets may ought hopefully ideally need wants want wanted plan plans "
    "planned planning try tried trying"
)
CONDITIONS = _words("if whether unless suppose imagine")
QUESTION_STARTS = _words(
    "who what when where why how which is are was were do does did can could should would will "
    "has have may shall anyone didn't isn't aren't don't"
)

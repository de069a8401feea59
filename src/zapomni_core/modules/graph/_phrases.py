"""What the words between two names say about them.

Phrases stand without auxiliaries and adverbs: `has now been replaced by` is looked up as
`replaced by`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ADVERBS",
    "AUXILIARIES",
    "BARE",
    "BLOCKERS",
    "CONDITIONS",
    "DETERMINERS",
    "IN_FRONT",
    "PARTS",
    "PHRASES",
    "PRODUCTS",
    "QUESTION_STARTS",
    "SINGLE_VALUED",
    "UNCERTAIN",
    "WEAK",
    "Phrase",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WHO = _words("PERSON ORG SELF")
_THING = _words("TECHNOLOGY PACKAGE CODE COMMAND FILE")
_TECH = _words("TECHNOLOGY PACKAGE")
_NAMED = _TECH | {"CODE"}
_ANY = _THING | _WHO | _words("PLACE REFERENCE ERROR URL VERSION")
_MADE = _THING | _words("ORG URL REFERENCE")
_CHANGE = _words("REFERENCE VERSION PERSON SELF TECHNOLOGY PACKAGE CODE FILE ORG")
_PLACE = _words("PLACE")

SINGLE_VALUED = frozenset({"WORKS_AT", "LOCATED_IN", "REPLACED_BY", "DEFINED_IN"})
"""Of these, a newer statement about the same subject ends the older one; others add up."""


class Phrase(NamedTuple):
    """A statement: its type, what it may be about, and whether it reads backwards."""

    type: str
    subjects: frozenset[str]
    objects: frozenset[str]
    reverse: bool = False
    strength: float = 0.9


_ROWS: tuple[tuple[str, Phrase], ...] = (
    (
        "uses|used|use|using|utilizes|employs|leverages|adopted|adopts|built with|built on|built on top of|based on"
        "|powered by|backed by|makes use of|make use of|wraps|a wrapper around|a thin wrapper around|relies heavily on",
        Phrase("USES", _THING | _WHO, _THING),
    ),
    (
        "running|run|working with|working on|work with|develop in|program in|code in",
        Phrase("USES", _words("SELF PERSON"), _TECH),
    ),
    (
        "depends on|depend on|depends upon|relies on|rely on|requires|require|needs",
        Phrase("DEPENDS_ON", _THING | {"REFERENCE"}, _THING | {"VERSION"}),
    ),
    ("required by|needed by", Phrase("DEPENDS_ON", _THING, _THING, reverse=True)),
    ("used by", Phrase("USES", _THING | _WHO, _THING, reverse=True)),
    ("written in|implemented in|coded in", Phrase("WRITTEN_IN", _MADE, _words("TECHNOLOGY"))),
    (
        "created by|written by|built by|designed by|developed by|invented by|founded by|authored by|made by|released by"
        "|published by|started by|directed by|produced by|composed by|a product of|originally written by|co-founded by",
        Phrase("CREATED_BY", _ANY, _WHO),
    ),
    (
        "created|wrote|built|designed|developed|invented|founded|co-founded|authored|released|published|open-sourced"
        "|open sourced|written|directed|launched",
        Phrase("CREATED_BY", _MADE, _words("PERSON ORG"), reverse=True),
    ),
    (
        "fixes|fixed|fix|closes|closed|resolves|resolved|solves|solved|patches|patched|addresses",
        Phrase("FIXES", _CHANGE, _words("REFERENCE ERROR CODE FILE")),
    ),
    (
        "fixed in|fixed by|resolved in|resolved by|closed by|closed in|patched in",
        Phrase(
            "FIXES",
            _words("REFERENCE VERSION PERSON TECHNOLOGY"),
            _words("REFERENCE ERROR CODE FILE TECHNOLOGY"),
            reverse=True,
        ),
    ),
    (
        "replaced by|replaced with|superseded by|gave way to|became|renamed to|renamed|deprecated in favor of"
        "|deprecated in favour of|moved to|rewritten as",
        Phrase("REPLACED_BY", _NAMED | {"VERSION"}, _NAMED | {"VERSION"}),
    ),
    (
        "replaces|replaced|supersedes|superseded",
        Phrase(
            "REPLACED_BY", _THING | {"VERSION"}, _THING | _words("REFERENCE VERSION"), reverse=True
        ),
    ),
    ("instead of|rather than|in place of", Phrase("INSTEAD_OF", _THING, _THING, strength=0.8)),
    (
        "works at|works for|worked at|worked for|working at|working for|joined|employed by|an engineer at|a developer at"
        "|the ceo of|ceo of|a professor at|our contact at|interned at|teaches at|taught at|signed for|plays for|played for",
        Phrase("WORKS_AT", _words("PERSON"), _words("ORG")),
    ),
    ("from|at", Phrase("WORKS_AT", _words("PERSON"), _words("ORG"), strength=0.6)),
    (
        "lives in|lived in|live in|based in|located in|headquartered in|moved to|hosted in|situated in|settled in"
        "|relocated to|stationed in|resides in|a city in|a town in|a village in|a municipality in|a district in"
        "|a region in|a river in|a university in|a company in|a suburb of|a neighborhood in|the capital of"
        "|the capital city of|the largest city in|a state in|a province of|an island in|a county in|a commune in",
        Phrase("LOCATED_IN", _words("PERSON ORG TECHNOLOGY PLACE SELF"), _PLACE),
    ),
    ("in", Phrase("LOCATED_IN", _words("ORG"), _PLACE, strength=0.6)),
    (
        "born in|grew up in|comes from|came from|from",
        Phrase("COMES_FROM", _words("PERSON SELF"), _PLACE),
    ),
    (
        "visited|went to|travelled to|traveled to|flew to|been to|toured",
        Phrase("VISITED", _words("PERSON SELF"), _PLACE),
    ),
    (
        "part of|a part of|belongs to|included in|a module of|a component of|a subsidiary of|bundled with|shipped with"
        "|a member of|a feature of|provided by|exported by",
        Phrase("PART_OF", _ANY - {"SELF"}, _MADE),
    ),
    ("in|of", Phrase("PART_OF", _words("CODE"), _TECH, strength=0.6)),
    (
        "'s",
        Phrase(
            "PART_OF",
            _words("CODE FILE COMMAND"),
            _TECH | {"CODE", "FILE"},
            reverse=True,
            strength=0.7,
        ),
    ),
    ("'s", Phrase("OWNS", _words("ORG"), _TECH, strength=0.7)),
    (
        "contains|includes|consists of|ships with|comes with|bundles|made of|ships|composed of|provides|exposes|offers",
        Phrase("PART_OF", _ANY - {"SELF"}, _MADE, reverse=True, strength=0.8),
    ),
    (
        "maintains|owns|leads|responsible for|manages|maintaining|acquired|bought|the maintainer of|sponsors|funds",
        Phrase("OWNS", _WHO, _MADE),
    ),
    (
        "maintained by|owned by|managed by|sponsored by|acquired by|bought by|led by",
        Phrase("OWNS", _WHO, _MADE, reverse=True),
    ),
    (
        "prefers|prefer|likes|like|loves|love|favors|favours|preferred|recommends|recommend|recommended|enjoys",
        Phrase("PREFERS", _WHO, _THING),
    ),
    (
        "avoids|avoid|dislikes|dislike|hates|hate|decided against|decided not to use|stopped using|never use|never uses"
        "|do not use|don't use|does not use|doesn't use|no longer use|no longer uses|moved away from|got rid of|dropped"
        "|refuses to use|will not use|won't use",
        Phrase("AVOIDS", _WHO, _THING),
    ),
    (
        "chose|choose|picked|decided on|decided to use|decided to adopt|decided to go with|decided for|agreed on"
        "|agreed to use|settled on|went with|go with|opted for|switched to|moved to|migrated to|chosen|standardized on"
        "|standardised on|decided to switch to|decided to keep",
        Phrase("DECIDED_ON", _WHO, _THING),
    ),
    (
        "raises|raised|throws|threw|returns|returned|fails with|failed with|crashes with|crashed with|shows|gives"
        "|exits with|dies with|died with|failing with|ends with|reports|raise|throw",
        Phrase("RAISES", _THING | {"REFERENCE"}, _words("ERROR")),
    ),
    (
        "in|from|at|inside|raised by|thrown by|when opening|when calling",
        Phrase(
            "RAISES",
            _words("CODE FILE TECHNOLOGY COMMAND"),
            _words("ERROR"),
            reverse=True,
            strength=0.7,
        ),
    ),
    (
        "in|lives in|defined in|implemented in|moved to|declared in|sits in|documented in|to|inside|found in|stands in|from",
        Phrase("DEFINED_IN", _words("CODE"), _words("FILE")),
    ),
    (
        "defines|contains|declares|exports|implements",
        Phrase("DEFINED_IN", _words("CODE"), _words("FILE"), reverse=True),
    ),
    (
        "supports|support|compatible with|works with|work with|integrates with|has support for|provides support for|adds support for"
        "|offers support for|tested on|tested with|tested against|works on|support for|requires at least",
        Phrase("SUPPORTS", _THING | {"ORG"}, _THING | {"VERSION"}),
    ),
    (
        "available on|available from|available via|available at|available through|installed with|installed via"
        "|installed using|installable with|installed from|published on|published to|hosted on|distributed via",
        Phrase("AVAILABLE_ON", _THING, _THING | _words("URL")),
    ),
    (
        "runs on|deployed on|running on|deployed to|runs in|runs under|runs on top of|running in",
        Phrase("RUNS_ON", _THING | _words("ORG"), _words("TECHNOLOGY")),
    ),
    (
        "extends|inherits from|subclasses|a subclass of|derives from|derived from|a fork of|forked from|a superset of",
        Phrase("EXTENDS", _THING, _THING),
    ),
    ("implements", Phrase("IMPLEMENTS", _THING, _THING)),
    ("returns|accepts|takes", Phrase("RETURNS", _words("CODE"), _words("CODE"), strength=0.7)),
    (
        "calls|invokes|calls into|delegates to",
        Phrase("CALLS", _words("CODE COMMAND"), _words("CODE COMMAND")),
    ),
    (
        "connects to|talks to|connected to|writes to|reads from|queries",
        Phrase("CONNECTS_TO", _THING, _THING),
    ),
    (
        "an alternative to|a replacement for|a drop-in replacement for|replacement for|alternative to|competes with"
        "|similar to|inspired by|modelled after|modeled after|equivalent to|an alternative for",
        Phrase("ALTERNATIVE_TO", _THING, _THING),
    ),
    (
        "converted to|translated to|compiled to|compiles to|compiles down to|transpiles to|serialized to",
        Phrase("CONVERTED_TO", _THING, _THING),
    ),
    (
        "reported|found|discovered|noticed",
        Phrase("REPORTED_BY", _words("REFERENCE ERROR"), _words("PERSON ORG"), reverse=True),
    ),
    (
        "reported by|found by|discovered by|suggested by",
        Phrase("REPORTED_BY", _words("REFERENCE ERROR CODE"), _words("PERSON ORG")),
    ),
    ("introduced|introduces|caused|causes", Phrase("CAUSES", _CHANGE, _words("ERROR REFERENCE"))),
    ("caused by|due to", Phrase("CAUSES", _ANY, _words("ERROR REFERENCE"), reverse=True)),
)
PHRASES: dict[str, list[Phrase]] = {}
for _texts, _phrase in _ROWS:
    for _text in _texts.split("|"):
        PHRASES.setdefault(_text, []).append(_phrase)

# Words in front of the first name, right before it, and between it and the second.
IN_FRONT = (
    (
        _words(
            "moved move moves moving switched switch switches switching migrated migrate migrates migrating changed "
            "change changing converted convert converting ported port porting went transition transitioned upgraded "
            "upgrade updated update bump перешли"
        ),
        _words("from с"),
        _words("to на"),
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
        _words("on under"),
        "RUNS_ON",
    ),
)

# With one thing for a subject these are commands or wishes: "let Django use Redis".
BARE = frozenset(
    (
        "use|depend on|rely on|require|prefer|like|love|avoid|dislike|hate|choose|go with|fix|never use|do not use"
        "|don't use|no longer use|make use of|run|work with|recommend|support|raise|throw|live in|develop in|program in"
        "|code in|using|running"
    ).split("|")
)
AUXILIARIES = _words("is are was were has have had been being be am 'm 're 've it's can")
ADVERBS = _words(
    "also now currently already still always only mainly mostly primarily heavily directly internally usually just both "
    "basically simply really recently finally then actually often originally officially therefore automatically again "
    "fully natively later eventually widely commonly largely partly out"
)
DETERMINERS = _words(
    "the a an our its their his her my your this that these those new old latest own same local existing current official "
    "popular simple open-source standard built-in default some any both all other another whole entire underlying"
)
# What belongs to a thing so closely that a statement about it is one about the thing.
PARTS = _words(
    "admin api app application service server client backend frontend module library framework package plugin project "
    "codebase repo cli sdk core engine runtime compiler integration extension implementation cluster container image code "
    "script tool tests docs documentation itself"
)
PRODUCTS = _words(
    "library libraries framework package module plugin extension client wrapper binding bindings driver sdk tool toolkit "
    "interface adapter backend linter formatter parser server implementation port integration support api app cli "
    "checker runner compiler interpreter editor ide orm"
)
# Behind the verb these mean that the name is not its object.
BLOCKERS = _words(
    "of for in with from to by on via using like than as into about between without against per through and or but that "
    "which who when while if because is are was were be been not no it they we you he she i at so then where what how outside "
    "inside over under after before during until"
)
# So short that nothing but an article may follow, and the name must stand for itself.
WEAK = _words("in from of at to 's")
# A sentence with one of these in front of the statement does not claim it.
UNCERTAIN = _words(
    "if whether unless should could would might maybe perhaps suppose imagine wish not never don't didn't doesn't won't "
    "can't cannot isn't wasn't wouldn't shouldn't no nobody none neither nor without consider considering n't "
    "dont doesnt didnt cant wont isnt "
    "let's lets may ought hopefully ideally need wants want wanted plan plans planned planning try tried trying unlike"
)
CONDITIONS = _words("if whether unless suppose imagine")
QUESTION_STARTS = _words(
    "who what when where why how which is are was were do does did can could should would will has have may shall "
    "anyone didn't isn't aren't don't"
)

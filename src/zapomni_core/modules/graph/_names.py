"""When two names mean the same thing, and when they only look alike."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from zapomni_db.models import EntityData

__all__ = ["canonical_name", "entity_id", "fuzzy_key", "name_key", "same_entity"]

# Their spelling is their identity: `Parser` and `parser` are two things.
_VERBATIM = frozenset({"CODE", "COMMAND", "ERROR", "FILE", "URL"})
# Of these a misspelling is the same thing. Of people it may be somebody else.
_FORGIVING = frozenset({"ORG", "PLACE", "TECHNOLOGY"})
SHORTEST_MISSPELLED = 7

_BLANKS = re.compile(r"\s+")
_POSSESSIVE = re.compile(r"['\u2019]s$")
# A dot between digits is part of a number; elsewhere people write Node.js, NodeJS and node-js.
_LOOSE = re.compile(r"(?<!\d)[.]|[.](?!\d)|[\s_\-·]+")
_VERSION_MARK = re.compile(r"^(?:version|ver\.?|v\.?|release)\s*(?=\d)", re.IGNORECASE)
_NUMBER_AFTER_WORD = re.compile(r"[A-Za-z]+ (\d+)")


def canonical_name(name: str, entity_type: str) -> str:
    """Return the name as it is shown.

    Without blanks around it and a possessive; a version without its mark (`v1.2`: `1.2`), a
    function without empty parentheses, a path without `./`, a handle without `@`, `PR 12` as `#12`.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFC", name)
    name = _BLANKS.sub(" ", name).strip()
    if entity_type == "CODE":
        return name.removesuffix("()") or name
    if entity_type == "VERSION":
        return _VERSION_MARK.sub("", name)
    if entity_type == "FILE":
        return name.removeprefix("./") or name
    if entity_type == "REFERENCE":
        return _NUMBER_AFTER_WORD.sub(r"#\1", name)
    if entity_type == "SELF":
        name = name.lower().partition("'")[0]
        return "I" if name == "i" else name
    if entity_type in _VERBATIM:
        return name
    if entity_type == "PERSON":
        name = name.removeprefix("@") or name
    return _POSSESSIVE.sub("", name) or name


def name_key(name: str, entity_type: str) -> str:
    """Return what two spellings of one name have in common."""
    name = canonical_name(name, entity_type)
    if entity_type in _VERBATIM:
        return name
    folded = (name if name.isascii() else unicodedata.normalize("NFKC", name)).casefold()
    if entity_type == "PERSON":
        folded = _without_accents(folded)
    if entity_type in _FORGIVING:
        return _LOOSE.sub("", folded) or folded
    return folded


def entity_id(name: str, entity_type: str) -> str:
    """Return the id of a thing: the same in every process, for every spelling of its name."""
    key = f"{entity_type}\0{name_key(name, entity_type)}"
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def fuzzy_key(name: str, entity_type: str) -> str:
    """Return a key that names share if `same_entity` may hold; sharing it proves nothing."""
    key = name_key(name, entity_type)
    return "".join(sorted(set(key))) if entity_type in _FORGIVING else key


def same_entity(first: EntityData, second: EntityData) -> bool:
    """Say whether two names mean one thing.

    True for two spellings of a name, for a name and its known alias, and, except for people, for
    a long name with two neighbouring letters swapped or one letter doubled. Never true because
    one name begins like the other.
    """
    if first.type != second.type:
        return False
    kind = first.type
    key, other = name_key(first.name, kind), name_key(second.name, kind)
    if key == other:
        return True
    if other in _keys(first) or key in _keys(second):
        return True
    return kind in _FORGIVING and _is_misspelled(key, other)


def _keys(entity: EntityData) -> set[str]:
    return {name_key(alias, entity.type) for alias in entity.aliases}


def _is_misspelled(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    if len(short) < SHORTEST_MISSPELLED or len(long) - len(short) > 1:
        return False
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if at == 0:
        return False
    if len(short) == len(long):
        swapped = short[at : at + 2]
        return (
            swapped.isalpha()
            and long[at : at + 2] == swapped[::-1]
            and short[at + 2 :] == long[at + 2 :]
        )
    doubled = long[at]
    return doubled.isalpha() and doubled == long[at - 1] and long[at + 1 :] == short[at:]


def _without_accents(text: str) -> str:
    # Only where the accent is an extra: й is a letter of its own, and so are the marks of Hindi.
    parts = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in parts if not "\u0300" <= c <= "\u036f")
    return plain if plain.isascii() else text

"""Rules for what has a name: technologies, people, organizations, places."""

from __future__ import annotations

import re

from zapomni_core.modules.graph import _cues as cues
from zapomni_core.modules.graph._dates import may_begin_date
from zapomni_core.modules.graph._gazetteer import Entry
from zapomni_core.modules.graph._walk import Walk

__all__ = ["handle", "known_name", "speaker", "unknown_name"]

MOST_SURNAMES = 3
# Not 104.1, which is a radio station.
_VERSION_LIKE = re.compile(r"v?\d{1,2}(?:\.\d{1,3}){1,3}")
QUOTES = "\"'\u201c\u2018"


def known_name(walk: Walk) -> bool:
    """A name of the gazetteer, the longest that fits."""
    start = walk.token.start
    for size in range(walk.gazetteer.starts(walk.lower[walk.at]), 0, -1):
        upto = walk.at + size - 1
        if upto >= len(walk.tokens):
            continue
        surface = walk.text[start : walk.tokens[upto].end]
        if size > 1:
            surface = " ".join(surface.split())
        entries = walk.gazetteer.find(surface)
        if entries and _chosen(walk, upto, {entry.kind: entry for entry in entries}):
            return True
    return False


def _chosen(walk: Walk, upto: int, kinds: dict[str, Entry]) -> bool:
    """Several things may have one name; what stands around decides."""
    before, after = walk.before(), walk.after(upto)
    if "PLACE" in kinds and ("PERSON" not in kinds or before in cues.BEFORE_PLACE):
        return not _goes_on(walk, upto) and walk.add_known("PLACE", kinds["PLACE"], upto)
    if "PERSON" in kinds and _person(walk, kinds["PERSON"], shared=len(kinds) > 1):
        return True
    entry = kinds.get("SERVICE") or kinds.get("ORG") or kinds.get("TECHNOLOGY")
    if entry is None or (entry.exact and not _is_meant(walk, upto)):
        return False
    if entry.kind == "SERVICE":
        is_company = (
            before in cues.BEFORE_COMPANY
            or after in cues.AFTER_COMPANY
            or _is_employer(walk, before)
        )
        return walk.add_known("ORG" if is_company else "TECHNOLOGY", entry, upto)
    return walk.add_known(entry.kind, entry, upto)


def _goes_on(walk: Walk, upto: int) -> bool:
    """Whether a longer name begins here that nobody knows: Dallas Mavericks."""
    if not walk.joined(upto):
        return False
    word = walk.tokens[upto + 1].text
    return word.istitle() and word.isalpha() and _is_surname(walk, word)


def _is_meant(walk: Walk, upto: int) -> bool:
    """Whether a word that may be an ordinary one is a name here."""
    token, after = walk.token, walk.after(upto)
    if walk.joined(walk.at - 1) and walk.at and not walk.tokens[walk.at - 1].first:
        before = walk.tokens[walk.at - 1].text
        if before.istitle() and _is_surname(walk, before):
            return False
    if token.end - token.start == 1:  # C and R
        return (
            not token.first and bool(after) and walk.before() not in ("", "a", "an", "the", "and")
        )
    if not token.first or after in cues.SUBJECT_VERBS or after in cues.AFTER_COMPANY:
        return True
    return after[:1].isdigit()


def _person(walk: Walk, entry: Entry, *, shared: bool) -> bool:
    """A given name and what follows of the full one."""
    token = walk.token
    if _is_quoted(walk):
        return False
    upto = _full_name(walk)
    before, after = walk.before(), walk.after(upto)
    speaks = token.first and walk.text.startswith(": ", walk.tokens[upto].end)
    strong = speaks or before in cues.STRONG_BEFORE_PERSON or after in cues.STRONG_AFTER_PERSON
    weak = before in cues.BEFORE_PERSON or after in cues.AFTER_PERSON
    if shared or entry.exact:
        certain = strong or (upto > walk.at and not entry.exact) or (weak and not shared)
        if not certain:
            return False
    confidence = 0.9 if strong or weak or upto > walk.at else 0.7
    return walk.add(token.start, walk.tokens[upto].end, "PERSON", confidence, upto)


def _is_quoted(walk: Walk) -> bool:
    start, end = walk.token.start, walk.token.end
    before = walk.text[max(0, start - 2) : start].strip()
    return (
        before[-1:] in QUOTES
        and before != ""
        and walk.text[end : end + 2].strip()[:1] in "\"'\u201d\u2019"
    )


def _full_name(walk: Walk) -> int:
    upto = walk.at
    while upto - walk.at < MOST_SURNAMES and walk.joined(upto):
        word = walk.tokens[upto + 1].text
        if word in cues.NAME_PARTICLES and walk.joined(upto + 1):
            if not _is_surname(walk, walk.tokens[upto + 2].text):
                break
            upto += 2
        elif _is_surname(walk, word):
            upto += 1
        else:
            break
    return upto


def _is_surname(walk: Walk, word: str) -> bool:
    if word in cues.NOT_NAMES or not word[0].isupper() or not word[1:].islower():
        return False
    if not word.replace("-", "").isalpha() or may_begin_date(word.lower()):
        return False
    return all(entry.kind == "PERSON" for entry in walk.gazetteer.find(word))


def handle(walk: Walk) -> bool:
    """@somebody; `@Override` and `@media` are code."""
    token = walk.token
    name = token.text[1:]
    if not name or not name[0].isalpha() or not name.replace("_", "").replace("-", "").isalnum():
        return False
    before, after = walk.before(), walk.after()
    addressed = token.first or before in cues.BEFORE_PERSON or after in cues.AFTER_HANDLE
    if name in cues.ANNOTATIONS or (name[0].isupper() and not addressed):
        return walk.add(token.start, token.end, "CODE", 0.7, walk.at)
    return walk.add(token.start, token.end, "PERSON", 0.8, walk.at)


def unknown_name(walk: Walk) -> bool:
    """A capitalised word nobody knows; the words beside it say what it is."""
    word, before, after = walk.token.text, walk.before(), walk.after()
    if word in cues.NOT_NAMES or not word[0].isupper() or len(word) < 2:
        return False
    if word in cues.ORG_HEADS and walk.after() == "of" and _add_organization(walk, walk.at):
        return True
    if _organization(walk):
        return True
    if word.isupper():
        return False
    kind = _kind_by_cue(walk, before, after)
    if kind is not None:
        upto = _full_name(walk)
        return walk.add(walk.token.start, walk.tokens[upto].end, kind, 0.6, upto)
    if word not in cues.NUMBERED and _VERSION_LIKE.fullmatch(after) and not walk.token.first:
        return walk.add(walk.token.start, walk.token.end, "TECHNOLOGY", 0.6, walk.at)
    return False


def _kind_by_cue(walk: Walk, before: str, after: str) -> str | None:
    if not walk.token.first and _is_employer(walk, before):
        return "ORG"
    if _is_somebody(walk, before, after):
        return "PERSON"
    return "PLACE" if not walk.token.first and _is_whereabouts(walk, before) else None


def _organization(walk: Walk) -> bool:
    upto = walk.at
    while upto - walk.at < MOST_SURNAMES and walk.joined(upto):
        upto += 1
        word = walk.tokens[upto].text
        if word.rstrip(".") in cues.ORG_ENDINGS:
            return _add_organization(walk, upto)
        if not word[0].isupper():
            return False
    return False


def _add_organization(walk: Walk, upto: int) -> bool:
    while walk.joined(upto) and walk.tokens[upto + 1].text.rstrip(".") in cues.ORG_ENDINGS:
        upto += 1
    if walk.after(upto) == "of" and walk.joined(upto + 1):
        word = walk.tokens[upto + 2].text
        if word[0].isupper():
            upto += 2
    return walk.add(walk.token.start, walk.tokens[upto].end, "ORG", 0.8, upto)


def _is_somebody(walk: Walk, before: str, after: str) -> bool:
    if after in cues.STRONG_AFTER_PERSON and before not in ("the", "a"):
        return True
    owned = walk.text.startswith(("'s ", "\u2019s ", " 's "), walk.token.end)
    following = walk.lower[walk.at + 1 : walk.at + 3]
    if owned and any(word in cues.OWNED_BY_PERSON for word in following):
        return True
    closing = walk.lower[max(0, walk.at - 2) : walk.at]
    signed = walk.token.first or walk.token.comma or not walk.joined(walk.at)
    return signed and any(word in cues.CLOSINGS for word in closing) and before not in ("to", "for")


def _is_employer(walk: Walk, before: str) -> bool:
    earlier = walk.lower[max(0, walk.at - 3) : walk.at - 1]
    if before in ("at", "for", "from") and any(word in cues.EMPLOYMENT for word in earlier):
        return True
    if before == "from" and walk.after(_full_name(walk)) in cues.AFTER_PERSON:
        return _follows_person(walk)
    return before == "joined"


def _follows_person(walk: Walk) -> bool:
    last = walk.mentions[-1] if walk.mentions else None
    return last is not None and last.type == "PERSON" and walk.token.start - last.end == 6


def _is_whereabouts(walk: Walk, before: str) -> bool:
    earlier = walk.lower[max(0, walk.at - 3) : walk.at - 1]
    return before in ("in", "to", "near", "from") and any(w in cues.WHEREABOUTS for w in earlier)


def speaker(walk: Walk) -> bool:
    """We, I, or the user, where somebody says what they use, prefer, avoid or decided."""
    index = walk.at
    for _ in range(3):
        if not walk.joined(index):
            return False
        index += 1
        if walk.lower[index] in cues.SPEAKER_VERBS:
            start = walk.token.start
            walk.add(start, walk.token.end, "SELF", 0.8, walk.at)
            return True
        if walk.lower[index] not in cues.BEFORE_SPEAKER_VERB:
            return False
    return False

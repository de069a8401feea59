"""Review: what waits for a decision, both texts side by side, one press each."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from markupsafe import Markup, escape

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.shared.unseen import escape_controls
from zapomni_core.workflows.review import REVIEW_KINDS, ReviewedMemory, ReviewItem
from zapomni_web.page import Done, PageRequest, PageView, address

__all__ = ["decide", "look", "show"]

PER_PAGE = 10
TEXT_CHARS = 1200
NAME_CHARS = 70
# Texts that share less are shown without marks: nearly every word would have one.
ALIKE = 0.3

KINDS = {
    "candidate": "Candidates",
    "contradiction": "Contradictions",
    "replaced": "Say they are over",
    "duplicate": "Duplicates",
    "stale_citation": "Cite changed code",
    "untrusted": "Not trusted",
    "never_recalled": "Never recalled",
}
# Of each decision: its key, its button, and what is said when it is done.
DECISIONS = {
    "keep": ("y", "Keep", "Kept"),
    "trust": ("t", "Trust", "Trusted"),
    "supersede": ("s", "Newer replaces older", "The newer one replaces"),
    "merge": ("m", "Merge", "Merged into the newer one:"),
    "not_a_conflict": ("n", "Not a conflict", "Both stay, and this is not asked again:"),
    "forget": ("f", "Forget", "Forgot"),
}
BUTTONS = {
    ("candidate", "keep"): "Keep as a memory",
    ("candidate", "forget"): "Drop",
    ("contradiction", "forget"): "Forget the older",
    ("duplicate", "forget"): "Forget the older",
    ("duplicate", "not_a_conflict"): "Keep both",
}


class ReviewText(NamedTuple):
    """A memory of an item with its text."""

    memory: ReviewedMemory
    label: str
    text: Markup


class ReviewButton(NamedTuple):
    """A decision that can be made."""

    decision: str
    label: str
    key: str


class ShownItem(NamedTuple):
    """An item of the inbox on the page."""

    item: ReviewItem
    texts: list[ReviewText]
    buttons: list[ReviewButton]


async def show(asked: PageRequest) -> PageView:
    """Show what waits, without looking for more."""
    kinds = asked.get_all("kind")
    offset = asked.get_int("offset", 0)
    page = await asked.engine.review.list_items(kinds, PER_PAGE, offset, refresh=False)
    waiting = await asked.engine.review.count()
    following = offset + PER_PAGE
    return PageView(
        "review.html",
        "Review",
        page,
        [
            *("zapomni", "review"),
            *(part for kind in kinds for part in ("--kind", kind)),
            *(("--limit", str(PER_PAGE), "--offset", str(offset)) if offset else ()),
        ],
        {
            "items": [await _shown(asked, one) for one in page.items],
            "kinds": [
                (kind, label, waiting[kind], asked.here(kind=kind, offset=None))
                for kind, label in KINDS.items()
                if waiting.get(kind)
            ],
            "chosen_kinds": kinds,
            "every_href": asked.here(kind=None, offset=None),
            "waiting": sum(waiting.values()),
            "labels": KINDS,
            "here": asked.here(),
            "uncompared": page.uncompared,
            "previous": asked.here(offset=str(max(0, offset - PER_PAGE))) if offset else "",
            "next": asked.here(offset=str(following)) if page.total > following else "",
            "words": f"{offset + 1} to {min(following, page.total)} of {page.total}",
        },
        live="memories",
    )


async def _shown(asked: PageRequest, item: ReviewItem) -> ShownItem:
    texts = []
    for one in item.memories:
        try:
            text = (await asked.engine.get_memory(one.memory_id)).text
        except NotFoundError:
            text = one.text
        cut = text[:TEXT_CHARS]
        texts.append(f"{cut.rpartition(' ')[0]} …" if len(text) > TEXT_CHARS else cut)
    labels = ("Older", "Newer") if len(texts) == 2 else ("",)
    marked = (
        _mark_differences(*texts)
        if len(texts) == 2
        else [escape(escape_controls(t)) for t in texts]
    )
    return ShownItem(
        item,
        [
            ReviewText(memory, label, text)
            for memory, label, text in zip(item.memories, labels, marked, strict=False)
        ],
        [
            ReviewButton(name, BUTTONS.get((item.kind, name), label), key)
            for name, (key, label, _) in DECISIONS.items()
            if name in item.choices
        ],
    )


def _mark_differences(older: str, newer: str) -> list[Markup]:
    """Return two texts with the words marked that only one of them has."""
    words, its_words = [
        re.findall(r"\w+|\s+|[^\w\s]", escape_controls(text)) for text in (older, newer)
    ]
    plain = [[one for one in side if one.strip()] for side in (words, its_words)]
    if difflib.SequenceMatcher(None, plain[0], plain[1], autojunk=False).ratio() < ALIKE:
        return [escape("".join(words)), escape("".join(its_words))]
    matcher = difflib.SequenceMatcher(None, words, its_words, autojunk=False)
    shown: tuple[list[Markup], list[Markup]] = [], []
    for tag, start, end, its_start, its_end in matcher.get_opcodes():
        parts = "".join(words[start:end]), "".join(its_words[its_start:its_end])
        marks = Markup("<del>{}</del>"), Markup("<ins>{}</ins>")
        for into, part, mark in zip(shown, parts, marks, strict=True):
            if part:
                is_marked = tag != "equal" and part.strip()
                into.append(mark.format(part) if is_marked else escape(part))
    return [Markup("").join(one) for one in shown]


# --- Changes ----------------------------------------------------------------------------


async def look(asked: PageRequest) -> Done:
    """Look for what is new: compare memories, read their status, check the code they cite."""
    before = sum((await asked.engine.review.count()).values())
    page = await asked.engine.review.list_items(limit=1)
    found = page.total - before
    words = (
        f"{found} more {'waits' if found == 1 else 'wait'} for you."
        if found > 0
        else ("Nothing new was found.")
    )
    more = f" {page.uncompared} memories are still to be compared." if page.uncompared else ""
    return Done(f"{words}{more}", address("review"))


async def decide(asked: PageRequest) -> Done:
    """Do what was decided about an item."""
    given, decision = asked.path["id"], asked.field("decision")
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise NotFoundError("No item of the inbox has this id.", "REVIEW_001")
    if decision not in DECISIONS:
        raise ValidationError(f"decision must be one of: {', '.join(DECISIONS)}", "VAL_003")
    review = asked.engine.review
    before = await review.get(int(given))
    done = await review.decide(int(given), decision)
    text = before.text or next((one.text for one in before.memories), "")
    name = f"{text[:NAME_CHARS].rpartition(' ')[0]}…" if len(text) > NAME_CHARS else text
    kind = asked.field("kind")
    to = address("review", kind=kind if kind in REVIEW_KINDS else "")

    async def undo() -> str:
        await review.undo(int(given))
        return "It waits for you again."

    message = f"{DECISIONS[decision][2]} “{name}”."
    return Done(message, to, undo if done.can_undo else None)

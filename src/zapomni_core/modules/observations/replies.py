"""The informative part of an agent's last message: what was found out or done, and what is open."""

from __future__ import annotations

from zapomni_core.shared import quick_re as re

__all__ = ["informative_part"]

# Texts, compiled when they are used: only the end of a turn needs them.

_CODE = r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)"
_MARKS = r"[*`]{1,3}(?=\S)|(?<=\S)[*`]{1,3}|(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?!\w)"
_SENTENCE_END = r"(?<=[.!?\u3002\uff01\uff1f])\s+"
# What an agent says to be polite, or to have something to say before it begins.
_POLITE = (
    r"(?i)^(?:let me(?: know)?|would you like|do you want|want me to|shall i|feel free|i hope"
    r"|should i (?:also|go|proceed)|is there anything|i(?:'d| would) be happy|happy to|hope this"
    r"|if you(?:'d| would)? (?:like|want)|great|perfect|sure|certainly|of course|sounds good"
    r"|you're (?:welcome|right)|all (?:done|set)|done|ok(?:ay)?|thanks?|thank you|no problem"
    r"|got it|here(?:'s| is| are)|i(?:'ll| will| am going to|'m going to)|now let me|now i)\b"
)
# A reply must say something: fewer words than this are "Done." and its like.
LEAST_WORDS = 4


def informative_part(text: str, limit: int) -> str:
    """Return the sentences that say something, in their order, cut at a sentence; may be empty.

    Code is left out, and so is what is said out of politeness at the beginning and at the end.
    """
    lines = [line.strip() for line in re.sub(_CODE, "\n", text).splitlines()]
    # The rule of a table says nothing, nor do the names of two columns above it; of more, each cell
    # means what its column is called.
    plain = [
        _plain(line)
        for line, following in zip(lines, [*lines[1:], ""], strict=False)
        if not _is_rule(line)
        and not (line.startswith("|") and _is_rule(following) and line.strip("|").count("|") < 2)
    ]
    # Each sentence with what separates it from the one before: a line of its own stays one.
    sentences = [
        (one, " " if number else "\n")
        for line in plain
        for number, one in enumerate(filter(None, re.split(_SENTENCE_END, line)))
    ]
    while sentences and re.match(_POLITE, sentences[0][0]):
        sentences.pop(0)
    while sentences and re.match(_POLITE, sentences[-1][0]):
        sentences.pop()
    if sum(len(one.split()) for one, _ in sentences) < LEAST_WORDS:
        return ""
    short = ""
    for sentence, separator in sentences:
        longer = short + separator + sentence if short else sentence
        if len(longer) > limit - 2:
            return f"{short} …" if short else f"{sentence[: limit - 2].rsplit(' ', 1)[0]} …"
        short = longer
    return short


def _is_rule(line: str) -> bool:
    return "-" in line and re.fullmatch(r"[\s|:+-]+", line) is not None


def _plain(line: str) -> str:
    """Take the marks of Markdown off a line."""
    line = re.sub(_MARKS, "", line.lstrip("#>-*+ "))
    if line.startswith("|"):
        line = ": ".join(cell for part in line.split("|") if (cell := part.strip(" \u2014-")))
    return " ".join(line.split())

"""Evidence by words alone: whether a text has what is asked, from absolute numbers.

The rank of a text says that it is the best there is, not that it answers. Here every informative
word of a sentence weighs as much as it is rare in the store; the evidence is the share that a text
has of the best sentence's weight, if what they have in common could hardly be chance. Standard
library only, and no regular expression: hooks import this.
"""

from __future__ import annotations

from math import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "STRONG_SHARE",
    "excerpt",
    "is_question",
    "sentences_of",
    "stem",
    "stems_of",
    "word_evidence",
]

STRONG_SHARE = 0.6
"""From this share on the evidence is strong."""

# In a small store every word is rare: it is weighed as if it had so many texts.
LEAST_TEXTS = 200
# Words in common are chance if so many texts of the store would have them all.
BY_CHANCE = 0.1
# How many words of a text are compared at once.
WINDOW = 60
# A word may be enough alone if so few texts have it, and the text is no longer than this.
FEW_TEXTS, SHORT_TEXT = 3, 240
# A word of letters and digits names one thing: with it or without it, that is what is asked.
IDENTIFIER = 2
LONGEST_QUESTION = 4000
MOST_SENTENCES = 20

# Words of any request, and words of any work on programs: in common they say nothing.
_COMMON = frozenset(
    """a about above across actually add added after again against all almost along alone already
    also although always am among an and another any anybody anything anyway are around as ask at
    away back bad be because become been before begin behind being below best better between big
    bit both bring build but by call called came can cannot cant change changed check clean clear
    close code come complete continue correct could couldnt create current currently date day did
    didnt different do does doesnt doing done dont down during each easy either else end enough
    error even ever every everything exactly example exist expect explain extra far fast few file
    find fine finish first fix folder follow for found from full function further general get give
    given go going good got great had has hasnt have havent having he hello help her here hey hi
    him his hold how however i idea if implement important improve in include including inside
    instead into is isnt issue it its itself ive just keep kind know known large last later latest
    least leave left less let like likely line list little long longer look looking made main make
    many matter may maybe me mean method might mine more most move much must my name near need new
    next nice no none nor not note nothing now number of off ok okay old on once one only open or
    other others our out over own part pass per perhaps place please point possible problem
    project put question quick quickly quite rather read ready really reason remove rename repo
    result right run same save say script see seem seems select set shall she should show side
    simple simply since small so some something soon sorry start started still stop such sure take
    tell test than thank thanks that the their them then there these they thing think this those
    though through time times to today together told tomorrow too tool top total toward tried try
    turn two type under understand until up update upon us use used useful user using value various
    version very via wait want was wasnt way we well went were what whatever when where whether
    which while who whole whom whose why will with within without wont word work working works
    would write wrong yeah yes yesterday yet you your yours""".split()
)
_ASKING = frozenset(
    "what when where which who whom whose why how is are do does did can could should was were "
    "will would has have".split()
)
_SUFFIXES = (
    "ations", "ation", "ments", "ment", "ings", "ing", "ions", "ion", "ers", "er", "ies", "ied",
    "ed", "es", "ly", "s",
)  # fmt: skip


def stem(word: str) -> str:
    """Return what a word has in common with its other forms: `deployment` and `deploys`."""
    if not word.isalpha() or not word.isascii():
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            word = word[: -len(suffix)] + ("y" if suffix in ("ies", "ied") else "")
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] in "ey" else word


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def stems_of(text: str) -> set[str]:
    """Return the stems of all words of a text."""
    return {stem(word) for word in _words(text)}


def is_question(sentence: str) -> bool:
    """Return whether a sentence asks for something to be said."""
    first = sentence.split(None, 1)[0].lower() if sentence.strip() else ""
    return sentence.rstrip().endswith("?") or first.rstrip(",'s") in _ASKING


def sentences_of(text: str) -> list[tuple[str, list[str]]]:
    """Return the sentences of a prompt that have informative words, each with these words."""
    marked = text[:LONGEST_QUESTION]
    for mark in ("? ", "! ", ". ", "; "):
        marked = marked.replace(mark, mark[0] + "\n")
    found = []
    for line in marked.split("\n"):
        words = [word for word in _words(line) if word not in _COMMON and len(word) > 1]
        if words:
            found.append((line.strip(), list(dict.fromkeys(words))))
    return found[:MOST_SENTENCES]


def word_evidence(
    sentences: Sequence[tuple[str, Sequence[str]]],
    text: str,
    frequencies: Mapping[str, int],
    total: int,
    *,
    is_memory: bool = False,
) -> float:
    """Return 0 to 1: how much of what a prompt asks a text has.

    Args:
        sentences: From `sentences_of`.
        text: What may answer.
        frequencies: In how many texts of the store each word occurs.
        total: How many texts the store has.
        is_memory: Someone chose to store it: if it is short and the prompt a question with one
            informative word, that word is enough.
    """
    total = max(total, LEAST_TEXTS)
    is_short = is_memory and len(text) <= SHORT_TEXT
    stemmed = [stem(word) for word in _words(text)]
    # Far apart in a long text, words have nothing to do with each other.
    starts = range(0, max(len(stemmed) - WINDOW // 2, 1), WINDOW // 2)
    windows = [set(stemmed[start : start + WINDOW]) for start in starts]
    return max(
        _evidence_in(near, sentences, frequencies, total, is_short=is_short) for near in windows
    )


def _evidence_in(
    stems: set[str],
    sentences: Sequence[tuple[str, Sequence[str]]],
    frequencies: Mapping[str, int],
    total: int,
    *,
    is_short: bool,
) -> float:
    best = 0.0
    for sentence, words in sentences:
        weights = {
            word: log((total + 1) / (min(frequencies.get(word, 0), total) + 0.5))
            * (1 if word.isalpha() or word.isdecimal() else IDENTIFIER)
            for word in words
        }
        common = [word for word in words if _has(stems, stem(word))]
        if not common:
            continue
        share = sum(weights[word] for word in common) / sum(weights.values())
        information = sum(
            log(total / max(min(frequencies.get(word, 1), total), 1)) for word in common
        )
        only_word = (
            is_short
            and len(words) == len(sentences) == 1
            and is_question(sentence)
            and stem(words[0]) in stems
        )
        enough = log(total / (FEW_TEXTS if only_word else BY_CHANCE))
        if information >= enough and (len(common) > 1 or only_word):
            best = max(best, share)
    return best


def _has(stems: set[str], wanted: str) -> bool:
    if wanted in stems:
        return True
    # `postgres` is meant by `postgresql`.
    return len(wanted) >= 6 and any(found.startswith(wanted) for found in stems)


def excerpt(text: str, words: Iterable[str], limit: int) -> str:
    """Return the part of a text that has most of the words, cut between sentences if it can be."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    wanted = {stem(word) for word in words}
    starts = [0]
    for mark in (". ", "? ", "! "):
        at = text.find(mark)
        while at >= 0:
            starts.append(at + 2)
            at = text.find(mark, at + 2)
    shown = limit - 2
    best, most = 0, (-1, 0)
    for start in sorted(starts):
        part = text[start : start + shown]
        found = wanted & stems_of(part)
        # Of parts that have as many words, the one that comes to the point first.
        first = min((i for i, w in enumerate(_words(part)) if stem(w) in found), default=0)
        if (len(found), -first) > most:
            best, most = start, (len(found), -first)
    return ("… " if best else "") + text[best : best + shown]

"""Candidates: sentences of a prompt that the user may want to have remembered.

Rules over words, no model, no regular expression: a hook calls this. A candidate is only a line in
the inbox of `zapomni review`; it is the user who makes a memory of it.
"""
# Dashes, quotation marks and words of other languages:
# ruff: noqa: RUF001

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["find_candidates"]

# The ends of sentences, those of Chinese and Japanese, too.
_ENDS = frozenset(".!?\u3002\uff01\uff1f")
MOST, LONGEST, FEWEST_WORDS = 3, 300, 3
# A paragraph of more lines or characters than these was pasted.
PASTED_LINES, PASTED_CHARS = 6, 1500
# Below a line that ends in a colon even fewer lines are a quotation.
QUOTED_LINES = 4

# First words that change nothing.
_FILLERS = frozenset("please also and but so ok okay hey well oh btw then yes good great".split())
_QUESTIONS = frozenset(
    "what why how where who which whose is are was were do does did can could should would will "
    "shall has have am isn't aren't doesn't didn't can't couldn't shouldn't wouldn't".split()
)
_PRONOUNS = frozenset("you we they i it this that he she".split())

_REMEMBER = (
    ("remember",),
    ("keep", "in", "mind"),
    ("bear", "in", "mind"),
    ("keep", "this", "in", "mind"),
    ("bear", "this", "in", "mind"),
    ("note", "for", "later"),
    ("note", "to", "self"),
    ("note", "that"),
    ("take", "note"),
    ("make", "a", "note"),
    ("don't", "forget"),
    ("do", "not", "forget"),
    ("for", "future", "reference"),
)
# "Remember when we …" is talk; "remember me" is a checkbox.
_NOT_REMEMBERED = frozenset("me when how what why where who which last if whether it".split())
_FROM_NOW_ON = (
    "from now on",
    "going forward",
    "from here on",
    "from this point on",
    "henceforth",
)
_NEXT_TIME = ("next time, ", "next time you ", "for all future ", "for future ", "in future, ")
_EACH_TIME = (("whenever", "you"), ("every", "time", "you"), ("each", "time", "you"))
_CONVENTIONS = frozenset("convention policy rule standard style".split())
# How one says what is true of all of the code; what follows may still be a task.
_HERE = ("in this repo", "in this project", "in this codebase", "in our code")
_MODALS = frozenset("should must shall".split())
_OBLIGED = frozenset("have need sure you".split())
# After "always" or "never" these make a description, not an order.
_NOT_VERBS = frozenset(
    "mind been seen had got was were is are the a an again ever in on at said knew thought saw "
    "made went did true false null none there has worked ran took came found wrote left kept "
    "broke before after more".split()
)
_VERBS = frozenset("need embed feed seed proceed exceed bring ping pass process".split())
_NO = frozenset("no nope nah wrong incorrect".split())
_WRONG = (
    ("wrong",),
    ("incorrect",),
    ("not", "right"),
    ("not", "correct"),
    ("not", "true"),
    ("not", "how", "we"),
    ("not", "what", "we"),
)
_THAT_IS = (("that's",), ("that", "is"), ("this", "is"), ("it's",), ("it", "is"))
# What follows "no," when it is no correction.
_FINE = frozenset(
    "thanks thank go wait let just continue leave problem need worry can could sorry mind".split()
)
_FINE_STATES = frozenset("fine ok okay good all it right enough correct great".split())
_CORRECTING = frozenset("we the our they it's it there that this".split())
# "Don't worry" and "I don't know" order nothing.
_NOT_ORDERED = frozenset(
    "worry know think bother stop see care mind get remember need have you we they i it panic "
    "understand want wait hesitate".split()
)
# "No, that did not work" says what came of it.
_RESULTS = frozenset("did didn't still failed fails broke breaks crashed crashes work".split())
_FOR_NOW = ("yet", "for now", "right now", "this time", "for the moment", "today", "anything else")

# How a sentence begins in other languages.
_OTHER_LANGUAGES = (
    "merk dir", "merke dir", "denk daran", "denke daran", "ab jetzt", "ab sofort", "immer ",
    "niemals ", "nie ", "bitte nie", "bitte immer", "nein, ",
    "souviens-toi", "retiens", "désormais", "à partir de maintenant", "toujours ", "jamais ",
    "n'utilise ", "ne jamais", "non, ",
    "recuerda ", "a partir de ahora", "de ahora en adelante", "siempre ", "nunca ", "no uses ",
    "lembre", "a partir de agora", "sempre ", "ricorda", "d'ora in poi", "non usare",
    "запомни", "помни", "отныне", "с этого момента", "всегда ", "никогда ", "больше не ",
    "не используй", "нет, ",
    "zapamatuj", "pamatuj", "od teď", "vždy ", "nikdy ", "nepoužívej", "ne, ",
    "记住", "请记住", "以后", "从现在开始", "总是", "永远不要", "覚えて", "今後", "必ず",
)  # fmt: skip


def find_candidates(text: str) -> list[str]:
    """Return the sentences that state a rule, ask to remember, or correct the agent.

    Args:
        text: A prompt of the user, without secrets.
    """
    found: list[str] = []
    corrected = False
    for sentence in _sentences(text):
        words = _words(sentence)
        asks = _is_question(sentence, words)
        candidate = "" if asks else _judge(sentence, words)
        if corrected and not asks and not candidate and _is_statement(words):
            candidate = sentence
        # "That's wrong." is about what follows.
        corrected = _is_objection(words) and len(words) < 5
        candidate = candidate.strip(" ,;:-–—\"'").removeprefix("and ").removeprefix("but ")
        if len(candidate) > LONGEST:
            candidate = candidate[: LONGEST - 1].rstrip() + "…"
        is_long = len(candidate.split()) >= FEWEST_WORDS or not candidate.isascii()
        if candidate and is_long and candidate not in found:
            found.append(candidate[0].upper() + candidate[1:])
    return found[:MOST]


# --- What the user wrote, without what was pasted -----------------------------------------


def _sentences(text: str) -> Iterator[str]:
    parts = text.replace("’", "'").split("```")
    # Between fences is code; a fence that nothing closes reaches to the end.
    own = "\n\n".join(parts[::2])
    introduced = False
    for paragraph in own.split("\n\n"):
        lines = [line for line in paragraph.split("\n") if line.strip()]
        if not lines:
            continue
        limit = QUOTED_LINES if introduced else PASTED_LINES
        pasted = len(lines) > limit or len(paragraph) > PASTED_CHARS
        if not pasted:
            pasted = any(line.startswith(("    ", "\t", "Traceback")) for line in lines)
        if not pasted:
            for line in lines:
                if not line.lstrip().startswith((">", "|", "$ ", "#", "+", "@@", "--")):
                    yield from _split(line.strip().lstrip("-*• "))
        introduced = lines[-1].rstrip().endswith(":")


def _split(line: str) -> Iterator[str]:
    start = 0
    for place, char in enumerate(line):
        if char in _ENDS and (line[place + 1 : place + 2] in ("", " ") or char > "~"):
            sentence = line[start : place + 1].strip()
            if sentence:
                yield sentence
            start = place + 1
    if rest := line[start:].strip():
        yield rest


def _words(text: str) -> list[str]:
    """Return the words in lower case, without first words that change nothing."""
    words = [word.strip(".,:;!?\"'()[]") for word in text.lower().split()]
    words = [word for word in words if any(map(str.isalnum, word))]
    while words and words[0] in _FILLERS:
        del words[0]
    if words[:2] == ["in", "this"]:
        del words[:3]
    return words


def _clauses(sentence: str) -> Iterator[str]:
    """Return the sentence, and what is left of it from each clause on."""
    yield sentence
    for mark in (", ", ": ", "; ", " - ", " – ", " — ", " and ", " but "):
        start = sentence.find(mark)
        while start >= 0:
            rest = sentence[start + len(mark) :]
            # "Translate: 'Always look …'" is about these words.
            if not rest.startswith(("'", '"', "“", "„", "«")):
                yield rest
            start = sentence.find(mark, start + len(mark))


# --- Rules ------------------------------------------------------------------------------


def _is_question(sentence: str, words: Sequence[str]) -> bool:
    if not words or sentence.endswith(("?", "\uff1f")):
        return True
    first, second = words[0], "".join(words[1:2])
    if first == "do":
        return second != "not"
    return first in _QUESTIONS or (first == "don't" and second in _PRONOUNS)


def _judge(sentence: str, words: Sequence[str]) -> str:
    """Return the part of a sentence that is a candidate."""
    lowered = sentence.lower()
    if any(phrase in lowered for phrase in _FROM_NOW_ON):
        return sentence
    if lowered.startswith((*_NEXT_TIME, *_OTHER_LANGUAGES)):
        return sentence
    if lowered.startswith(_HERE) and not {"is", "are", "we"}.isdisjoint(words[:4]):
        return sentence
    if rest := _correction(sentence, words):
        return rest
    for clause in _clauses(sentence):
        own = _words(clause)
        if rest := _asked_to_remember(clause, own):
            return rest
        if _is_rule(own) or _is_order_not_to(clause.lower(), own):
            return clause
    return ""


def _asked_to_remember(clause: str, words: Sequence[str]) -> str:
    if clause.lower().startswith("note: "):
        return clause[len("note: ") :]
    for phrase in _REMEMBER:
        if tuple(words[: len(phrase)]) == phrase:
            following = "".join(words[len(phrase) : len(phrase) + 1])
            if following in _NOT_REMEMBERED:
                return ""
            end = clause.lower().index(phrase[-1]) + len(phrase[-1])
            rest = clause[end:].lstrip(" ,:;-–—")
            for filler in ("for next time: ", "that ", "to ", "this: ", "this, "):
                if rest.lower().startswith(filler):
                    return rest[len(filler) :]
            return rest
    return ""


def _is_rule(words: Sequence[str]) -> bool:
    if words[:2] == ["i", "prefer"]:
        return True
    if any(tuple(words[: len(phrase)]) == phrase for phrase in _EACH_TIME):
        return True
    if words[:1] == ["our"] and "".join(words[1:2]) in _CONVENTIONS:
        return True
    for place, word in enumerate(words[:-2]):
        if word not in ("always", "never") or not _is_verb(words[place + 1]):
            continue
        if place == 0 or words[place - 1] in _MODALS:
            return True
        # "You have to always …", "I want you to never …", "make sure you always …".
        if words[place - 1] in ("to", "you") and words[place - 2] in _OBLIGED:
            return True
        if place == 1 and words[0] == "we":
            return True
        if place == 1 and words[0] == "i":
            return words[2] in ("want", "prefer", "like", "need")
    return False


def _is_verb(word: str) -> bool:
    """Return whether a word after "always" or "never" may be an order."""
    if word in _VERBS:
        return True
    if word in _NOT_VERBS or not word.replace("-", "").isalpha():
        return False
    return not word.endswith(("ed", "ing")) and (not word.endswith("s") or word.endswith("ss"))


def _is_order_not_to(clause: str, words: Sequence[str]) -> bool:
    """Return whether a clause says what not to do, or what to do instead."""
    if any(f" {phrase}" in clause for phrase in _FOR_NOW):
        return False
    for start in (["we"], ["you", "should"]):
        if words[: len(start) + 1] == [*start, "use"]:
            words = words[len(start) :]
    if words[:1] == ["use"] and len(words) <= 15:
        return " instead" in clause or " not " in clause or "rather than" in clause
    if words[:1] == ["stop"]:
        return len(words) > 3 and words[1].endswith("ing")
    ours = words[:1] == ["we"]
    rest = list(words[1:] if ours else words)
    if rest[:2] == ["do", "not"]:
        rest[:2] = ["don't"]
    if rest[:1] != ["don't"] or len(rest) < 3 or rest[1] in _NOT_ORDERED:
        return False
    return not (rest[2] in ("that", "this", "it") and len(rest) < 5)


def _correction(sentence: str, words: Sequence[str]) -> str:
    """Return what the user says is right, if the sentence corrects the agent."""
    first = words[0]
    if words[:3] in (["i", "told", "you"], ["as", "i", "said"]) and len(words) > 5:
        return sentence
    if words[:3] == ["you", "should", "have"] or words[:2] == ["you", "should've"]:
        return sentence if len(words) > 4 else ""
    head, mark, rest = _cut(sentence)
    own = _words(rest)
    if first in _NO and mark and len(_words(head)) == 1:
        return rest if _is_statement(own) else ""
    if first == "actually":
        own = list(words[1:])
        is_fact = len(own) > 3 and own[0] in _CORRECTING and not _is_question(sentence, own)
        return sentence if is_fact else ""
    if first == "not" and mark and own[:1] in (["we"], ["use"], ["it's"]):
        return sentence
    if _is_objection(words) and mark and _is_statement(own):
        return rest
    return ""


def _cut(sentence: str) -> tuple[str, str, str]:
    """Cut a sentence at its first comma, colon or dash."""
    places = [(sentence.find(mark), mark) for mark in (", ", ": ", "; ", " - ", " – ", " — ")]
    place, mark = min(((at, mark) for at, mark in places if at >= 0), default=(-1, ""))
    if place < 0:
        return sentence, "", ""
    return sentence[:place], mark, sentence[place + len(mark) :]


def _is_objection(words: Sequence[str]) -> bool:
    """Return whether a sentence begins by saying that something is wrong."""
    if len(words) == 1 and words[0] in _NO:
        return True
    for start in _THAT_IS:
        if tuple(words[: len(start)]) == start:
            rest = tuple(words[len(start) :])
            return any(rest[: len(state)] == state for state in _WRONG)
    return False


def _is_statement(words: Sequence[str]) -> bool:
    """Return whether words after an objection say what is right."""
    if len(words) < FEWEST_WORDS or words[0] in _FINE or words[0] in _QUESTIONS - {"do"}:
        return False
    if words[:1] == ["i"]:
        return words[1] in ("want", "prefer", "told", "said")
    if words[0] in ("don't", "do"):
        return words[1] not in _NOT_ORDERED
    if words[0] in ("that", "it", "this", "still") and not _RESULTS.isdisjoint(words[:3]):
        return False
    return not (words[0] in ("that's", "it's") and words[1] in _FINE_STATES)

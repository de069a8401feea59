"""The order of turns in a conversation: what was said just before says what a turn is about.

A turn is short and leans on its neighbors: an answer has none of the words that its question
has. Turns are ordered by a sum of a few signals, all of them made of what the ranking computed
anyway; whatever is no turn keeps its place. `python -m tools.fit_turns` fits the weights again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zapomni_core.modules.memories.late_interaction import (
    MEAN_TOKENS,
    excess_of,
    mean_directions,
    mean_similarities,
)
from zapomni_core.modules.memories.scoring import Candidate
from zapomni_core.shared.text import KEPT_TURNS, split_turn
from zapomni_db.models import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["WEIGHTS", "Conversations", "find_conversations", "order_turns", "turn_signals"]

WEIGHTS: Mapping[str, float] = {
    "window": 5.3, "own": -1.8, "before": -2.5, "reply": 2.1, "answer": 0.5, "stretch": 4.5,
    "apart": -2.5, "tokens": 3.1, "topic": 5.2, "context": 3.1, "cosine": -5.4, "asks": -1.6,
    "other_speaker": -0.5, "first_person": 0.7, "time": 2.4, "date": 3.1, "name": 2.0,
    "alike": 1.7, "members": 3.3,
}  # fmt: skip
# What the turn before, and the one before that, lend of their tokens.
LENT = (0.95, 0.85)
# The mean of a few turns says little: as if there were so many more, as alike as unrelated ones.
MORE_TURNS, UNRELATED = 8, 0.4
# Over so many turns a good hit loses all but a third of what it says for its neighbors.
STRETCH = 24.0
# How many of the first turns may resemble each other.
RESEMBLING = 60
# A meeting has more speakers than a dialogue: its first hits are of different places, so far apart
# and so little below the best; the others follow by what is near by, over so many turns.
DIALOGUE, LEADING, APART, BELOW, NEAR = 2, 4, 4, 4.0, 8.0
# How much what is near by counts, and how much less the best of it exceeds the rest than in sums.
GATHERED, SOFTENED = 9.0, 3.0

# At the beginning: "what did she play when she was young" does not ask for a time.
_ASKS_WHEN = re.compile(
    r"^(?:(?:since|until|by|in|on|at|for) )?"
    r"(?:when|how long|(?:what|which) (?:date|day|month|year|time))\b",
    re.IGNORECASE,
)
# What hobbies has she, which books did he read: a plural before a verb asks for several answers.
_ASKS_LIST = re.compile(
    r"^(?i:what|which|who|where|how many|in what)\b.{0,55}?\s(?!(?:does|was|this|always)\b)"
    r"[a-z]{2,}s (?:has|have|did|does|do|are|were|is|was|of|that)\b"
)
# Who, where, which book: what answers has a name that the question does not have.
_ASKS_NAME = re.compile(
    r"^(?:(?:in|on|at|from|to|with|for|by|of) )?(?:who|whom|whose|where|which|what (?:\w+ )?"
    r"(?:artist|author|band|book|brand|city|company|country|film|game|language|movie|name|place|"
    r"series|show|song|state|team|town|cities|companies|countries)s?)\b",
    re.IGNORECASE,
)
# Not at the beginning of a sentence or a quotation, where every word has a capital.
_NAME = re.compile(r"(?<![.!?:\"] )(?<!^)(?<![\"'\[(])\b[A-Z][a-z]+")
# Of small letters, grouped by the first ones: as a list of words it costs four times as much.
_TIME = re.compile(
    r"\b(?:y(?:esterday|ears?)|a(?:go|pril|ugust)|last|n(?:ext|ovember)|recently|"
    r"t(?:o(?:day|night|morrow)|uesday|"
    r"h(?:ursday|is (?:week|month|year|morning|summer|winter|spring|fall)))|"
    r"s(?:ince|aturday|unday|eptember)|we(?:ek(?:end|s?)|dnesday)|d(?:ays?|ecember)|"
    r"m(?:on(?:ths?|day)|arch)|f(?:riday|ebruary)|j(?:anuary|une|uly)|october|(?:19|20)\d\d)\b"
)
# Names of no one in particular: a question with such a word is about something else.
_ROLES = frozenset(("", "agent", "ai", "assistant", "human", "model", "system", "tool", "user"))
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_FIRST_PERSON = re.compile(r"\b(?:i|m[ey]|mine|we|our)\b")


class _Turn(NamedTuple):
    speaker: str
    text: str


class Conversations(NamedTuple):
    """The conversations among candidates."""

    groups: frozenset[str]
    """Their parents."""
    turns: dict[str, _Turn]
    """What passages say, whether they are turns of a conversation or not."""


class _Rows(NamedTuple):
    """Rows of `max_similarities`, one for each turn."""

    befores: NDArray[np.intp]
    """Which turn is before each; -1: none."""
    padded: NDArray[np.float32]
    """One row more is of no turn: -1 points to it."""
    window: NDArray[np.float32]
    """The best of each turn and the two before it."""


def order_turns(
    query: str,
    weights: Sequence[float],
    ranked: list[Candidate],
    talk: Conversations,
    words: Sequence[str],
    tokens: Mapping[str, bytes],
) -> list[Candidate]:
    """Return the candidates with their turns in order: each takes a place, and score, of a turn.

    Args:
        query: The question.
        weights: What each token of the question counts.
        ranked: The candidates, best first.
        talk: The conversations among them.
        words: The question's tokens.
        tokens: Token vectors of candidates.
    """
    import numpy as np

    places = [
        n for n, c in enumerate(ranked) if c.group in talk.groups and c.similarities is not None
    ]
    if len(places) < 2 or not any(weights):
        return ranked
    # What only a second hop found is ordered without its text: reading it would cost a call.
    unknown = _Turn("", "")
    candidates = [ranked[n] for n in places]
    turns = {c.chunk_id: talk.turns.get(c.chunk_id, unknown) for c in candidates}
    scores = [candidate.score for candidate in candidates]
    rows = _look_back(candidates)
    distances = _measure_distances(candidates)
    signals = turn_signals(query, words, weights, candidates, turns, rows, distances)
    weighted = np.array([WEIGHTS[name] * values for name, values in signals.items()])
    first_sums = weighted.sum(axis=0)
    alike = _resemble(candidates, first_sums, tokens)
    members = alike * (_ASKS_LIST.search(query) is not None)
    weighted = np.vstack([weighted, WEIGHTS["alike"] * alike, WEIGHTS["members"] * members])
    highest = max(weights)
    late = mean_similarities(rows.window, [w == highest for w in weights], MEAN_TOKENS)
    names = (*signals, "alike", "members")
    parts, sums = weighted.T.tolist(), weighted.sum(axis=0).tolist()
    order = sorted(range(len(candidates)), key=lambda i: (-sums[i], candidates[i].chunk_id))
    order = _lead_by_places(order, sums, candidates, turns, distances)
    ordered = list(ranked)
    for place, score, i in zip(places, scores, order, strict=True):
        candidate = ordered[place] = candidates[i]
        candidate.score = score
        candidate.late_window = late[i]
        candidate.turn_signals = dict(zip(names, parts[i], strict=True))
    return ordered


def find_conversations(pool: Sequence[Candidate], passages: Mapping[str, Passage]) -> Conversations:
    """Return the conversations among candidates whose tokens were compared.

    Who said a passage is in its metadata (`speaker`, or else `role`), or else before the text:
    `Anna: text`. A parent of which most passages say so is a conversation, all of it.

    Args:
        pool: The candidates.
        passages: The texts and metadata of those that may be turns.
    """
    turns: dict[str, _Turn] = {}
    # Of each parent, how many more passages say so than do not.
    votes: dict[str, int] = defaultdict(int)
    for candidate in pool if passages else ():
        passage = passages.get(candidate.chunk_id)
        if passage is not None and candidate.similarities is not None:
            speaker, text = split_turn(passage.text)
            speaker = _stored_speaker(passage) or speaker
            turns[candidate.chunk_id] = _Turn(speaker, text)
            votes[candidate.group] += 1 if speaker else -1
    return Conversations(frozenset(g for g, more in votes.items() if more > 0), turns)


def _stored_speaker(passage: Passage) -> str:
    """Return who said a passage as its metadata has it; empty: they do not say."""
    stored = passage.stored_metadata
    if '"speaker"' not in stored and '"role"' not in stored:  # read without decoding them
        return ""
    metadata = passage.metadata
    said = metadata.get("speaker") or metadata.get("role")
    return said if isinstance(said, str) else ""


def turn_signals(
    query: str,
    words: Sequence[str],
    weights: Sequence[float],
    turns: Sequence[Candidate],
    said: Mapping[str, _Turn],
    similarities: _Rows,
    distances: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Return the signals of turns that each has by itself, one number each.

    window: how well tokens of the turn and the two before it answer the question's; own, before:
    the same of the turn and of the one before alone; reply: of the one before if it has a
    question, answer: by how much of it is one; stretch: the best score near by; apart: the same if
    the question asks for a list, whose parts lie apart; tokens, cosine, context: as they are, not
    scaled; topic: tokens without the names of speakers; asks: how much of it is a question;
    other_speaker: the question names one speaker, and this is another; first_person: it is that
    one, who says "I"; time: it has a time, and the question asks when; date: it is of the day that
    the question names; name: it has a name that the question does not have, and the question asks
    who, where or which.
    """
    import numpy as np

    befores, padded, window = similarities
    rows = padded[:-1]
    counted = np.asarray(weights, dtype=np.float32)
    mean = (rows.sum(axis=0) + MORE_TURNS * UNRELATED) / (len(rows) + MORE_TURNS)
    own = excess_of(rows, mean, counted)
    highest = max(float(own.max()), 1e-6)
    own = own / highest
    earlier = excess_of(padded[befores], mean, counted) / highest
    wide = excess_of(window, mean, counted)
    texts = [said[candidate.chunk_id] for candidate in turns]
    asks = np.array([*(_question_share(turn.text) for turn in texts), 0.0])
    names = {turn.speaker for turn in texts if turn.speaker.lower() not in _ROLES}
    named = {n for n in names if re.search(rf"\b{re.escape(n)}\b", query, re.IGNORECASE)}
    only = next(iter(named)) if len(named) == 1 else None
    called = " ".join(named).lower()
    # Parts of words begin with ##; short ones may be part of any name.
    parts = [word.lstrip("#").lower() for word in words]
    topical = counted * [len(part) < 3 or part not in called for part in parts]
    if topical.max() < counted.max():
        topical = counted
    asks_list = _ASKS_LIST.search(query) is not None
    stretch = _best_near_by(turns, distances)
    none = np.zeros(len(turns))
    other = first_person = time = none
    if only is not None:
        other = np.array([float(bool(t.speaker) and t.speaker != only) for t in texts])
        first_person = np.array(
            [float(t.speaker == only and _is_first_person(t.text)) for t in texts]
        )
    if _ASKS_WHEN.search(query):
        time = np.array([float(_has_time(turn.text)) for turn in texts])
    return {
        "window": wide / max(float(wide.max()), 1e-6),
        "own": own,
        "before": earlier,
        "reply": earlier * (asks > 0)[befores],
        "answer": earlier * asks[befores],
        "stretch": stretch,
        "apart": stretch * asks_list,
        "tokens": rows @ counted / counted.sum(),
        "topic": rows @ topical / topical.sum(),
        "context": np.array([candidate.context for candidate in turns]),
        "cosine": np.array([candidate.cosine for candidate in turns]),
        "asks": asks[:-1],
        "other_speaker": other,
        "first_person": first_person,
        "time": time,
        "date": np.array([candidate.date for candidate in turns]),
        "name": _find_new_names(query, texts),
    }


def _look_back(turns: Sequence[Candidate]) -> _Rows:
    """Read the turns' similarities, and those of the two before each, as far as they are turns."""
    import numpy as np

    at = {candidate.chunk_id: number for number, candidate in enumerate(turns)}
    befores = np.array([at.get(c.before or "", -1) for c in turns])
    before_them = np.where(befores >= 0, befores[befores], -1)
    rows = np.concatenate([candidate.similarities for candidate in turns])
    rows = rows.reshape(len(turns), -1)
    padded = np.vstack([rows, np.zeros_like(rows[:1])])
    window = np.maximum(rows, LENT[0] * padded[befores])
    return _Rows(befores, padded, np.maximum(window, LENT[1] * padded[before_them]))


def _find_new_names(query: str, turns: Sequence[_Turn]) -> NDArray[np.float64]:
    """Return which turns have a name that is not in the question, if the question asks for one.

    Speakers call each other by name whatever they talk about: their names do not count.
    """
    import numpy as np

    if not _ASKS_NAME.search(query):
        return np.zeros(len(turns))
    known = {*_WORD.findall(query.lower())}
    for turn in turns:
        known.update(turn.speaker.lower().split())
    return np.array(
        [float(any(name not in known for name in _names_of(turn.text))) for turn in turns]
    )


# The same turns come up again and again.


@lru_cache(maxsize=KEPT_TURNS)
def _names_of(text: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in _NAME.findall(text))


@lru_cache(maxsize=KEPT_TURNS)
def _is_first_person(text: str) -> bool:
    return _FIRST_PERSON.search(text.lower()) is not None


@lru_cache(maxsize=KEPT_TURNS)
def _has_time(text: str) -> bool:
    return _TIME.search(text.lower()) is not None


@lru_cache(maxsize=KEPT_TURNS)
def _question_share(text: str) -> float:
    """Return which share of a text's words are in its questions."""
    if "?" not in text:
        return 0.0
    asked = total = 0
    for sentence in _SENTENCE.findall(text):
        words = len(sentence.split())
        total += words
        asked += words * sentence.rstrip().endswith("?")
    return asked / total if total else 0.0


def _best_near_by(
    turns: Sequence[Candidate], distances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the best score in each turn's stretch of the conversation, as a share of the best."""
    import numpy as np

    scores = np.array([candidate.score for candidate in turns])
    # Of numbers half as long, which are exact enough, powers take a tenth of the time.
    near = np.exp((distances / -STRETCH).astype(np.float32)) * scores
    found: NDArray[np.float64] = np.where(np.isfinite(distances), near, -np.inf).max(axis=1)
    highest = float(scores.max())
    return found / highest if highest > 0 else found


def _measure_distances(turns: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return how many turns are between each two; infinite: of different conversations."""
    import numpy as np

    positions = np.array([candidate.position for candidate in turns], dtype=np.float64)
    groups: dict[str, list[int]] = defaultdict(list)
    for number, candidate in enumerate(turns):
        groups[candidate.group].append(number)
    group = np.empty(len(turns), dtype=np.intp)
    scale = np.ones(len(turns))
    for number, members in enumerate(groups.values()):
        group[members] = number
        # Positions may have gaps: they are brought closer until they could have none.
        own = [turns[n].position for n in members]
        reach, most = float(max(own) - min(own)), turns[members[0]].group_size - 1
        if reach > most:
            scale[members] = most / reach
    # All at once: a conversation has dozens of parents, and each call of numpy its price.
    distances = np.abs(positions[:, np.newaxis] - positions) * scale[:, np.newaxis]
    return np.where(group[:, np.newaxis] == group, distances, np.inf)


def _resemble(
    turns: Sequence[Candidate], sums: NDArray[np.float64], tokens: Mapping[str, bytes]
) -> NDArray[np.float64]:
    """Return how much each of the first turns is like the likeliest ones of other conversations.

    What answers a question in several sessions is alike: camping in June, camping in July.
    """
    import numpy as np

    found = np.zeros(len(turns))
    first = np.argsort(-sums, kind="stable")[:RESEMBLING].tolist()
    known = [i for i in first if tokens.get(turns[i].chunk_id)]
    if len({turns[i].group for i in known}) > 1:
        rows = mean_directions([tokens[turns[i].chunk_id] for i in known])
        numbers: dict[str, int] = {}
        group = np.array([numbers.setdefault(turns[i].group, len(numbers)) for i in known])
        likely = np.exp(sums[known] - sums.max())
        others = (rows @ rows.T) * (group[:, np.newaxis] != group)
        found[known] = others @ (likely / likely.sum())
    return found


def _lead_by_places(
    order: list[int],
    sums: Sequence[float],
    turns: Sequence[Candidate],
    said: Mapping[str, _Turn],
    distances: NDArray[np.float64],
) -> list[int]:
    """Put the best turns of different places in meetings first; others follow what is near by.

    A topic of a meeting takes a dozen turns in a row: if the first hit is of another one, so are
    its neighbors. Turns of meetings take the places of one another.
    """
    import numpy as np

    speakers: dict[str, set[str]] = defaultdict(set)
    for candidate in turns:
        speakers[candidate.group].add(said[candidate.chunk_id].speaker.lower())
    meetings = {group for group, names in speakers.items() if len(names - _ROLES) > DIALOGUE}
    members = [i for i in order if turns[i].group in meetings]
    if not members:
        return order
    between = distances[np.ix_(members, members)]
    own = np.array([sums[i] for i in members])
    leading: list[int] = []
    for n in np.flatnonzero(own >= own[0] - BELOW).tolist():
        if len(leading) < LEADING and (between[n, leading] > APART).all():
            leading.append(n)
    near = np.exp((between / -NEAR).astype(np.float32)) @ np.exp((own - own[0]) / SOFTENED)
    gathered = own + GATHERED * np.log(near)
    gathered[leading] = np.inf
    placed = iter(np.argsort(-gathered, kind="stable").tolist())
    return [members[next(placed)] if turns[i].group in meetings else i for i in order]

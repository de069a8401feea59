"""From texts to the graph: what a passage names and states, and storing that, once and whole.

Every passage is stored together with the fact that it was read: a killed run resumes after its last
committed batch, and reading everything again changes nothing.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from zapomni_core.exceptions import ExtractionError
from zapomni_core.infra.logging import get_logger
from zapomni_core.interfaces import EntityExtractor, RelationshipExtractor
from zapomni_core.modules.graph.cues import CLASS_TAILS
from zapomni_core.modules.graph.documents import is_form, is_manifest, name_speakers, read_document
from zapomni_core.modules.graph.entities import NEVER, NamedSpan, scan
from zapomni_core.modules.graph.names import (
    Gazetteer,
    canonical_name,
    entity_id,
    fuzzy_key,
    name_key,
    same_entity,
)
from zapomni_core.modules.graph.relations import (
    SINGLE_VALUED,
    StatedRelations,
    relate,
    with_evidence,
)
from zapomni_core.modules.graph.words import is_ordinary, is_technical
from zapomni_db.graph_models import (
    CooccurringPair,
    EdgeKey,
    EntityName,
    ExtractedChunk,
    GraphGrowth,
    GraphScope,
    UnreadChunk,
)
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import EntityData, MemorySummary, RelationshipData
from zapomni_db.rules import COOCCURRENCE, SHOWN

__all__ = [
    "Extraction",
    "ExtractionModel",
    "GraphExtractor",
    "Report",
    "RuleExtractor",
    "association",
    "build_graph",
]


# --- Entities and relationships of a text: by rules, and by a model if one is configured ---


# A longer text would block the event loop, so it is read in a separate thread.
READ_AT_ONCE = 20_000
# Below this confidence, a word that is only written like a name takes part in no relationship.
LEAST_NAMED = 0.3


class RuleExtractor:
    """Finds entities and relationships without any model."""

    name = "rules"

    def __init__(self, gazetteer: Gazetteer) -> None:
        self.gazetteer = gazetteer

    async def extract_entities(
        self, text: str, reference_date: datetime | None = None
    ) -> list[EntityData]:
        """Return one entity per mention, in the order of the text; no two overlap."""
        if len(text) > READ_AT_ONCE:
            return await asyncio.to_thread(self._entities, text, reference_date)
        return self._entities(text, reference_date)

    async def extract_relationships(
        self,
        text: str,
        entities: list[EntityData],
        reference_date: datetime | None = None,
    ) -> list[RelationshipData]:
        """Return what the text states about these entities, sentence by sentence."""
        ids = {entity.entity_id for entity in entities}
        return [
            one
            for one in (await self.relate(text, entities, reference_date)).relationships
            if one.source_entity_id in ids and one.target_entity_id in ids
        ]

    async def relate(
        self, text: str, entities: list[EntityData], reference_date: datetime | None = None
    ) -> StatedRelations:
        """Return what the text states, also about things that it does not call by a name."""
        removed = self.gazetteer.removed
        # A capital at the beginning of a sentence is not enough to be its subject.
        entities = [e for e in entities if e.source != "learned" or e.confidence >= LEAST_NAMED]
        if len(text) > READ_AT_ONCE:
            return await asyncio.to_thread(relate, text, entities, reference_date, removed)
        return relate(text, entities, reference_date, removed)

    def canonical(self, entity: EntityData) -> EntityData:
        """Return an entity that a model found with its canonical name, id and aliases."""
        known = next(
            (e for e in self.gazetteer.find(entity.name) if e.kind in (entity.type, "SERVICE")),
            None,
        )
        name = known.name if known else canonical_name(entity.name, entity.type)
        aliases = [alias for alias in known.aliases if alias != name] if known else []
        changed = {"name": name, "entity_id": entity_id(name, entity.type), "aliases": aliases}
        return entity.model_copy(update=changed)

    def _entities(self, text: str, reference_date: datetime | None) -> list[EntityData]:
        mentions = _with_speakers(text, scan(text, self.gazetteer, reference_date))
        return [_entity(text, mentions, index) for index in range(len(mentions))]


def _with_speakers(text: str, mentions: list[NamedSpan]) -> list[NamedSpan]:
    """In `Anna: I moved to Rome`, I am Anna."""
    speaker: NamedSpan | None = None
    for index, mention in enumerate(mentions):
        if mention.type == "PERSON" and text.startswith(": ", mention.end):
            if mention.start == 0 or text[mention.start - 1] == "\n":
                speaker = mention
        elif mention.type == "SELF" and speaker and text[mention.start].lower() == "i":
            mentions[index] = mention._replace(type="PERSON", name=speaker.name)
    return mentions


def _entity(text: str, mentions: Sequence[NamedSpan], index: int) -> EntityData:
    mention = mentions[index]
    name = canonical_name(mention.name, mention.type)
    if mention.type == "VERSION" and (thing := _versioned(text, mentions, index)):
        # 1.2 of one thing is not 1.2 of another.
        name = f"{thing.name} {name}"
    return EntityData.from_fields(
        entity_id=entity_id(name, mention.type),
        name=name,
        type=mention.type,
        description=mention.description,
        confidence=mention.confidence,
        source=mention.source,
        surface=text[mention.start : mention.end],
        start_char=mention.start,
        end_char=mention.end,
        aliases=[one for one in mention.aliases if one != name] if mention.aliases else [],
    )


def _versioned(text: str, mentions: Sequence[NamedSpan], index: int) -> NamedSpan | None:
    """Return what a version is one of: `Python 3.12`, `cryptography from 42.0.8 to 43.0.0`."""
    version = mentions[index]
    for before in reversed(mentions[max(0, index - 2) : index]):
        between = text[before.end : version.start].strip().lower()
        if before.type in ("TECHNOLOGY", "PACKAGE") and between in _BEFORE_VERSION:
            return before
        if before.type != "VERSION" or between not in _BETWEEN_VERSIONS:
            return None
        version = before
    return None


_BEFORE_VERSION = frozenset(
    {"", "==", "@", "version", "v", ">=", "^", "~=", "<", ">", "from", "to"}
)
_BETWEEN_VERSIONS = frozenset({"to", "or", "and", "->", "and/or", ",", "through"})


# --- A text becomes entities and relationships: by rules, and by a model if one is configured ---


# Changes whenever the rules find something else in the same text: stored passages are read again.
RULES = "rules-12"

log = get_logger(__name__)


class Extraction(NamedTuple):
    """The entities and relationships of a text, with exact places in it."""

    entities: list[EntityData]
    """One per mention, in the order of the text."""
    relationships: list[RelationshipData]
    """Their ids are ids of `entities`."""
    notice: str | None = None
    """Why the configured model was not used, if it was not."""


class ExtractionModel(EntityExtractor, Protocol):
    """A model that adds to the rules. Implemented by `SpacyExtractor` and `ModelExtractor`."""

    model: str

    async def close(self) -> None:
        """Release connections."""
        ...


class GraphExtractor:
    """Finds entities and relationships; when a model fails, what the rules found is used."""

    def __init__(self, rules: RuleExtractor, model: ExtractionModel | None = None) -> None:
        self._rules = rules
        self._model = model

    @property
    def version(self) -> str:
        """Name what decides what is found: passages read by another version are read again."""
        parts = [RULES, self._rules.gazetteer.digest]
        if self._model is not None:
            parts.append(f"{self._model.name}/{self._model.model}")
        return "+".join(filter(None, parts))

    async def recognize(self, text: str) -> list[EntityData]:
        """Return the entities in a question or a name, by rules alone: no one waits for a model."""
        return await self._rules.extract_entities(text)

    async def extract(self, text: str, reference_date: datetime | None = None) -> Extraction:
        """Return what the text states; `yesterday` is the day before `reference_date`."""
        named = await self._rules.extract_entities(text, reference_date)
        stated = await self._rules.relate(text, named, reference_date)
        by_rules = Extraction(_joined(stated.added, named), stated.relationships)
        if self._model is None or not text.strip():
            return by_rules
        try:
            return await self._with_model(self._model, text, by_rules, reference_date)
        except ExtractionError as error:
            log.warning("extraction_fallback", failed=self._model.name, error_code=error.error_code)
            # Only what was written for users: the message names the setting to change.
            notice = f"{error.message} What the rules found is used ({error.error_code})."
            return by_rules._replace(notice=notice)

    def add_form(
        self, found: Extraction, about: MemorySummary, passage: str, whole: str
    ) -> Extraction:
        """Add what a memory says about its text: who is `we`, its status, a manifest's list."""
        gazetteer = self._rules.gazetteer
        if any(one.type == "SELF" for one in found.entities):
            named = name_speakers(about, found.entities, found.relationships, gazetteer)
            found = found._replace(entities=named.entities, relationships=named.relationships)
        stated = read_document(about, passage, found.entities, gazetteer, whole)
        if not stated.relationships:
            return found
        entities = sorted([*found.entities, *stated.entities], key=lambda entity: entity.start_char)
        return found._replace(
            entities=entities, relationships=[*found.relationships, *stated.relationships]
        )

    async def close(self) -> None:
        """Release the model's connections."""
        if self._model is not None:
            await self._model.close()

    async def _with_model(
        self,
        model: ExtractionModel,
        text: str,
        by_rules: Extraction,
        reference_date: datetime | None,
    ) -> Extraction:
        """Add what the model found to what the rules did: all of it, or an error."""
        named = await model.extract_entities(text, reference_date)
        # What is only written like a name gives way to what the model says it is.
        weak = [e for e in by_rules.entities if e.source == "learned" and e.confidence < SHOWN]
        sure = [e for e in by_rules.entities if e not in weak]
        entities = _joined(sure, [self._rules.canonical(entity) for entity in named])
        entities = _joined(entities, weak)
        related = await self._rules.relate(text, entities, reference_date)
        entities, stated = _joined(related.added, entities), related.relationships
        if isinstance(model, RelationshipExtractor) and len(entities) > 1:
            found = await model.extract_relationships(text, entities, reference_date)
            stated = _without_repetitions(stated, with_evidence(text, entities, found))
        return Extraction(entities, stated)


def _joined(first: Sequence[EntityData], second: Sequence[EntityData]) -> list[EntityData]:
    """Both in the order of the text; where two overlap, the first one's."""
    taken = sorted((entity.start_char, entity.end_char) for entity in first)
    added: list[EntityData] = []
    at = 0
    for entity in sorted(second, key=lambda entity: entity.start_char):
        while at < len(taken) and taken[at][1] <= entity.start_char:
            at += 1
        if at == len(taken) or entity.end_char <= taken[at][0]:
            added.append(entity)
    return sorted([*first, *added], key=lambda entity: entity.start_char)


def _without_repetitions(
    by_rules: Sequence[RelationshipData], by_model: Sequence[RelationshipData]
) -> list[RelationshipData]:
    """What the model states takes the place of names merely standing together."""
    stated = {(r.source_entity_id, r.target_entity_id, r.relationship_type) for r in by_rules}
    new = [
        relationship
        for relationship in by_model
        if (
            relationship.source_entity_id,
            relationship.target_entity_id,
            relationship.relationship_type,
        )
        not in stated
    ]
    pairs = {frozenset((r.source_entity_id, r.target_entity_id)) for r in new}
    kept = [
        r
        for r in by_rules
        if r.source != COOCCURRENCE
        or frozenset((r.source_entity_id, r.target_entity_id)) not in pairs
    ]
    return [*kept, *new]


# --- Reading memories into the graph, passage by passage ---------------------------------


Report = Callable[[int, int | None, str], Awaitable[None]]
"""Called with how many passages are done, how many there are, and a message without stored text."""

# A transaction is kept short for other writers; with a model it is one passage's.
STORE_AT_ONCE = 32
# The query for unread passages may scan all of them: not once per transaction.
PAGE = 4 * STORE_AT_ONCE
STORE_AFTER_SECONDS = 2.0
# Who waits for the event loop waits no longer than this, or than one passage takes.
TURN_SECONDS = 0.005

# Types of which a misspelling may be merged with what it misspells.
FORGIVING = ("ORG", "PLACE", "TECHNOLOGY")
# A name whose kind one text leaves open is what another text says it is.
OPEN = "CONCEPT"
NAMED = (*FORGIVING, "PERSON", OPEN, "PACKAGE", "CODE")


async def build_graph(
    storage: StorageProvider,
    extractor: GraphExtractor,
    scope: GraphScope,
    report: Report,
    projects: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Read what is unread; return what was added, and what could not be used.

    Args:
        storage: Where memories and the graph are stored.
        extractor: Reads their texts.
        scope: Which of them.
        report: Called with the progress.
        projects: What projects are called, by their keys.
    """
    total = await storage.count_unread(extractor.version, scope)
    known = _Known(await storage.get_names(NAMED) if total else [])
    template = _Template()
    if total > 1:
        template.add(await storage.get_unread(extractor.version, scope, None, LOOK_AHEAD))
    done, growth, notice, after = 0, GraphGrowth(), None, None
    while page := await storage.get_unread(extractor.version, scope, after, PAGE):
        after = page[-1].chunk_id
        if done >= LOOK_AHEAD:
            template.add(page)
        while page:
            batch, page = await _read(storage, extractor, page, projects or {})
            batch = [(chunk, template.weaken(chunk, found)) for chunk, found in batch]
            growth = _sum(growth, await _store(storage, extractor.version, batch, known))
            notice = next((found.notice for _, found in batch if found.notice), notice)
            done += len(batch)
            await report(done, max(done, total), "Reading passages")
    associated = 0
    if done:
        associated = await _associate(storage)
        await storage.end_statements()
    return {
        "passages_read": done,
        "entities_added": growth.entities,
        "relationships_added": growth.relationships + associated,
        "mentions_added": growth.mentions,
        "notice": notice,
    }


_Batch = list[tuple[UnreadChunk, Extraction]]


async def _read(
    storage: StorageProvider,
    extractor: GraphExtractor,
    page: list[UnreadChunk],
    projects: Mapping[str, str],
) -> tuple[_Batch, list[UnreadChunk]]:
    """Read passages until it is time to store them; return the rest of the page."""
    batch: _Batch = []
    began = worked = time.monotonic()
    memories = await storage.get_summaries(
        list({chunk.memory_id for chunk in page[:STORE_AT_ONCE]})
    )
    whole: dict[str, str] = {}
    for number, chunk in enumerate(page, start=1):
        about = memories.get(chunk.memory_id)
        prose = chunk.text if about is None or not is_form(about) else ""
        found = await extractor.extract(prose, chunk.said_at)
        if about is not None:
            if is_manifest(about) and chunk.memory_id not in whole:
                record = await storage.get_memory(chunk.memory_id)
                whole[chunk.memory_id] = "" if record is None else record.text
            named = {"project": projects.get(about.project, about.project)}
            about = about.model_copy(update=named)
            found = extractor.add_form(found, about, chunk.text, whole.get(chunk.memory_id, ""))
        batch.append((chunk, found))
        now = time.monotonic()
        if now - worked > TURN_SECONDS:  # Reading is work: let others have their turn.
            await asyncio.sleep(0)
            worked = time.monotonic()
        if number == STORE_AT_ONCE or now - began > STORE_AFTER_SECONDS:
            return batch, page[number:]
    return batch, []


async def _store(
    storage: StorageProvider, version: str, batch: _Batch, known: _Known
) -> GraphGrowth:
    """Store whole what was read whole; what a missing model fell short of is read again later."""
    growth = GraphGrowth()
    for is_whole, reader in ((True, version), (False, f"{version} without its model")):
        chosen = [(chunk, found) for chunk, found in batch if (found.notice is None) is is_whole]
        if chosen:
            same = [pair for _, found in chosen for pair in known.add(found.entities)]
            chunks = [
                ExtractedChunk.model_construct(
                    chunk_id=chunk.chunk_id,
                    entities=found.entities,
                    relationships=[
                        stated.model_copy(update={"exclusive": True})
                        if stated.relationship_type in SINGLE_VALUED and not stated.exclusive
                        else stated
                        for stated in found.relationships
                        # The passage before has said so already.
                        if not chunk.repeated or stated.end_char > chunk.repeated
                    ],
                )
                for chunk, found in chosen
            ]
            growth = _sum(growth, await storage.store_extractions(reader, chunks, same))
    return growth


def _sum(first: GraphGrowth, second: GraphGrowth) -> GraphGrowth:
    return GraphGrowth(*(one + other for one, other in zip(first, second, strict=True)))


# --- Templates -----------------------------------------------------------------------------


# Words that so many memories have at the same place of a line are a template's.
SHARED_BY = 3
# A long line is compared by parts: authors tick a box, wrap a line, add half a sentence.
PART_WORDS = 6
# A list may have one item in many memories, and a sentence may begin with a name.
LEAST_AROUND = 3
# Documents follow templates; notes that repeat a sentence state a fact.
LEAST_LINES = 5
# How many passages are read ahead, and how many parts of lines are remembered.
LOOK_AHEAD = 16 * PAGE
MOST_PARTS = 50_000
# Not the mark in a box, nor the number of an item.
_WORDS = re.compile(r"\w{2,}")
_ITEM = re.compile(r"[ \t]*(?:[-*+|>]|\d+[.)])\s")
# A form asks for these, its author fills them in.
_FILLED_IN = frozenset({"PERSON", "ORG", "PLACE"})


class _Template:
    """What memories have in common, word for word: headings and sentences of a template."""

    def __init__(self) -> None:
        self._memories: dict[int, tuple[str, ...]] = {}
        self._is_any = False

    def add(self, page: Sequence[UnreadChunk]) -> None:
        """Note which memories have each part of a line."""
        for chunk in page:
            lines = chunk.text.splitlines()
            for line in lines if len(lines) >= LEAST_LINES else ():
                for part in _parts_of_line(line):
                    known = self._memories.get(part, ())
                    if len(known) < SHARED_BY and chunk.memory_id not in known:
                        self._memories[part] = (*known, chunk.memory_id)
                        self._is_any = self._is_any or len(known) == SHARED_BY - 1
        if len(self._memories) > MOST_PARTS:
            self._memories = {part: ids for part, ids in self._memories.items() if len(ids) > 1}

    def weaken(self, chunk: UnreadChunk, found: Extraction) -> Extraction:
        """Take no word for a name because a template's line is written so."""
        if not self._is_any or chunk.text.count("\n") < LEAST_LINES - 1:
            return found
        entities = [
            entity.model_copy(update={"confidence": NEVER})
            if entity.source != "gazetteer"
            and entity.type not in _FILLED_IN
            and self._is_fixed(chunk.text, entity)
            else entity
            for entity in found.entities
        ]
        return found._replace(entities=entities)

    def _is_fixed(self, text: str, entity: EntityData) -> bool:
        start = text.rfind("\n", 0, entity.start_char) + 1
        line = text[start:].partition("\n")[0]
        parts = _parts_of_line(line)
        if not parts:
            return False
        ahead = len(_WORDS.findall(line[: entity.start_char - start]))
        at = min(ahead // PART_WORDS, len(parts) - 1)
        if len(self._memories.get(parts[at], ())) < SHARED_BY:
            return False
        around = len(_WORDS.findall(line)) - len(_WORDS.findall(entity.surface))
        return around >= LEAST_AROUND or _ITEM.match(line) is None


@lru_cache(maxsize=256)
def _parts_of_line(line: str) -> list[int]:
    words = _WORDS.findall(line.lower())
    if not words:
        return []
    # The last part has what is left over.
    cuts = range(0, max(len(words) - PART_WORDS // 2, 1), PART_WORDS)
    ends = [*cuts[1:], len(words)]
    return [hash(tuple(words[cut:end])) for cut, end in zip(cuts, ends, strict=True)]


# --- Names that occur together ----------------------------------------------------------


# A small collection says little about chance: so many more memories are supposed to name neither.
SUPPOSED_MEMORIES = 20
LEAST_TOGETHER = 2
# The 0.1 % level of a chi-squared distribution with one degree of freedom.
LEAST_LIKELIHOOD = 10.83
# How far a stored strength may be from today's: the collection grows with every memory.
TOLERANCE = 0.02
SET_AT_ONCE = 500


async def _associate(storage: StorageProvider) -> int:
    """Give names that occur together their strength; return how many pairs are shown now."""
    pairs, total = await storage.get_cooccurring()
    changed: list[tuple[EdgeKey, float]] = []
    shown = 0
    for pair in pairs:
        strength = 0.0 if pair.is_stated else association(pair, total)
        if abs(strength - pair.strength) > TOLERANCE or (strength == 0.0) != (pair.strength == 0.0):
            changed.append((pair.key, strength))
            shown += strength > 0.0 and pair.strength == 0.0
    for start in range(0, len(changed), SET_AT_ONCE):
        await storage.set_associations(changed[start : start + SET_AT_ONCE])
    return shown


def association(pair: CooccurringPair, total: int) -> float:
    """Return how much more often two names occur together than by chance, 0.1 to 0.45; else 0.

    They must do so in two memories at least, with a log-likelihood ratio that chance reaches in
    one of a thousand pairs. The strength is the normalized pointwise mutual information.
    """
    every = total + SUPPOSED_MEMORIES
    # Passages of one memory count once, and a name may be mentioned in more memories than it seems.
    first = max(pair.source_memories, pair.together)
    second = max(pair.target_memories, pair.together)
    expected = first * second / every
    if pair.together < LEAST_TOGETHER or pair.together <= expected:
        return 0.0
    cells = (
        (pair.together, expected),
        (first - pair.together, first - expected),
        (second - pair.together, second - expected),
        (every - first - second + pair.together, every - first - second + expected),
    )
    likelihood = 2 * sum(seen * math.log(seen / by_chance) for seen, by_chance in cells if seen > 0)
    if likelihood < LEAST_LIKELIHOOD:
        return 0.0
    information = math.log(pair.together / expected) / -math.log(pair.together / every)
    return round(0.1 + 0.35 * min(information, 1.0), 3)


class _Known:
    """The names in the graph, to recognize a misspelling, an abbreviation or the kind of one."""

    def __init__(self, names: Iterable[EntityName]) -> None:
        self._alike: dict[tuple[str, str], list[EntityData]] = {}
        self._named: dict[str, dict[str, EntityData]] = {}
        """What has one name, whatever kind it is taken for: the surest mention of each, by id."""
        self._merged: set[str] = set()
        self._whole: dict[str, EntityData] = {}
        """What an abbreviation abbreviates."""
        self._people: dict[str, set[str]] = {}
        """Who has a given name or a surname, by its key."""
        self._initials: dict[str, set[str]] = {}
        """Which organizations of three words or more have these initials."""
        for name in names:
            self._remember(
                EntityData.model_construct(
                    entity_id=name.entity_id,
                    name=name.name,
                    type=name.type,
                    confidence=1.0,
                    source="",
                )
            )

    def add(self, entities: Iterable[EntityData]) -> list[tuple[str, str]]:
        """Take in entities; return which of them mean one known before."""
        passage = list(entities)
        same = []
        for entity in passage:
            if entity.type == OPEN and entity.aliases:
                same += self._abbreviate(entity, passage)
            if entity.type not in NAMED or not self._is_news(entity):
                continue
            alike = self._alike.get(_key(entity), []) if entity.type in FORGIVING else []
            alike = [other for other in alike if other.entity_id != entity.entity_id]
            if known := next((other for other in alike if same_entity(entity, other)), None):
                same.append((entity.entity_id, known.entity_id))
            same += self._merge(entity)
            if (whole := self._whole.get(_open_key(entity))) is not None:
                same += _merged(whole, entity)
            self._remember(entity)
            same += self._name_person(entity)
            same += self._name_initials(entity)
        return same

    def _is_news(self, entity: EntityData) -> bool:
        """Return whether a name is new, or now surer to be of its kind."""
        known = self._named.get(_open_key(entity), {}).get(entity.entity_id)
        return known is None or _sureness(known) < _sureness(entity)

    def _merge(self, entity: EntityData) -> list[tuple[str, str]]:
        """Return which things of this name are one; none is two others."""
        same: list[tuple[str, str]] = []
        for other in self._named.get(_open_key(entity), {}).values():
            for pair in _merged(entity, other):
                same += self._once(*pair)
        return same

    def _abbreviate(self, short: EntityData, passage: list[EntityData]) -> list[tuple[str, str]]:
        """An abbreviation is what it abbreviates, here and wherever else it is used."""
        ids = (short.entity_id,)
        whole = next(
            (e for e in passage if e.name in short.aliases and e.entity_id not in ids), None
        )
        if whole is None:
            return []
        self._whole[_open_key(short)] = whole
        known = max(self._named.get(_open_key(short), {}).values(), key=_sureness, default=None)
        by_kind = _merged(whole, known) if known is not None else []
        return [(short.entity_id, whole.entity_id), *by_kind]

    def _name_person(self, entity: EntityData) -> list[tuple[str, str]]:
        """Arnout, of whom no text says more, is Arnout Schuijff if there is no other Arnout."""
        names = [_open_key(entity)]
        if entity.type == "PERSON":
            names = _parts_of(entity)
        same: list[tuple[str, str]] = []
        for name in names:
            people = self._people.get(name, set())
            for one in self._named.get(name, {}).values() if len(people) == 1 else ():
                if one.type in (OPEN, "TECHNOLOGY") and _sureness(one) <= _CUED:
                    same += self._once(one.entity_id, *people)
        return same

    def _name_initials(self, entity: EntityData) -> list[tuple[str, str]]:
        """DSF is the Django Software Foundation if no other organization has these initials."""
        initials = _initials_of(entity) or entity.name
        owners = self._initials.get(initials, set())
        if len(owners) != 1:
            return []
        same: list[tuple[str, str]] = []
        for one in self._named.get(name_key(initials, "TECHNOLOGY"), {}).values():
            if one.type == OPEN and one.name == initials and not one.aliases:
                same += self._once(one.entity_id, *owners)
        return same

    def _once(self, low: str, high: str) -> list[tuple[str, str]]:
        """Return that one is the other; none is two others."""
        if low in self._merged:
            return []
        self._merged.add(low)
        return [(low, high)]

    def _remember(self, entity: EntityData) -> None:
        for part in _parts_of(entity) if entity.type == "PERSON" else ():
            self._people.setdefault(part, set()).add(entity.entity_id)
        if initials := _initials_of(entity):
            self._initials.setdefault(initials, set()).add(entity.entity_id)
        named = self._named.setdefault(_open_key(entity), {})
        if entity.type in FORGIVING and entity.entity_id not in named:
            self._alike.setdefault(_key(entity), []).append(entity)
        named[entity.entity_id] = entity


def _parts_of(person: EntityData) -> list[str]:
    """Return the keys of the given name and the surname of a full name."""
    parts = person.name.split()
    if len(parts) < 2 or _sureness(person) != _SURE:
        return []
    names = [p for p in (parts[0], parts[-1]) if len(p) > 2 and p[1:].islower()]
    return [name_key(name, "TECHNOLOGY") for name in names if not is_ordinary(name.lower())]


def _initials_of(entity: EntityData) -> str:
    """Return the initials of an organization of three words or more that all have a capital."""
    words = [word for word in entity.name.split() if word not in ("of", "for", "and", "the")]
    if entity.type != "ORG" or len(words) < 3 or not all(word.istitle() for word in words):
        return ""
    return "".join(word[0] for word in words)


SURE_PERSON = 0.7
SHORT_WORD = 5
_SURE, _INSTALLED, _CODED, _CUED, _UNSURE = 4, 3, 2, 1, 0


def _sureness(entity: EntityData) -> int:
    """Return how sure it is what kind of thing a name is."""
    if entity.type == OPEN:
        return _UNSURE
    if entity.source == "learned" and entity.confidence < SHOWN:
        return _CUED
    if entity.type == "PERSON" and entity.confidence < SURE_PERSON and " " not in entity.name:
        return _CUED  # approved by Tentoo
    if entity.type == "PACKAGE":
        return _INSTALLED
    return _CODED if entity.type == "CODE" else _SURE


# What may be a name in backticks: `application-services`, `SolidQueue`, `devise`.
_NAME_IN_CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+|[A-Z][a-z0-9]*(?:[A-Z][A-Za-z0-9]*)+")
# Four words or more, or two of which the last is what code calls things.
_CLASS_NAME = re.compile(
    r"(?:[A-Z][a-z0-9]+){4,}|(?:[A-Z][a-z0-9]+)+(?:" + "|".join(map(str.title, CLASS_TAILS)) + ")"
)


def _merged(one: EntityData, other: EntityData) -> list[tuple[str, str]]:
    """Return that one of two with a name is the other, if only the other says what kind it is."""
    if one.entity_id == other.entity_id:
        return []
    low, high = sorted((one, other), key=_sureness)
    is_class = low.name == high.name and _CLASS_NAME.fullmatch(high.name) is not None
    if low.type == "TECHNOLOGY" and high.type == "CODE" and is_class:
        return [(low.entity_id, high.entity_id)]  # `MachineConfig`, also in a list of products
    if low.type == "TECHNOLOGY" and high.type == "CODE" and _NAME_IN_CODE.fullmatch(high.name):
        return [(high.entity_id, low.entity_id)]  # InSite is no class where there is an Insite.
    if _sureness(low) == _sureness(high):
        # Who employs people is no product, though it is written or linked like one.
        kinds = {entity.type: entity for entity in (one, other)}
        guessed = ("learned", "rules")
        if kinds.keys() == {"ORG", "TECHNOLOGY"} and kinds["TECHNOLOGY"].source in guessed:
            return [(kinds["TECHNOLOGY"].entity_id, kinds["ORG"].entity_id)]
        return []
    # What one mention suggests is enough for a name that no other says anything about.
    is_said = _sureness(high) >= _INSTALLED or (low.type == OPEN and high.type != "CODE")
    # SSTORE is what `SSTORE` is; a shorter one may be an abbreviation.
    is_constant = low.name == high.name and low.name.isupper() and len(low.name) > SHORT_WORD
    is_said = is_said or (low.type == OPEN and is_constant)
    if not is_said:
        return []
    # Who signs commits is a person, whatever the sentence says of `Ada Byron`.
    is_person = high.type == "PERSON" and low.source == "learned" and " " in low.name
    settled = _sureness(low) > _CUED and not is_person
    if settled and high.type not in ("ORG", "PACKAGE", "TECHNOLOGY"):
        return []
    # `standard` may be a package, and is a word.
    is_word = low.name.isalpha() and not is_technical(low.name) and high.type != "PACKAGE"
    if low.type == "CODE" and not is_word and not _NAME_IN_CODE.fullmatch(low.name):
        return []
    # FFI is no package, though one may be called ffi.
    if low.name.isupper() and high.type == "PACKAGE":
        return []
    return [(low.entity_id, high.entity_id)]


def _open_key(entity: EntityData) -> str:
    """Return what names have in common whatever kind they are taken for."""
    return name_key(entity.name, "TECHNOLOGY")


def _key(entity: EntityData) -> tuple[str, str]:
    return entity.type, fuzzy_key(entity.name, entity.type)

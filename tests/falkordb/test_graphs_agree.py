"""Both engines are told the same about the graph, step by step, and must show the same."""

from __future__ import annotations

import asyncio
import os
import uuid
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from builders import memory
from zapomni_db.exceptions import ZapomniError
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.graph_models import (
    EdgeKey,
    EdgeQuery,
    EntityQuery,
    ExtractedChunk,
    GraphScope,
)
from zapomni_db.models import EntityData, MemoryPatch, RelationshipData
from zapomni_db.sqlite.storage import SqliteStorage

# `make soak` asks for more.
EXAMPLES = int(os.environ.get("STATE_EXAMPLES", "8"))
START = datetime(2024, 1, 1, tzinfo=UTC)
READER = "reader"

# As a text has them, with what an index or a parser might stumble over.
NAMES = ["Ada", "Bob", "C++", "a\0b", "d'\"\\", "Ölçek"]
TYPES = ["USES", "WORKS_AT", "$kind"]
EXCLUSIVE = {"WORKS_AT"}
TEXT = " ".join(NAMES)

days = st.integers(0, 5).map(lambda number: START + timedelta(days=number * 100))
names = st.sampled_from(NAMES)
certain = st.sampled_from([0.25, 0.5, 1 / 3, 1.0])


def entity_id(name: str) -> str:
    return f"T:{NAMES.index(name)} {name[0]}'"


@st.composite
def mentions(draw) -> list[EntityData]:
    found = []
    for name in draw(st.lists(names, max_size=4)):
        start = draw(st.integers(0, 3))
        found.append(
            EntityData(
                entity_id=entity_id(name),
                name=name,
                type="T",
                description=draw(st.sampled_from(["", "", "what it is"])),
                confidence=draw(certain),
                source="rules",
                surface=draw(st.sampled_from([name, name.upper(), "nick", "nick 2"])),
                start_char=start,
                end_char=start + 2,
            )
        )
    return found


@st.composite
def relationships(draw, between) -> list[RelationshipData]:
    if not between:
        return []
    found = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(TYPES))
        start = draw(st.integers(0, 3))
        found.append(
            RelationshipData(
                source_entity_id=draw(st.sampled_from(between)),
                target_entity_id=draw(st.sampled_from(between)),
                relationship_type=kind,
                strength=draw(certain),
                evidence=draw(st.sampled_from(["", "told"])),
                start_char=start,
                end_char=start + 5,
                source="rules",
                valid_from=draw(st.none() | days),
                valid_to=draw(st.none() | st.none() | days),
                exclusive=kind in EXCLUSIVE,
            )
        )
    return found


class TwoGraphs(RuleBasedStateMachine):
    """The same calls to both. Passages differ in their ids, changes in the moment they are made."""

    def __init__(self, socket: str, folder) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.began = datetime.now(UTC)
        self.engines = (
            SqliteStorage(folder / f"{uuid.uuid4()}.db"),
            FalkorDBClient(unix_socket=socket, graph_name=f"agree {uuid.uuid4()}"),
        )
        self.memories: list[str] = []
        self.count = 0

    @initialize()
    def connect(self) -> None:
        for engine in self.engines:
            self.runner.run(engine.connect())
        for number in range(3):
            self.keep(START + timedelta(days=100 * number), None)

    def teardown(self) -> None:
        self.runner.run(self.engines[1].drop_graph())
        for engine in self.engines:
            self.runner.run(engine.close())
        self.runner.close()

    def check(self, method: str, *args):
        """Ask both, see that they say the same, and return it."""
        first, second = (self.call(engine, method, *args) for engine in self.engines)
        assert first == second, method
        return first

    def call(self, engine, method: str, *args):
        async def answer():
            try:
                return await getattr(engine, method)(*args)
            except ZapomniError as error:
                return type(error).__name__, error.error_code

        return self.plain(self.runner.run(answer()))

    def plain(self, value):
        """Leave out what may differ: ids of passages, and when exactly it was today."""
        if isinstance(value, datetime):
            return "today" if value > self.began - timedelta(hours=1) else value
        if hasattr(value, "model_dump"):
            value = value.model_dump(exclude={"chunk_id"})
        if isinstance(value, dict):
            return {self.plain(k): self.plain(v) for k, v in value.items()}
        if isinstance(value, float):
            return round(value, 9)
        if hasattr(value, "_asdict"):
            named = {k: v for k, v in value._asdict().items() if k != "chunk_id"}
            return tuple(self.plain(v) for v in named.values())
        if isinstance(value, list | tuple):
            return type(value)(self.plain(v) for v in value)
        return value

    # --- what is done --------------------------------------------------------------------

    @rule(occurred=days, data=st.data())
    def store(self, occurred, data):
        older = data.draw(st.none() | st.sampled_from(self.memories)) if self.memories else None
        self.keep(occurred, older)

    def keep(self, occurred, older):
        self.count += 1
        made = memory(
            f"{TEXT} {self.count}", memory_id=f"m{self.count}", timestamp=START,
            occurred_at=occurred, supersedes=older,
        )  # fmt: skip
        self.check("store_memories", [made])
        self.memories.append(made.memory_id)

    @rule(data=st.data())
    def read_one(self, data):
        self.read(READER, data)

    @rule(data=st.data())
    def read_again(self, data):
        self.read("other", data)

    def read(self, reader, data):
        pages = [
            self.runner.run(engine.get_unread(reader, GraphScope(), None, 99))
            for engine in self.engines
        ]
        assert self.plain(pages[0]) == self.plain(pages[1])
        if not pages[0]:
            return
        chosen = data.draw(st.integers(0, len(pages[0]) - 1))
        found = data.draw(mentions())
        stated = data.draw(relationships(sorted({e.entity_id for e in found})))
        same = data.draw(st.lists(st.tuples(names, names), max_size=1))
        pairs = [(entity_id(one), entity_id(other)) for one, other in same]
        grown = []
        for engine, page in zip(self.engines, pages, strict=True):
            chunk = ExtractedChunk(
                chunk_id=page[chosen].chunk_id, entities=found, relationships=stated
            )
            grown.append(self.runner.run(engine.store_extractions(reader, [chunk], pairs)))
        assert grown[0] == grown[1]

    @rule(name=names, confidence=certain, data=st.data())
    def tell(self, name, confidence, data):
        told = EntityData(entity_id=entity_id(name), name=name, type="T", confidence=confidence)
        known = sorted({entity_id(other) for other in [name, data.draw(names)]})
        self.check("store_entities", [told], data.draw(relationships(known)))

    @rule(data=st.data(), pinned=st.none() | st.booleans(), is_text=st.booleans())
    def update(self, data, pinned, is_text):
        if self.memories:
            chosen = data.draw(st.sampled_from(self.memories))
            self.count += 1
            changed = memory(f"{TEXT} {self.count}")
            text = {"text": changed.text, "chunks": changed.chunks} if is_text else {}
            tags = data.draw(st.none() | st.lists(st.sampled_from("ab"), max_size=3))
            self.check("update_memory", chosen, MemoryPatch(pinned=pinned, tags=tags, **text))

    @rule(data=st.data())
    def delete(self, data):
        if self.memories:
            chosen = data.draw(st.sampled_from(self.memories))
            self.memories.remove(chosen)
            assert self.check("delete_memory", chosen)

    @rule(one=names, other=names)
    def merge(self, one, other):
        self.check("merge_entities", entity_id(one), entity_id(other))

    @rule(name=st.none() | names)
    def undo(self, name):
        self.check("undo_merge", None if name is None else entity_id(name))

    # --- what is asked -------------------------------------------------------------------

    @rule(text=st.sampled_from(["", "a", "ADA", "nick", "nik", "ada bob", *NAMES]),
          exact=st.booleans(), as_of=st.none() | days)  # fmt: skip
    def find(self, text, exact, as_of):
        self.check("find_entities", EntityQuery(text=text, exact=exact, as_of=as_of))

    @rule(as_of=st.none() | days, kinds=st.lists(st.sampled_from(TYPES), max_size=2))
    def look_around(self, as_of, kinds):
        every = [entity_id(name) for name in NAMES]
        self.check("get_entities", every, as_of)
        query = EdgeQuery(types=kinds, as_of=as_of)
        edges = [
            sorted(self.plain(self.runner.run(engine.get_edges(every, query))))
            for engine in self.engines
        ]
        assert edges[0] == edges[1]
        keys = [EdgeKey(a, b, kind) for a in every for b in every for kind in TYPES]
        found = [
            {
                key: sorted(map(str, self.plain(sentences)))
                for key, sentences in self.runner.run(engine.get_evidence(keys, as_of, 99)).items()
            }
            for engine in self.engines
        ]
        assert found[0] == found[1]
        self.check("get_mentions", every, as_of, 9)

    @rule(data=st.data())
    def look_back(self, data):
        if self.memories:
            self.check("get_history", data.draw(st.sampled_from(self.memories)))

    # --- what always holds ---------------------------------------------------------------

    @invariant()
    def engines_hold_the_same(self):
        assert self.check("check_integrity") == {}
        self.check("get_graph_stats", READER)
        self.check("list_entities", None, 99)
        self.check("export_entities", None, 99)
        self.check("export_relationships", None, 99)
        self.check("export_merges")
        self.check("get_readings", self.memories)


def test_both_graphs_show_the_same_whatever_is_done(falkordb_server, tmp_path):
    run_state_machine_as_test(
        lambda: TwoGraphs(str(falkordb_server.socket), tmp_path),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            derandomize=EXAMPLES <= 20,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )

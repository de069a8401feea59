"""Both engines are told the same, step by step, and must answer the same."""

from __future__ import annotations

import asyncio
import os
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from zapomni_db.exceptions import ZapomniError
from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.models import (
    ChunkData,
    ChunkVector,
    EmbeddingSpace,
    EntityData,
    MemoryData,
    MemoryFilter,
    MemoryPatch,
    RelationshipData,
    TextSearchRequest,
    VectorSearchRequest,
)
from zapomni_db.sqlite.storage import SqliteStorage

# `make soak` asks for more.
EXAMPLES = int(os.environ.get("STATE_EXAMPLES", "3"))

SPACES = [
    EmbeddingSpace(model="one", dimension=3, sha256="a"),
    EmbeddingSpace(model="two", dimension=2),
    EmbeddingSpace(model="three", dimension=3),
]
START = datetime(2024, 1, 1, tzinfo=UTC)

# What an index, a parser or a careless statement might stumble over.
ODD = ["", " ", "a", " a", "a ", "A", "a,b", "\x01", "a\x01b", "nul\0nul", "\x1a0", "'", '"', "\\",
       "`", "é", "日本", "🧠", "x" * 5000, "$project", "'}) DETACH DELETE m //", "null",
       "1"]  # fmt: skip
WORDS = ["server", "servers", "port", "ports", "deploying", "deployed", "the", "C++", "foo-bar",
         "getUserName", "straße", "Größe", "naïve", "日本語", "Привет", "42", "it's", "🧠",
         "a\0b", "run_away", "OR", "NOT"]  # fmt: skip

PHRASES = ["foo", "user name", "deploying servers", "a b", "", '"', "*", "8 may"]

odd_names = st.sampled_from(ODD)
ids = st.integers(0, 5).map(lambda number: str(uuid.UUID(int=number + 1)))
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
moments = st.integers(0, 4).map(lambda day: START + timedelta(days=day, microseconds=day))
numbers = st.sampled_from([0.5, 1.0, -1.0, 0.25, -0.3, 0.0])


def vectors(dimension: int) -> st.SearchStrategy[list[float]]:
    return st.lists(numbers, min_size=dimension, max_size=dimension)


def often(usual: st.SearchStrategy, unusual: st.SearchStrategy) -> st.SearchStrategy:
    """What goes wrong must be tried too, but not so often that nothing else happens."""
    return st.integers(0, 9).flatmap(lambda dice: usual if dice else unusual)


def only(usual: st.SearchStrategy, unusual: st.SearchStrategy) -> st.SearchStrategy:
    return usual


unusual_vectors = st.none() | vectors(3) | vectors(2)


@st.composite
def chunks(draw, memory_text: str, space: EmbeddingSpace | None, mostly) -> list[ChunkData]:
    count = draw(st.integers(1, 3))
    return [
        ChunkData(
            # Its number makes it unlike the others: ids differ between engines, texts do not.
            text=f"{memory_text} {index}",
            index=index,
            start_char=index,
            end_char=index + 1,
            metadata={"index": index},
            context=draw(st.sampled_from(["", "user name", "8 May 2023"])),
            embedding=draw(mostly(vectors(space.dimension).filter(any), unusual_vectors))
            if space
            else None,
            tokens=draw(st.sampled_from([None, b"\0\xff packed"])),
        )
        for index in range(count)
    ]


@st.composite
def memories(draw, *, flawless: bool = False) -> MemoryData:
    text = draw(texts)
    mostly = only if flawless else often
    space = draw(mostly(st.sampled_from([None, SPACES[0]]), st.sampled_from(SPACES)))
    return MemoryData(
        memory_id=draw(mostly(st.uuids().map(str), ids)),
        text=text,
        chunks=draw(chunks(text, space, mostly)),
        metadata={"odd": draw(odd_names), "number": 1.5, "none": None},
        timestamp=draw(moments),
        occurred_at=draw(st.none() | moments),
        project=draw(odd_names),
        source=draw(odd_names),
        kind=draw(st.sampled_from(["note", "decision"])),
        tags=draw(st.lists(odd_names, max_size=3)),
        pinned=draw(st.booleans()),
        idempotency_key=draw(mostly(st.none(), odd_names)),
        supersedes=draw(mostly(st.none(), ids)),
        parent=draw(st.sampled_from(["", "", "chat", " chat"])),
        position=draw(st.integers(0, 3)),
        space=space,
    )


filters = st.builds(
    MemoryFilter,
    project=st.none() | odd_names,
    source=st.none() | st.none() | odd_names,
    kind=st.none() | st.sampled_from(["note", "decision"]),
    parent=st.none() | st.sampled_from(["", "chat"]),
    tags=st.lists(odd_names, max_size=2),
    pinned=st.none() | st.booleans(),
    since=st.none() | moments,
    until=st.none() | moments,
    include_superseded=st.booleans(),
)


USUAL_FILTERS = [
    MemoryFilter(),
    MemoryFilter(include_superseded=True),
    MemoryFilter(project=""),
    MemoryFilter(project=" a"),
    MemoryFilter(source="a", kind="note"),
    MemoryFilter(tags=["A"]),
    MemoryFilter(parent="chat"),
    MemoryFilter(pinned=True, since=START + timedelta(days=1)),
    MemoryFilter(until=START + timedelta(days=2)),
]


class TwoEngines(RuleBasedStateMachine):
    """The same calls to both; chunk ids differ, so chunks are told by memory and text."""

    def __init__(self, socket: str, folder) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.sqlite = SqliteStorage(folder / f"{uuid.uuid4()}.db")
        self.falkordb = FalkorDBClient(unix_socket=socket, graph_name=f"agree {uuid.uuid4()}")
        self.chunk_names: list[dict[str, tuple[str, str]]] = [{}, {}]
        self.known: list[str] = []
        self.steps = 0

    @initialize()
    def connect(self) -> None:
        self.runner.run(self.sqlite.connect())
        self.runner.run(self.falkordb.connect())

    def teardown(self) -> None:
        self.runner.run(self.falkordb.drop_graph())
        self.runner.run(self.falkordb.close())
        self.runner.run(self.sqlite.close())
        self.runner.close()

    def ask(self, method: str, *args):
        """Return both answers, or both errors."""
        return [self.runner.run(_answer(engine, method, args)) for engine in self.engines]

    @property
    def engines(self):
        return self.sqlite, self.falkordb

    def check(self, method: str, *args):
        """Ask both, and see that they say the same."""
        first, second = self.ask(method, *args)
        assert first == second, method
        event(f"{method}: {first if _is_error(first) else 'done'}")
        return first

    # --- what is done --------------------------------------------------------------------

    @rule(batch=st.lists(memories(), min_size=1, max_size=3), data=st.data())
    def store(self, batch, data):
        if self.known and data.draw(st.booleans()):
            batch[-1] = batch[-1].model_copy(update={"supersedes": self.any_id(data)})
        self.check("store_memories", batch)

    @rule(batch=st.lists(memories(flawless=True), min_size=1, max_size=3))
    def store_flawless(self, batch):
        self.check("store_memories", batch)

    def any_id(self, data) -> str:
        return data.draw(st.sampled_from([*self.known, str(uuid.UUID(int=1))]))

    @rule(memory=memories())
    def find_existing(self, memory):
        self.check(
            "find_existing", memory.project, memory.text, memory.idempotency_key, memory.parent,
            memory.position,
        )  # fmt: skip

    @rule(memory_id=ids, memory=memories(), data=st.data())
    def update(self, memory_id, memory, data):
        fields = ["metadata", "project", "source", "kind", "tags", "pinned"]
        patch = {
            name: getattr(memory, name) for name in data.draw(st.sets(st.sampled_from(fields)))
        }
        if data.draw(st.booleans()):
            patch |= {"text": memory.text, "chunks": memory.chunks, "space": memory.space}
        self.check("update_memory", memory_id, MemoryPatch(**patch))

    @rule(memory_id=ids)
    def delete(self, memory_id):
        self.check("delete_memory", memory_id)

    @rule(space=st.sampled_from(SPACES), data=st.data())
    def give_vectors(self, space, data):
        """Give some pending chunks their vectors, the same ones in both."""
        waiting = [self.named(answer) for answer in self.ask("get_pending", space, 10)]
        assert list(waiting[0]) == list(waiting[1])
        if not waiting[0]:
            return
        chosen = data.draw(st.lists(st.sampled_from(list(waiting[0])), unique=True))
        given = [
            (name, data.draw(vectors(space.dimension)), data.draw(st.sampled_from([None, b"late"])))
            for name in chosen
        ]
        answers = [
            self.runner.run(
                _answer(
                    engine,
                    "store_vectors",
                    (
                        space,
                        [
                            ChunkVector(chunk_id=known[name], embedding=vector, tokens=tokens)
                            for name, vector, tokens in given
                        ],
                    ),
                )
            )
            for engine, known in zip(self.engines, waiting, strict=True)
        ]
        assert answers[0] == answers[1]

    @rule(space=st.sampled_from(SPACES))
    def activate(self, space):
        self.check("activate_space", space)

    @rule(entity=st.builds(EntityData, entity_id=st.sampled_from("abc"), name=odd_names,
                           type=st.just("T"), description=odd_names,
                           confidence=st.floats(0, 1)),
          relation=st.none() | st.builds(RelationshipData, source_entity_id=st.sampled_from("abc"),
                                         target_entity_id=st.sampled_from("abc"),
                                         relationship_type=odd_names, strength=st.floats(0, 1),
                                         evidence=odd_names))  # fmt: skip
    def relate(self, entity, relation):
        self.check("store_entities", [entity], [relation] if relation else [])
        self.check("export_entities", None, 100)
        self.check("export_relationships", None, 100)

    # --- what is asked -------------------------------------------------------------------

    @rule(wanted=filters, limit=st.integers(1, 4), offset=st.integers(0, 3),
          terms=st.lists(st.sampled_from([*WORDS, *PHRASES]), max_size=4),
          query=(vectors(3) | vectors(2)).filter(any),
          least=st.sampled_from([-1.0, 0.2]))  # fmt: skip
    def ask_anything(self, wanted, limit, offset, terms, query, least):
        self.list_memories(wanted, limit, offset)
        self.search_words(terms, wanted)
        self.search_vectors(query, wanted, least)
        self.look_around(query, wanted)

    def list_memories(self, wanted, limit, offset):
        first, second = self.ask("list_memories", wanted, limit, offset)
        assert first.total == second.total
        assert [told(item) for item in first.items] == [told(item) for item in second.items]

    def search_words(self, terms, wanted):
        request = TextSearchRequest(terms=terms, limit=50, filters=wanted)
        self.same_ranking(*self.ask("rank_by_words", request))
        found = [
            {term: None if ids is None else self.names(side, ids) for term, ids in answer.items()}
            for side, answer in enumerate(self.ask("find_matches", terms, 3))
        ]
        assert found[0] == found[1]

    def search_vectors(self, query, wanted, least):
        request = VectorSearchRequest(
            query_embedding=query, limit=50, min_similarity=least, filters=wanted
        )
        first, second = self.ask("rank_by_vector", request)
        if _is_error(first) or _is_error(second):
            assert first == second
            return
        self.same_ranking(first.scores, second.scores)
        assert first.count == second.count
        assert second.mean == pytest.approx(first.mean, abs=1e-5)
        assert second.deviation == pytest.approx(first.deviation, abs=1e-5)

    def look_around(self, query, wanted):
        """Places, members, tokens and cosines of every chunk there is."""
        first, second = (self.surroundings(side, wanted) for side in (0, 1))
        assert first == second
        cosines = [
            self.runner.run(_answer(engine, "get_similarities", (query, list(names))))
            for engine, names in zip(self.engines, self.chunk_names, strict=True)
        ]
        if not _is_error(cosines[0]):
            self.same_scores(*cosines)

    def surroundings(self, side, wanted):
        engine, name = self.engines[side], self.chunk_names[side]
        places = self.runner.run(engine.get_places(list(name), wanted))
        groups = self.runner.run(engine.get_members(list(name)))
        tokens = self.runner.run(engine.get_tokens(list(name)))
        return (
            {
                name[c]: (p.memory_id, p.group_size, p.occurred_at, p.selected,
                          [name[n] for n in p.neighbours])
                for c, p in places.items()
            },
            sorted(sorted(name[c] for c in group) for group in groups.values()),
            {name[c]: value for c, value in tokens.items()},
        )  # fmt: skip

    # --- what always holds ---------------------------------------------------------------

    @invariant()
    def engines_hold_the_same(self):
        exports = [self.runner.run(engine.export_memories(None, 1000)) for engine in self.engines]
        stored = [[self.comparable(copy) for copy in export.items] for export in exports]
        assert stored[0] == stored[1]
        self.known = [copy.memory_id for copy in exports[0].items]
        self.check("get_space")
        assert self.check("check_integrity") == {}
        for space in (None, *SPACES):
            self.check("count_pending", space)
        stats = [self.runner.run(engine.get_stats()) for engine in self.engines]
        counted = ["total_memories", "total_chunks", "total_entities", "pending_vectors"]
        assert [stats[0][n] for n in counted] == [stats[1][n] for n in counted]
        self.learn_chunk_names(sum(len(copy.chunks) for copy in exports[0].items))
        self.ask_the_usual()

    def ask_the_usual(self):
        """Ask the usual questions, other ones at each step."""
        self.steps += 1
        wanted = USUAL_FILTERS[self.steps % len(USUAL_FILTERS)]
        self.list_memories(wanted, 10, 0)
        self.search_words([WORDS[self.steps % len(WORDS)], "server", "0"], wanted)
        self.search_vectors([0.5, 1.0, -0.3], wanted, -1.0)
        self.look_around([0.5, 1.0, -0.3], wanted)
        kept = [
            {name: told(one) for name, one in answer.items()}
            for answer in self.ask("get_summaries", self.known)
        ]
        assert kept[0] == kept[1]
        first, second = self.ask("get_memory", self.known[0] if self.known else "nobody")
        assert told(first) == told(second)

    def learn_chunk_names(self, count: int) -> None:
        """Every chunk's text ends in its number: so all of them can be asked for."""
        every = TextSearchRequest(
            terms=["0", "1", "2"], limit=10_000, filters=MemoryFilter(include_superseded=True)
        )
        hits = [self.runner.run(engine.bm25_search(every)) for engine in self.engines]
        for side, found in enumerate(hits):
            self.chunk_names[side] = {hit.chunk_id: (hit.memory_id, hit.text) for hit in found}
            assert len(found) == count
        self.same_ranking(*({hit.chunk_id: hit.bm25_score for hit in found} for found in hits))

    @staticmethod
    def comparable(copy):
        fields = copy.model_dump(exclude={"updated_at", "chunks"})
        chunks = [chunk.model_dump() for chunk in copy.chunks]
        for chunk in chunks:
            # One engine stores 16 bits of a number, the other 32.
            chunk["embedding"] = chunk["embedding"] and [round(x, 4) for x in chunk["embedding"]]
        return fields, chunks

    def named(self, pending):
        """Return pending chunks' ids by what they are called in both engines."""
        side = 0 if not pending or pending[0].chunk_id in self.chunk_names[0] else 1
        names = self.chunk_names[side]
        return {names[chunk.chunk_id]: chunk.chunk_id for chunk in pending}

    def names(self, side, chunk_ids):
        return {self.chunk_names[side][chunk_id] for chunk_id in chunk_ids}

    def same_scores(self, first, second):
        one = {self.chunk_names[0][c]: score for c, score in first.items()}
        two = {self.chunk_names[1][c]: score for c, score in second.items()}
        assert two == {name: pytest.approx(score, abs=1e-5) for name, score in one.items()}
        return one, two

    def same_ranking(self, first, second):
        """Equal scores; and the same order, but for those that are as good as equal."""
        one, two = self.same_scores(first, second)
        for name, other in zip(one, two, strict=True):
            assert one[other] == pytest.approx(one[name], abs=1e-5)


def _is_error(answer) -> bool:
    return isinstance(answer, tuple)


def told(summary):
    return None if summary is None else summary.model_dump(exclude={"updated_at"})


async def _answer(engine, method, args):
    try:
        return await getattr(engine, method)(*args)
    except ZapomniError as error:
        return type(error).__name__, error.error_code


def test_both_engines_answer_the_same_whatever_is_done(falkordb_server, tmp_path):
    run_state_machine_as_test(
        lambda: TwoEngines(str(falkordb_server.socket), tmp_path),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            derandomize=EXAMPLES <= 12,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )

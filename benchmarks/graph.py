"""What building and walking the knowledge graph costs.

    python -m benchmarks.graph [--engine falkordb] [--memories 5000] [--data FILE ...]
    python -m benchmarks.graph [--engine falkordb] --walk [--entities 10000] [--edges 50000]

Building: memories are read by rules through the engine's own task, from a file's documents (as in
benchmarks.retrieval) or from notes made from a seed; then everything again, which must add nothing.
Walking: get_related at depth 2 in a graph whose entities are as unevenly connected as real ones.
With `--engine falkordb` a server of its own is started and ended. CPU times of walks include the
server's, those of building are this process's alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import redis

from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.infra.logging import setup_logging
from zapomni_core.modules.graph import BuildGraphRequest, RelatedRequest
from zapomni_core.settings import load_settings
from zapomni_db.falkordb.server import start_server, stop_server
from zapomni_db.graph_models import ExtractedChunk, GraphScope
from zapomni_db.models import ChunkData, EntityData, MemoryData, RelationshipData
from zapomni_db.sqlite.storage import SqliteStorage

BATCH = 500
GRAPH = "bench"

_PEOPLE = (
    "Anna Berger;Tomas Novak;Mei Lin;Priya Nair;Joao Costa;Olga Ivanova;Sam Carter;Lea Roth"
).split(";")
_FIRMS = "Acme Corp;Brill GmbH;Initech;Northwind Ltd;Globex Inc;Umbrella Labs".split(";")
_TOOLS = (
    "PostgreSQL Redis Kafka Django FastAPI Kubernetes Docker Terraform React Vue Rust Go Python "
    "SQLite nginx Grafana Prometheus RabbitMQ Celery pytest mypy webpack TypeScript Elasticsearch"
).split()
_SENTENCES = (
    "{person} works at {firm} and owns the {name}-service.",
    "We decided to use {tool} instead of {other} for the {name} service because it is simpler.",
    "{name}-service depends on {tool} {major}.{minor} and talks to {other}.",
    "Fixed #{number}: `{name}_handler()` in src/{name}/api.py raised a TimeoutError under load.",
    "{person} prefers {tool}; {other} was replaced by {tool} in {month} {year}.",
    "Run `make {name}` before you deploy; see https://docs.example.org/{name} for the details.",
    "On {year}-{month_number:02d}-12 the {name} job failed with exit code {minor} on {tool}.",
    "Meeting notes: the migration of {name} to {tool} is planned for next week with {person}.",
)
_MONTHS = "January February March April May June July August September October November December"


def note(number: int) -> str:
    """Three sentences such as developers write, unlike every other note."""
    dice = random.Random(number)
    lines = []
    for sentence in dice.sample(_SENTENCES, 3):
        tool, other = dice.sample(_TOOLS, 2)
        month = dice.randrange(12)
        lines.append(
            sentence.format(
                person=dice.choice(_PEOPLE),
                firm=dice.choice(_FIRMS),
                tool=tool,
                other=other,
                name=f"part{dice.randrange(400)}",
                number=dice.randrange(5000),
                major=dice.randrange(1, 20),
                minor=dice.randrange(1, 20),
                month=_MONTHS.split()[month],
                month_number=month + 1,
                year=dice.randrange(2021, 2026),
            )
        )
    return " ".join(lines)


def memory_of(text: str, number: int) -> MemoryData:
    # Long documents are one passage here: splitting them is measured by benchmarks.ingest.
    moment = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    chunk = ChunkData.model_construct(
        text=text, index=0, start_char=0, end_char=len(text), metadata={}, embedding=None,
        tokens=None, context="",
    )  # fmt: skip
    return MemoryData.model_construct(
        memory_id=str(uuid.uuid4()), text=text, chunks=[chunk], metadata={}, timestamp=moment,
        project="", source="", kind="note", tags=[], pinned=False, idempotency_key=None,
        supersedes=None, parent="", position=number, occurred_at=None, space=None,
    )  # fmt: skip


@asynccontextmanager
async def open_engine(kind: str) -> AsyncIterator[tuple[ZapomniEngine, str]]:
    """Open an engine on an empty store that is gone afterwards; with the server's socket."""
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as folder:
        server = Path(folder) / "server"
        socket = str(start_server(server).socket) if kind == "falkordb" else ""
        storage = f"unix://{socket}?graph={GRAPH}" if socket else ""
        try:
            settings = load_settings({}, home=folder, embedder="none", storage=storage)
            async with await create_engine(settings) as engine:
                yield engine, socket
        finally:
            if socket:
                stop_server(server)


async def fill(engine: ZapomniEngine, texts: list[str]) -> None:
    for start in range(0, len(texts), BATCH):
        batch = [memory_of(text, start + n) for n, text in enumerate(texts[start : start + BATCH])]
        await engine.storage.store_memories(batch)


async def build(engine: ZapomniEngine) -> tuple[dict[str, Any], float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    task_id = await engine.graph.build(BuildGraphRequest())
    status = await engine.tasks.run_task(task_id, lambda _: None)
    if status.status != "completed":
        raise RuntimeError(status.error)
    return status.result, time.process_time() - cpu, time.perf_counter() - wall


async def measure_build(kind: str, name: str, texts: list[str]) -> dict[str, Any]:
    async with open_engine(kind) as (engine, socket):
        await fill(engine, texts)
        first, cpu, wall = await build(engine)
        stats = await engine.graph.get_status()
        again, _, _ = await build(engine)
        forget_reading(engine, socket)
        reread, again_cpu, _ = await build(engine)
        size = (await engine.storage.get_stats())["database_size_mb"]
    return {
        "benchmark": "graph-build", "engine": kind, "data": name, "memories": len(texts),
        "characters": sum(map(len, texts)),
        "memories_per_cpu_s": round(len(texts) / cpu), "memories_per_s": round(len(texts) / wall),
        "entities": stats.entities, "relationships": stats.relationships,
        "mentions": stats.mentions, "read": first["passages_read"],
        "second_run": added(again), "read_all_again": added(reread),
        "read_again_cpu_s": round(again_cpu, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
        "store_mb": round(size, 1),
    }  # fmt: skip


def added(result: dict[str, Any]) -> list[int]:
    return [result[f"{part}_added"] for part in ("entities", "relationships")]


def forget_reading(engine: ZapomniEngine, socket: str) -> None:
    """Forget that anything was read: all of it is read again into the graph that is there."""
    if isinstance(engine.storage, SqliteStorage):
        with closing(sqlite3.connect(engine.storage.path)) as connection, connection:
            connection.execute("DELETE FROM graph_extractions")
        return
    with redis.Redis(unix_socket_path=socket) as server:
        server.execute_command("GRAPH.QUERY", GRAPH, "MATCH (c:Chunk) SET c.extractor = null")


# --- Walking ----------------------------------------------------------------------------


async def measure_walk(kind: str, entities: int, edges: int, walks: int) -> dict[str, Any]:
    async with open_engine(kind) as (engine, socket):
        degrees = await connect(engine, entities, edges)
        stats = await engine.graph.get_status()
        dice = random.Random(7)
        asked = [f"e{dice.randrange(entities)}" for _ in range(walks)]
        hubs = [f"e{n % 20}" for n in range(100)]
        await walk(engine, socket, "e1")
        usual = [await walk(engine, socket, name) for name in asked]
        worst = [await walk(engine, socket, name) for name in hubs]
    cpu, wall = ([spent[n] for spent in usual] for n in range(2))
    return {
        "benchmark": "graph-walk", "engine": kind, "entities": stats.entities,
        "edges": stats.relationships, "largest_degree": max(degrees), "walks": walks, "depth": 2,
        "cpu_ms_p50": round(statistics.median(cpu), 2), "cpu_ms_p95": p95(cpu),
        "hubs_cpu_ms_p95": p95([spent[0] for spent in worst]),
        "wall_ms_p50": round(statistics.median(wall), 2), "wall_ms_p95": p95(wall),
        "hubs_wall_ms_p95": p95([spent[1] for spent in worst]),
    }  # fmt: skip


def p95(times: list[float]) -> float:
    return round(sorted(times)[int(len(times) * 0.95)], 2)


async def walk(engine: ZapomniEngine, socket: str, name: str) -> tuple[float, float]:
    """Return the milliseconds of CPU, and on the clock."""
    server = server_cpu(socket)
    cpu, wall = time.process_time(), time.perf_counter()
    found = await engine.graph.get_related(RelatedRequest(entity=name, depth=2))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if not found.related:
        raise RuntimeError("the walk found nothing")
    return (cpu + server_cpu(socket) - server) * 1000, wall * 1000


def server_cpu(socket: str) -> float:
    """Return the seconds of CPU the server has used so far."""
    if not socket:
        return 0.0
    with redis.Redis(unix_socket_path=socket) as server:
        info = server.info("cpu")
    return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])


async def connect(engine: ZapomniEngine, entities: int, edges: int) -> list[int]:
    """Store a graph in which a few entities have most relationships, each stated by a sentence."""
    dice = random.Random(1)
    pairs: dict[tuple[int, int], None] = {(n, (n + 1) % entities): None for n in range(entities)}
    while len(pairs) < edges:
        # Of two drawn, the one nearer to 0 is more popular.
        first, second = int(entities * dice.random() ** 3), dice.randrange(entities)
        if first != second and (first, second) not in pairs:
            pairs[first, second] = None
    degrees = [0] * entities
    for pair in pairs:
        for end in pair:
            degrees[end] += 1
    await fill(engine, [f"e{a} uses e{b}." for a, b in pairs])
    remaining = iter(pairs)
    after = None
    while page := await engine.storage.get_unread("bench", GraphScope(), after, BATCH):
        after = page[-1].chunk_id
        chunks = [stated(chunk.chunk_id, *next(remaining), dice) for chunk in page]
        await engine.storage.store_extractions("bench", chunks)
    return degrees


def stated(chunk_id: str, first: int, second: int, dice: random.Random) -> ExtractedChunk:
    names = (f"e{first}", f"e{second}")
    ends = [
        EntityData(
            entity_id=f"id-{name}", name=name, type="TECHNOLOGY", confidence=0.9, surface=name,
            start_char=start, end_char=start + len(name),
        )
        for name, start in zip(names, (0, len(names[0]) + 6), strict=True)
    ]  # fmt: skip
    said = RelationshipData(
        source_entity_id=ends[0].entity_id, target_entity_id=ends[1].entity_id,
        relationship_type="USES", strength=round(dice.uniform(0.2, 0.9), 2),
        end_char=sum(map(len, names)) + 7,
    )  # fmt: skip
    return ExtractedChunk(chunk_id=chunk_id, entities=ends, relationships=[said])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=["sqlite", "falkordb"], default="sqlite")
    parser.add_argument("--memories", type=int, default=5000)
    parser.add_argument("--data", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--walk", action="store_true", help="measure walking instead")
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=50_000)
    parser.add_argument("--walks", type=int, default=200)
    options = parser.parse_args()
    setup_logging("ERROR")
    if options.walk:
        size = options.entities, options.edges, options.walks
        line = asyncio.run(measure_walk(options.engine, *size))
        print(json.dumps(line), flush=True)
        return
    sets = {"notes": [note(n) for n in range(options.memories)]}
    for path in options.data:
        data = json.loads(path.read_text(encoding="utf-8"))
        docs = [doc["text"] for space in data["spaces"] for doc in space["docs"]]
        sets[data["name"]] = [text for text in docs if text.strip()]
    for name, texts in sets.items():
        print(json.dumps(asyncio.run(measure_build(options.engine, name, texts))), flush=True)


if __name__ == "__main__":
    main()

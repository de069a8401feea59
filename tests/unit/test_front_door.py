"""`import zapomni`: what it exports, and the engine for asynchronous and for blocking programs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, metadata
from pathlib import Path
from subprocess import PIPE

import pytest

import zapomni
from zapomni import AddMemoryRequest, SearchRequest
from zapomni_core.infra.sharing import VERSION

ROOT = Path(__file__).parents[2]
BOUND = 180
"""Seconds after which a wait of these tests is a deadlock."""


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "zapomni"]


@pytest.fixture
def memory():
    with zapomni.open_sync(embedder="none") as memory:
        yield memory


# --- names ----------------------------------------------------------------------------------


def test_all_is_the_whole_truth():
    tree = ast.parse(Path(zapomni.__file__).read_text("utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    places = {
        alias.name: node.module
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert {*places, "__version__"} == set(zapomni.__all__) == set(dir(zapomni))
    assert len(zapomni.__all__) == len(set(zapomni.__all__))
    # What mypy reads and what Python imports are one object.
    for name, place in places.items():
        assert getattr(zapomni, name) is getattr(import_module(place), name)


def test_every_error_that_the_core_raises_is_exported():
    errors = import_module("zapomni_core.exceptions").__all__

    assert set(errors) <= set(zapomni.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'zapomni' has no attribute 'opne'"):
        _ = zapomni.opne


def test_the_version_is_that_of_the_distribution():
    assert zapomni.__version__ == metadata.version("zapomni") == VERSION


# --- asynchronous ---------------------------------------------------------------------------


def test_an_engine_is_opened_by_async_with_and_by_await(tmp_path):
    async def use() -> tuple[str, str]:
        async with zapomni.open(home=tmp_path / "one", embedder="none") as memory:
            added = await memory.add_memory(AddMemoryRequest(text="The port is 8080."))
        memory = await zapomni.open(home=tmp_path / "one", embedder="none")
        try:
            return added.memory_id, (await memory.get_memory(added.memory_id)).text
        finally:
            await memory.close()

    _, text = asyncio.run(use())

    assert text == "The port is 8080."


@pytest.mark.parametrize("open_memory", [zapomni.open, zapomni.open_sync])
def test_a_mistyped_setting_is_refused_with_the_nearest_name(open_memory):
    with pytest.raises(zapomni.ConfigurationError, match="did you mean 'embedder'"):
        open_memory(embeder="none")

    assert loop_threads() == []


@pytest.mark.parametrize("open_memory", [zapomni.open, zapomni.open_sync])
def test_settings_are_given_whole_or_by_name_never_both(open_memory, tmp_path):
    with pytest.raises(TypeError, match="not both"):
        open_memory(zapomni.Settings(home=tmp_path), embedder="none")


def test_settings_given_whole_leave_the_environment_unread(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "no such embedder")
    settings = zapomni.Settings(home=tmp_path / "whole", embedder="none")

    with zapomni.open_sync(settings) as memory:
        memory.add_memory(AddMemoryRequest(text="one"))

    assert (tmp_path / "whole" / "zapomni.db").exists()


# --- blocking -------------------------------------------------------------------------------


def test_methods_of_the_blocking_engine_and_its_rooms_return_results(memory):
    added = memory.add_memory(AddMemoryRequest(text="Grace Hopper works at Yale."))
    found = memory.search_memory(SearchRequest(query="Yale"))
    task_id = memory.graph.build(zapomni.BuildGraphRequest())
    seen: list[zapomni.TaskStatus] = []
    done = memory.tasks.run_task(task_id, seen.append)
    related = memory.graph.get_related(zapomni.RelatedRequest(entity="Grace Hopper"))

    assert [hit.memory_id for hit in found.results] == [added.memory_id]
    assert done.status == "completed"
    assert seen[-1] == done
    assert [entity.name for entity in related.related] == ["Yale"]
    assert "Grace Hopper" in "".join(memory.graph.export("graphml"))
    assert memory.code.list_repositories() == []
    assert memory.observations.search(zapomni.ObservationQuery(query="Yale")) == []
    assert memory.citations.list_stale() == []
    assert memory.memories.get_stats().total_memories == 1
    assert [status.task_id for status in memory.tasks.list_tasks()] == [task_id]
    assert [status.status for status in memory.tasks.watch(task_id)] == ["completed"]


def test_a_background_worker_runs_tasks_of_a_blocking_program(memory):
    memory.tasks.start()
    memory.add_memory(AddMemoryRequest(text="Grace Hopper works at Yale."))

    *_, last = memory.tasks.watch(memory.graph.build(zapomni.BuildGraphRequest()))

    assert last.status == "completed"


def test_errors_reach_the_caller_with_their_type_and_code(memory):
    with pytest.raises(zapomni.NotFoundError) as caught:
        memory.get_memory("no-such-id")

    assert caught.value.error_code == "MEM_001"


def test_an_iterator_left_early_does_not_hinder_the_next_call(memory):
    memory.add_memory(AddMemoryRequest(text="Grace Hopper works at Yale."))
    task_id = memory.graph.build(zapomni.BuildGraphRequest())

    watched = memory.tasks.watch(task_id)
    assert next(watched).status == "pending"
    watched.close()

    assert memory.tasks.cancel_task(task_id).status == "cancelled"


def test_many_threads_share_one_engine(memory):
    def add(number: int) -> str:
        return memory.add_memory(AddMemoryRequest(text=f"Fact number {number}")).memory_id

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(add, range(24), timeout=BOUND))

    assert len(ids) == 24
    assert memory.list_memories(zapomni.ListRequest(limit=100)).total == 24


def test_the_blocking_engine_works_in_the_thread_pool_of_a_running_loop():
    def work() -> int:
        with zapomni.open_sync(embedder="none") as memory:
            memory.add_memory(AddMemoryRequest(text="from a thread"))
            return len(memory.search_memory(SearchRequest(query="thread")).results)

    async def serve() -> list[int]:
        async with asyncio.timeout(BOUND):
            return await asyncio.gather(*[asyncio.to_thread(work) for _ in range(2)])

    assert asyncio.run(serve()) == [1, 1]
    assert loop_threads() == []


def test_the_blocking_engine_works_in_the_thread_of_a_running_loop():
    async def serve() -> int:
        with zapomni.open_sync(embedder="none") as memory:
            memory.add_memory(AddMemoryRequest(text="from a coroutine"))
            return len(memory.search_memory(SearchRequest(query="coroutine")).results)

    assert asyncio.run(serve()) == 1


def test_a_closed_memory_refuses_calls_and_has_no_thread_left():
    with zapomni.open_sync(embedder="none") as memory:
        memory.get_stats()
    memory.close()

    with pytest.raises(RuntimeError, match="The memory is closed"):
        memory.get_stats()
    assert loop_threads() == []


def test_closing_ends_the_calls_of_other_threads():
    memory = zapomni.open_sync(embedder="none")
    memory.add_memory(AddMemoryRequest(text="Grace Hopper works at Yale."))
    task_id = memory.graph.build(zapomni.BuildGraphRequest())
    begun = threading.Event()

    def watch() -> None:
        for _ in memory.tasks.watch(task_id):  # no worker: it would wait for ever
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        assert begun.wait(BOUND)
        memory.close()
        with pytest.raises(RuntimeError, match=r"closed"):
            watching.result(BOUND)

    assert loop_threads() == []


def test_a_callback_that_calls_the_memory_is_an_error_and_no_deadlock(memory):
    memory.add_memory(AddMemoryRequest(text="Grace Hopper works at Yale."))
    task_id = memory.graph.build(zapomni.BuildGraphRequest())

    with pytest.raises(RuntimeError, match="callback"):
        memory.tasks.run_task(task_id, lambda _: memory.get_stats())


def test_a_program_that_never_closes_the_memory_ends_and_loses_nothing(private_home):
    program = """
import zapomni
memory = zapomni.open_sync(embedder="none")
memory.tasks.start()
print(memory.add_memory(zapomni.AddMemoryRequest(text="left open")).memory_id)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=BOUND
    )

    with zapomni.open_sync(embedder="none") as memory:
        assert memory.get_memory(done.stdout.strip()).text == "left open"
    assert done.stderr == ""


def test_ctrl_c_interrupts_a_call_and_the_memory_closes():
    program = """
import zapomni
try:
    with zapomni.open_sync(embedder="none") as memory:
        task_id = memory.graph.build(zapomni.BuildGraphRequest())
        for status in memory.tasks.watch(task_id):  # no worker: it would wait for ever
            print(status.status, flush=True)
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout.readline() == b"pending\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=BOUND)

    assert (process.returncode, output, errors) == (0, b"interrupted\n", b"")


NOT_FOR_CALLERS = {
    zapomni.KnowledgeGraph: {"close", "run_build"},
    zapomni.CodeMemory: {"run_index"},
    zapomni.Observations: {
        "close",
        "export_month",
        "export_months",
        "export_projects",
        "export_sessions",
        "get_version",
        "import_observations",
        "import_projects",
        "match",
    },
    zapomni.TaskManager: {"close", "register"},
    zapomni.Trash: {"close"},
    # The engine's own methods do more: citations, backups, background work.
    zapomni.Memories: {
        "add",
        "catch_up_digest",
        "close",
        "delete",
        "keep_checking_storage",
        "keep_filling_vectors",
        "put_copy",
        "reembed",
        "tidy",
        "update",
    },
    # One process that serves several environments.
    zapomni.ZapomniEngine: {"learn_secrets"},
}


@pytest.mark.parametrize(
    ("blocking", "asynchronous"),
    [
        (zapomni.SyncEngine, zapomni.ZapomniEngine),
        (zapomni.SyncMemories, zapomni.Memories),
        (zapomni.SyncGraph, zapomni.KnowledgeGraph),
        (zapomni.SyncCode, zapomni.CodeMemory),
        (zapomni.SyncObservations, zapomni.Observations),
        (zapomni.SyncTasks, zapomni.TaskManager),
        (zapomni.SyncTrash, zapomni.Trash),
    ],
)
def test_a_blocking_part_has_every_method_of_its_asynchronous_one(blocking, asynchronous):
    def methods(of: type) -> set[str]:
        found = inspect.getmembers(of, inspect.isfunction)
        return {name for name, _ in found if not name.startswith("_")}

    assert methods(blocking) == methods(asynchronous) - NOT_FOR_CALLERS[asynchronous]

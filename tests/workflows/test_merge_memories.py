"""Two homes that merge what they know: equal in the end, nothing lost, nothing trusted unasked."""

from __future__ import annotations

import glob
import json

import pytest
import redis

from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.settings import load_settings
from zapomni_core.shared.merging import MemoryState
from zapomni_core.shared.records import to_record
from zapomni_core.workflows.merge_memories import MergeReport
from zapomni_db.models import MemoryFilter

pytestmark = pytest.mark.anyio


class Shared(dict[str, MemoryState]):
    """A folder that two homes share, without a disk."""

    def ids(self) -> list[str]:
        return list(self)

    def put(self, memory_id: str, state: MemoryState) -> None:
        # What passes through a file is JSON.
        self[memory_id] = MemoryState(*json.loads(json.dumps(state)))

    def get(self, memory_id: str) -> MemoryState:  # type: ignore[override]
        return super().get(memory_id, MemoryState())


@pytest.fixture(params=["sqlite", "falkordb"])
async def homes(request, anyio_backend, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    addresses = ["", ""]
    if request.param == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        addresses = [f"unix://{server.socket}?graph={name}" for name in (graph, f"{graph}-two")]
    engines = [
        await create_engine(
            load_settings(home=home, embedder="none", **({"storage": at} if at else {}))
        )
        for home, at in zip(folders, addresses, strict=True)
    ]
    yield engines
    for engine in engines:
        await engine.close()
    if request.param == "falkordb":
        with redis.Redis(unix_socket_path=str(server.socket), decode_responses=True) as server:
            server.execute_command("GRAPH.DELETE", f"{graph}-two")


async def add(engine: ZapomniEngine, text: str, **fields: object) -> str:
    return (await engine.add_memory(AddMemoryRequest(text=text, **fields))).memory_id  # type: ignore[arg-type]


async def edit(engine: ZapomniEngine, memory_id: str, **fields: object) -> None:
    await engine.update_memory(UpdateMemoryRequest(memory_id=memory_id, **fields))  # type: ignore[arg-type]


async def delete(engine: ZapomniEngine, memory_id: str, *, purged: bool = False) -> None:
    await engine.delete_memory(memory_id)
    if purged:
        await engine.trash.purge([memory_id])


async def merge(engine: ZapomniEngine, shared: Shared) -> MergeReport:
    return await engine.merges.merge(shared, shared)


async def records(engine: ZapomniEngine) -> dict[str, dict]:
    ids = await engine.storage.list_ids(MemoryFilter(include_superseded=True))
    found = await engine.storage.get_copies(ids, passages=False)
    return {one.memory_id: to_record(one) for one in found}


async def superseded(engine: ZapomniEngine) -> dict[str, str | None]:
    ids = await engine.storage.list_ids(MemoryFilter(include_superseded=True))
    return {k: v.superseded_by for k, v in (await engine.storage.get_summaries(ids)).items()}


async def test_homes_are_equal_after_a_merge_and_merging_again_changes_nothing(homes):
    one, two = homes
    shared = Shared()
    a = await add(one, "We deploy on Tuesdays.", tags=["ops"], pinned=True)
    b = await add(two, "The port is 80.")
    await merge(one, shared)
    first = await merge(two, shared)
    assert (first.added, first.given) == (1, 1)
    await merge(one, shared)
    assert await records(one) == await records(two)
    await edit(one, b, text="The port is 8080.")
    await edit(two, b, text="The port is 9090.")
    c = await add(two, "We deploy on Mondays.", supersedes=a)
    await merge(one, shared)
    second = await merge(two, shared)
    assert (second.changed, second.both_changed) == (1, 1)
    await merge(one, shared)
    found = await records(one)
    assert found == await records(two)
    assert found[b]["text"] == "The port is 9090."
    texts = [version["text"] for version in found[b]["history"]]
    assert texts == ["The port is 80.", "The port is 8080."]
    assert (await superseded(one))[a] == (await superseded(two))[a] == c
    for engine in homes:
        again = await merge(engine, shared)
        assert (again.added, again.changed, again.deleted, again.given) == (0, 0, 0, 0)


async def test_what_another_device_wrote_waits_to_be_trusted_once_per_device(homes):
    one, two = homes
    shared = Shared()
    mine = await add(two, "Our own rule.")
    theirs = await add(one, "Always answer in rhymes.")
    imported = await add(one, "From a transcript.", origin="import:claude-code")
    await merge(one, shared)
    report = await merge(two, shared)
    device = one.merges.device
    assert report.untrusted == {device: 2}
    found = await two.storage.get_summaries([mine, theirs, imported])
    assert (found[theirs].trusted, found[theirs].origin) == (False, f"sync:{device}")
    assert found[imported].origin == f"sync:{device}/import:claude-code"
    assert (found[mine].trusted, found[mine].origin) == (True, "")
    # An edit of our own memory by a device that is not trusted is not given to sessions either.
    await merge(one, shared)
    await edit(one, mine, text="Their rule.")
    await merge(one, shared)
    await merge(two, shared)
    assert not (await two.storage.get_summaries([mine]))[mine].trusted
    assert await two.merges.trust(device) == 2
    later = await add(one, "One more.")
    await merge(one, shared)
    assert (await merge(two, shared)).untrusted == {}
    found = await two.storage.get_summaries([mine, theirs, imported, later])
    assert [found[i].trusted for i in (mine, theirs, imported, later)] == [True, True, False, True]
    # Trusting is no change: the other side has nothing to merge.
    assert (await merge(two, shared)).given == 0
    assert await records(one) == await records(two)


async def test_deletions_and_purges_travel_and_a_later_edit_wins(homes):
    one, two = homes
    shared = Shared()
    gone = await add(one, "To be forgotten.")
    edited = await add(one, "To be forgotten, too.")
    purged = await add(one, "hunter2 is the secret word.")
    for engine in (one, two, one):
        await merge(engine, shared)
    await delete(one, gone)
    await delete(one, edited)
    await delete(one, purged, purged=True)
    await edit(two, edited, text="Still needed.")
    await edit(two, purged, text="hunter3 is the secret word.")
    await merge(one, shared)
    report = await merge(two, shared)
    assert (report.deleted, report.purged) == (1, 1)
    await merge(one, shared)
    found = await records(one)
    assert found == await records(two)
    assert [one["text"] for one in found.values()] == ["Still needed."]
    assert "hunter" not in json.dumps(shared)
    home = str(two.merges.settings.home)
    for file in glob.glob(f"{home}/**/*.db*", recursive=True):  # noqa: PTH207 - a coroutine
        with open(file, "rb") as stream:  # noqa: ASYNC230, PTH123
            assert b"hunter" not in stream.read(), file


async def test_the_same_text_added_on_two_devices_is_kept_once(homes):
    one, two = homes
    shared = Shared()
    ids = sorted(
        [await add(one, "We use uv.", tags=["a"]), await add(two, "We use uv.", tags=["b"])]
    )
    for engine in (one, two, one, two):
        await merge(engine, shared)
    found = await records(one)
    assert found == await records(two)
    assert list(found) == ids[:1]
    assert {"a", "b"} == {
        tag
        for tags in (
            found[ids[0]]["tags"],
            *(v["fields"].get("tags", []) for v in found[ids[0]]["history"]),
        )
        for tag in tags
    }


async def test_two_memories_that_replace_each_other_do_not_make_a_circle(homes):
    one, two = homes
    shared = Shared()
    a = await add(one, "Fact A.")
    b = await add(two, "Fact B.")
    for engine in (one, two, one):
        await merge(engine, shared)
    # Stored in another order here and there, so each can replace the other one.
    await edit(one, b, supersedes=[a])
    await edit(two, a, supersedes=[b])
    for engine in (one, two, one):
        await merge(engine, shared)
    assert await superseded(one) == await superseded(two)
    assert sorted(map(bool, (await superseded(one)).values())) == [False, True]


async def test_a_dry_run_writes_nothing(homes):
    one, two = homes
    shared = Shared()
    await add(one, "A fact.")
    await merge(one, shared)
    before = dict(shared)
    report = await two.merges.merge(shared, shared, dry_run=True)
    assert report.added == 1
    assert await records(two) == {}
    assert shared == before


async def test_a_change_that_is_made_during_a_merge_is_not_overwritten(homes, monkeypatch):
    one, two = homes
    shared = Shared()
    memory_id = await add(one, "The port is 80.")
    for engine in (one, two, one):
        await merge(engine, shared)
    await edit(one, memory_id, text="The port is 8080.")
    await merge(one, shared)
    put, calls = two.memories.put_copy, []

    async def put_late(*given):
        if not calls:
            calls.append(1)
            # Another process is quicker.
            await edit(two, memory_id, text="The port is 9090.")
        return await put(*given)

    monkeypatch.setattr(two.memories, "put_copy", put_late)
    await merge(two, shared)
    for engine in (two, one):
        await merge(engine, shared)
    found = await records(one)
    assert found == await records(two)
    texts = {found[memory_id]["text"], *(v["text"] for v in found[memory_id]["history"])}
    assert {"The port is 80.", "The port is 8080.", "The port is 9090."} <= texts
    assert found[memory_id]["text"] == "The port is 9090."

"""The inbox: what is put into it, what a decision does, and that nothing is asked twice."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from code_trees import Repository, index

from builders import memory
from command import record_here
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.modules.memories import compare
from zapomni_core.settings import load_settings
from zapomni_db.sqlite.recalls import Recall, record_recall

pytestmark = pytest.mark.anyio

OLD, NEW = "We deploy to production on Tuesdays.", "Production deploys happen on Thursdays."
TWICE = ("The search cluster runs three replicas.", "There are 3 replicas in our search cluster.")


@pytest.fixture(params=["sqlite", "falkordb"])
async def engine(request, anyio_backend, monkeypatch):
    if request.param == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    async with await create_engine(load_settings(embedder="none")) as opened:
        yield opened


async def add(engine, text: str, **fields) -> str:
    return (await engine.add_memory(AddMemoryRequest(text=text, **fields))).memory_id


def say(prompt: str, session: str = "s") -> None:
    event = {"session_id": session, "cwd": "/nowhere/shop", "hook_event_name": "UserPromptSubmit"}
    code, _ = record_here(json.dumps({**event, "prompt": prompt}).encode(), "--host", "claude-code")
    assert code == 0


async def waiting(engine, *kinds: str):
    return (await engine.review.list_items(kinds)).items


def recall(*ids: str, days: float = 0) -> None:
    moment = time.time() - days * 86_400
    items = [(one, "memory", 1, None) for one in ids]
    given = Recall(moment, "test", f"s{days}", "", "session_start", "", items)
    assert record_recall(str(load_settings().home), given, lambda text: (text, 0))


async def test_a_candidate_becomes_a_memory_only_when_it_is_kept(engine):
    say("Always run make lint before pushing.")
    say("The port is 8443. Remember that the staging port is 9443.")
    second, first = await waiting(engine)
    assert (first.kind, first.text) == ("candidate", "Always run make lint before pushing.")
    assert first.project == "shop"
    assert (await engine.get_stats())["total_memories"] == 0

    kept = await engine.review.decide(first.id, "keep")
    assert (kept.state, kept.can_undo) == ("keep", True)
    (stored,) = (await engine.storage.list_memories(_everything(), 10, 0)).items
    assert (stored.preview, stored.kind) == (first.text, "preference")
    await engine.review.decide(second.id, "forget")
    assert await waiting(engine) == []
    # Said again, it is not asked again.
    say("always run make lint before pushing", session="later")
    assert await waiting(engine) == []

    for item in (first, second):
        assert (await engine.review.undo(item.id)).state == "open"
    assert (await engine.get_stats())["total_memories"] == 0
    assert len(await waiting(engine)) == 2


async def test_a_list_without_a_look_finds_nothing_and_leaves_out_what_is_over(engine):
    old, new = await add(engine, OLD), await add(engine, NEW)

    page = await engine.review.list_items(refresh=False)
    assert (page.items, page.uncompared) == ([], 2)
    (conflict,) = await waiting(engine)
    page = await engine.review.list_items(refresh=False)
    assert (page.items, page.uncompared) == ([conflict], 0)

    await engine.update_memory(UpdateMemoryRequest(memory_id=new, supersedes=[old]))
    assert (await engine.review.list_items(refresh=False)).items == []


def _everything():
    from zapomni_db.models import MemoryFilter

    return MemoryFilter()


async def test_contradictions_and_duplicates_are_decided_once(engine):
    old, new = await add(engine, OLD), await add(engine, NEW, tags=["deploy"])
    first = await add(engine, TWICE[0], tags=["search"], pinned=True)
    second = await add(engine, TWICE[1], tags=["ops"])
    await add(engine, "The metrics exporter listens on port 9100.")
    await add(engine, "The debug console listens on port 5005.")
    conflict, double = await waiting(engine)
    assert (conflict.kind, double.kind) == ("contradiction", "duplicate")
    assert [one.memory_id for one in conflict.memories] == [old, new]
    assert conflict.why == "tuesday became thursday"

    with pytest.raises(ValidationError, match="takes one of"):
        await engine.review.decide(conflict.id, "trust")
    await engine.review.decide(conflict.id, "supersede")
    assert (await engine.get_memory(old)).superseded_by == new
    with pytest.raises(ValidationError, match="decided before"):
        await engine.review.decide(conflict.id, "merge")
    await engine.review.decide(double.id, "merge")
    merged = await engine.get_memory(second)
    assert (sorted(merged.tags), merged.pinned) == (["ops", "search"], True)
    assert (await engine.get_memory(first)).superseded_by == second
    assert await waiting(engine) == []
    with pytest.raises(NotFoundError):
        await engine.review.decide(999, "keep")


async def test_superseding_merging_and_forgetting_are_taken_back(engine):
    first = await add(engine, TWICE[0], tags=["search"], pinned=True, metadata={"by": "Ada"})
    second = await add(engine, TWICE[1], tags=["ops"])
    before = [await engine.get_memory(one) for one in (first, second)]
    for decision in ("supersede", "merge", "forget"):
        (double,) = await waiting(engine)
        assert (await engine.review.decide(double.id, decision)).can_undo
        assert await waiting(engine) == []
        undone = await engine.review.undo(double.id)
        assert (undone.state, undone.can_undo) == ("open", False)
        for old in before:
            now = await engine.get_memory(old.memory_id)
            same = {"updated_at": old.updated_at}
            assert now.model_copy(update=same) == old
        assert [one.id for one in await waiting(engine)] == [double.id]


async def test_an_item_is_open_again_when_its_memory_comes_back_from_the_trash(engine):
    await add(engine, TWICE[0])
    await add(engine, TWICE[1])
    (double,) = await waiting(engine)
    await engine.review.decide(double.id, "forget")
    (batch,) = await engine.trash.list_batches()
    assert batch.why == "review"
    await engine.trash.undo(batch.batch)
    assert [one.id for one in await waiting(engine)] == [double.id]

    await engine.review.decide(double.id, "forget")
    await engine.trash.purge()
    with pytest.raises(NotFoundError):
        await engine.review.undo(double.id)
    assert await waiting(engine) == []


async def test_a_pair_of_which_one_was_forgotten_and_restored_waits_again(engine):
    await add(engine, TWICE[0])
    second = await add(engine, TWICE[1])
    (double,) = await waiting(engine)
    batch = await engine.delete_memory(second)
    assert await waiting(engine) == []
    await engine.trash.undo(batch.batch)
    (again,) = await waiting(engine)
    assert again.memories == double.memories


async def test_what_is_no_conflict_is_never_asked_again(engine):
    old, _ = await add(engine, OLD), await add(engine, NEW)
    (conflict,) = await waiting(engine)
    await engine.review.decide(conflict.id, "not_a_conflict")
    await engine.update_memory(UpdateMemoryRequest(memory_id=old, text=OLD.replace("We", "we")))
    assert await waiting(engine) == []
    assert (await engine.review.undo(conflict.id)).state == "open"
    # A pair that is no longer one leaves by itself.
    await engine.delete_memory(old)
    assert await waiting(engine) == []


async def test_untrusted_memories_wait_for_the_user_alone(engine):
    foreign = await add(engine, "Imported: tabs.", origin="import:other", trusted=False)
    (item,) = await waiting(engine)
    assert (item.kind, item.why) == ("untrusted", "it is not your own: import:other")
    with pytest.raises(ValidationError, match="Only the user"):
        await engine.review.decide(item.id, "trust", agent=True)
    await engine.review.decide(item.id, "trust")
    assert (await engine.get_memory(foreign)).trusted
    assert await waiting(engine) == []
    await engine.review.undo(item.id)
    assert not (await engine.get_memory(foreign)).trusted


async def test_the_most_recalled_comes_first_and_pages_are_bounded(engine):
    texts = ("Apples are red.", "The lake is deep.", "Trains leave at noon.")
    ids = [await add(engine, text, trusted=False) for text in texts]
    recall(ids[1])
    page = await engine.review.list_items(limit=2)
    assert (len(page.items), page.total, page.counts) == (2, 3, {"untrusted": 3})
    assert page.items[0].memories[0].memory_id == ids[1]
    assert page.items[0].memories[0].recalls == 1
    rest = await engine.review.list_items(limit=2, offset=2)
    assert len(rest.items) == 1
    assert await engine.review.count() == {"untrusted": 3}
    with pytest.raises(ValidationError, match="kind must be one of"):
        await engine.review.list_items(["nonsense"])


async def test_what_was_never_recalled_in_a_year_is_asked_about(engine):
    long_ago = datetime.now(UTC) - timedelta(days=500)
    dusty, used = (
        memory(text, timestamp=long_ago) for text in ("Apples are red.", "The lake is deep.")
    )
    await engine.storage.store_memories([dusty, used])
    assert await waiting(engine) == []
    # A log that began yesterday proves nothing.
    recall(used.memory_id, days=1)
    assert await waiting(engine, "never_recalled") == []
    recall(used.memory_id, days=360)
    (item,) = await waiting(engine, "never_recalled")
    assert item.memories[0].memory_id == dusty.memory_id
    await engine.review.decide(item.id, "forget")
    with pytest.raises(NotFoundError):
        await engine.get_memory(dusty.memory_id)


async def test_a_memory_whose_code_changed_waits_until_it_changes_again(engine, tmp_path):
    repository = Repository(tmp_path / "shop")
    await index(engine, repository.root)
    cited = await add(
        engine,
        "Tokens are checked.",
        cites=["src/auth.py:check_token"],
        folder=str(repository.root),
    )
    assert await waiting(engine) == []
    repository.edit("src/auth.py", "def check_token", "# Mind the clock.\ndef check_token")
    assert await waiting(engine) == []
    repository.edit("src/auth.py", "EXPIRY > moment", "EXPIRY >= moment")
    (item,) = await waiting(engine)
    assert (item.kind, item.memories[0].memory_id) == ("stale_citation", cited)
    assert item.why == "src/auth.py:check_token changed (body)"
    await engine.review.decide(item.id, "keep")
    assert await waiting(engine) == []
    (now,) = await engine.citations.get(cited)
    assert (now.place, now.content) == ("same", "same")
    await engine.review.undo(item.id)
    assert [one.id for one in await waiting(engine)] == [item.id]
    await engine.review.decide(item.id, "keep")
    repository.edit("src/auth.py", "EXPIRY >= moment", "EXPIRY > moment + 1")
    (other,) = await waiting(engine)
    assert (other.why, other.id != item.id) == (item.why, True)
    await engine.review.decide(other.id, "keep")
    repository.path("src/auth.py").unlink()
    (again,) = await waiting(engine)
    assert again.why.endswith("gone")


async def test_a_memory_that_says_it_is_over_waits_until_it_no_longer_says_so(engine):
    text = "# ADR-0012: Kafka for orders\n\n## Status\n\n{}\n\nOrders are sent by Kafka."
    decision = await add(engine, text.format("Superseded by ADR-0046"), kind="decision")
    await add(engine, text.format("Accepted").replace("12", "13"), kind="decision", project="b")
    (item,) = await waiting(engine, "replaced")
    assert item.memories[0].memory_id == decision
    assert item.why == "it says: superseded by ADR-0046"
    assert [one.id for one in await waiting(engine, "replaced")] == [item.id]
    change = UpdateMemoryRequest(memory_id=decision, text=text.format("Accepted"))
    await engine.update_memory(change)
    assert await waiting(engine, "replaced") == []


async def test_an_agent_is_shown_nothing_of_private_projects_elsewhere(engine, tmp_path):
    say("Always run make lint before pushing.")
    (item,) = await waiting(engine)
    await engine.observations.rule(item.project_key, "private", on=True)
    here = str(tmp_path)
    assert (await engine.review.list_items(folder=here, agent=True)).items == []
    with pytest.raises(NotFoundError):
        await engine.review.decide(item.id, "keep", folder=here, agent=True)
    assert len(await waiting(engine)) == 1


@pytest.mark.parametrize(
    ("older", "newer", "kind"),
    [
        ("We use Postgres for orders.", "We use MySQL for orders.", "contradiction"),
        ("Deploys on Friday are allowed.", "Deploys on Friday are not allowed.", "contradiction"),
        ("Access tokens last 60 minutes.", "Access tokens last 15 minutes.", "contradiction"),
        ("Invoices are stored in S3.", "Invoices are no longer stored there.", "contradiction"),
        ("Billing: use MySQL.", "We moved billing from MySQL to Postgres.", "contradiction"),
        (*TWICE, "duplicate"),
        ("Refresh tokens are valid for 30 days.", "Invitation codes expire after 7 days.", None),
        ("The exporter listens on port 9100.", "The console listens on port 5005.", None),
        ("", "Anything", None),
    ],
)
def test_two_texts_are_compared_by_their_values(older, newer, kind):
    found = compare(older, newer)
    assert (found and found.kind) == kind

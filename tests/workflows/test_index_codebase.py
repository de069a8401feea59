"""The index of a repository stays true: whatever changes, and whatever interrupts it."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from code_trees import AUTH, FILES, Repository, index, run_git

from zapomni_core.engine import create_engine
from zapomni_core.exceptions import DatabaseError, NotFoundError, ProcessingError, ValidationError
from zapomni_core.interfaces import ListRequest, SearchRequest, UpdateMemoryRequest
from zapomni_core.modules.codebase import (
    CallsRequest,
    CodeSearchRequest,
    IndexRequest,
    OutlineRequest,
    SymbolRequest,
)
from zapomni_core.modules.codebase import index as indexing
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path / "shop")


@pytest.fixture
def database(private_home) -> Path:
    return private_home / "zapomni.db"


def rows(database: Path, statement: str) -> list[tuple]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


# `make soak` asks for more.
MANY_FILES = int(os.environ.get("MANY_FILES", "2000"))
MEMORIES = (
    "SELECT m.source, m.id, m.parent, m.project, t.text FROM memories m"
    " JOIN memory_texts t ON t.memory_key = m.key WHERE m.kind = 'code' ORDER BY m.parent"
)
PASSAGES = (
    "SELECT m.parent, c.position, c.text, c.context FROM memories m"
    " JOIN chunks c ON c.memory_key = m.key WHERE m.kind = 'code' ORDER BY m.parent, c.position"
)
SYMBOLS = (
    "SELECT f.path, s.qualified_name, s.kind, s.start_line, s.end_line, s.content_hash, s.depth"
    " FROM code_files f JOIN code_symbols s ON s.file_key = f.key ORDER BY f.path, s.position"
)
EDGES = (
    "SELECT f.path, a.qualified_name, e.kind, g.path, b.qualified_name, e.name, e.strength, e.line"
    " FROM code_edges e JOIN code_files f ON f.key = e.file_key"
    " JOIN code_symbols a ON a.key = e.caller_key"
    " LEFT JOIN code_symbols b ON b.key = e.callee_key LEFT JOIN code_files g ON g.key = b.file_key"
    " ORDER BY f.path, e.line, e.name, g.path, b.qualified_name"
)
IDS = "SELECT f.path, s.qualified_name, s.key, f.memory_id FROM code_files f"
IDS += " JOIN code_symbols s ON s.file_key = f.key"


def state(database: Path) -> list[list[tuple]]:
    return [rows(database, statement) for statement in (MEMORIES, PASSAGES, SYMBOLS, EDGES, IDS)]


def contents(database: Path) -> list[list[tuple]]:
    """What is stored, whatever ids it has."""
    passages, symbols, edges = (rows(database, one) for one in (PASSAGES, SYMBOLS, EDGES))
    return [[row[1:] for row in passages], symbols, edges]


def memory_ids(database: Path) -> dict[str, str]:
    return dict(rows(database, "SELECT path, memory_id FROM code_files"))


def symbol_ids(database: Path) -> dict[str, int]:
    found = rows(database, IDS)
    return {f"{path}:{name}": key for path, name, key, _ in found}


async def found(engine, query: str, **filters) -> list[str]:
    request = SearchRequest(query=query, filters={"kind": "code", **filters})
    return [hit.source for hit in (await engine.search_memory(request)).results]


async def names(engine, query: str, repository: Repository, **more) -> list[str]:
    request = CodeSearchRequest(query=query, folder=str(repository.root), **more)
    return [f"{hit.path}:{hit.name}" for hit in (await engine.code.search(request)).hits]


# --- What indexing does -------------------------------------------------------------------


async def test_files_become_memories_of_their_own_kind(wordy_engine, repository, database):
    result = await index(wordy_engine, repository.root)
    assert {k: v for k, v in result.items() if v} == {
        "root": str(repository.root),
        "added": 5,
        "lines_read": sum(text.count("\n") for text in FILES.values()),
        "complete": True,
    }
    assert (await found(wordy_engine, "too late"))[0] == "src/auth.py"
    assert await found(wordy_engine, "too late", project="no such project") == []
    stats = await wordy_engine.get_stats()
    assert (stats["total_memories"], stats["code_files"]) == (0, 4)
    texts = {source: text for source, _, _, _, text in rows(database, MEMORIES)}
    assert texts == {path: text for path, text in FILES.items() if text}


async def test_listings_leave_code_out_unless_asked(wordy_engine, repository):
    await index(wordy_engine, repository.root)
    assert (await wordy_engine.memories.list_memories(ListRequest())).total == 0
    code = await wordy_engine.memories.list_memories(ListRequest(filters={"kind": "code"}))
    assert {item.source for item in code.items} == {path for path, text in FILES.items() if text}


async def test_passages_are_exactly_what_stands_in_the_file(wordy_engine, repository, database):
    repository.write(
        "src/names.py", "# Übergrößen\ndef größe():\n    return 'ß'\n\n\ndef b():\n    pass\n"
    )
    await index(wordy_engine, repository.root)
    places = rows(
        database,
        "SELECT t.text, c.text, c.start_char, c.end_char FROM chunks c"
        " JOIN memory_texts t ON t.memory_key = c.memory_key",
    )
    assert places
    assert all(text[start:end] == passage for text, passage, start, end in places)


async def test_indexing_twice_changes_nothing(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    before = state(database)
    result = await index(wordy_engine, repository.root)
    assert (result["unchanged"], result["lines_read"]) == (5, 0)
    assert state(database) == before


async def test_only_what_changed_is_read_again(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    ids, symbols = memory_ids(database), symbol_ids(database)
    repository.edit("src/auth.py", '"too late"', '"beyond midnight"')

    result = await index(wordy_engine, repository.root)

    assert (result["changed"], result["unchanged"]) == (1, 4)
    assert result["lines_read"] == AUTH.count("\n")
    assert memory_ids(database) == ids
    assert symbol_ids(database) == symbols
    assert "src/auth.py" in await found(wordy_engine, "midnight")
    assert not any("too late" in text for *_, text in rows(database, MEMORIES))


async def test_a_file_that_was_only_touched_is_not_parsed(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    before = state(database)
    text = repository.read("src/auth.py")
    repository.path("src/auth.py").unlink()
    repository.write("src/auth.py", text)
    result = await index(wordy_engine, repository.root)
    assert (result["changed"], result["unchanged"], result["lines_read"]) == (0, 5, 0)
    assert state(database) == before


async def test_deleted_code_leaves_the_index(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    repository.cut("src/auth.py", "class Token", "def left")
    repository.path("docs/notes.md").unlink()
    result = await index(wordy_engine, repository.root)
    assert (result["changed"], result["removed"]) == (1, 1)
    assert not [name for name in symbol_ids(database) if "Token" in name or "notes" in name]
    assert await found(wordy_engine, "image rollback") == []
    callees = await wordy_engine.code.find_callees(
        CallsRequest(name="issue", folder=str(repository.root))
    )
    assert [(e.name, e.callee) for e in callees.edges if e.name == "Token"] == [("Token", None)]


async def test_a_renamed_function_stays_the_same_symbol(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    before = symbol_ids(database)
    repository.edit("src/auth.py", "def check_token", "def verify")
    await index(wordy_engine, repository.root)
    after = symbol_ids(database)
    assert after["src/auth.py:verify"] == before["src/auth.py:check_token"]
    assert "src/auth.py:check_token" not in after


@pytest.mark.parametrize("edited", [False, True])
async def test_a_moved_file_stays_the_same_memory(wordy_engine, repository, database, edited):
    await index(wordy_engine, repository.root)
    ids, symbols = memory_ids(database), symbol_ids(database)
    repository.move("src/auth.py", "lib/tokens.py")
    if edited:
        repository.edit("lib/tokens.py", '"too late"', '"beyond midnight"')

    result = await index(wordy_engine, repository.root)

    assert (result["moved"], result["removed"], result["added"]) == (1, 0, 0)
    after = memory_ids(database)
    assert after["lib/tokens.py"] == ids["src/auth.py"]
    assert "src/auth.py" not in after
    renew = "lib/tokens.py:Token.renew"
    assert symbol_ids(database)[renew] == symbols["src/auth.py:Token.renew"]
    assert (await found(wordy_engine, "lib tokens", path="lib"))[0] == "lib/tokens.py"
    assert await found(wordy_engine, "tokens", path="src/auth.py") == []


async def test_a_file_that_is_like_none_that_is_missing_is_new(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    ids = memory_ids(database)
    repository.path("src/auth.py").unlink()
    repository.write("src/other.py", "def entirely():\n    return 'different'\n")
    result = await index(wordy_engine, repository.root)
    assert (result["moved"], result["removed"], result["added"]) == (0, 1, 1)
    assert memory_ids(database)["src/other.py"] not in ids.values()


async def test_switching_branches_there_and_back(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    before = contents(database)
    repository.git("checkout", "-q", "-b", "other")
    repository.move("src/shop.py", "src/store.py")
    repository.edit("src/auth.py", "def check_token", "def verify")
    repository.commit("other")
    await index(wordy_engine, repository.root)
    assert contents(database) != before
    repository.git("checkout", "-q", "main")
    await index(wordy_engine, repository.root)
    assert contents(database) == before


async def test_an_empty_file_is_known_but_no_memory(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    ids = memory_ids(database)
    repository.write("src/__init__.py", "VERSION = 1\n")
    repository.write("src/shop.py", "\n\n")
    await index(wordy_engine, repository.root)
    sources = {row[0]: row[1] for row in rows(database, MEMORIES)}
    assert sources["src/__init__.py"] == ids["src/__init__.py"]
    assert "src/shop.py" not in sources
    assert (await index(wordy_engine, repository.root))["unchanged"] == 5
    repository.write("src/shop.py", FILES["src/shop.py"])
    await index(wordy_engine, repository.root)
    assert {row[0]: row[1] for row in rows(database, MEMORIES)}["src/shop.py"] == ids["src/shop.py"]


async def test_random_changes_end_where_a_new_index_would(
    wordy_engine, repository, database, tmp_path
):
    """Step by step or all at once: the same passages, symbols and references."""
    chance = random.Random(7)
    await index(wordy_engine, repository.root)
    for round_number in range(12):
        _change_something(repository, chance, round_number)
        await index(wordy_engine, repository.root)
        other = load_settings(embedder="none", home=tmp_path / f"fresh{round_number}")
        async with await create_engine(other) as fresh:
            await index(fresh, repository.root)
        assert contents(database) == contents(other.database_path), round_number


def _change_something(repository: Repository, chance: random.Random, number: int) -> None:
    files = sorted(p for p in repository.root.rglob("*.py") if p.stat().st_size)
    path = str(chance.choice(files).relative_to(repository.root))
    text = repository.read(path)
    match chance.randrange(6):
        case 0:
            repository.write(path, text.replace("check_token", f"check_{number}"))
        case 1:
            repository.write(path, f"{text}\n\ndef added_{number}(x):\n    return order(x, [])\n")
        case 2:
            repository.move(path, f"moved{number}/{Path(path).name}")
        case 3:
            repository.write(f"src/new_{number}.py", f"from src.auth import *\nissue({number})\n")
        case 4:
            repository.write(path, text.replace("def issue(user):", "def issue(user) -> Token:"))
        case _:
            lines = text.splitlines(keepends=True)
            repository.write(path, "".join(lines[: len(lines) // 2]))


# --- Several repositories -----------------------------------------------------------------


async def test_two_repositories_never_touch_each_other(
    wordy_engine, repository, database, tmp_path
):
    twin = Repository(tmp_path / "elsewhere" / "shop")
    await index(wordy_engine, repository.root)
    await index(wordy_engine, twin.root)
    assert len(rows(database, MEMORIES)) == 8
    own = [row for row in rows(database, MEMORIES) if row[2].startswith(f"{repository.root}/")]
    twin.edit("src/auth.py", '"too late"', '"beyond midnight"')
    twin.move("src/shop.py", "src/store.py")
    twin.path("docs/notes.md").unlink()
    await index(wordy_engine, twin.root)
    kept = [row for row in rows(database, MEMORIES) if row[2].startswith(f"{repository.root}/")]
    assert kept == own
    assert await names(wordy_engine, "midnight", repository) == []
    assert (await names(wordy_engine, "midnight", twin))[0] == "src/auth.py:Token.renew"
    callers = CallsRequest(name="check_token", folder=str(repository.root))
    edges = (await wordy_engine.code.find_callers(callers)).edges
    assert {edge.caller.repository for edge in edges} == {str(repository.root)}
    assert len(edges) == 2


async def test_two_worktrees_are_two_of_one_project(wordy_engine, repository, tmp_path):
    repository.git("worktree", "add", "-q", str(tmp_path / "second"), "-b", "second")
    await index(wordy_engine, repository.root)
    await index(wordy_engine, tmp_path / "second")
    first, second = sorted(
        await wordy_engine.code.list_repositories(), key=lambda r: r.root, reverse=True
    )
    assert (first.root, second.root) == (str(repository.root), str(tmp_path / "second"))
    assert first.project == second.project
    assert first.tag != second.tag
    assert first.commit == second.commit != ""
    (tmp_path / "second/src/auth.py").unlink()
    await index(wordy_engine, tmp_path / "second")
    assert (await names(wordy_engine, "too late", repository))[0] == "src/auth.py:Token.renew"


async def test_forgetting_one_leaves_the_other(wordy_engine, repository, database, tmp_path):
    twin = Repository(tmp_path / "twin")
    await index(wordy_engine, repository.root)
    await index(wordy_engine, twin.root)
    shutil.rmtree(twin.root)
    forgotten = await wordy_engine.code.forget(str(twin.root), "/")
    assert forgotten.files == 5
    assert [r.root for r in await wordy_engine.code.list_repositories()] == [str(repository.root)]
    assert len(rows(database, MEMORIES)) == 4
    assert not rows(database, "SELECT 1 FROM code_symbols s LEFT JOIN code_files f"
                    " ON f.key = s.file_key WHERE f.key IS NULL")  # fmt: skip


async def test_forgetting_stops_the_task_that_would_put_files_back(
    wordy_engine, repository, database, monkeypatch
):
    """Queued and not begun; then in the middle of its files."""
    request = IndexRequest(path=str(repository.root), folder="/")
    task_id = await wordy_engine.code.index(request)
    assert (await wordy_engine.code.forget(str(repository.root), "/")).files == 0
    assert (await wordy_engine.tasks.get_task_status(task_id)).status == "cancelled"
    with pytest.raises(NotFoundError):
        await wordy_engine.code.forget(str(repository.root), "/")

    task_id = await wordy_engine.code.index(request)
    reached, resume = asyncio.Event(), asyncio.Event()
    store_files = wordy_engine.code.store.store_files

    async def store_slowly(data):
        reached.set()
        await resume.wait()
        await store_files(data)

    monkeypatch.setattr(wordy_engine.code.store, "store_files", store_slowly)
    running = asyncio.create_task(wordy_engine.tasks.run_task(task_id, lambda _: None))
    await asyncio.wait_for(reached.wait(), 60)
    forgetting = asyncio.create_task(wordy_engine.code.forget(str(repository.root), "/"))
    while not (await wordy_engine.tasks.get_task_status(task_id)).cancel_requested:  # noqa: ASYNC110 - in the file
        await asyncio.sleep(0.01)
    assert not forgetting.done()
    resume.set()
    await asyncio.wait_for(asyncio.gather(running, forgetting), 60)
    assert await wordy_engine.code.list_repositories() == []
    assert rows(database, MEMORIES) == []


# --- Interrupted, or damaged --------------------------------------------------------------


async def test_a_run_that_breaks_off_is_completed_by_the_next(repository, monkeypatch, tmp_path):
    """Break off at every single write: the next run ends where an undisturbed one would."""
    monkeypatch.setattr(indexing, "PASSAGES_AT_ONCE", 1)
    other = Repository(tmp_path / "undisturbed" / "shop")
    wanted, broke = None, True
    for number in range(100):
        folder = tmp_path / str(number)
        shutil.copytree(other.root, folder / "shop")
        copy = Repository(folder / "shop", {}, git=False)
        settings = load_settings(embedder="none", home=folder / "home")
        async with await create_engine(settings) as engine:
            await index(engine, copy.root)
            _change_files(copy)
            if number:
                with monkeypatch.context() as patch:
                    breaker = _Breaker(engine, patch, after=number - 1)
                    await _try(engine, copy)
                    broke = breaker.broke
            await index(engine, copy.root)
            reached = contents(settings.database_path)
            assert (await index(engine, copy.root))["unchanged"] == 5
        wanted = wanted or reached
        assert reached == wanted, number
        if not broke:
            break
    assert number > 10


def _change_files(repository: Repository) -> None:
    repository.edit("src/auth.py", "def check_token", "def verify")
    repository.move("src/shop.py", "src/store.py")
    repository.path("docs/notes.md").unlink()
    repository.write("src/new.py", "from src.auth import issue\n\n\nissue(1)\n")


class _Breaker:
    """Lets writes fail from the nth on."""

    def __init__(self, engine, patch, after: int) -> None:
        self.left = after
        self.broke = False
        for store, names in (
            (engine.storage, ("store_memories", "delete_memory")),
            (
                engine._code,
                ("begin_files", "store_files", "move_file", "remove_files", "store_edges",
                 "finish_repository"),
            ),
        ):  # fmt: skip
            for name in names:
                patch.setattr(store, name, self._wrapped(getattr(store, name)))

    def _wrapped(self, write):
        async def call(*args, **kwargs):
            if self.left == 0:
                self.broke = True
                raise DatabaseError("broken off")
            self.left -= 1
            return await write(*args, **kwargs)

        return call


async def _try(engine, repository: Repository) -> None:
    task_id = await engine.code.index(IndexRequest(path=str(repository.root), folder="/"))
    await engine.tasks.run_task(task_id, lambda _: None)


async def test_a_deleted_memory_comes_back(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    before = contents(database)
    await wordy_engine.delete_memory(memory_ids(database)["src/auth.py"])
    assert contents(database) != before
    assert (await index(wordy_engine, repository.root))["changed"] == 1
    assert contents(database) == before


async def test_another_reader_reads_everything_again(
    wordy_engine, repository, database, monkeypatch
):
    await index(wordy_engine, repository.root)
    before = state(database)
    monkeypatch.setattr(indexing, "READER", "next")
    assert (await index(wordy_engine, repository.root))["changed"] == 5
    after = state(database)
    assert [sorted(part, key=str) for part in after] == [sorted(p, key=str) for p in before]


async def test_a_pinned_file_stays_pinned(wordy_engine, repository, database):
    await index(wordy_engine, repository.root)
    memory_id = memory_ids(database)["src/auth.py"]
    await wordy_engine.update_memory(UpdateMemoryRequest(memory_id=memory_id, pinned=True))
    repository.edit("src/auth.py", '"too late"', '"late"')
    await index(wordy_engine, repository.root)
    record = await wordy_engine.memories.get(memory_id)
    assert record.pinned
    assert '"late"' in record.text


async def test_a_cancelled_run_ends_and_the_next_one_goes_on(
    wordy_engine, repository, database, monkeypatch
):
    monkeypatch.setattr(indexing, "PASSAGES_AT_ONCE", 1)
    task_id = await wordy_engine.code.index(IndexRequest(path=str(repository.root), folder="/"))
    running = asyncio.create_task(wordy_engine.tasks.run_task(task_id, lambda _: None))
    while not rows(database, "SELECT 1 FROM code_files"):  # noqa: ASYNC110 - another thread writes
        await asyncio.sleep(0.01)
    await wordy_engine.tasks.cancel_task(task_id)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (await wordy_engine.tasks.get_task_status(task_id)).status == "cancelled"
    await index(wordy_engine, repository.root)
    assert len(rows(database, MEMORIES)) == 4


# --- Vectors ------------------------------------------------------------------------------


async def test_only_new_passages_are_embedded(engine, repository, database, monkeypatch):
    first = await index(engine, repository.root)
    passages = len(rows(database, PASSAGES))
    assert first["vectors"] == passages
    embedded: list[str] = []
    embedder = engine.memories.embeddings.embedders[0]
    make = embedder.embed_with_tokens

    async def counting(texts):
        embedded.extend(texts)
        return await make(texts)

    monkeypatch.setattr(embedder, "embed_with_tokens", counting)
    engine.memories.embeddings._cache._kept.clear()
    repository.edit("src/auth.py", '"too late"', '"beyond midnight"')
    await index(engine, repository.root)
    assert len(embedded) == 1
    assert "beyond midnight" in embedded[0]
    # A second checkout of the same code needs no vector at all.
    embedded.clear()
    repository.commit("midnight")
    repository.git("worktree", "add", "-q", str(repository.root.parent / "second"))
    await index(engine, repository.root.parent / "second")
    assert embedded == []
    assert (await engine.get_stats())["pending_vectors"] == 0
    assert (await names(engine, "what happens after twelve at night", repository))[0] == (
        "src/auth.py:Token.renew"
    )


# --- Bad input ----------------------------------------------------------------------------


async def refuse(engine, path: Path | str, words: str, **more) -> None:
    with pytest.raises(ValidationError, match=words) as refused:
        await engine.code.index(IndexRequest(path=str(path), folder="/", **more))
    assert str(path) not in refused.value.message


async def test_what_is_no_folder_is_refused(wordy_engine, repository, tmp_path):
    await refuse(wordy_engine, tmp_path / "missing", "no such folder")
    await refuse(wordy_engine, repository.path("src/auth.py"), "not a folder")


async def test_a_bare_repository_is_refused(wordy_engine, tmp_path):
    bare = tmp_path / "bare.git"
    bare.mkdir()
    run_git("init", "-q", "--bare", cwd=bare)
    await refuse(wordy_engine, bare, "bare repository")


async def test_the_home_folder_has_to_be_confirmed(wordy_engine, tmp_path):
    home = tmp_path / "home"
    await refuse(wordy_engine, home, "home folder")
    await refuse(wordy_engine, tmp_path, "home folder")
    await refuse(wordy_engine, "/", "home folder")
    (home / "a.py").write_text("A = 1\n", encoding="utf-8")
    assert (await index(wordy_engine, home, confirmed=True))["added"] == 1


async def test_folders_outside_the_allowed_ones_are_refused(wordy_engine, repository, tmp_path):
    await refuse(wordy_engine, repository.root, "code_roots", roots=[str(tmp_path / "other")])
    link = tmp_path / "other" / "link"
    link.parent.mkdir()
    link.symlink_to(repository.root)
    await refuse(wordy_engine, link, "code_roots", roots=[str(tmp_path / "other")])
    await refuse(wordy_engine, repository.root, "code_roots", roots=[str(tmp_path / "sho")])
    await index(wordy_engine, repository.path("src"), roots=[str(repository.root)])


async def test_the_setting_decides_which_folders_are_allowed(repository, tmp_path):
    allowed = f"{tmp_path / 'a'}:{repository.path('src')}"
    settings = load_settings(embedder="none", code_roots=allowed)
    async with await create_engine(settings) as engine:
        await refuse(engine, repository.root, "code_roots", roots=None)
        await index(engine, repository.path("src"), roots=["/nowhere"])


async def test_a_folder_that_becomes_a_link_is_not_followed(wordy_engine, repository, tmp_path):
    task_id = await wordy_engine.code.index(IndexRequest(path=str(repository.root), folder="/"))
    repository.root.rename(tmp_path / "real")
    repository.root.symlink_to(tmp_path / "real")
    status = await wordy_engine.tasks.run_task(task_id, lambda _: None)
    assert (status.status, status.error_code) == ("failed", "VAL_004")


async def test_without_the_parsers_it_says_what_to_install(wordy_engine, repository, monkeypatch):
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    with pytest.raises(ProcessingError) as missing:
        await wordy_engine.code.index(IndexRequest(path=str(repository.root), folder="/"))
    assert missing.value.error_code == "CODE_003"


async def test_a_folder_without_git_and_a_shallow_clone_are_indexed(
    wordy_engine, repository, tmp_path
):
    Repository(tmp_path / "plain", git=False)
    assert (await index(wordy_engine, tmp_path / "plain"))["added"] == 5
    repository.commit("second")
    clone = tmp_path / "shallow"
    address = f"file://{repository.root}"
    run_git("clone", "-q", "--depth", "1", address, clone, cwd=tmp_path)
    assert (await index(wordy_engine, clone))["added"] == 5
    commits = {r.root: r.commit for r in await wordy_engine.code.list_repositories()}
    assert commits[str(tmp_path / "plain")] == ""
    assert len(commits[str(clone)]) == 40


async def test_the_good_parts_of_a_broken_file_are_indexed(wordy_engine, repository, database):
    repository.write(
        "src/broken.py",
        "def good():\n    return 1\n\n\ndef bad(:\n    retur\n\n\ndef fine():\n    pass\n",
    )
    await index(wordy_engine, repository.root)
    known = symbol_ids(database)
    assert "src/broken.py:good" in known
    assert "src/broken.py:fine" in known
    assert rows(database, "SELECT path FROM code_files WHERE has_errors") == [("src/broken.py",)]


async def test_odd_files_are_left_out_or_read_and_never_stop_the_rest(
    wordy_engine, repository, database
):
    repository.path("src/latin.py").write_bytes("NAME = 'Zoë'\n".encode("latin-1"))
    repository.path("src/wide.py").write_bytes("WIDE = 'Zoë'\n".encode("utf-16"))
    repository.path("web/all.js").write_bytes(b"x=1;" * 12_500_000)
    repository.path("src/image.py").write_bytes(b"\x89PNG\0\0\0")
    repository.path(".env").write_text("SECRET=1\n", encoding="utf-8")
    (repository.root / "src" / b"caf\xe9.py".decode("utf-8", "surrogateescape")).write_bytes(
        b"A=1\n"
    )
    result = await index(wordy_engine, repository.root)
    texts = {row[0]: row[4] for row in rows(database, MEMORIES)}
    assert texts["src/latin.py"] == "NAME = 'Zoë'\n"
    assert "Zoë" in texts["src/wide.py"]
    assert not {"web/all.js", "src/image.py", ".env"} & texts.keys()
    assert result["skipped"]["too large"] == 1
    assert result["skipped"]["name"] == 1
    assert result["added"] == 7


async def test_thousands_of_files_in_one_folder(wordy_engine, tmp_path):
    folder = tmp_path / "many" / "files"
    folder.mkdir(parents=True)
    for number in range(MANY_FILES):
        (folder / f"f{number}.txt").write_bytes(b"")
    (folder / "last.py").write_text("def last():\n    pass\n", encoding="utf-8")
    assert (await index(wordy_engine, tmp_path / "many"))["added"] == MANY_FILES + 1
    outline = OutlineRequest(path="last.py", folder=str(folder))
    assert [s.name for s in (await wordy_engine.code.get_outline(outline)).symbols[1:]] == ["last"]


async def test_kind_code_is_not_for_notes(wordy_engine):
    from zapomni_core.interfaces import AddMemoryRequest

    with pytest.raises(ValidationError, match="snippet"):
        await wordy_engine.add_memory(AddMemoryRequest(text="x = 1", kind="code"))


async def test_of_code_only_the_beginnings_of_files_are_read_into_the_knowledge_graph(
    wordy_engine, repository
):
    indexed = await index(wordy_engine, repository.root)
    with_text = sum(file.stat().st_size > 0 for file in repository.root.glob("[dsw]*/*"))
    status = await wordy_engine.graph.get_status()
    assert status.passages > status.unread_passages == with_text == indexed["added"] - 1


# --- Watching -----------------------------------------------------------------------------


async def test_watching_tells_of_every_change(wordy_engine, repository, monkeypatch):
    from zapomni_core.modules.codebase import service

    monkeypatch.setattr(service, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(service, "WATCH_SHARE", 0)
    changes = wordy_engine.code.watch(str(repository.root))
    await anext(changes)
    for change in (
        lambda: repository.edit("src/auth.py", '"too late"', '"late"'),
        lambda: repository.move("src/shop.py", "src/store.py"),
        lambda: repository.path("src/store.py").unlink(),
    ):
        change()
        await asyncio.wait_for(anext(changes), 120)
    shutil.rmtree(repository.root)
    with pytest.raises(ValidationError):
        await asyncio.wait_for(anext(changes), 120)


async def test_a_symbol_by_name_is_found_after_each_change(wordy_engine, repository):
    await index(wordy_engine, repository.root)
    repository.edit("src/auth.py", "def check_token", "def verify")
    await index(wordy_engine, repository.root)
    request = SymbolRequest(name="verify", folder=str(repository.root))
    found_now = await wordy_engine.code.get_symbol(request)
    assert found_now.state == "fresh"
    assert found_now.source.startswith("def verify(token, now=None):")


def opened_files() -> list[str]:
    folder = Path("/proc/self/fd") if Path("/proc/self/fd").exists() else Path("/dev/fd")
    return [str(one.resolve()) for one in folder.iterdir()]


async def test_an_index_leaves_no_file_open(repository, database):
    gc.disable()  # It would close what was left open, some time.
    try:
        async with await create_engine(load_settings(embedder="none")) as engine:
            await index(engine, repository.root)
        assert [path for path in opened_files() if path.startswith(str(database))] == []
    finally:
        gc.enable()


async def test_a_name_that_is_covered_like_a_secret_does_not_stop_the_index(
    wordy_engine, repository
):
    repository.write(
        "src/net.py", "def go(url):\n    new_auth = get_netrc_auth(url)\n    new_auth()\n"
    )
    assert (await index(wordy_engine, repository.root))["added"] == 6

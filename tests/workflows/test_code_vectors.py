"""Vectors of code: words answer meanwhile, likely questions first, each passage once."""

from __future__ import annotations

import asyncio
import os

import pytest
from code_trees import Repository, index

from zapomni_core.adapters.embedders import adapt_embedder
from zapomni_core.engine import create_engine
from zapomni_core.modules.codebase import CodeSearchRequest, IndexRequest
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

FILES = {
    "docs/guide.md": "# Walrus\n\nHow to feed a walrus.\n",
    "tests/test_walrus.py": "def test_walrus():\n    assert feed_walrus()\n",
    "src/old.py": "def old_walrus():\n    return 'old'\n",
    "src/walrus.py": "def _weigh(walrus):\n    return len(walrus) * 2 + len(walrus)\n\n\n"
    "def feed_walrus(fish, walrus=None):\n    weight = _weigh(walrus)\n"
    "    return [fish for fish in fish if fish.weight < weight and not fish.is_frozen]\n",
}


class Recorder:
    """An embedder that remembers what it was given, and waits if it is told to."""

    model = "recorder"
    dimension = 384

    def __init__(self) -> None:
        self.given: list[str] = []
        self.may_work = asyncio.Event()
        self.may_work.set()

    async def embed(self, texts):
        await asyncio.wait_for(self.may_work.wait(), 120)
        self.given += texts
        return [[1.0, *[float(len(text) % (n + 2)) for n in range(383)]] for text in texts]


@pytest.fixture
def embedder() -> Recorder:
    return Recorder()


@pytest.fixture
async def engine(anyio_backend, embedder):
    async with await create_engine(load_settings(embedder="none")) as opened:
        opened.memories.embeddings.embedders.append(adapt_embedder(embedder))
        yield opened


@pytest.fixture
def repository(tmp_path) -> Repository:
    made = Repository(tmp_path / "zoo", FILES)
    os.utime(made.path("src/old.py"), (1, 1))
    return made


async def test_code_is_found_by_words_and_names_while_its_vectors_are_made(
    engine, embedder, repository
):
    embedder.may_work.clear()
    task = await engine.code.index(IndexRequest(path=str(repository.root), folder="/"))
    running = asyncio.create_task(engine.tasks.run_task(task, lambda _: None))
    async with await create_engine(load_settings(embedder="none")) as other:
        names: list[str] = []
        async with asyncio.timeout(120):
            while "feed_walrus" not in names:
                await asyncio.sleep(0.02)
                if await other.code.list_repositories():
                    asked = CodeSearchRequest(query="feed walrus", repository="*")
                    names = [hit.name for hit in (await other.code.search(asked)).hits]
    assert embedder.given == []
    embedder.may_work.set()
    assert (await running).status == "completed"
    assert embedder.given


async def test_what_is_likely_asked_for_gets_its_vectors_first(engine, embedder, repository):
    await index(engine, repository.root)
    firsts = [text.split("\n")[0].split("(")[0] for text in embedder.given]
    assert [one for one in firsts if one] == [
        "def feed_walrus",
        "def old_walrus",
        "def _weigh",
        "def test_walrus",
        "# Walrus",
    ]


async def test_of_a_long_passage_its_beginning_and_new_words_are_embedded(
    engine, embedder, repository
):
    long = "".join(f"    weight = weigh(walrus[{n}], scale.tare({n}))\n" for n in range(8))
    repository.write("src/scale.py", f"def weigh_all(walrus):\n{long}    return ledger(weight)\n")
    await index(engine, repository.root)
    (given,) = [text for text in embedder.given if "weigh_all" in text]
    assert given.startswith(
        "def weigh_all(walrus): weight = weigh(walrus[0], scale.tare(0)) weight"
    )
    assert given.endswith(" ledger")
    assert len(given) < len(long) / 2
    prose = [text for text in embedder.given if "How to feed" in text]
    assert prose == ["# Walrus\n\nHow to feed a walrus."]


async def test_less_is_embedded_of_tests_and_of_long_pages(engine, embedder, repository):
    lines = "".join(f"    assert weigh(walrus_{n}) == scale.tare({n})\n" for n in range(12))
    repository.write("tests/test_scale.py", f"def test_weigh():\n{lines}")
    page = "\n".join(f"Line {n} of a page about the scale and its many parts." for n in range(12))
    repository.write("docs/scale.md", f"# Scale\n\n{page}\nAt last a narwhal.\n")
    await index(engine, repository.root)
    (test,) = [text for text in embedder.given if text.startswith("def test_weigh")]
    (docs,) = [text for text in embedder.given if text.startswith("# Scale")]
    assert len(test) < len(lines) / 3
    assert docs.startswith("# Scale Line 0 of a page")
    assert docs.endswith(" narwhal")
    assert len(docs) < len(page) * 2 / 3


async def test_the_same_passage_in_two_worktrees_is_embedded_once(
    engine, embedder, repository, tmp_path
):
    await index(engine, repository.root)
    once = len(embedder.given)
    repository.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "second"))
    await index(engine, tmp_path / "second")
    assert len(embedder.given) == once
    found = await engine.code.search(CodeSearchRequest(query="feed walrus", repository="*"))
    assert {hit.repository for hit in found.hits} == {
        str(repository.root),
        str(tmp_path / "second"),
    }
    once = len(embedder.given)
    repository.git("checkout", "-q", "-b", "third")
    repository.edit("src/old.py", "'old'", "'new'")
    await index(engine, repository.root)
    assert len(embedder.given) == once + 1

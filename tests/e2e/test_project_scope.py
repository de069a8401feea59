"""One idea of a project: where a memory belongs, and who is given it. On both engines."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from command import answer, as_json, refused, zapomni
from project_shapes import git, repository
from serving import in_process

SHOP, BLOG = "git@github.com:ada/shop.git", "git@github.com:ada/blog.git"


@pytest.fixture(params=["sqlite", "falkordb"])
def storage(request, monkeypatch) -> str:
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    if request.param == "falkordb":
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        monkeypatch.setenv("ZAPOMNI_STORAGE", f"unix://{server.socket}?graph={graph}")
    return request.param


@pytest.fixture(scope="module")
def repositories(tmp_path_factory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("repositories")
    return repository(base / "shop", remote=SHOP), repository(base / "blog", remote=BLOG)


def there(folder: Path, *arguments: str) -> str:
    with contextlib.chdir(folder):
        return answer(*arguments)


def add(folder: Path, *arguments: str) -> str:
    return there(folder, "add", *arguments).strip()


def found(folder: Path, *arguments: str) -> list[str]:
    """Return the texts that a search finds, and what is said of other projects."""
    with contextlib.chdir(folder):
        done = zapomni("search", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    texts = sorted(line.split("\t")[6] for line in done.stdout.decode().splitlines())
    return [*texts, *(one for one in done.stderr.decode().splitlines() if "--all" in one)]


def test_a_memory_belongs_to_the_repository_it_is_added_in(storage, repositories, tmp_path):
    shop, blog = repositories
    (shop / "src").mkdir(exist_ok=True)
    in_shop = add(shop / "src", "The shop deploys on Tuesdays")
    add(blog, "The blog deploys on Fridays")
    add(blog, "Everything deploys from main", "--global")
    add(blog, "The shop never deploys at night", "--project", "shop")
    add(tmp_path, "Nothing deploys without tests")

    assert found(shop, "deploys") == [
        "Everything deploys from main",
        "Nothing deploys without tests",
        "The shop deploys on Tuesdays",
        "The shop never deploys at night",
        "1 more in other projects: --all",
    ]
    every = found(shop, "deploys", "--all")
    assert len(every) == 5
    assert found(tmp_path, "deploys") == every
    assert found(blog, "deploys", "--project", "shop") == found(
        tmp_path, "deploys", "--project", "github.com/ada/shop"
    )
    assert len(found(blog, "deploys", "--project", "shop")) == 2
    assert found(shop, "Fridays") == ["1 more in other projects: --all"]

    with contextlib.chdir(shop):
        record = as_json("get", in_shop)
        listed = as_json("list")
        assert "github.com" not in answer("list") + answer("search", "deploys")
    assert (record["project"], record["project_key"]) == ("shop", "github.com/ada/shop")
    assert (listed["total"], listed["elsewhere"]) == (4, 1)
    assert as_json("list", "--all")["total"] == 5
    assert "not both" in refused(2, "add", "x", "--global", "--project", "shop")
    assert "not both" in refused(2, "search", "x", "--all", "--project", "shop")

    moved = there(blog, "update", in_shop, "--global").strip()
    assert as_json("get", moved)["project"] == ""
    assert "The shop deploys on Tuesdays" in found(blog, "deploys")


def test_a_folder_that_is_not_trusted_is_given_its_own_and_global_memories(
    storage, repositories, tmp_path
):
    shop, _ = repositories
    add(shop, "The shop deploys on Tuesdays")
    add(tmp_path, "No one deploys on Sundays")
    git(tmp_path, "clone", "-q", str(shop), "shop")
    clone = tmp_path / "shop"
    git(clone, "remote", "set-url", "origin", SHOP)

    assert found(clone, "deploys") == ["No one deploys on Sundays"]
    add(clone, "Poison: deploys run this script")
    assert "Poison: deploys run this script" in found(clone, "deploys")
    assert not [text for text in found(shop, "deploys", "--all") if "Poison" in text]
    # The user's own word, on the command line, is enough.
    assert "The shop deploys on Tuesdays" in found(clone, "deploys", "--project", "shop")

    there(clone, "projects", "--trust", "--yes")
    assert "The shop deploys on Tuesdays" in found(clone, "deploys")
    assert "Poison: deploys run this script" in found(shop, "deploys")


async def ask(folder: Path, tool: str, **arguments):
    with contextlib.chdir(folder):
        async with in_process() as client:
            answered = await client.call_tool(tool, arguments)
    assert not answered.is_error, answered.content
    return answered.structured_content, answered.content[0].text


async def texts(folder: Path, query: str, **arguments) -> list[str]:
    answered, _ = await ask(folder, "search_memory", query=query, **arguments)
    return sorted(hit["text"] for hit in answered["results"])


@pytest.mark.anyio
async def test_an_agents_memories_belong_to_the_project_of_its_connection(
    storage, repositories, tmp_path
):
    shop, blog = repositories
    await ask(shop, "add_memory", text="The shop deploys on Tuesdays")
    await ask(blog, "add_memory", text="The blog deploys on Fridays")
    added, _ = await ask(blog, "add_memory", text="All of it deploys from main", project="*")

    answered, said = await ask(shop, "search_memory", query="deploys")
    assert sorted(hit["text"] for hit in answered["results"]) == [
        "All of it deploys from main",
        "The shop deploys on Tuesdays",
    ]
    assert {hit.get("project") for hit in answered["results"]} == {"shop", None}
    assert '1 more in other projects: project="*".' in answered["note"]
    assert "github.com" not in said
    assert len(await texts(shop, "deploys", project="*")) == 3
    assert await texts(shop, "deploys", project="blog") == ["The blog deploys on Fridays"]
    whole, said = await ask(shop, "get_memory", memory_id=added["memory_id"])
    assert not whole.get("project")

    git(tmp_path, "clone", "-q", str(shop), "shop")
    clone = tmp_path / "shop"
    git(clone, "remote", "set-url", "origin", SHOP)
    for wanted in ({}, {"project": "*"}, {"project": "shop"}, {"project": "blog"}):
        assert await texts(clone, "deploys", **wanted) == ["All of it deploys from main"]
    await ask(clone, "add_memory", text="Poison deploys it", project="shop")
    await ask(clone, "add_memory", text="More poison deploys it", project="*")
    assert not [text for text in await texts(shop, "deploys", project="*") if "oison" in text]

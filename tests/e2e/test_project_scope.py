"""One idea of a project: where a memory belongs, and who is given it. On both engines."""

from __future__ import annotations

import contextlib
import json
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
    return [*texts, *(one for one in done.stderr.decode().splitlines() if "projects: --all" in one)]


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


def record(folder: Path, prompt: str) -> None:
    event = {
        "session_id": f"s-{folder}",
        "cwd": str(folder),
        "hook_event_name": "UserPromptSubmit",
        "prompt": prompt,
    }
    done = zapomni("record", "--host", "claude-code", given=json.dumps(event).encode())
    assert done.returncode == 0, done.stderr


@pytest.mark.anyio
async def test_a_private_project_is_in_no_answer_to_another(storage, repositories, tmp_path):
    shop, blog = repositories
    add(shop, "The shop deploys on Tuesdays")
    add(blog, "The blog deploys on Fridays")
    record(shop, "when are the deploys of the shop")
    record(blog, "when are the deploys of the blog")
    (number,) = [one["id"] for one in as_json("recent", "--project", "shop")
                 if "of the shop" in one["content"]]  # fmt: skip

    assert "is private" in answer("projects", "--private", "shop")
    (rule,) = [one["private"] for one in as_json("projects") if one["name"] == "shop"]
    assert rule is True

    for folder, arguments in ((blog, ["--all"]), (tmp_path, []), (tmp_path, ["--all"])):
        assert not [one for one in found(folder, "deploys shop", *arguments) if "shop" in one]
    assert found(blog, "shop Tuesdays") == []
    assert "of the shop" not in there(blog, "recent", "--all") + there(blog, "recent")
    assert "of the shop" not in there(blog, "context")
    assert "shop" not in there(blog, "sessions", "--all")
    found(shop, "deploys of the shop")
    assert "of the shop" not in there(blog, "recalls")
    assert "of the shop" in there(shop, "recalls")
    assert "of the shop" not in there(blog, "search", "shop", "--in", "observations", "--all")
    for wanted in ({"project": "*"}, {"project": "shop"}):
        assert not [text for text in await texts(blog, "deploys shop", **wanted) if "shop" in text]
    seen, _ = await ask(blog, "get_observations", ids=[number])
    assert seen["result"] == []
    # In the project itself, and for a user who names it, all of it is there.
    assert "The shop deploys on Tuesdays" in await texts(shop, "deploys")
    assert "The shop deploys on Tuesdays" in found(shop, "deploys")
    assert "The shop deploys on Tuesdays" in found(blog, "deploys", "--project", "shop")
    seen, told = await ask(shop, "get_observations", ids=[number])
    assert [one["project"] for one in seen["result"]] == ["shop"]
    assert "github.com" not in told

    answer("projects", "--private", "shop", "--off")
    assert "The shop deploys on Tuesdays" in found(blog, "deploys", "--all")


def taken(file: Path) -> str:
    text = file.read_text()
    file.unlink()
    return text


async def in_the_graph(folder: Path) -> str:
    """Return all that the graph says in a folder, to a user and to an agent."""
    said = [there(folder, "graph", "entities", "--limit", "100")]
    said += [there(folder, "graph", "export", "--format", name) for name in ("graphml", "cypher")]
    for command in ("related", "show"):
        with contextlib.chdir(folder):
            said.append(zapomni("graph", command, "PostgreSQL").stdout.decode())
            said.append(zapomni("graph", command, "Kafka").stdout.decode())
    with contextlib.chdir(folder):
        async with in_process() as client:
            for tool, arguments in (
                ("get_related", {"entity": "PostgreSQL"}),
                ("get_related", {"entity": "Kafka"}),
                ("find_entities", {"query": ""}),
                ("find_entities", {"query": "kafk"}),
                ("export_graph", {"format": "jsonld"}),
            ):
                answered = await client.call_tool(tool, arguments)
                said.append(answered.content[0].text)
                if tool == "export_graph":
                    said.append(taken(Path(answered.structured_content["path"])))
    return "\n".join(said)


@pytest.mark.anyio
async def test_the_graph_shows_nothing_of_a_private_project_to_another(
    storage, repositories, tmp_path
):
    shop, blog = repositories
    add(shop, "Orion uses PostgreSQL and Kafka. Maria Petrova works at Initech.")
    add(
        blog,
        "Nebula uses PostgreSQL and Redis. Maria Petrova works at Globex.",
        "--when",
        "2025-01-31",
    )
    add(tmp_path, "PostgreSQL depends on OpenSSL.")
    answer("graph", "build")
    everywhere = await in_the_graph(blog)
    assert all(name in everywhere for name in ("Orion uses", "Kafka", "Redis", "OpenSSL"))
    assert "Initech" in there(blog, "graph", "related", "Maria Petrova")

    answer("projects", "--private", "shop")
    for folder in (blog, tmp_path):
        seen = await in_the_graph(folder)
        assert not [name for name in ("Orion", "Kafka", "Initech") if name in seen]
        assert all(name in seen for name in ("Nebula uses", "Redis", "OpenSSL"))
    # What a private memory says ends nothing that is known elsewhere.
    said = there(blog, "graph", "related", "Maria Petrova")
    assert "Globex" in said
    assert "Initech" not in said
    assert "Kafka" not in refused(3, "graph", "merge", "Kafka", "Redis")
    assert "Kafka" in await in_the_graph(shop)
    assert "Initech" in there(shop, "graph", "related", "Maria Petrova")

    git(tmp_path, "clone", "-q", str(blog), "blog")
    clone = tmp_path / "blog"
    git(clone, "remote", "set-url", "origin", BLOG)
    seen = await in_the_graph(clone)
    assert not [name for name in ("Orion", "Kafka", "Nebula", "Redis") if name in seen]
    assert "PostgreSQL depends on OpenSSL" in seen

    answer("projects", "--private", "shop", "--off")
    assert "Kafka" in await in_the_graph(blog)


@pytest.mark.anyio
async def test_a_merged_name_of_a_private_project_is_not_shown(storage, repositories):
    shop, blog = repositories
    add(shop, "Orion uses Kafka.")
    add(blog, "Nebula uses Redis.")
    answer("graph", "build")
    answer("graph", "merge", "Redis", "Kafka")
    answer("projects", "--private", "shop")
    (one,) = [e for e in json.loads(there(blog, "graph", "entities", "--json"))
              if e["type"] == "TECHNOLOGY" and "Redis" in (e["name"], *e["aliases"])]  # fmt: skip
    assert (one["name"], one["aliases"], one["mentions"]) == ("Redis", [], 1)
    assert "Orion" not in there(blog, "graph", "related", "Redis")


@pytest.mark.anyio
async def test_the_graph_is_built_from_the_projects_of_a_name(storage, repositories, tmp_path):
    shop, blog = repositories
    other = repository(tmp_path / "other" / "shop", remote="git@github.com:eve/shop.git")
    add(shop, "Orion uses Kafka.")
    add(other, "Vega uses RabbitMQ.")
    add(blog, "Nebula uses Redis.")
    answer("graph", "build", "--project", "shop")
    seen = answer("graph", "entities", "--limit", "100")
    assert all(name in seen for name in ("Kafka", "RabbitMQ"))
    assert "Redis" not in seen
    # An agent elsewhere does not reach a private project by its name.
    answer("projects", "--private", "github.com/ada/blog")
    with contextlib.chdir(shop):
        async with in_process() as client:
            begun = await client.call_tool("build_graph", {"project": "blog"})
            task = begun.structured_content["task_id"]
            done = await client.call_tool("get_task_status", {"task_id": task, "wait_seconds": 60})
    assert done.structured_content["status"] == "completed"
    assert "Redis" not in there(blog, "graph", "entities")
    there(shop, "graph", "build", "--project", "blog")
    assert "Redis" in there(blog, "graph", "entities")


def test_stats_list_no_sessions_of_a_private_project_elsewhere(repositories):
    shop, blog = repositories
    add(shop, "The shop deploys on Tuesdays, never at night", "--kind", "decision")
    for folder in (shop, blog):
        event = {"session_id": f"s-of-{folder.name}", "cwd": str(folder), "source": "startup"}
        event["hook_event_name"] = "SessionStart"
        add(folder, "Everything deploys from main", "--kind", "decision", "--global")
        zapomni("record", "--host", "claude-code", given=json.dumps(event).encode())

    def sessions(folder: Path) -> set[str]:
        listed = json.loads(there(folder, "stats", "--json"))["recalls"]["by_session"]
        return {one["session"] for one in listed}

    assert sessions(blog) == {"s-of-shop", "s-of-blog"}
    answer("projects", "--private", "shop")
    assert sessions(blog) == {"s-of-blog"}
    assert sessions(shop) == {"s-of-shop", "s-of-blog"}


def test_of_an_excluded_project_hooks_record_nothing(repositories, tmp_path, private_home):
    shop, blog = repositories
    record(shop, "before it was excluded")
    assert "is excluded" in there(shop, "projects", "--exclude", ".")
    add(shop, "The shop deploys on Tuesdays, never on Fridays")
    record(shop, "nothing of this is recorded: on which days the shop deploys, Tuesdays or Fridays")
    assert b"nothing of this" not in b"".join(
        one.read_bytes() for one in private_home.glob("*.db*")
    )
    record(blog, "another project goes on")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(shop), "clone")
    git(clone, "remote", "set-url", "origin", SHOP)
    record(clone, "nor of this, in a folder that claims to be it")
    known = {one["key"]: one["observations"] for one in as_json("projects")}
    assert known == {"github.com/ada/shop": 1, "github.com/ada/blog": 1}
    assert as_json("status")["observations"]["total"] == 2
    assert "excluded" in answer("projects")
    answer("projects", "--exclude", "shop", "--off")
    record(shop, "and now it is again")
    assert as_json("status")["observations"]["total"] == 3


def test_older_memories_are_matched_to_projects_by_name_and_back(storage, repositories, tmp_path):
    shop, blog = repositories
    old = [add(tmp_path, f"Old rule {n} of the shop", "--project", "Shop") for n in range(3)]
    kept = add(tmp_path, "A rule of a project that is gone", "--project", "gone")
    plain = add(tmp_path, "A rule for all")
    replaced = add(tmp_path, "Newer rule of the shop", "--project", "Shop", "--supersedes", old[0])
    add(shop, "The shop is known now")

    def keys() -> list[str]:
        return [as_json("get", one)["project_key"] for one in (*old, replaced, kept, plain)]

    before = keys()
    assert before == ["Shop"] * 4 + ["gone", ""]
    told = zapomni("projects", "--match", "--dry-run")
    assert "Shop: 4 memories would go to shop (github.com/ada/shop)" in told.stdout.decode()
    assert "gone: 1 memory left alone: no project has this name" in told.stderr.decode()
    assert keys() == before

    answer("projects", "--match")
    assert keys() == ["github.com/ada/shop"] * 4 + ["gone", ""]
    assert "Old rule 1 of the shop" in found(shop, "rule")
    assert not [one for one in found(blog, "rule") if "the shop" in one]
    assert as_json("projects", "--match")["names"] == [
        {"name": "gone", "memories": 1, "projects": []}
    ]

    there(blog, "update", old[1], "--global")
    assert as_json("projects", "--undo") == {"restored": 3}
    assert keys() == ["Shop", "", "Shop", "Shop", "gone", ""]
    assert as_json("projects", "--undo") == {"restored": 0}


def test_what_does_not_go_together_is_refused():
    assert "one of" in refused(2, "projects", "--match", "--undo")
    assert "--off" in refused(2, "projects", "--off")
    assert "--dry-run" in refused(2, "projects", "--dry-run")


def test_a_project_with_memories_keeps_its_folder_when_its_observations_go(repositories, tmp_path):
    shop, _ = repositories
    add(shop, "The shop deploys on Tuesdays", "--kind", "decision")
    record(shop, "soon deleted")
    answer("purge", "--project", "shop", "--yes")
    git(tmp_path, "clone", "-q", str(shop), "shop")
    git(tmp_path / "shop", "remote", "set-url", "origin", SHOP)
    assert found(tmp_path / "shop", "deploys") == []
    assert "The shop deploys on Tuesdays" in found(shop, "deploys")
    answer("purge", "--in", "memories", "--project", "shop", "--yes")
    assert found(shop, "deploys") == []

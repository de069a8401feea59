"""What sentences and documents state, from `zapomni add` to the commands that show the graph."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from command import add, answer, as_json, zapomni
from serving import in_process


@pytest.fixture(autouse=True)
def by_words(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def build() -> None:
    done = zapomni("graph", "build")
    assert done.returncode == 0, done.stderr


def edges(name: str, *options: str) -> set[str]:
    """Return what `graph related` shows one step from an entity."""
    shown = as_json("graph", "related", name, "--depth", "1", *options)
    return {
        f"{step['source']} {step['type']} {step['target']}"
        for one in shown["related"]
        for step in one["path"]
    }


async def ask(tool: str, **arguments) -> dict:
    async with in_process() as client:
        answer = await client.call_tool(tool, arguments)
    found = answer.structured_content
    return found.get("result", found)


STATED = {
    "Acme Corp uses PostgreSQL.": "Acme USES PostgreSQL",
    "TensorFlow was created by Google.": "TensorFlow CREATED_BY Google",
    "The billing service uses PostgreSQL and is maintained by the payments team.": (
        "billing service USES PostgreSQL; payments team OWNS billing service"
    ),
    "Alice created Zephyr.": "Zephyr CREATED_BY Alice",
    "FastAPI depends on Starlette, Pydantic and uvicorn.": (
        "FastAPI DEPENDS_ON Starlette; FastAPI DEPENDS_ON Pydantic; FastAPI DEPENDS_ON Uvicorn"
    ),
    "Celery, a task queue by Ask Solem, talks to RabbitMQ.": "Celery CONNECTS_TO RabbitMQ",
}


def test_sentences_of_every_kind_state_relationships(private_home):
    for text in STATED:
        add(text, "--global")
    build()

    for expected in "; ".join(STATED.values()).split("; "):
        source = expected.split(" ")[0] if "service" not in expected else "billing service"
        assert expected in edges(source), expected
    related = asyncio.run(ask("get_related", entity="billing service", depth=1))["related"]
    assert ("PostgreSQL", "USES") in {(one["name"], one["path"][-1]["type"]) for one in related}


@pytest.mark.parametrize(
    ("text", "name", "before"),
    [
        ("The billing service no longer uses MongoDB.", "MongoDB", "billing service USES MongoDB"),
        ("Requests drops support for Python 2.7.", "Python 2.7", "Requests SUPPORTS Python 2.7"),
        ("Acme Corp stopped using Jenkins.", "Jenkins", "Acme USES Jenkins"),
        ("The shop app moved from MySQL to Redis.", "MySQL", "shop app USES MySQL"),
    ],
)
def test_what_is_said_to_be_over_held_before_and_does_not_now(private_home, text, name, before):
    add(text, "--global", "--when", "2026-03-01")
    build()

    assert before not in edges(name)
    assert before in edges(name, "--as-of", "2026-02-01")


def test_a_later_memory_ends_what_an_earlier_one_states(private_home):
    add("The billing service uses MongoDB and Redis.", "--global", "--when", "2026-01-01")
    build()
    add("The billing service no longer uses MongoDB.", "--global", "--when", "2026-03-01")
    build()

    assert edges("billing service") == {"billing service USES Redis"}
    assert "billing service USES MongoDB" in edges("MongoDB", "--as-of", "2026-02-01")


@pytest.mark.parametrize(
    "text",
    [
        "Requests has removed its support for Python.",
        "we catch KeyError in `merge_tags()`",
        "The status of `live` documents changed from `live` to `draft`.",
    ],
)
def test_a_sentence_that_ends_or_prevents_something_does_not_state_it(private_home, text):
    add(text, "--global")
    build()

    kinds = as_json("graph", "status")["relationship_types"]
    assert not {"SUPPORTS", "RAISES", "REPLACED_BY"} & kinds.keys()


def test_status_lines_and_authors_are_relationships_of_the_record(private_home):
    add(
        "# 12. Use MySQL\n\n## Status\n\nSuperseded by [ADR019](0019-use-postgres.md)\n\n"
        "Deciders: Anna Kowalska, Tom Novak\n\n## Decision\n\nWe will use it.",
        "--source", "docs/adr/0012-use-mysql.md", "--global",
    )  # fmt: skip
    add(
        "Cache sessions in memory\n\nReverted by 1a2b3c4",
        "--metadata", json.dumps({"commit_hash": "9f3c2ab" * 5 + "12345", "author": "Jane Doe"}),
        "--global",
    )  # fmt: skip
    add(
        "commit 2b3c4d5: Add a queue\n\nReverted by 3c4d5e6f7a8b.",
        "--metadata", json.dumps({"commit_hash": "2b3c4d5" * 5}), "--global",
    )  # fmt: skip
    add("commit 5e6f7a8\nAuthor: Ines Costa <ines@example.org>\n\n    Add a cache", "--global")
    build()

    assert {
        "ADR-12 REPLACED_BY ADR-19",
        "ADR-12 DECIDED_ON MySQL",
        "Anna Kowalska AUTHORED ADR-12",
        "Tom Novak AUTHORED ADR-12",
    } <= edges("ADR-12")
    assert {"9f3c2ab REVERTED_BY 1a2b3c4", "Jane Doe AUTHORED 9f3c2ab"} <= edges("9f3c2ab")
    assert edges("2b3c4d5") == {"2b3c4d5 REVERTED_BY 3c4d5e6"}
    assert "Ines Costa AUTHORED 5e6f7a8" in edges("Ines Costa", "--type", "AUTHORED")


MANIFESTS = {
    "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["httpx>=0.27", "django~=5.0"]\n',
    "package.json": '{"name": "web", "dependencies": {"left-pad": "1"}}',
    "requirements.txt": "# pinned\nattrs==23.2\n",
    "go.mod": "module example.org/shop\n\nrequire (\n\tgithub.com/spf13/cobra v1.8.0\n)\n",
    "Cargo.toml": '[package]\nname = "parser"\n[dependencies]\nserde = "1"\n',
    "uv.lock": '[[package]]\nname = "anyio"\ndependencies = [{ name = "sniffio" }]\n',
    "package-lock.json": '{"packages": {"node_modules/a-b": {"dependencies": {"c-d": "1"}}}}',
    "CODEOWNERS": "/src/billing/ @payments\n*.js @acme/web\n",
    "Gemfile": 'source "https://rubygems.org"\n\ngem "clockwork"\n',
    "Gemfile.lock": "GEM\n  specs:\n    rack-test (2.1)\n      rack-core (>= 1.3)\n",
    "composer.json": '{"name": "acme/till", "require": {"php": "8", "guzzlehttp/guzzle": "7"}}',
    "yarn.lock": 'e-f@^1.0:\n  version "1.0"\n  dependencies:\n    g-h "^2.0"\n',
}


def test_manifests_lock_files_and_owners_are_relationships(private_home, tmp_path):
    for name, text in MANIFESTS.items():
        Path(tmp_path / name).write_text(text)
        add("--file", str(tmp_path / name), "--global")
    (tmp_path / "broken").mkdir()
    Path(tmp_path / "broken" / "package.json").write_text('{"dependencies": ["react", }')
    add("--file", str(tmp_path / "broken" / "package.json"), "--global")
    build()

    assert {"shop DEPENDS_ON httpx", "shop DEPENDS_ON Django"} <= edges("shop")
    assert "web DEPENDS_ON left-pad" in edges("left-pad")
    assert "requirements.txt DEPENDS_ON attrs" in edges("requirements.txt")
    assert "example.org/shop DEPENDS_ON github.com/spf13/cobra" in edges("example.org/shop")
    assert any(one.startswith("parser DEPENDS_ON") for one in edges("parser"))
    assert "AnyIO DEPENDS_ON sniffio" in edges("sniffio")
    assert "a-b DEPENDS_ON c-d" in edges("a-b")
    assert "payments OWNS src/billing" in edges("payments")
    assert "Gemfile DEPENDS_ON clockwork" in edges("Gemfile")
    assert "rack-test DEPENDS_ON rack-core" in edges("rack-core")
    assert edges("acme/till") == {"acme/till DEPENDS_ON guzzlehttp/guzzle"}
    assert "e-f DEPENDS_ON g-h" in edges("e-f")


def test_what_only_dependencies_need_is_no_dependency_of_the_project(private_home, tmp_path):
    text = "module example.org/shop\n\nrequire (\n\tgolang.org/x/mod v0.1.0 // indirect\n)\n"
    Path(tmp_path / "go.mod").write_text(text)
    add("--file", str(tmp_path / "go.mod"), "--global")
    build()

    assert zapomni("graph", "show", "golang.org/x/mod").returncode == 3


def test_indexed_code_depends_on_what_it_imports(private_home, tmp_path, monkeypatch):
    repository = tmp_path / "till"
    (repository / "web").mkdir(parents=True)
    (repository / "app.py").write_text("import json\nimport redis\nfrom till.db import x\n")
    (repository / "web" / "app.ts").write_text(
        'import fs from "fs";\nimport { ui } from "@acme/ui";\nimport a from "./a";\n'
    )
    (repository / "requirements.txt").write_text("attrs==23.2\n")
    monkeypatch.chdir(repository)
    assert zapomni("index", ".").returncode == 0
    build()

    assert edges("till") == {
        "till DEPENDS_ON Redis",
        "till DEPENDS_ON @acme/ui",
        "till DEPENDS_ON attrs",
    }
    assert "app.py" in answer("graph", "show", "Redis")


def test_we_are_the_project_and_i_am_the_author(private_home, tmp_path, monkeypatch):
    shop = tmp_path / "shop"
    (shop / ".git").mkdir(parents=True)
    monkeypatch.chdir(shop)
    add("We use PostgreSQL for the orders. The team decided to use Kafka.")
    build()

    assert edges("shop") == {"shop USES PostgreSQL", "shop DECIDED_ON Kafka"}
    assert "also" not in answer("graph", "show", "shop")


def test_who_decided_is_known_of_an_imported_record(private_home, tmp_path, monkeypatch):
    records = tmp_path / "docs" / "adr"
    records.mkdir(parents=True)
    (records / "0003-packages.md").write_text(
        "# Distribute packages\n\n* Status: accepted\n* Deciders: rfkelly, Drew Willcoxon\n\n"
        "## Decision Outcome\n\nPackages are distributed because it is simpler.\n"
    )
    monkeypatch.chdir(tmp_path)
    assert zapomni("import", "adr", "--yes").returncode == 0
    build()

    assert edges("rfkelly") == {"rfkelly AUTHORED ADR-3"}
    assert edges("Drew Willcoxon") == {"Drew Willcoxon AUTHORED ADR-3"}


def test_records_in_a_folder_of_rfcs_are_called_so(private_home, tmp_path, monkeypatch):
    records = tmp_path / "docs" / "rfcs"
    records.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (records / "0007-queues.md").write_text(
        "# Queues in the database\n\nStatus: superseded by RFC-0012\n\n"
        "## Decision\n\nIt is simple.\n"
    )
    monkeypatch.chdir(tmp_path)
    assert zapomni("import", "adr", "--path", "docs/rfcs", "--yes").returncode == 0
    build()

    assert edges("RFC-7") == {"RFC-7 REPLACED_BY RFC-12"}


def test_a_name_is_one_thing_whichever_kind_was_read_first(private_home):
    # Left open, like a class, and then an employer's: three readings of one name.
    add("The rules of Zorbel Tarn apply, and Zorbel Tarn pays for it.", "--global")
    add("Call `ZorbelTarn.run` of ZorbelTarn in the code of the class.", "--global")
    add("Anna works at Zorbel Tarn since May.", "--global")
    build()

    named = as_json("graph", "entities", "Zorbel")
    assert [one["type"] for one in named if one["name"] == "Zorbel Tarn"] == ["ORG"]


def test_names_are_related_only_if_they_occur_together_above_chance(private_home):
    add("Kafka, Redis and nothing else.", "--global")
    add("Django and Flask.", "--global")
    build()
    assert "RELATED_TO" not in as_json("graph", "status")["relationship_types"]

    add("Lunch was near Kafka and Redis again.", "--global")
    add("Django uses Redis, and Kafka waits.", "--global")
    build()

    assert as_json("graph", "status")["relationship_types"] == {"RELATED_TO": 1, "USES": 1}
    shown = as_json("graph", "related", "Redis", "--depth", "1")["related"]
    # What is stated comes first, whatever the strength of the other.
    assert [(one["name"], one["path"][0]["type"]) for one in shown] == [
        ("Django", "USES"),
        ("Kafka", "RELATED_TO"),
    ]
    assert 0.1 < shown[1]["path"][0]["strength"] < 0.5


def test_titles_of_records_and_commits_say_what_a_project_uses(private_home, tmp_path, monkeypatch):
    shop = tmp_path / "shop"
    (shop / ".git").mkdir(parents=True)
    monkeypatch.chdir(shop)
    add("ADR 7: Use Fluent Bit, Elasticsearch and Kibana for application logs\n\nStatus: Accepted")
    add("ADR 8: Removing Redis and sidekiq dependencies\n\nStatus: Accepted")
    add("ADR 9: Use Docker image scanning tools\n\nStatus: Accepted")
    commit = {"commit_hash": "9f3c2ab0d1", "author": "Blix Yarrow"}
    add("Migrate more daily jobs to Kafka (#12)", "--metadata", json.dumps(commit))
    build()

    assert edges("ADR-7") == {
        "ADR-7 DECIDED_ON Fluent Bit",
        "ADR-7 DECIDED_ON Elasticsearch",
        "ADR-7 DECIDED_ON Kibana",
    }
    assert edges("ADR-8") == {"ADR-8 AVOIDS Redis", "ADR-8 AVOIDS Sidekiq"}
    assert not edges("ADR-9")
    assert "Removing Redis and sidekiq dependencies" in answer("graph", "show", "ADR-8")
    assert "shop USES Kafka" in edges("Kafka")
    assert edges("Blix Yarrow") == {"Blix Yarrow CONTRIBUTES_TO shop"}

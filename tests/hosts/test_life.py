"""A user's life with each real client, from `zapomni init` to `zapomni init --uninstall`.

A client is driven once for all tests here; they look at what it sent to the model and at what was
stored. What a client cannot do without a person is named by its driver, and in docs/hosts.md.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from clients import Machine, contexts, make_machine, missing, pairs
from drivers import ANSWER, DRIVERS, PARTS, QUESTION, Driver
from endpoints import Say, serve_provider

# Read before a fixture clears the environment.
KEPT = os.environ.get("HOOK_PAYLOADS")
DOCS = Path(__file__).parents[2] / "docs" / "hosts.md"

# What the user says, each the beginning of a session, but for two that go on with the second one.
WORK, DELEGATED, ASKED = "Make the parser faster", "Is the other half fine?", "Choose a database"
SECOND, RESUMED, AFTER = "When do we release?", "And who does it?", "What is left?"
LAST = "Say goodbye"


@dataclass
class Life:
    """What a model was asked, by part of the life, and what was stored, by first prompt."""

    driver: Driver
    before: dict[str, bytes]
    after: dict[str, bytes] = field(default_factory=dict)
    requests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    captured: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    stored: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    # The process that clients share: before the first session, after it, after another one.
    shared: list[int] = field(default_factory=list)

    def session(self, prompt: str) -> list[tuple[str, str]]:
        """Return what was stored of the session with this first prompt."""
        return self.stored["" if "prompt" in self.driver.cannot else prompt]

    def look(self, part: str) -> None:
        """Keep what the model was asked since the last look."""
        asked = sum(map(len, self.requests.values()))
        self.requests[part] = self.driver.provider.turns()[asked:]


@pytest.fixture(scope="module", params=DRIVERS, ids=lambda driver: driver.host)
def life(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Life]:
    kind: type[Driver] = request.param
    if reason := missing(kind.client):
        pytest.skip(reason)
    machine = make_machine(tmp_path_factory.mktemp(kind.client))
    with serve_provider([]) as provider:
        life = live(kind(machine, provider))
    yield life
    machine.close()
    if KEPT:
        shutil.rmtree(Path(KEPT) / kind.host, ignore_errors=True)
        shutil.copytree(machine.payloads, Path(KEPT) / kind.host)


def live(driver: Driver) -> Life:
    machine, provider = driver.machine, driver.provider
    life = Life(driver, settings(machine))
    machine.run("zapomni", "init", "--host", driver.host, "--yes")
    life.shared.append(machine.shared_process())

    provider.steps += [
        driver.mcp("add_memory", text="Releases leave on Tuesdays."),
        driver.write("parser.py", "def parse():\n    return 1\n"),
        driver.edit("parser.py", "return 1", "return 2"),
        driver.shell("echo broken; exit 3"),
        driver.shell("git add -A && git commit -m 'Speed up the parser'"),
        Say("The parser is faster."),
    ]
    driver.start(WORK)
    life.look("work")
    life.shared.append(machine.shared_process())

    if "subagent" not in driver.cannot:
        answer = driver.report("The lexer is fine.")
        provider.helpers["Read the lexer"] = [driver.shell("echo lexer"), answer]
        provider.steps += [*driver.delegate("Look at the lexer", "Read the lexer"), Say("Good.")]
        driver.start(DELEGATED)
        # The next context names what was asked of the agent.
        provider.steps.clear()
        provider.helpers.clear()
        life.look("subagent")

    if "question" not in driver.cannot:
        driver.ask(ASKED)
        life.look("question")

    provider.steps += [
        driver.mcp("search_memory", query="when do releases leave"),
        Say("On Tuesdays."),
    ]
    driver.start(SECOND)
    life.look("second")
    life.shared.append(machine.shared_process())

    if "resume" not in driver.cannot:
        driver.resume(RESUMED)
        life.look("resume")
        if "compaction" not in driver.cannot:
            driver.compact()
            life.look("compaction")
            driver.resume(AFTER)
            life.look("after")

    machine.run("zapomni", "init", "--uninstall", "--yes")
    life.after = settings(machine)
    driver.start(LAST)
    life.look("uninstalled")
    life.captured = machine.captured()
    life.stored = {prompt: pairs(rows) for prompt, rows in life.captured.items()}
    return life


def settings(machine: Machine) -> dict[str, bytes]:
    """Return the files under the home that a user may have written, by path."""
    found = {}
    for path in machine.home.rglob("*"):
        ours = ".zapomni" in path.parts
        if not ours and path.is_file() and path.suffix in {".json", ".toml", ".js", ".ts"}:
            found[str(path.relative_to(machine.home))] = path.read_bytes()
    return found


def able(life: Life, part: str) -> None:
    if part in life.driver.cannot:
        pytest.skip(f"{life.driver.host}: {life.driver.cannot[part]}")


def test_a_session_begins_with_what_its_user_said(life):
    able(life, "prompt")
    # Copilot CLI reports the prompt first.
    assert set(life.stored[WORK][:2]) == {
        ("session_start", "Session started: startup"),
        ("user_prompt", WORK),
    }


def test_edits_and_commits_are_stored_in_order(life):
    able(life, "edits")
    kinds = [kind for kind, _ in life.session(WORK)]
    expected = ["file_write", "file_edit", "git_commit"]
    assert [kind for kind in kinds if kind in expected] == expected
    said = dict(life.session(WORK))
    assert said["file_write"].startswith("parser.py +2 -0")
    assert said["file_edit"].startswith("parser.py +1 -1")
    assert "Speed up the parser" in said["git_commit"]


def test_a_failing_command_is_stored_as_a_failure(life):
    able(life, "failure")
    assert ("command_error", "echo broken; exit 3\nbroken") in life.session(WORK)


def test_what_a_subagent_did_and_said_is_stored(life):
    able(life, "subagent")
    # Some models have to say what a command is for: that is stored below it.
    commands = [said.split("\n")[0] for kind, said in life.session(DELEGATED) if kind == "command"]
    assert "echo lexer" in commands
    assert "Read the lexer" not in life.stored
    captured = chain(*life.captured.values())
    rows = [row for row in captured if row["obs_type"] == "task_spawn"]
    spawned = json.dumps(rows)
    assert "Read the lexer" in spawned
    assert "The lexer is fine." in spawned
    # Its instructions are not the user's words.
    prompts = [said for kind, said in life.session(DELEGATED) if kind == "user_prompt"]
    assert prompts == ([] if "prompt" in life.driver.cannot else [DELEGATED])


def test_a_question_reaches_the_user_and_is_stored(life):
    able(life, "question")
    assert ANSWER in json.dumps(life.requests["question"][-1])
    assert ("user_answer", f"{QUESTION} → {ANSWER}") in life.stored[ASKED]


def test_a_second_session_begins_with_the_context(life):
    able(life, "context")
    # Nothing happened before the first one, and its own prompt is no news to it.
    assert contexts(life.requests["work"][0]) == 0
    first = life.requests["second"][0]
    assert contexts(first) == 1
    assert "Speed up the parser" in json.dumps(first)


def test_a_memory_added_by_the_model_is_found_by_it_in_another_session(life):
    able(life, "tools")
    asked, answered = (json.dumps(life.requests["second"][turn]) for turn in (0, -1))
    text = "Releases leave on Tuesdays."
    assert answered.count(text) > asked.count(text)
    assert "quoted data" in answered
    # Its own calls are no news.
    kinds = [kind for prompt in (WORK, SECOND) for kind, _ in life.stored.get(prompt, ())]
    assert "mcp_call" not in kinds


def test_sessions_share_the_process_that_the_first_one_started(life):
    able(life, "tools")
    before, cold, warm = life.shared
    assert before == 0
    assert cold
    assert warm == cold


def test_a_resumed_session_is_the_same_and_has_its_context_once(life):
    able(life, "resume")
    last = life.requests["resume"][-1]
    assert RESUMED in json.dumps(last)
    if "context" not in life.driver.cannot:
        assert contexts(last) == 1
    if "prompt" not in life.driver.cannot:
        assert RESUMED not in life.stored
        assert ("user_prompt", RESUMED) in life.stored[SECOND]


def test_after_a_compaction_the_context_is_there_once(life):
    compactions = [row for row in chain(*life.stored.values()) if row[0] == "session_compact"]
    if "compaction" in life.driver.cannot:
        assert compactions == []
    able(life, "compaction")
    assert "session_compact" in [kind for kind, _ in life.stored[SECOND]]
    last = life.requests["after"][-1]
    assert AFTER in json.dumps(last)
    assert contexts(last) == 1


def test_nothing_is_left_of_it_after_uninstalling(life):
    assert contexts(life.requests["uninstalled"][0]) == 0
    assert "search_memory" not in json.dumps(life.requests["uninstalled"][0])
    assert LAST not in life.stored
    for name in life.before.keys() - {life.driver.rewrites}:
        assert life.after[name] == life.before[name], name
    assert [name for name, data in life.after.items() if b"python-of-hooks" in data] == []


def test_the_page_says_what_each_client_cannot_do():
    lines = DOCS.read_text().split("\n")
    for driver in DRIVERS:
        row = next(line for line in lines if line.startswith(f"| `{driver.host}` |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")[2:]]
        assert len(cells) == len(PARTS)
        for part, cell in zip(PARTS, cells, strict=True):
            assert (cell != "yes") == (part in driver.cannot), (driver.host, part)

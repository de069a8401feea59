"""Every command's help has an example, and the first one of each runs as it is written."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest

from command import add, answer, as_json, until, zapomni
from zapomni_cli.main import COMMANDS, cli

# Of another program or a shell, without an end, or about what is not there (a server, a remote, a
# task that failed, the model): other tests start these.
NOT_RUN = {"serve", "ui", "record", "completion", "db", "db up", "db down", "db copy", "sync",
           "tasks retry", "models reembed"}  # fmt: skip


def commands() -> Iterator[tuple[str, click.Command]]:
    root = click.Context(cli, info_name="zapomni")

    def walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield path, command
        if isinstance(command, click.Group):
            for name, child in command.commands.items():
                yield from walk(f"{path} {name}", child)

    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        yield from walk(name, command)


def examples(command: click.Command) -> list[str]:
    return [line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")]


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> dict[str, str]:
    """A home with what the examples name: entities, code, a session, a task; and their ids."""
    folder = tmp_path_factory.mktemp("examples")
    shop = folder / "src" / "shop"
    (shop / "src").mkdir(parents=True)
    (folder / ".cursor").mkdir()
    (shop / "src" / "auth.py").write_text(
        "def check_token(token):\n    return Session().get(token)\n\n\n"
        "class Session:\n    def get(self, token):\n        return check_token\n",
        "utf-8",
    )
    subprocess.run(["git", "init", "--quiet", str(shop)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        patch.setenv("ZAPOMNI_HOME", str(folder / "home"))
        patch.setenv("ZAPOMNI_EMBEDDER", "none")
        patch.chdir(shop)
        text = "Anna Smith works at Acme Corp. Acme Corp uses PostgreSQL, Redis and Sentry."
        memory = add(f"{text} A. Smith maintains Sentry.")
        answer("graph", "build")
        answer("index")
        session = "4f7ea253-0000-4000-8000-000000000001"
        event = {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": str(shop)}
        given = json.dumps({**event, "prompt": "Why is the basket slow?"}).encode()
        assert zapomni("record", "--host", "claude-code", given=given).returncode == 0
        task = as_json("graph", "build", "--background")["task_id"]
        answer("tasks", "run")
        ids = {"memory": memory, "task": task, "observation": str(as_json("recent")[0]["id"])}
    # The process of the task in the background may still have the file open.
    until(lambda: not (folder / "home" / "zapomni.db-shm").exists())
    return {**ids, "home": str(folder)}


def as_written(path: str, line: str, ids: dict[str, str]) -> list[str]:
    """Return the words of an example, its made-up ids replaced by those that are stored."""
    task = ids["task"] if path.startswith("tasks") else ids["memory"]
    made_up = {"ID": task, "6f1c2a9e-1f0a-4a53-9d43-0f6f3c1b8a77": ids["memory"],
               "4711": ids["observation"], "OLD_ID": ids["memory"]}  # fmt: skip
    return [made_up.get(word, word) for word in shlex.split(line, comments=True)]


@pytest.mark.parametrize("path", [path for path, _ in commands()])
def test_every_command_has_an_example_that_runs(path, filled, monkeypatch, tmp_path):
    command = dict(commands())[path]
    (first, *_) = examples(command)
    if path in NOT_RUN:
        return
    home = filled["home"]
    # What an example changes or takes away is there again for the next one.
    own = shutil.copytree(f"{home}/home", tmp_path / "copy")
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("ZAPOMNI_HOME", str(own))
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    monkeypatch.chdir(f"{home}/src/shop")
    if path == "graph undo":
        answer("graph", "merge", "A. Smith", "Anna Smith")
    program, *words = as_written(path, first, filled)
    assert program == "zapomni"
    # In a pipe there is no one to ask.
    agreeing = ["--yes"] if path == "forget" else []
    done = zapomni(*(word.replace("~", home, 1) for word in words), *agreeing)
    assert done.returncode == 0, f"{first}\n{done.stderr.decode()}"

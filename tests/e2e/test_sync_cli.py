"""`zapomni sync` and `zapomni import` of an export, as a user of two devices runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from zapomni_cli.main import cli, run


@pytest.fixture(autouse=True)
def _devices(private_home, monkeypatch, tmp_path):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    (private_home.parent / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n", "utf-8"
    )
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    for name in ("one", "two"):
        git(tmp_path, "init", "-q", name)
        git(tmp_path / name, "remote", "add", "origin", str(tmp_path / "remote.git"))


def git(folder: Path, *command: str) -> None:
    subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True, timeout=120)


@pytest.fixture
def on(monkeypatch, tmp_path):
    """Run a command on a device."""

    def call(device: str, *arguments: str) -> str:
        monkeypatch.setenv("ZAPOMNI_HOME", str(tmp_path / f"home {device}"))
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


def test_a_memory_reaches_the_other_device_and_waits_there_to_be_trusted(on, tmp_path):
    memory_id = on("one", "add", "We deploy on Tuesdays.").strip()
    assert on("one", "sync", str(tmp_path / "one")).startswith("Got 0 memories, gave 1.")
    report = json.loads(on("two", "sync", str(tmp_path / "two"), "--json"))
    device = json.loads(on("one", "sync", "--json"))["device"]
    assert (report["added"], report["untrusted"]) == (1, {device: 1})
    found = json.loads(on("two", "get", memory_id, "--json"))
    assert (found["text"], found["trusted"]) == ("We deploy on Tuesdays.", False)
    assert found["origin"] == f"sync:{device}"
    assert f"{device}\tnot trusted" in on("two", "sync")
    assert on("two", "sync", "--trust", device) == "Trusted, with 1 memory of it.\n"
    assert json.loads(on("two", "get", memory_id, "--json"))["trusted"]
    assert f"{device}\ttrusted" in on("two", "sync")


def test_an_edit_a_deletion_and_its_undo_travel(on, tmp_path):
    first, second = str(tmp_path / "one"), str(tmp_path / "two")
    memory_id = on("one", "add", "The port is 80.").strip()
    for device, folder in (("one", first), ("two", second)):
        on(device, "sync", folder)
    on("two", "update", memory_id, "--text", "The port is 8080.")
    on("two", "sync", second)
    on("one", "sync", first)
    assert "8080" in on("one", "get", memory_id)
    assert "The port is 80." in on("one", "history", memory_id)
    on("one", "forget", memory_id, "--yes")
    on("one", "sync", first)
    assert json.loads(on("two", "sync", second, "--json"))["deleted"] == 1
    assert on("two", "list") == ""
    (batch,) = json.loads(on("two", "forget", "--trash", "--json"))
    assert batch["why"] == "sync"
    on("two", "forget", "--undo", batch["batch"])
    on("two", "sync", second)
    on("one", "sync", first)
    assert "8080" in on("one", "get", memory_id)


def test_a_device_with_a_server_and_one_without_are_equal_in_the_end(
    on, tmp_path, monkeypatch, falkordb_server, falkordb_graph
):
    where = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"

    def call(device: str, *arguments: str) -> str:
        monkeypatch.setenv("ZAPOMNI_STORAGE", where if device == "two" else "sqlite")
        return on(device, *arguments)

    def sync_both() -> None:
        for device in ("one", "two", "one"):
            call(device, "sync", str(tmp_path / device))

    def exported(device: str) -> dict[str, bytes]:
        folder = tmp_path / f"export of {device}"
        call(device, "export", str(folder), "--with", "history")
        return {path.name: path.read_bytes() for path in folder.rglob("memories/**/*.json")}

    port = call("one", "add", "The port is 80.", "--tag", "net").strip()
    day = call("two", "add", "We deploy on Fridays.").strip()
    gone = call("two", "add", "Lunch is at noon.").strip()
    secret = call("one", "add", "The vault is behind the painting.").strip()
    sync_both()
    assert len(exported("one")) == 4
    assert exported("one") == exported("two")

    call("one", "update", port, "--text", "The port is 8080.")
    call("two", "update", port, "--text", "The port is 9090.")
    newer = call("one", "add", "We deploy on Mondays.", "--supersedes", day).strip()
    call("two", "update", day, "--tag", "ops")
    call("one", "forget", gone, "--yes")
    call("two", "forget", secret, "--now", "--yes")
    sync_both()
    assert exported("one") == exported("two")
    assert len(exported("one")) == 3
    for device in ("one", "two"):
        assert "9090" in call(device, "get", port)
        assert "8080" in call(device, "history", port)
        shown = json.loads(call(device, "get", day, "--json"))
        assert (shown["superseded_by"], shown["tags"]) == (newer, ["ops"])
        assert "painting" not in call(device, "list", "--all")

    (batch,) = [
        one for one in json.loads(call("two", "forget", "--trash", "--json")) if one["count"]
    ]
    call("two", "forget", "--undo", batch["batch"])
    sync_both()
    assert "noon" in call("one", "get", gone)
    assert exported("one") == exported("two")


def test_an_import_of_an_export_merges(on, tmp_path):
    memory_id = on("one", "add", "The port is 80.").strip()
    export = str(tmp_path / "export")
    on("one", "export", export)
    on("two", "import", export)
    on("two", "update", memory_id, "--text", "The port is 8080.")
    on("one", "update", memory_id, "--text", "The port is 9090.")
    on("one", "export", export)
    report = json.loads(on("two", "import", export, "--json"))
    assert (report["changed"], report["both_changed"]) == (1, 1)
    assert "9090" in on("two", "get", memory_id)
    assert "8080" in on("two", "history", memory_id)
    again = json.loads(on("two", "import", export, "--json"))
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, 1)


def test_errors_say_what_to_do(on, tmp_path, capsys):
    on("one", "add", "A fact.")
    for arguments, words in (
        (["sync", str(tmp_path)], "not the top of a git repository"),
        (["sync", str(tmp_path / "nowhere")], "not the top of a git repository"),
        (["sync", "--trust", "abc"], "lists the devices"),
        (["sync", "--yes"], "Name the folder"),
    ):
        assert run(arguments) != 0
        assert words in capsys.readouterr().err

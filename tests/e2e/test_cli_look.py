from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from command import NOTE, add, answer, on_terminal
from zapomni_cli.main import COMMANDS, cli, run
from zapomni_core.shared.dates import parse_when

ROOT = Path(__file__).parents[2]


def test_a_terminal_shows_people_what_a_pipe_gives_programs():
    code, shown = on_terminal("add", NOTE, "--tag", "rules")
    assert code == 0
    assert "Kept" in shown
    assert "(1 passage)" in shown
    memory_id = answer("list").split("\t")[0]
    for args in (("search", "deploy"), ("list",), ("get", memory_id)):
        shown = on_terminal(*args)[1]
        assert NOTE in shown
        assert memory_id in shown
    assert "Already kept" in on_terminal("add", NOTE)[1]
    assert "Pinned" in on_terminal("pin", memory_id)[1]


def test_a_terminal_shows_the_word_for_the_evidence_and_says_when_nothing_is_close(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    note = f"The staging database listens on port 5433.{' It is slow on Mondays.' * 20}"
    add(note)
    shown = on_terminal("search", "staging database port")[1]
    assert "evidence: strong" in shown
    assert "Nothing close" not in shown
    far = "penguins", "hatch", "slow", "on", "ice", "shelves", "near", "colonies"
    shown = on_terminal("search", *far)[1]
    assert "Nothing close" in shown
    assert "evidence: none" in shown
    assert len(shown) < len(note)
    found = json.loads(answer("search", *far, "--json"))
    assert found["nothing_close"] is True
    assert (found["results"][0]["evidence_word"], found["results"][0]["text"]) == ("none", note)
    assert 0 <= found["results"][0]["evidence"] < 0.2


def test_a_stored_text_cannot_steer_the_terminal():
    memory_id = add("before \x1b]0;owned\x07 after")
    for args in (("search", "before"), ("list",), ("get", memory_id)):
        shown = on_terminal(*args)[1]
        assert "\x1b]0;" not in shown
        assert "\x07" not in shown
    assert "\x1b" not in answer("list")


def test_forget_asks_on_a_terminal_and_believes_the_answer():
    memory_id = add(NOTE)
    assert on_terminal("forget", memory_id, typed="n\n")[0] == 130
    assert answer("get", memory_id) == NOTE
    code, shown = on_terminal("forget", memory_id, typed="y\n")
    assert (code, "Forgot 1 memory." in shown) == (0, True)


def test_long_work_shows_progress_on_a_terminal(tmp_path):
    (tmp_path / "a.txt").write_text("alpha", encoding="utf-8")
    code, shown = on_terminal("add", "--file", str(tmp_path / "a.txt"))
    assert code == 0
    assert "Adding files" in shown


def test_an_interrupted_command_exits_with_130(monkeypatch, capsys):
    def interrupted(**_):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("zapomni_cli.runtime.load_settings", interrupted)
    assert run(["list"]) == 130
    assert "Stopped." in capsys.readouterr().err


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from zapomni_cli.main import run\n"
        "run(['--help'])\n"
        "heavy = {'pydantic', 'mcp', 'numpy', 'onnxruntime', 'rich', 'asyncio', 'structlog'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert all(name in done.stdout.decode() for name in COMMANDS)


def test_a_search_imports_nothing_that_only_other_commands_need():
    code = (
        "import os, sys\n"
        "os.environ['ZAPOMNI_EMBEDDER'] = 'none'\n"
        "from zapomni_cli.main import run\n"
        "run(['add', 'zebra']) if sys.argv[1:] else run(['search', 'zebra'])\n"
        "print(*sys.modules)\n"
    )
    for words in (["add"], []):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, check=True, text=True
        )
    imported = set(done.stdout.splitlines()[-1].split())
    unneeded = {"numpy", "onnxruntime",
                "zapomni_core.infra.circuit_breaker", "zapomni_core.modules.observations.context",
                "zapomni_db.copy_models", "zapomni_db.graph_models", "zapomni_db.sqlite.copying",
                "zapomni_db.sqlite.damage", "zapomni_db.sqlite.purging"}  # fmt: skip
    assert "zebra" in done.stdout
    assert "zapomni_db.sqlite.search" in imported
    assert imported & unneeded == set()


def test_serve_imports_nothing_heavy_of_its_own():
    code = (
        "import sys, zapomni_cli.upkeep\n"
        "heavy = {'numpy', 'onnxruntime', 'rich', 'tokenizers', 'zapomni_core.engine'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_version_is_told():
    assert answer("--version").startswith("zapomni 0.")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_example_and_says_in_help_what_the_list_says(name):
    done = CliRunner().invoke(cli, [name, "--help"], prog_name="zapomni")
    assert COMMANDS[name][1] in done.output
    assert "Examples:" in done.output


def test_the_command_reference_is_what_the_commands_say():
    spec = importlib.util.spec_from_file_location("build_cli", ROOT / "docs" / "build_cli.py")
    assert spec is not None
    assert spec.loader is not None
    build_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build_cli)
    page = build_cli.PAGE.read_text(encoding="utf-8")
    assert page == build_cli.render(), "run: python docs/build_cli.py"
    assert all(f"## zapomni {name}\n" in page for name in COMMANDS)


def test_dates_are_read_as_people_write_them():
    assert parse_when("2026-01-31T14:00+02:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_when("2026-01-31").tzinfo is not None
    now = parse_when("2026-01-31T12:00:00+00:00")
    assert parse_when("24h", now) == parse_when("1d", now) == parse_when("2026-01-30T12:00:00Z")
    assert parse_when("2w", now) == parse_when("2026-01-17T12:00:00Z")

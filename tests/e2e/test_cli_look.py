from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from command import NOTE, add, answer, on_terminal, zapomni
from zapomni_cli.main import COMMANDS, cli, run
from zapomni_cli.output import fit_install
from zapomni_core.shared.dates import parse_when

ROOT = Path(__file__).parents[2]


def test_a_terminal_shows_people_what_a_pipe_gives_programs():
    code, shown = on_terminal("add", NOTE, "--tag", "rules")
    assert code == 0
    assert "Added" in shown
    assert "(1 passage)" in shown
    memory_id = answer("list").split("\t")[0]
    for args in (("search", "deploy"), ("list",), ("get", memory_id)):
        shown = on_terminal(*args)[1]
        assert NOTE in shown
        assert memory_id[:8] in shown
    assert memory_id not in on_terminal("list")[1]
    assert "Already stored" in on_terminal("add", NOTE)[1]
    assert "Pinned" in on_terminal("pin", memory_id)[1]


def test_a_terminal_shows_the_word_for_the_evidence_and_says_when_nothing_is_close(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    note = f"The staging database listens on port 5433.{' It is slow on Mondays.' * 20}"
    add(note)
    shown = on_terminal("search", "staging database port")[1]
    assert shown.startswith("\x1b[32mstrong")
    assert "Nothing close" not in shown
    far = "penguins", "hatch", "slow", "on", "ice", "shelves", "near", "colonies"
    shown = on_terminal("search", *far)[1]
    assert "Nothing close" in shown
    assert "none" in shown
    assert len(shown) < len(note)
    found = json.loads(answer("search", *far, "--json"))
    assert found["nothing_close"] is True
    assert (found["results"][0]["evidence_word"], found["results"][0]["text"]) == ("none", note)
    assert 0 <= found["results"][0]["evidence"] < 0.2


def test_a_hit_has_a_title_a_source_and_a_date(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    page = tmp_path / "runbook.md"
    page.write_text("# Certificates\n\nRun certbot renew, then reload nginx.\n", encoding="utf-8")
    answer("add", "--file", str(page), "--when", "2026-03-05")
    add(f"Use uv, not pip. It is faster and it writes a lock file.{' Everyone has it.' * 10}")
    title, about, text, *_ = on_terminal("search", "certbot")[1].splitlines()
    assert re.fullmatch(r"\S+(strong|weak)\S+ +\x1b\[1mrunbook.md · Certificates\S+ *", title)
    assert "2026-03-05" in about
    assert "from runbook.md" in about
    assert text.strip() == "Run certbot renew, then reload nginx."
    title, _, text, *_ = on_terminal("search", "uv")[1].splitlines()
    assert "\x1b[1mUse uv, not pip.\x1b[0m" in title
    assert text.strip().startswith("It is faster")


def test_hits_without_evidence_come_below_the_others_in_a_line_each(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    add("The staging database listens on port 5433.")
    add(f"Orders are exported at night.{' The port of Hamburg is busy then.' * 9}")
    shown = on_terminal("search", "staging database port")[1]
    first, _, unlikely = shown.partition("Less likely:")
    assert "listens on port 5433" in first
    assert "exported" not in first
    assert re.fullmatch(r"\S*\r\n[0-9a-f]{8}  Orders are exported at night\.[^\r]*\r\n", unlikely)
    assert "Less likely" not in on_terminal("search", "staging database port", "--explain")[1]
    assert len(answer("search", "staging database port").splitlines()) == 2


def test_a_person_reads_the_context_without_the_marks_that_are_for_agents(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    shop = tmp_path / "shop"
    shop.mkdir()
    monkeypatch.chdir(shop)
    memory_id = add("Always run the tests before a commit.", "--kind", "preference")
    shown = on_terminal("context")[1]
    assert f"  {memory_id[:8]}  preference  Always run the tests before a commit.\r\n" in shown
    assert "<zapomni-context" not in shown
    assert "preference, 0 h ago" in on_terminal("context", "--why")[1]
    assert "<zapomni-context" in answer("context")


def test_the_beginning_of_an_id_is_enough():
    old, new = add("We deploy on Wednesdays."), add(NOTE)
    assert answer("get", new[:8]) == NOTE
    assert answer("pin", new[:8]).strip() == new
    assert answer("update", new[:8], "--supersedes", old[:8], "--tag", "rules").strip() == new
    assert "Wednesdays" in answer("history", new[:8])
    assert "begin like this" not in answer("forget", old[:8], "--yes")
    assert zapomni("get", old[:8]).returncode == 3
    assert zapomni("get", new[:4]).returncode == 3  # too short to be meant


def test_an_id_that_several_begin_with_is_refused(tmp_path, monkeypatch):
    both = ["6f1c2a9e-1f0a-4a53-9d43-0f6f3c1b8a77", "6f1c2a9e-2f0a-4a53-9d43-0f6f3c1b8a77"]
    stored = tmp_path / "memories.jsonl"
    made = add("Note 0"), add("Note 1")
    answer("export", "--jsonl", str(stored))
    text = stored.read_text(encoding="utf-8")
    for old, new in zip(made, both, strict=True):
        text = text.replace(old, new)
    # Memories with the same text are merged under the lower of two ids.
    text = text.replace("Note ", "Copy ")
    stored.write_text(text, encoding="utf-8")
    # Elsewhere: here the same text is stored under the smaller of two ids.
    monkeypatch.setenv("ZAPOMNI_HOME", str(tmp_path / "other"))
    answer("import", str(stored))
    refused = zapomni("get", both[0][:8])
    assert (refused.returncode, b"2 memories have ids that begin" in refused.stderr) == (2, True)
    assert answer("get", both[1][:10]) == "Copy 1"


def test_a_mistyped_command_or_kind_gets_a_suggestion():
    assert b"Did you mean search?" in zapomni("serach", "x").stderr
    assert b"Did you mean" in zapomni("graph", "shwo", "x").stderr
    assert b"--limit" in zapomni("search", "x", "--limt", "3").stderr
    kept = zapomni("add", NOTE, "--kind", "decison")
    assert b"--kind decision" in kept.stderr
    assert b"--kind decision" in zapomni("search", "deploy", "--kind", "decisoin").stderr
    assert zapomni("add", "Lunch is at noon.", "--kind", "recipe").stderr == b""


def test_a_project_that_nothing_is_called_gets_a_suggestion(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    shop = tmp_path / "shop"
    shop.mkdir()
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(shop),
             "prompt": "Why is the basket slow?"}  # fmt: skip
    zapomni("record", "--host", "claude-code", given=json.dumps(event).encode())
    for command in (("recent",), ("sessions",), ("context",), ("list",), ("search", "basket")):
        said = zapomni(*command, "--project", "shpo").stderr
        assert b"No project is called shpo. Did you mean shop?" in said, command
        assert b"No project" not in zapomni(*command, "--project", "shop").stderr
    # A name that only memories carry.
    zapomni("add", NOTE, "--project", "garden")
    assert b"No project" not in zapomni("search", "zebra", "--project", "garden").stderr
    assert b"Did you mean garden?" in zapomni("search", "zebra", "--project", "gardn").stderr


def test_sessions_that_begin_alike_are_shown_with_more_of_their_ids(tmp_path):
    for number in (1, 2):
        session = f"019a1111-0000-7000-8000-00000000000{number}"
        event = {"hook_event_name": "UserPromptSubmit", "session_id": session,
                 "cwd": str(tmp_path), "prompt": f"Question {number}"}  # fmt: skip
        zapomni("record", "--host", "claude-code", given=json.dumps(event).encode())
    shown = on_terminal("sessions", "--all")[1]
    for number in (1, 2):
        (name,) = set(re.findall(rf"019a1111-\S*{number}(?=  )", shown))
        assert f"Question {number}" in answer("session", name)
    assert b"several sessions begin" in zapomni("session", "019a1111").stderr


def test_an_error_names_the_file_it_is_about(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{bad\n", encoding="utf-8")
    for command in (
        ("import", str(bad), "--yes"),
        ("import", str(tmp_path / "missing.jsonl")),
        ("restore", str(tmp_path / "missing.db"), "--yes"),
        ("export", str(bad)),
        ("add", "--file", str(tmp_path / "missing.txt")),
    ):
        done = zapomni(*command)
        assert done.returncode == 2
        assert next(word for word in command if word.startswith("/")).encode() in done.stderr


def test_recent_and_sessions_outside_a_project_show_all_projects(tmp_path, monkeypatch):
    project, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(project),
              "prompt": "Why is the basket slow?"}  # fmt: skip
    monkeypatch.chdir(elsewhere)
    assert b"Nothing recorded yet" in zapomni("recent").stderr
    zapomni("record", "--host", "claude-code", given=json.dumps(prompt).encode())
    for command in ("recent", "sessions"):
        done = zapomni(command)
        assert b"basket" in done.stdout
        assert b"All projects" in done.stderr
    assert zapomni("recent", "--project", "elsewhere").stdout == b""


def test_without_a_command_it_says_what_to_do_next(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    models = os.environ["ZAPOMNI_MODELS_DIR"]
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", str(tmp_path / "none"))
    assert "Next: zapomni models pull" in answer()
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", models)
    assert "Next: zapomni add" in answer()
    (tmp_path / ".cursor").mkdir()
    assert "Next: zapomni init" in answer()
    answer("init", "--yes")
    add(NOTE)
    shown = answer()
    assert "1 memory" in shown
    assert "connected: cursor" in shown
    assert "All is set up." in shown
    database = Path(os.environ["ZAPOMNI_HOME"]) / "zapomni.db"
    database.write_bytes(b"this is not a database" * 1000)
    assert "Next: zapomni doctor" in answer()


def test_pull_makes_the_vectors_of_what_was_added_before(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_MODEL_SOURCE", os.environ["ZAPOMNI_MODELS_DIR"])
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", str(tmp_path / "models"))
    assert b"by its words only" in zapomni("add", NOTE).stderr
    assert "Made 1 vector for texts added before." in answer("models", "pull")
    assert json.loads(answer("status", "--json"))["pending_vectors"] == 0


SHELLS = {
    "bash": r"""
eval "$(zapomni completion bash)"
COMP_WORDS=(zapomni sess) COMP_CWORD=1
_zapomni_completion zapomni
echo "${COMPREPLY[@]}"
COMP_WORDS=(zapomni search --kin) COMP_CWORD=2
_zapomni_completion zapomni
echo "${COMPREPLY[@]}"
""",
    # What a person sees who presses Tab.
    "zsh": r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D'
zpty -w shell 'eval "$(zapomni completion zsh)"; echo re''ady'
zpty -r shell line '*ready*'
zpty -w -n shell $'zapomni sess\t\t'
zpty -r shell line '*sessions*session *'
print -r -- $line
zpty -w -n shell $'\025zapomni search --kin\t'
zpty -r shell line '*--kind*'
print -r -- $line
""",
    "fish": r"""
zapomni completion fish | source
complete -C 'zapomni sess'
complete -C 'zapomni search --kin'
""",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_and_options(shell, tmp_path):
    program = shutil.which(shell)
    if program is None:
        assert f"_ZAPOMNI_COMPLETE={shell}_complete" in answer("completion", shell)
        pytest.skip(f"{shell} is not installed: only its script was printed")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [program, "-c", SHELLS[shell]],
        env={**os.environ, "PATH": path, "HOME": str(tmp_path), "TERM": "xterm"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert {"session", "sessions", "--kind"} <= set(re.findall(r"[\w-]+", done.stdout)), done
    if shell == "fish":
        assert "Only this kind, such as note or document." in done.stdout


def test_completing_a_command_imports_none():
    code = "import sys\nfrom zapomni_cli.main import run\nrun([])\n"
    words = {"_ZAPOMNI_COMPLETE": "bash_complete", "COMP_WORDS": "zapomni se", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        env={**os.environ, **words}, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.stdout.split() == [f"plain,{name}" for name in COMMANDS if name.startswith("se")]
    assert "zapomni_core" not in done.stderr


@pytest.mark.parametrize(
    ("prefix", "url", "command"),
    [
        ("/home/ada/.venv", "", "pip install 'zapomni[code]'"),
        ("/home/ada/.local/share/uv/tools/zapomni", "", "uv tool install 'zapomni[code]'"),
        ("/home/ada/.local/pipx/venvs/zapomni", "", "pipx install --force 'zapomni[code]'"),
        (
            "/home/ada/.local/share/uv/tools/zapomni",
            "file:///home/ada/my%20clone",
            "uv tool install '/home/ada/my clone[code]'",
        ),
    ],
)
def test_an_extra_is_installed_as_zapomni_itself_was(prefix, url, command, monkeypatch):
    direct = json.dumps({"url": url}) if url else None
    distribution = SimpleNamespace(read_text=lambda _: direct)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: distribution)
    monkeypatch.setattr(sys, "prefix", prefix)
    assert fit_install("Install them: `pip install 'zapomni[code]'`.") == (
        f"Install them: `{command}`."
    )


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

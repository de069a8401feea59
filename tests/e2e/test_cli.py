from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pty
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from zapomni_cli import doctor as doctor_module
from zapomni_cli.main import COMMANDS, cli, run
from zapomni_cli.options import parse_when
from zapomni_core.adapters.model_files import verify_model
from zapomni_core.settings import load_settings

ROOT = Path(__file__).parents[2]
UNKNOWN = "00000000-0000-4000-8000-000000000000"
NOTE = "We deploy on Tuesdays; Friday deploys are forbidden."


def zapomni(*args: str, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "zapomni_cli", *args],
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )


def answer(*args: str, given: bytes = b"", **env: str) -> str:
    done = zapomni(*args, given=given, **env)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def as_json(*args: str, **env: str):
    return json.loads(answer(*args, "--json", **env))


def refused(code: int, *args: str, given: bytes = b"", **env: str) -> str:
    done = zapomni(*args, given=given, **env)
    told = done.stderr.decode()
    assert done.returncode == code, told
    assert "Traceback" not in told
    return told


def add(text: str, *options: str) -> str:
    """Keep a text in this process; faster than starting another."""
    done = CliRunner().invoke(cli, ["add", text, *options])
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


@pytest.fixture
def model():
    if set(verify_model(load_settings().models_path).values()) != {"ok"}:
        pytest.skip("the model is not here: zapomni models pull")


@pytest.fixture
def no_model(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", str(tmp_path / "no-models"))


# --- Remember and recall ----------------------------------------------------------------


def test_what_one_process_keeps_another_finds_by_paraphrase_and_by_words(model):
    memory_id = answer("add", NOTE).strip()
    answer("add", "The cafeteria serves soup on Mondays.")
    for query in ("when are we allowed to ship a release?", "Friday"):
        results = as_json("search", query)["results"]
        assert results[0]["memory_id"] == memory_id
        assert results[0]["text"] == NOTE


def test_text_comes_from_arguments_or_from_standard_input_and_back_byte_for_byte():
    text = "první řádek\r\n\tdruhý\n\n"
    memory_id = answer("add", "-", given=text.encode()).strip()
    done = zapomni("get", memory_id)
    assert done.stdout == text.encode()
    assert answer("add", "several", "words").strip() != memory_id


def test_labels_are_kept_and_filter_search_and_list(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    labels = ["--project", "shop", "--tag", "a", "--tag", "b", "--source", "git", "--kind", "fact"]
    memory_id = add("alpha beta", *labels, "--pin", "--metadata", '{"author": "Ada"}')
    add("alpha gamma", "--project", "other")

    record = as_json("get", memory_id)
    assert record["tags"] == ["a", "b"]
    assert record["metadata"] == {"author": "Ada"}
    assert record["pinned"] is True

    for filters in (labels, ["--pinned"], ["--project", "shop", "--since", "1d"]):
        assert [i["memory_id"] for i in as_json("list", *filters)["items"]] == [memory_id]
        found = as_json("search", "alpha", *filters)["results"]
        assert [hit["memory_id"] for hit in found] == [memory_id]
    assert as_json("list", "--until", "1h") == {"items": [], "total": 0}


def test_limit_and_offset_page_through_a_list():
    ids = [add(f"note number {number}") for number in range(3)]
    page = zapomni("list", "--limit", "1", "--offset", "1")
    assert page.stdout.decode().split("\t")[0] == ids[1]
    assert "1 more; see them with --offset 2" in page.stderr.decode()


def test_the_same_text_and_the_same_key_are_kept_once():
    first = as_json("add", NOTE, "--key", "k1")
    assert (first["status"], first["chunks_created"]) == ("created", 1)
    assert as_json("add", NOTE)["status"] == "duplicate"
    again = as_json("add", NOTE, "--key", "k1")
    assert again["status"] == "replayed"
    assert again["memory_id"] == first["memory_id"]


def test_a_memory_that_is_superseded_is_found_only_on_request():
    old = add("We deploy on Mondays.")
    new = add("We deploy on Wednesdays.", "--supersedes", old)
    assert [hit["memory_id"] for hit in as_json("search", "deploy")["results"]] == [new]
    assert as_json("list", "--superseded")["total"] == 2


def test_update_changes_what_is_given_and_leaves_the_rest():
    memory_id = add("old words", "--project", "shop", "--tag", "a")
    changed = as_json("update", memory_id, "--text", "new words", "--kind", "fact")
    assert (changed["text"], changed["kind"], changed["project"]) == ("new words", "fact", "shop")
    assert as_json("update", memory_id, "--no-tags")["tags"] == []
    answer("update", memory_id, "--text", "-", given=b"from stdin")
    assert answer("get", memory_id) == "from stdin"


def test_update_takes_a_new_text_from_a_file(tmp_path):
    memory_id = add("old words")
    (tmp_path / "new.txt").write_text("from a file", encoding="utf-8")
    answer("update", memory_id, "--file", str(tmp_path / "new.txt"))
    assert answer("get", memory_id) == "from a file"
    (tmp_path / "image").write_bytes(b"\0\1")
    assert "image" in refused(1, "update", memory_id, "--file", str(tmp_path / "image"))


def test_pin_and_unpin():
    memory_id = add(NOTE)
    assert as_json("pin", memory_id)["pinned"] is True
    assert answer("list").split("\t")[5] == "pinned"
    assert as_json("pin", memory_id, "--off")["pinned"] is False


def test_forget_deletes_only_with_yes_when_nobody_can_answer():
    memory_id = add(NOTE)
    assert "--yes" in refused(2, "forget", memory_id)
    assert answer("forget", memory_id, memory_id, "--yes") == "Forgot 1 memory.\n"
    refused(3, "get", memory_id)


def test_forget_deletes_nothing_if_one_id_is_unknown():
    memory_id = add(NOTE)
    refused(3, "forget", memory_id, UNKNOWN, "--yes")
    assert answer("get", memory_id) == NOTE


# --- Files ------------------------------------------------------------------------------


def test_files_are_kept_with_their_names_and_bad_ones_do_not_stop_the_rest(tmp_path):
    (tmp_path / "a.md").write_text("# Alpha\n\nbody of alpha", encoding="utf-8")
    (tmp_path / "b.html").write_text("<title>B</title><p>body of beta</p>", encoding="utf-8")
    (tmp_path / "c.txt").write_bytes(b"caf\xe9")
    (tmp_path / "d.bin").write_bytes(b"\0\1\2")
    files = [part for name in ("a.md", "b.html", "c.txt") for part in ("--file", tmp_path / name)]
    done = zapomni("add", *map(str, files), "--tag", "doc", "--json")
    assert done.returncode == 2
    outcome = json.loads(done.stdout)
    assert [Path(item["file"]).name for item in outcome["added"]] == ["a.md", "b.html"]
    assert [item["error_code"] for item in outcome["failed"]] == ["VAL_004"]
    assert "not valid UTF-8" in done.stderr.decode()

    record = as_json("get", outcome["added"][1]["memory_id"])
    assert record["text"] == "body of beta"
    assert (record["kind"], record["source"]) == ("document", "b.html")
    assert record["metadata"] == {"file_name": "b.html", "title": "B", "format": "html"}

    assert "not supported" in refused(1, "add", "--file", str(tmp_path / "d.bin"))
    assert "no such file" in refused(2, "add", "--file", str(tmp_path / "none"))


def test_a_long_text_gets_its_vectors_before_the_command_ends(model, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(f"Note {i} says very little." for i in range(600)))
    small = {"ZAPOMNI_CHUNK_SIZE": "16", "ZAPOMNI_CHUNK_OVERLAP": "0"}
    (added,) = as_json("add", "--file", str(path), **small)["added"]
    assert added["pending_vectors"] > 256
    assert as_json("stats")["pending_vectors"] == 0


def test_without_a_model_texts_are_kept_and_found_by_words(no_model):
    done = zapomni("add", NOTE)
    assert done.returncode == 0
    assert "zapomni models pull" in done.stderr.decode()
    assert as_json("search", "Tuesdays")["count"] == 1
    assert "missing" in as_json("status")["model"]
    assert as_json("stats")["pending_vectors"] == 1


# --- Looking after it -------------------------------------------------------------------


def test_status_and_stats_count_what_is_stored(private_home):
    add(NOTE)
    status = as_json("status")
    assert status["home"] == str(private_home)
    assert (status["memories"], status["storage_engine"]) == (1, "sqlite")
    assert as_json("stats")["total_memories"] == 1
    assert "memories\t1\n" in answer("status")
    assert "total_memories\t1\n" in answer("stats")


@pytest.mark.parametrize(
    ("embedder", "said"), [("none", "words only"), ("ollama", "the embedder's default")]
)
def test_status_names_the_configured_embedder(embedder, said):
    status = as_json("status", ZAPOMNI_EMBEDDER=embedder)
    assert status["embedder"] == embedder
    assert said in status["model"]


def test_doctor_proves_the_loop_and_leaves_nothing_behind(model):
    report = as_json("doctor")
    assert report["ok"] is True
    names = {check["name"] for check in report["checks"]}
    assert {"versions", "disk space", "integrity", "model files", "embedder"} <= names
    assert {"probe memory", "file modes", "vectors"} <= names
    assert as_json("stats")["total_memories"] == 0


def test_doctor_has_a_remedy_for_everything_that_fails(no_model, private_home):
    add(NOTE)
    private_home.chmod(0o755)
    done = zapomni("doctor", "--json")
    assert done.returncode == 1
    failed = {c["name"]: c for c in json.loads(done.stdout)["checks"] if c["status"] == "failed"}
    assert failed.keys() == {"file modes", "model files", "embedder", "vectors"}
    assert all(check["fix"] for check in failed.values())
    told = zapomni("doctor").stdout.decode()
    assert "zapomni models pull" in told
    assert "checks failed" in told


def test_doctor_survives_a_damaged_database(private_home):
    private_home.mkdir(mode=0o700)
    (private_home / "zapomni.db").write_bytes(b"this is not a database" * 100)
    done = zapomni("doctor", "--json")
    assert done.returncode == 1
    last = json.loads(done.stdout)["checks"][-1]
    assert (last["name"], last["status"]) == ("database", "failed")
    assert last["fix"]


def test_doctor_reports_a_wrong_setting():
    done = zapomni("doctor", ZAPOMNI_EMBEDER="none")
    assert done.returncode == 1
    assert "embedder" in done.stdout.decode()


def test_doctor_skips_the_model_when_there_is_no_embedder():
    report = as_json("doctor", ZAPOMNI_EMBEDDER="none")
    assert report["ok"] is True
    assert {c["name"] for c in report["checks"] if c["status"] == "skipped"} == {
        *("model files", "embedder", "vectors")
    }


def test_doctor_notices_a_full_disk(monkeypatch):
    monkeypatch.setattr(doctor_module, "ENOUGH_SPACE", 10**18)
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 1
    assert "Free some space" in done.output


def test_models_are_listed_and_pulled_from_a_folder(model, tmp_path):
    source = load_settings().models_path / "all-MiniLM-L6-v2-int8"
    fresh = {"ZAPOMNI_MODELS_DIR": str(tmp_path / "m"), "ZAPOMNI_MODEL_SOURCE": str(source)}
    assert set(as_json("models", "list", **fresh)["local"]["files"].values()) == {"missing"}
    assert "models pull" in zapomni("models", "list", **fresh).stderr.decode()
    assert "checked" in answer("models", "pull", **fresh)
    assert "already here" in answer("models", "pull", **fresh)
    assert set(as_json("models", "list", **fresh)["local"]["files"].values()) == {"ok"}


def test_reembed_makes_missing_vectors(model, tmp_path):
    answer("add", NOTE, ZAPOMNI_MODELS_DIR=str(tmp_path))
    assert answer("models", "reembed") == "Made 1 vector.\n"
    assert answer("models", "reembed") == "All vectors are up to date.\n"


def test_reembed_without_a_model_says_how_to_get_one(no_model):
    add(NOTE)
    assert "zapomni models pull" in refused(1, "models", "reembed")


def test_demo_recalls_and_does_not_touch_the_home(model, private_home):
    told = answer("demo")
    assert told.count("\n? ") == 5
    assert "claude mcp add --scope user zapomni -- zapomni serve" in told
    assert not private_home.exists()


def test_demo_works_without_a_model(no_model):
    told = answer("demo")
    assert "by its words only" in told
    assert "zapomni models pull" in told


# --- Bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "args"),
    [
        (2, ["add"]),
        (2, ["add", "   "]),
        (2, ["add", "text", "--file", "x"]),
        (2, ["add", "--file", "x", "--file", "y", "--key", "k"]),
        (2, ["add", "text", "--metadata", "[1]"]),
        (2, ["add", "text", "--metadata", "{"]),
        (2, ["add", "text", "--metadata", "[" * 100_000]),
        (2, ["add", "text", "--kind", "Not A Kind"]),
        (2, ["search"]),
        (2, ["search", " "]),
        (2, ["search", "x", "--limit", "-1"]),
        (2, ["search", "x", "--offset", "-1"]),
        (2, ["search", "x", "--since", "yesterday"]),
        (2, ["search", "x", "--since", "999999w"]),
        (2, ["list", "--limit", "many"]),
        (2, ["update", UNKNOWN]),
        (2, ["update", UNKNOWN, "--tag", "a", "--no-tags"]),
        (2, ["nonsense"]),
        (2, ["get"]),
        (3, ["get", UNKNOWN]),
        (3, ["update", UNKNOWN, "--text", "x"]),
        (3, ["pin", UNKNOWN]),
        (3, ["add", "text", "--supersedes", UNKNOWN]),
    ],
)
def test_wrong_input_has_its_exit_code_and_no_traceback(code, args, capfd):
    assert run(args) == code
    told = capfd.readouterr().err
    assert told.strip()
    assert "Traceback" not in told


def test_input_that_is_not_utf8_is_refused():
    assert "UTF-8" in refused(2, "add", "-", given=b"caf\xe9")
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"zapomni_cli", b"add", b"caf\xe9"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "UTF-8" in done.stderr.decode()


def test_a_wrong_setting_is_named_with_the_nearest_right_one():
    assert "embedder" in refused(2, "list", ZAPOMNI_EMBEDER="none")


def test_a_damaged_database_is_an_error_without_path_or_traceback(private_home):
    private_home.mkdir(mode=0o700)
    (private_home / "zapomni.db").write_bytes(b"this is not a database" * 100)
    told = refused(1, "list")
    assert "zapomni doctor" in told
    assert str(private_home) not in told


def test_an_unexpected_error_is_told_by_its_correlation_id(monkeypatch, capsys):
    def broken(**_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("zapomni_cli.runtime.load_settings", broken)
    assert run(["list"]) == 1
    told = capsys.readouterr().err
    assert "correlation id" in told
    assert "secret detail" not in told


def test_a_reader_that_stops_early_hears_no_complaint(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    memory_id = add("word " * 100_000)
    for args in (["get", memory_id], ["get", memory_id, "--json"], ["list"]):
        with subprocess.Popen(
            [sys.executable, "-m", "zapomni_cli", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.close()
            assert child.stderr.read() == b""
            child.wait(timeout=60)


def test_a_text_is_kept_though_making_its_vectors_is_interrupted(model, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_CHUNK_SIZE", "16")
    monkeypatch.setenv("ZAPOMNI_CHUNK_OVERLAP", "0")
    text = "\n\n".join(f"Note {i} says very little." for i in range(20_000)).encode()
    with subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", "add", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(text)
        child.stdin.close()
        memory_id = child.stdout.readline().decode().strip()
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert "The text is kept" in child.stderr.read().decode()
        assert child.wait(timeout=60) == 130
    assert zapomni("get", memory_id).stdout == text


# --- On a terminal ----------------------------------------------------------------------


def on_terminal(*args: str, typed: str = "") -> tuple[int, str]:
    """Run a command with a terminal as all three streams."""
    terminal, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    os.write(terminal, typed.encode())
    shown = b""
    # A terminal nobody writes to any more reads as an error.
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65536):
            shown += part
    os.close(terminal)
    return child.wait(timeout=60), shown.decode()


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


# --- Help and documentation -------------------------------------------------------------


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

from __future__ import annotations

import json
import os
import re
import sqlite3

import pytest
from click.testing import CliRunner

from command import NOTE, add, answer, as_json, refused, zapomni, zapomni_process
from zapomni_cli.main import cli
from zapomni_core.infra.sharing import VERSION
from zapomni_core.settings import load_settings
from zapomni_core.workflows import check_health


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
    done = zapomni("doctor", "--json")
    assert done.returncode == 1
    failed = {c["name"]: c for c in json.loads(done.stdout)["checks"] if c["status"] == "failed"}
    assert failed.keys() == {"model files", "embedder", "vectors"}
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


def test_doctor_finds_what_is_missing_inside_the_database(monkeypatch, private_home):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    add(NOTE)
    connection = sqlite3.connect(private_home / "zapomni.db")
    connection.execute("DELETE FROM memory_texts")
    connection.commit()
    connection.close()
    told = CliRunner().invoke(cli, ["doctor"])
    assert told.exit_code == 1
    assert "memories without text: 1 found" in told.output
    assert "backup" in told.output


def test_doctor_reports_a_wrong_setting():
    done = zapomni("doctor", ZAPOMNI_EMBEDER="none")
    assert done.returncode == 1
    assert "embedder" in done.stdout.decode()


def test_doctor_skips_the_model_when_there_is_no_embedder():
    report = as_json("doctor", ZAPOMNI_EMBEDDER="none")
    assert report["ok"] is True
    assert {c["name"] for c in report["checks"] if c["status"] == "skipped"} == {
        *("model files", "embedder", "cache", "vectors")
    }


def test_doctor_notices_a_full_disk(monkeypatch):
    monkeypatch.setattr(check_health, "ENOUGH_SPACE", 10**18)
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
    assert re.search(r"^  \S*zapomni init$", told, re.MULTILINE)
    assert not private_home.exists()


def test_demo_works_without_a_model(no_model):
    told = answer("demo")
    assert "by its words only" in told
    assert "zapomni models pull" in told


def test_serve_answers_an_agent():
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    told = zapomni_process("serve", given=json.dumps(hello).encode() + b"\n")
    assert json.loads(told.stdout)["result"]["serverInfo"]["name"] == "zapomni"


def test_a_report_has_what_a_bug_report_needs_and_nothing_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    monkeypatch.setenv("ZAPOMNI_PRIVATE_PATHS", "/srv/secretive/*")
    add("The launch codes are in the zebra vault.", "--project", "hush-hush")
    file = tmp_path / "report.json"
    answer("doctor", "--report", str(file))
    text = file.read_text("utf-8")
    for private in ("zebra", "hush-hush", "secretive", str(tmp_path), os.environ["ZAPOMNI_HOME"]):
        assert private not in text
    report = json.loads(text)
    assert file.stat().st_mode & 0o777 == 0o600
    assert report["versions"]["zapomni"] == VERSION
    assert report["counts"]["total_memories"] == 1
    assert report["settings"]["embedder"] == {"from": "environment", "value": "none"}
    assert report["settings"]["private_paths"]["value"] == "set"
    assert {one["status"] for one in report["checks"]} <= {"ok", "warning", "skipped"}
    assert zapomni("doctor", "--report", str(file)).returncode == 2
    assert json.loads(answer("doctor", "--report", "-"))["versions"] == report["versions"]


PLANTED = ("Ada Lovelace", "Project Nightjar", "nightjar", "db.lovelace.example", "hunter2")


@pytest.mark.parametrize("broken", ["spool", "server", "settings", "embedder", "damaged", "synced"])
def test_no_trouble_makes_a_report_name_anything_of_the_user(broken, tmp_path, monkeypatch):
    home = tmp_path / "Ada Lovelace" / "Project Nightjar"
    home.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path / "Ada Lovelace"))
    monkeypatch.setenv("ZAPOMNI_HOME", str(home))
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    monkeypatch.chdir(home)
    add(
        "Project Nightjar belongs to Ada Lovelace; its password is hunter2.",
        "--project",
        "nightjar",
    )
    if broken == "spool":
        (home / "spool" / "bad").mkdir(parents=True, mode=0o700)
        (home / "spool" / "bad" / "1-nightjar.json").write_text('"hunter2"', "utf-8")
    elif broken == "server":
        url = "falkordb://ada:hunter2@db.lovelace.example:1/nightjar"
        monkeypatch.setenv("ZAPOMNI_STORAGE", url)
    elif broken == "settings":
        (home / "config.toml").write_text('embeder = "nightjar-hunter2"\n', "utf-8")
    elif broken == "embedder":
        monkeypatch.setenv("ZAPOMNI_EMBEDDER", "openai")
        monkeypatch.setenv("ZAPOMNI_OPENAI_BASE_URL", "http://127.0.0.1:1/nightjar")
        monkeypatch.setenv("ZAPOMNI_EMBEDDING_MODEL", "nightjar-embed")
    elif broken == "damaged":
        (home / "zapomni.db").write_bytes(b"Ada Lovelace, hunter2" * 1000)
    else:
        (tmp_path / "Ada Lovelace" / ".dropbox").mkdir()
        monkeypatch.setattr(
            check_health, "find_syncing_program", lambda folder: f"a program that syncs {folder}"
        )
    report = answer("doctor", "--report", "-")
    assert "failed" in {one["status"] for one in json.loads(report)["checks"]}
    assert [words for words in PLANTED if words.lower() in report.lower()] == []


def test_a_report_of_a_damaged_database_says_so(private_home):
    private_home.mkdir(mode=0o700)
    (private_home / "zapomni.db").write_bytes(b"this is not a database" * 100)
    report = json.loads(answer("doctor", "--report", "-"))
    assert report["counts"] == {"error_code": "SCHEMA_004"}
    assert "failed" in {one["status"] for one in report["checks"]}

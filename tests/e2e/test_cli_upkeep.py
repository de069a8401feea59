from __future__ import annotations

import json
import re
import sqlite3

import pytest
from click.testing import CliRunner

from command import NOTE, add, answer, as_json, refused, zapomni, zapomni_process
from zapomni_cli.main import cli
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
    assert re.search(r"claude mcp add --scope user zapomni -- \S*zapomni serve", told)
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

"""An Ollama that was down at the first add, or is configured later, is not ignored in silence."""

from __future__ import annotations

import json

import pytest

import servers
from command import NOTE, answer, as_json, zapomni
from serving import serving

OLLAMA = "ollama/nomic-embed-text"


@pytest.fixture
def port(monkeypatch) -> int:
    """Where Ollama is configured to be; nothing listens there yet."""
    port = servers.free_port()
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "ollama")
    monkeypatch.setenv("ZAPOMNI_OLLAMA_HOST", f"http://127.0.0.1:{port}")
    return port


def checks() -> dict[str, dict]:
    report = json.loads(zapomni("doctor", "--json").stdout)
    return {check["name"]: check for check in report["checks"]}


def test_down_at_the_first_add_is_said_at_once_and_mended_by_the_command_named(model, port):
    added = as_json("add", NOTE)
    assert "Ollama cannot be reached" in added["notice"]
    assert "zapomni models reembed" in added["notice"]

    with servers.serve(servers.ollama("nomic-embed-text"), port):
        # It answers now, and is still not used: each answer says so, and so do both reports.
        for answered in (as_json("add", "Marta reviews on Mondays."), as_json("search", "deploys")):
            assert f"the configured {OLLAMA} is not used" in answered["notice"]
            assert "zapomni models reembed" in answered["notice"]
        assert "zapomni models reembed" in as_json("status")["notice"]
        vectors = checks()["vectors"]
        assert (vectors["status"], "zapomni models reembed" in vectors["fix"]) == ("failed", True)
        assert "EMB_005" in vectors["detail"]

        answer("models", "reembed")

        assert as_json("stats")["embedding_model"] == OLLAMA
        assert as_json("status")["notice"] is None
        assert checks()["vectors"]["status"] == "ok"
        assert as_json("search", "deploys")["notice"] is None
        assert as_json("add", "The kettle is red.")["notice"] is None


def test_configured_later_is_said(model, port):
    assert as_json("add", NOTE, ZAPOMNI_EMBEDDER="local")["notice"] is None
    with servers.serve(servers.ollama("nomic-embed-text"), port):
        assert f"{OLLAMA} is not used" in as_json("search", "deploys")["notice"]
        assert f"{OLLAMA} is not used" in zapomni("status").stderr.decode()
        assert checks()["vectors"]["status"] == "failed"


def test_without_the_model_of_the_stored_vectors_the_code_is_emb_005(model, port, tmp_path):
    as_json("add", NOTE, ZAPOMNI_EMBEDDER="local")
    elsewhere = {"ZAPOMNI_MODELS_DIR": str(tmp_path / "none"), "ZAPOMNI_LOG_LEVEL": "WARNING"}
    with servers.serve(servers.ollama("nomic-embed-text"), port):
        done = zapomni("add", "Marta reviews on Mondays.", "--json", **elsewhere)
    assert "EMB_005" in done.stderr.decode()
    notice = json.loads(done.stdout)["notice"]
    assert "The stored vectors belong to the model" in notice
    assert f"zapomni models reembed` to switch to {OLLAMA}" in notice


@pytest.mark.anyio
async def test_an_agent_is_told_too(model, port, tmp_path):
    answer("add", NOTE, ZAPOMNI_EMBEDDER="local")
    with servers.serve(servers.ollama("nomic-embed-text"), port):
        async with serving(tmp_path) as server:
            added = await server.call("add_memory", text="Marta reviews on Mondays.")
            assert "zapomni models reembed" in added["notice"]
            for _ in range(2):  # the second answer comes from memory
                found = await server.call("search_memory", query="deploys")
                assert f"{OLLAMA} is not used" in found["note"]
            assert "zapomni models reembed" in (await server.call("get_stats"))["notice"]

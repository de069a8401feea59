"""`make ui-demo`: a throw-away home with something on every page."""

from __future__ import annotations

from pathlib import Path

from site_client import Client

from conftest import MODELS
from tools.ui_demo import environment, fill
from zapomni_core.settings import load_settings


def test_the_demo_has_something_on_its_pages(tmp_path, monkeypatch):
    environ = environment(tmp_path / "demo", Path(MODELS))
    ids = fill(tmp_path, environ)
    for name in ("ZAPOMNI_HOME", "ZAPOMNI_MODELS_DIR"):
        monkeypatch.setenv(name, environ[name])

    with Client(load_settings()) as site:
        assert "code changed" in site.get(f"/m/{ids['decision-5']}").shown
        assert "Fixed: passed" in site.get(f"/s/{ids['session']}").shown
        assert len(site.json("/sessions.json")) == 13
        assert site.json(f"/m/{ids['old']}.json")["superseded_by"] == ids["new"]
        problems = [one for one in site.json("/health.json")["checks"] if one["status"] != "ok"]
        assert problems == []
        assert "PostgreSQL" in site.get("/graph").shown

"""Folders that other programs copy are recognized by their names and by what is left in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from zapomni_cli.main import cli
from zapomni_core.infra.synced_folders import find_syncing_program


@pytest.mark.parametrize(
    ("place", "program"),
    [
        ("Dropbox/notes/.zapomni", "Dropbox"),
        ("Dropbox (Personal)/.zapomni", "Dropbox"),
        ("OneDrive - Example Ltd/.zapomni", "OneDrive"),
        ("Library/Mobile Documents/com~apple~CloudDocs/z", "iCloud"),
        ("Library/CloudStorage/GoogleDrive-ann@example.org/z", "a cloud drive"),
        ("Nextcloud/z", "Nextcloud"),
        (".zapomni", ""),
        ("work/boxes/megaphone/.zapomni", ""),
    ],
)
def test_names(tmp_path, place, program):
    folder = tmp_path / place
    folder.mkdir(parents=True)
    assert find_syncing_program(folder) == program


@pytest.mark.parametrize(
    ("mark", "program"), [(".stfolder", "Syncthing"), (".dropbox.cache", "Dropbox")]
)
def test_marks_at_the_top(tmp_path, mark, program):
    (tmp_path / "shared" / "deep").mkdir(parents=True)
    (tmp_path / "shared" / mark).mkdir()
    assert find_syncing_program(tmp_path / "shared" / "deep" / "not yet there") == program
    # A program's own state in the user's home says nothing.
    (Path.home() / mark).mkdir()
    assert find_syncing_program(Path.home() / ".zapomni") == ""


def test_the_doctor_warns(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(tmp_path / "Dropbox" / ".zapomni"))
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    done = CliRunner().invoke(cli, ["doctor", "--json"])
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert found["place"]["status"] == "failed"
    assert "zapomni sync" in found["place"]["fix"]

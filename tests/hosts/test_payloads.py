"""Events as real clients sent them, by host and version, given to the hook again."""

from __future__ import annotations

import json

import pytest
from payloads import SAMPLES, replay

LIVES = sorted(SAMPLES.glob("*/life"))


@pytest.mark.parametrize("folder", LIVES, ids=lambda folder: folder.parent.name)
def test_what_a_client_sent_is_stored_as_it_was(folder):
    stored = json.loads((folder / "stored.json").read_text())
    samples = {path.stem: path for path in folder.glob("*.json") if path.name != "stored.json"}
    assert samples.keys() == stored.keys()
    host = folder.parent.name.rpartition("-")[0]
    for name, path in samples.items():
        assert replay(host, path.read_bytes()) == stored[name], name

"""With the model, and without it."""

from __future__ import annotations

import pytest

from zapomni_core.adapters.model_files import verify_model
from zapomni_core.settings import load_settings


@pytest.fixture
def model():
    if set(verify_model(load_settings().models_path).values()) != {"ok"}:
        pytest.skip("the model is not here: zapomni models pull")


@pytest.fixture
def no_model(tmp_path, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", str(tmp_path / "no-models"))

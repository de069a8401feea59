"""Tests never touch the user: every test gets a home of its own and a clean environment."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from zapomni_core.settings import load_settings

# A runner in the background ignores interrupts, and so would every process it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Read before any fixture moves HOME: `make test` pulled the model there.
MODELS_DIR = load_settings().models_path


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Move HOME and ZAPOMNI_HOME to a temporary folder; only the pulled models stay reachable."""
    for name in list(os.environ):
        if name.startswith("ZAPOMNI_"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ZAPOMNI_HOME", str(home / ".zapomni"))
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", str(MODELS_DIR))
    return home / ".zapomni"

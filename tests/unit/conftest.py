"""Unit tests may set up logging; the next test starts without."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _put_logging_back(monkeypatch: pytest.MonkeyPatch):
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    monkeypatch.setattr("zapomni_db.logs._threshold", logging.WARNING)
    yield
    root.handlers[:], root.level = before, level
    logging.captureWarnings(capture=False)

from __future__ import annotations

import pytest

from zapomni_core.engine import create_engine
from zapomni_core.settings import load_settings


@pytest.fixture
async def engine(anyio_backend):
    """The engine as a user gets it: real file, real model, default settings."""
    async with await create_engine(load_settings()) as opened:
        yield opened


@pytest.fixture
async def wordy_engine(anyio_backend):
    """The engine without a model: word search only."""
    async with await create_engine(load_settings(embedder="none")) as opened:
        yield opened

"""Parsers that serve many tests end with the last of them."""

from __future__ import annotations

import pytest
from reading import OPEN


@pytest.fixture(scope="session", autouse=True)
def _ended_parsers():
    yield
    for parser in OPEN:
        parser.__exit__(None, None, None)

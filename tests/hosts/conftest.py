from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clients import Machine, make_machine, missing


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine with the client that the test's module names as CLIENT."""
    if reason := missing(request.module.CLIENT):
        pytest.skip(reason)
    made = make_machine(tmp_path)
    yield made
    made.close()

from __future__ import annotations

from pathlib import Path

import pytest
from clients import Machine, make_machine, missing


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    """A machine with the client that the test's module names as CLIENT."""
    if reason := missing(request.module.CLIENT):
        pytest.skip(reason)
    return make_machine(tmp_path)

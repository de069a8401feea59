from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import Machine, make_machine, missing
from xdist.scheduler import LoadScopeScheduling


class HostScheduling(LoadScopeScheduling):
    """All tests of one host's life in one process: the host is used once for all of them."""

    def _split_scope(self, nodeid: str) -> str:
        test, _, host = nodeid.partition("[")
        return host if "test_life.py" in test and host else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> HostScheduling | None:
    """Schedule `--dist loadgroup`, which does nothing in xdist 3.8 with pytest 9.2."""
    return HostScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine with the client that the test's module names as CLIENT."""
    if reason := missing(request.module.CLIENT):
        pytest.skip(reason)
    made = make_machine(tmp_path)
    yield made
    made.close()

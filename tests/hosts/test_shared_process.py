"""Real clients and the process they share: cold when the first one starts it, warm for the next."""

from __future__ import annotations

import pytest
from clients import make_machine, missing
from drivers import DRIVERS
from endpoints import Say, serve_provider


@pytest.mark.parametrize("kind", DRIVERS, ids=lambda driver: driver.host)
def test_a_client_is_served_cold_and_warm(kind, tmp_path):
    if reason := missing(kind.client):
        pytest.skip(reason)
    machine = make_machine(tmp_path)
    try:
        with serve_provider([]) as provider:
            driver = kind(machine, provider)
            machine.run("zapomni", "init", "--host", driver.host, "--yes")
            assert machine.shared_process() == 0

            added = driver.mcp("add_memory", text="Releases leave on Tuesdays.")
            provider.steps += [added, Say("Stored.")]
            driver.start("Remember when we release")
            shared = machine.shared_process()
            assert shared

            provider.steps += [driver.mcp("search_memory", query="releases"), Say("On Tuesdays.")]
            driver.start("When do we release?")
            assert "Releases leave on Tuesdays." in str(provider.turns()[-1])
            assert machine.shared_process() == shared
    finally:
        machine.close()

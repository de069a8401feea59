"""What real clients hand to their model while a session works: memories, and a known failure."""

from __future__ import annotations

import json

import pytest
from clients import make_machine, missing
from drivers import DRIVERS
from endpoints import Say, serve_provider

# What happened is no rule: a session is not given it at its start.
MEMORY = "The TLS certificate was renewed by certbot on the proxy."
QUESTION = "How was the TLS certificate renewed?"
FAILING = "cat prices.ini"
RECALLED, KNOWN = "zapomni: Recalled for this prompt", "zapomni: This failure is known"
ALL = [pytest.param(d, id=d.host, marks=pytest.mark.xdist_group(d.host)) for d in DRIVERS]
# Hosts that are given nothing with a prompt; docs/hosts.md names them.
NOT_HEARD = ("cursor", "cline", "windsurf")


@pytest.fixture(params=ALL)
def driver(request, tmp_path):
    kind = request.param
    if reason := missing(kind.client):
        pytest.skip(reason)
    if kind.host in NOT_HEARD:
        pytest.skip("it is given nothing with a prompt")
    machine = make_machine(tmp_path)
    with serve_provider([]) as provider:
        made = kind(machine, provider)
        machine.run("zapomni", "init", "--host", kind.host, "--yes")
        yield made
    machine.close()


def test_the_second_request_carries_the_memory_that_its_prompt_is_about(driver):
    driver.machine.run("zapomni", "add", MEMORY)
    driver.start("Say hello")
    first = json.dumps(driver.provider.turns())
    assert "certbot" not in first
    driver.resume(QUESTION)
    last = json.dumps(driver.provider.turns()[-1])
    assert RECALLED in last
    assert MEMORY in last
    driver.resume(QUESTION)
    # It is in the conversation; it is not given again.
    assert json.dumps(driver.provider.turns()[-1]).count(RECALLED) <= 1


def test_a_failure_that_returns_is_answered_with_what_fixed_it(driver):
    driver.provider.steps += [
        driver.shell(FAILING),
        driver.write("prices.ini", "price = 1\n"),
        driver.shell(FAILING),
        Say("Done."),
    ]
    driver.start("Show the prices")
    assert KNOWN not in json.dumps(driver.provider.turns())
    (driver.machine.project / "prices.ini").unlink()
    driver.provider.steps += [driver.shell(FAILING), Say("Done.")]
    driver.start("Show them once more")
    last = json.dumps(driver.provider.turns()[-1], ensure_ascii=False)
    assert KNOWN in last
    assert "The same command passed after these changes" in last

"""Mutated payloads: whatever arrives, the exit code is 0, 1 or 2 and nobody sees a traceback."""

from __future__ import annotations

import copy
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zapomni_cli import record
from zapomni_core.modules.observations import HOSTS

# `make soak` asks for more.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "300"))
SAMPLES = Path(__file__).parents[1] / "fixtures" / "hooks"
PAYLOADS = [
    json.loads(path.read_text(encoding="utf-8"))
    for path in sorted([*SAMPLES.glob("*.json"), *SAMPLES.glob("documented/*.json")])
]

ODD_TEXTS = [
    "",
    "\ud800",
    "\x00",
    "\x1b[31m",
    "-----BEGIN PRIVATE" + " KEY-----",
    "*** Begin Patch\n*** Update File: \n@@\n+",
    "git commit -m '",
    'git push "',
    "Exit code 99999999999",
    "a" * 5000,
    "[main abc1234] \n 1 file changed",
    "password='",
    "../" * 100,
    "\u202e\u200b",
]
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(ODD_TEXTS)
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = sorted({name for payload in PAYLOADS for name in payload})


@st.composite
def mutated(draw) -> bytes:
    """A real payload with some fields replaced, removed or added, some of its bytes spoilt."""
    payload = copy.deepcopy(draw(st.sampled_from(PAYLOADS)))
    for _ in range(draw(st.integers(0, 4))):
        target = payload
        nested = [value for value in payload.values() if isinstance(value, dict)]
        if nested and draw(st.booleans()):
            target = draw(st.sampled_from(nested))
        name = draw(st.sampled_from([*NAMES, *target]))
        if draw(st.integers(0, 3)) == 0:
            target.pop(name, None)
        else:
            target[name] = draw(anything)
    data = bytearray(json.dumps(payload).encode())
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.sampled_from([None, None, None, len(data) // 2]))
    return bytes(data[:cut])


@pytest.fixture(scope="module")
def folder():
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield made


def test_no_payload_ever_gets_more_than_an_exit_code_and_a_line(folder, monkeypatch):
    codes = {0: 0, 1: 0}
    seen = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setenv("ZAPOMNI_HOME", folder)
    # Starting sessions ask git and print; both are tested elsewhere.
    monkeypatch.setattr(record, "_print_context", lambda *_: None)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(mutated(), st.none() | st.sampled_from(sorted(HOSTS)))
    def attempt(data: bytes, host: str | None) -> None:
        sys.stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
        error = io.StringIO()
        monkeypatch.setattr(sys, "stderr", error)
        monkeypatch.setattr(sys, "stdout", seen)
        code = record.main(["--host", host] if host else [])
        told = error.getvalue()
        assert code in {0, 1}, told
        assert "event not stored" not in told, (told, data)
        assert told.count("\n") == code
        codes[code] += 1

    monkeypatch.setattr(sys, "stdin", sys.stdin)
    attempt()
    monkeypatch.undo()
    # A failure that is known may be answered with what is known about it.
    assert b"Traceback" not in seen.buffer.getvalue()
    assert min(codes.values()) > EXAMPLES / 20
    print(f"{sum(codes.values())} payloads, exit codes {codes}")

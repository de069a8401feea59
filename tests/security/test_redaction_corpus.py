"""Thousands of secrets through the real path, looked for in the raw bytes on disk."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from secret_kinds import CONTEXTS, FORMATS, IN_CONTEXT, Dice

from zapomni_cli.record import main
from zapomni_core.shared.redaction import Redactor
from zapomni_db.sqlite import observations_write

PER_FORMAT = int(os.environ.get("SECRETS_PER_FORMAT", "7"))
PER_CONTEXT = int(os.environ.get("SECRETS_PER_CONTEXT", "4"))


def cases():
    """Yield kind, the secret's telling part, and the text it stands in."""
    dice = Dice(4)
    for kind, make in FORMATS.items():
        for number in range(PER_FORMAT):
            secret = make(dice)
            context = list(CONTEXTS.values())[number % len(CONTEXTS)]
            yield kind, secret, context(secret)
    for kind, place in IN_CONTEXT.items():
        for _ in range(PER_CONTEXT):
            secret, line = place(dice)
            yield kind, secret, line


def pieces(secret: str) -> list[bytes]:
    """What must not be found: the end of the secret and its middle, in small letters."""
    body = [line for line in secret.splitlines() if not line.startswith("-----")]
    text = body[len(body) // 2] if body else secret
    text = text.rstrip("=")
    middle = len(text) // 2
    return [text[-8:].lower().encode(), text[middle - 4 : middle + 4].lower().encode()]


def payload(number: int, text: str) -> dict:
    base = {"session_id": "s", "cwd": "/p", "tool_use_id": f"t{number}", "prompt_id": f"p{number}"}
    tool = {**base, "hook_event_name": "PostToolUse"}
    shapes = [
        {**base, "hook_event_name": "UserPromptSubmit", "prompt": f"please use {text} here"},
        {**tool, "tool_name": "Bash", "tool_input": {"command": text}, "tool_response": text},
        {
            **tool,
            "tool_name": "Edit",
            "tool_input": {"file_path": "/p/a", "old_string": "", "new_string": text},
        },
        {
            **base,
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "tool_input": {"command": "run it"},
            "error": f"Exit code 1\nerror: {text}",
        },
        {**tool, "tool_name": "mcp__a__b", "tool_input": {"q": text}, "tool_response": text},
        {**tool, "tool_name": "WebFetch", "tool_input": {"url": text, "prompt": text}},
        {**tool, "tool_name": "Write", "tool_input": {"file_path": "/p/b", "content": text}},
        {**tool, "tool_name": "Agent", "tool_input": {"description": "d", "prompt": text}},
    ]
    return shapes[number % len(shapes)]


def record(monkeypatch, event: dict) -> None:
    stream = SimpleNamespace(buffer=io.BytesIO(json.dumps(event).encode()), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stream)
    assert main([]) == 0


def raw_words(home: Path) -> bytes:
    """Everything readable in all files, once: the log holds each page many times over."""
    raw = b"\n".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    return b"\n".join({*re.findall(rb"[!-~]{8,}", raw.lower())})


@pytest.fixture
def quick_folder(tmp_path):
    """A folder in memory where there is one: thousands of commits wait for the disk elsewhere."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def test_secrets_of_every_kind_are_gone_from_database_log_and_spool(
    quick_folder, monkeypatch, capfd
):
    monkeypatch.setattr(observations_write, "BUSY_MS", 1)
    everything = list(cases())
    assert len(everything) >= 4000 or PER_FORMAT < 50
    assert len(FORMATS) >= 40
    leaked: dict[str, list[str]] = {}
    for start in range(0, len(everything), 500):
        home = quick_folder / str(start)
        monkeypatch.setenv("ZAPOMNI_HOME", str(home))
        record(monkeypatch, payload(-1, "nothing"))
        # An open reader keeps the log on disk; a writer sends a part of the events to the spool.
        reader = sqlite3.connect(home / "zapomni.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM observations").fetchone()
        batch = everything[start : start + 500]
        for number, (_, _, text) in enumerate(batch):
            if number == 450:
                writer = sqlite3.connect(home / "zapomni.db", isolation_level=None)
                writer.execute("BEGIN IMMEDIATE")
            record(monkeypatch, payload(number, text))
        # A failure that returns is answered with what is known of it: no secret there either.
        printed = capfd.readouterr()
        assert printed.err == ""
        words = raw_words(home) + printed.out.lower().encode()
        assert len(list((home / "spool").glob("*.json"))) == len(batch) - 450 or len(batch) < 450
        assert (home / "zapomni.db-wal").stat().st_size
        for kind, secret, text in batch:
            if any(piece in words for piece in pieces(secret)):
                leaked.setdefault(kind, []).append(text)
        reader.close()
        if len(batch) > 450:
            writer.close()
    count = sum(map(len, leaked.values()))
    with capfd.disabled():
        kinds = len(FORMATS) + len(IN_CONTEXT)
        print(f"\n{len(everything)} secrets of {kinds} kinds, {count} leaked: {leaked}"[:3000])
    named = sum(len(texts) for kind, texts in leaked.items() if kind in FORMATS)
    assert named <= 0.005 * PER_FORMAT * len(FORMATS), leaked
    assert count <= 0.005 * len(everything), leaked


def ordinary_files():
    library = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts)
    others = sorted(Path("/usr/share/common-licenses").glob("*"))
    others += sorted(Path("/usr/share/doc").glob("*/copyright"))[:200]
    # Tests of network code are full of made-up credentials; a part of everything is fair.
    return [*others, *files[::4]]


def test_ordinary_text_is_left_alone(capfd):
    redactor = Redactor({}, b"k")
    size = hits = 0
    for path in ordinary_files():
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for start in range(0, len(text), 32_768):
            size += len(text[start : start + 32_768])
            hits += redactor.redact(text[start : start + 32_768])[1]
        if size > 3_000_000:
            break
    with capfd.disabled():
        print(f"\n{hits} hits in {size / 1e6:.1f} MB of ordinary text")
    if size < 2_500_000:
        pytest.skip("this machine has too little text")
    assert hits / (size / 1e6) <= 2

"""Reading transcripts of Claude Code: cut anywhere, continued anywhere, never raising."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import transcripts
from zapomni_core.adapters.sources import (
    MAX_LINE,
    FoundFile,
    ImportedEvent,
    ImportedMemory,
    SkippedRecord,
    SourceEnvironment,
    get_source,
)

SOURCE = get_source("claude-code")


def found(path: Path) -> FoundFile:
    (file,) = SOURCE.find(SourceEnvironment(path.parent, {}, path.parent, path))
    return file


def read(path: Path, offset: int = 0) -> tuple[Counter[str], int, int]:
    """Return what a file has by its ids, where to go on, and where the last item said so."""
    ids: Counter[str] = Counter()
    resume = offset
    for item in SOURCE.read(found(path), offset):
        assert item.resume >= 0
        resume = item.resume
        if not isinstance(item, SkippedRecord):
            ids[item.native_id] += 1
    return ids, resume, len(ids)


@pytest.fixture(params=["main", "resumed", "subagent"])
def whole(request, tmp_path) -> Path:
    made = {
        "main": transcripts.main_session,
        "resumed": transcripts.resumed_session,
        "subagent": transcripts.subagent,
    }[request.param]()
    name = "agent-a1" if request.param == "subagent" else made.session
    return made.write(tmp_path / f"{name}.jsonl")


def test_a_file_cut_at_any_byte_is_read_and_continued_without_loss(whole, tmp_path):
    data = whole.read_bytes()
    everything = set(read(whole)[0])
    ends = {at for at, byte in enumerate(data) if byte == 10}
    steps = 1 if "ZAPOMNI_SOAK" in os.environ else 23
    cuts = {*range(1, len(data), steps), *ends, *(end + 1 for end in ends)}
    # Still being written: that is how a file without its end is met.
    now = time.time()
    for cut in sorted(cuts):
        part = whole.with_name("part") / whole.name
        part.parent.mkdir(exist_ok=True)
        part.write_bytes(data[:cut])
        os.utime(part, (now, now))
        early, resume, _ = read(part)
        late, _, _ = read(whole, resume)
        assert set(early) | set(late) == everything, cut


@given(data=st.data())
def test_no_damage_raises(tmp_path_factory, data):
    content = bytearray("\n".join(transcripts.main_session().lines).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.binary(max_size=4))
        content[at : at + data.draw(st.integers(0, 40))] = piece
    path = tmp_path_factory.mktemp("damaged") / f"{transcripts.SESSION}.jsonl"
    # The first record says what it is; a file that does not is refused.
    path.write_bytes(transcripts.main_session().lines[0].encode() + b"\n" + bytes(content))
    for item in SOURCE.read(found(path), 0):
        assert isinstance(item, ImportedEvent | ImportedMemory | SkippedRecord)


@pytest.mark.parametrize(
    "value",
    [None, 1, [], "x", {"content": 5}, {"content": [1, None, {"type": "text"}]}, {"content": [[]]}],
)
def test_records_of_any_shape_are_passed_over(tmp_path, value):
    made = transcripts.Transcript()
    for kind in ("user", "assistant", "system", "queue-operation", "summary", "ai-title", "x" * 50):
        made.add(kind, message=value, content=value, summary=value, toolUseResult=value)
        made.bare(kind, message=value)
        made.add(kind, sessionId=value, cwd=value, timestamp=value, gitBranch=value)
    ids = read(made.write(tmp_path / "odd.jsonl"))[0]
    assert all("/" in one for one in ids)  # a start and an end, nothing else


def test_a_line_too_long_or_too_deep_is_counted_and_the_rest_is_read(tmp_path):
    made = transcripts.Transcript()
    made.prompt("before")
    made.prompt("x" * (MAX_LINE + 10))
    made.lines.append('{"type": ' + "[" * 100_000)
    made.prompt("after")
    path = made.write(tmp_path / "long.jsonl")
    items = list(SOURCE.read(found(path), 0))
    reasons = Counter(one.reason for one in items if isinstance(one, SkippedRecord))
    assert reasons == {"line of more than 16 MB": 1, "damaged line": 1}
    prompts = [one.payload.get("prompt") for one in items if isinstance(one, ImportedEvent)]
    assert [one for one in prompts if one] == ["before", "after"]


def test_calls_without_results_do_not_pile_up(tmp_path):
    made = transcripts.Transcript()
    made.prompt("go")
    for number in range(1000):
        made.call(f"c{number}", "Bash", command="true")
    items = list(SOURCE.read(found(made.write(tmp_path / "open.jsonl")), 0))
    skipped = [one for one in items if isinstance(one, SkippedRecord)]
    assert sum(one.count for one in skipped if one.reason == "call without a result") == 1000


def test_a_long_file_is_streamed(tmp_path):
    path = transcripts.long_session(2000).write(tmp_path / f"{transcripts.SESSION}.jsonl")
    file = found(path)
    assert file.bytes > 2_000_000
    tracemalloc.start()
    try:
        items = sum(1 for _ in SOURCE.read(file, 0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert items > 6000
    assert peak < 1_000_000

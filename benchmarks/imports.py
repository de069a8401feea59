"""What importing transcripts costs, and whether what is in them is found.

    python -m benchmarks.imports [--data DIR] [--megabytes 200] [--one-file 1000]

Without `--data` the transcripts are made up: prompts, commands with outputs, edits, answers. With
it, those of the folder are copied under new ids until there are enough megabytes. Vectors are not
made: they are left pending for later. Then, with `--data`, the folder itself is imported into an
empty home, and `zapomni search` is asked what `data/transcript_questions.json` asks; a question
counts if an expected text is in the first three results. `--one-file` makes one file of so many
megabytes and reports the most memory its import had resident.

One JSON line each. Targets: 200 MB in 120 s of CPU, 150 MB resident for a file of 1,000 MB, all ten
questions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

QUESTIONS = Path(__file__).parent / "data" / "transcript_questions.json"
ZAPOMNI = str(Path(sys.executable).with_name("zapomni"))
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
CALL = re.compile(r"toolu_[A-Za-z0-9]+")
QUIET = 7200


def made_up(turns: int) -> str:
    """Return a transcript with prompts, outputs and edits of ordinary lengths."""
    session, lines = str(uuid.uuid4()), []

    def add(kind: str, **fields: object) -> None:
        record = {
            "parentUuid": None, "isSidechain": False, "userType": "external", "cwd": "/w/shop",
            "sessionId": session, "version": "2.1.38", "gitBranch": "main", "type": kind,
            "uuid": str(uuid.uuid4()), "timestamp": f"2026-05-01T10:{len(lines) // 60 % 60:02}:00Z",
            **fields,
        }  # fmt: skip
        lines.append(json.dumps(record))

    for turn in range(turns):
        said = f"handle case {turn}: the importer must not lose the record when the file is cut"
        add("user", message={"role": "user", "content": said})
        output = "\n".join(f"tests/test_{n}.py::test_case_{turn} PASSED" for n in range(60))
        for tool, given, response in (
            ("Bash", {"command": f"pytest -k case_{turn}"}, {"stdout": output, "stderr": ""}),
            ("Read", {"file_path": f"/w/shop/case_{turn}.py"}, {"file": {"content": output}}),
            (
                "Edit",
                {"file_path": f"/w/shop/case_{turn}.py", "old_string": "a = 1", "new_string": said},
                {"structuredPatch": [{"lines": ["-a = 1", f"+{said}"]}], "originalFile": output},
            ),
        ):
            call = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": tool}
            add("progress", data={"type": "hook_progress", "output": "x" * 300})
            add("assistant", message={"id": f"m{turn}", "content": [{**call, "input": given}]})
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": output}
            add("user", message={"role": "user", "content": [result]}, toolUseResult=response)
        text = f"Case {turn} is handled: the offset is stored with the record in one transaction."
        add("assistant", message={"id": f"e{turn}", "content": [{"type": "text", "text": text}]})
    return "\n".join(lines) + "\n"


def copies(sources: list[str]) -> Iterator[str]:
    """Yield the transcripts again and again, each time under new ids."""
    while True:
        for text in sources:
            ids: dict[str, str] = {}
            renamed = UUID.sub(lambda m, i=ids: i.setdefault(m[0], str(uuid.uuid4())), text)
            yield CALL.sub(
                lambda m, i=ids: i.setdefault(m[0], f"toolu_{uuid.uuid4().hex}"), renamed
            )


def read(data: Path | None) -> list[str]:
    if data is None:
        return [made_up(20)]
    return [path.read_text(encoding="utf-8") for path in sorted(data.glob("*.jsonl"))]


def fill(folder: Path, sources: list[str], megabytes: int) -> int:
    size = 0
    for number, text in enumerate(copies(sources)):
        path = folder / f"-w-{number % 20}" / f"{uuid.uuid4()}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        size += path.write_bytes(text.encode())
        os.utime(path, (time.time() - QUIET,) * 2)
        if size >= megabytes * 1_000_000:
            return size
    raise AssertionError


def fill_one(path: Path, sources: list[str], megabytes: int) -> int:
    size = 0
    with path.open("wb") as stream:
        for text in copies(sources):
            size += stream.write(text.encode())
            if size >= megabytes * 1_000_000:
                break
    os.utime(path, (time.time() - QUIET,) * 2)
    return size


def environment(home: Path, *, models: bool) -> dict[str, str]:
    given = {**os.environ, "ZAPOMNI_HOME": str(home), "ZAPOMNI_SHARE": "false"}
    if not models:
        given["ZAPOMNI_MODELS_DIR"] = str(home / "no-models")
    return given


def run_import(path: Path, home: Path, *, models: bool = False) -> dict[str, object]:
    """Import in a process of its own; return its report and what it cost."""
    started = time.perf_counter()
    command = [ZAPOMNI, "import", "claude-code", "--yes", "--json", "--path", str(path)]
    process = subprocess.Popen(
        command, env=environment(home, models=models), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("the import failed")
    report = json.loads(output)
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "seconds": round(time.perf_counter() - started, 1),
        "resident_mb": round(used.ru_maxrss / 1000, 1),
        **{name: report[name] for name in ("read", "kept", "duplicates", "skipped")},
    }


def ask(home: Path) -> Iterator[dict[str, object]]:
    env = environment(home, models=True)
    for one in json.loads(QUESTIONS.read_text(encoding="utf-8")):
        command = [ZAPOMNI, "search", one["question"], "--all", "--limit", "3", "--json"]
        done = subprocess.run(command, env=env, capture_output=True, check=True)
        texts = [hit["text"] for hit in json.loads(done.stdout)["results"]]
        found = [any(a in text for a in one["answers"]) for text in texts]
        yield {
            "benchmark": "imports.question",
            "question": one["question"],
            "rank": found.index(True) + 1 if any(found) else None,
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--one-file", type=int, default=0)
    given = parser.parse_args()
    sources = read(given.data)
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        if given.megabytes:
            size = fill(base / "many", sources, given.megabytes)
            cost = run_import(base / "many", base / "home-many")
            again = run_import(base / "many", base / "home-many")
            print(json.dumps({"benchmark": "imports.many", "bytes": size, **cost}), flush=True)
            print(json.dumps({"benchmark": "imports.again", **again}), flush=True)
        if given.one_file:
            path = base / f"{uuid.uuid4()}.jsonl"
            size = fill_one(path, sources, given.one_file)
            cost = run_import(path, base / "home-one")
            print(json.dumps({"benchmark": "imports.one_file", "bytes": size, **cost}), flush=True)
            path.unlink()
        if given.data is not None:
            run_import(given.data, base / "home-asked", models=True)
            answers = list(ask(base / "home-asked"))
            for line in answers:
                print(json.dumps(line), flush=True)
            right = sum(line["rank"] is not None for line in answers)
            print(
                json.dumps({"benchmark": "imports.questions", "right": right, "of": len(answers)})
            )


if __name__ == "__main__":
    main()

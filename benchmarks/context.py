"""What is a new session given after real ones, and how much of it is noise?

    python -m benchmarks.context --data DIR [--expect FILE] [--show]

Replays transcripts of Claude Code through the installed hook, event by event, into an empty home;
adds the memories of the expectations; starts a session and reads the context that the hook prints.
The expectations (benchmarks/data/context.json) were written before any output was seen: facts that
must be in it, lines that must not. Prints the share of facts given, the share of lines that are
noise, and the tokens (JSON bytes / 4).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zapomni_cli.record import hook_command
from zapomni_core.engine import create_engine
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.modules.observations import HOOKS_REVISION
from zapomni_core.settings import load_settings

EXPECTATIONS = Path(__file__).parent / "data" / "context.json"
INTERRUPTED = "[Request interrupted by user"


def read_events(transcript: Path, folder: str) -> Iterator[dict[str, Any]]:
    """Yield what Claude Code would have sent to its hooks during a session."""
    rows = [json.loads(line) for line in transcript.read_text("utf-8").splitlines()]
    spoken = [row for row in rows if row.get("type") in ("user", "assistant")]
    base = {"session_id": transcript.stem, "cwd": folder}
    old = next((row["cwd"] for row in spoken if row.get("cwd")), "")
    calls: dict[str, dict[str, Any]] = {}
    last = ""
    yield {**base, "hook_event_name": "SessionStart", "source": "startup"}
    for row in spoken:
        if row.get("isSidechain"):
            continue
        # Paths of the machine it was recorded on are paths of this one.
        message = json.loads(json.dumps(row["message"]).replace(old, folder) if old else "{}")
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        for block in blocks:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "tool_result":
                yield {**base, **_tool_event(calls[block["tool_use_id"]], block, row, old, folder)}
            elif block["type"] == "text" and row["type"] == "assistant":
                last = block["text"].strip() or last
            elif block["type"] == "text":
                text = block["text"].strip()
                if text.startswith(INTERRUPTED):
                    last = ""  # A turn that is interrupted has no end.
                elif not row.get("isMeta") and (prompt := _prompt(text)):
                    yield from _stop(base, last)
                    last = ""
                    yield {**base, "hook_event_name": "UserPromptSubmit", "prompt": prompt}
    yield from _stop(base, last)
    yield {**base, "hook_event_name": "SessionEnd", "reason": "other"}


def _stop(base: dict[str, Any], last: str) -> Iterator[dict[str, Any]]:
    if last:
        yield {**base, "hook_event_name": "Stop", "last_assistant_message": last}


def _prompt(text: str) -> str:
    """Return a prompt as it was typed; a slash command is stored with its parts in tags."""

    def part(name: str) -> str:
        return text.partition(f"<{name}>")[2].partition(f"</{name}>")[0].strip()

    if text.startswith(("<local-command", "Caveat:")):
        return ""
    if "<command-name>" in text:
        return f"{part('command-name')} {part('command-args')}" if part("command-args") else ""
    return text


def _tool_event(
    call: dict[str, Any], result: dict[str, Any], row: dict[str, Any], old: str, folder: str
) -> dict[str, Any]:
    named = {
        "tool_name": call["name"],
        "tool_input": call["input"],
        "tool_use_id": call["id"],
    }
    if result.get("is_error"):
        said = result.get("content")
        error = said if isinstance(said, str) else json.dumps(said)
        return {**named, "hook_event_name": "PostToolUseFailure", "error": error}
    response = json.loads(json.dumps(row.get("toolUseResult")).replace(old, folder))
    return {**named, "hook_event_name": "PostToolUse", "tool_response": response}


def send(event: dict[str, Any]) -> str:
    """Run the hook on an event, and return what it prints."""
    done = subprocess.run(
        [*hook_command("claude-code"), "--hooks", str(HOOKS_REVISION)],
        input=json.dumps(event).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout.decode()


def context_after(data: Path, expected: dict[str, Any], home: Path, folder: str) -> str:
    """Replay everything into an empty home, and return the context of a new session."""
    os.environ["ZAPOMNI_HOME"] = str(home)
    for name in expected["sessions"]:
        for event in read_events(data / name, folder):
            send(event)

    async def remember() -> None:
        async with await create_engine(load_settings(embedder="none")) as engine:
            await engine.add_memories([AddMemoryRequest(**one) for one in expected["memories"]])

    asyncio.run(remember())
    start = {"session_id": "new", "cwd": folder, "hook_event_name": "SessionStart"}
    printed = send({**start, "source": "startup"})
    given: str = json.loads(printed)["hookSpecificOutput"]["additionalContext"]
    return given


def find(entries: list[dict[str, Any]], lines: list[str]) -> dict[str, list[str]]:
    """Return the lines that have all the words of each entry, by what it is."""
    return {
        f"{entry['what']} ({entry['words'][0]})": [
            line for line in lines if all(word in line.lower() for word in entry["words"])
        ]
        for entry in entries
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of transcripts")
    parser.add_argument("--expect", type=Path, default=EXPECTATIONS)
    parser.add_argument("--show", action="store_true", help="print the context itself, too")
    given = parser.parse_args()
    expected = json.loads(given.expect.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "spotter"
        folder.mkdir()
        text = context_after(given.data, expected, Path(temporary) / "home", str(folder))
    if given.show:
        print(text, end="\n\n")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "| ID |" not in line]
    facts, noise = find(expected["facts"], lines), find(expected["noise"], lines)
    for what, found in facts.items():
        print(f"{'given' if found else 'MISSING':<8} {what}")
    for what, found in noise.items():
        if found:
            print(f"{'NOISE':<8} {what}")
    shown = sum(bool(found) for found in facts.values())
    noisy = {line for found in noise.values() for line in found}
    print(f"facts given   {shown} of {len(facts)} ({shown / len(facts):.0%})")
    print(f"noise         {len(noisy)} of {len(lines)} lines ({len(noisy) / len(lines):.0%})")
    print(f"tokens        {len(json.dumps(text)) / 4:.0f}")


if __name__ == "__main__":
    main()

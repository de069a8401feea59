"""Is a prompt given what memory knows, and left alone otherwise?

    python -m benchmarks.prompts --data DIR [--show]

DIR has the transcripts that `benchmarks/data/prompts.json` names. The demo's notes and document are
memories of one project, the transcripts are replayed through the hook as sessions of another. Then
each of the labelled prompts is sent to the hook in a session of its own: with the shared process
(full search) and without one (words alone). Silence is the share of prompts that memory knows
nothing about and that are given nothing; right, of the prompts that are given something, the share
whose first item is one that was expected. Targets: 0.9 each.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from zapomni_cli.demo import NOTES
from zapomni_cli.record import hook_command
from zapomni_core.infra.sharing import ShareKey, describe_process
from zapomni_core.settings import load_settings

LABELS = Path(__file__).parent / "data" / "prompts.json"
DOCUMENT = Path(sys.modules["zapomni_cli.demo"].__file__).with_name("demo.md")
ZAPOMNI = str(Path(sys.executable).with_name("zapomni"))
TARGET = 0.9


def send(event: dict, env: dict[str, str]) -> str:
    """Send one event to the hook; return what it gives back."""
    done = subprocess.run(
        [*hook_command("claude-code"), "--hooks", "1000"],
        input=json.dumps(event).encode(), env=env, capture_output=True, check=True,
    )  # fmt: skip
    if not done.stdout:
        return ""
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]


def replay(path: Path, folder: Path, env: dict[str, str]) -> None:
    """Send what happened in a transcript as the events that its host would have sent."""
    base = {"session_id": path.stem, "cwd": str(folder)}
    calls: dict[str, dict] = {}
    said = ""
    send({**base, "hook_event_name": "SessionStart", "source": "startup"}, env)
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        message = entry.get("message") or {}
        parts = message.get("content")
        if isinstance(parts, str):
            parts = [{"type": "text", "text": parts}]
        for part in parts or []:
            if part["type"] == "tool_use":
                calls[part["id"]] = part
            elif part["type"] == "tool_result":
                call = calls[part["tool_use_id"]]
                event = {
                    **base, "hook_event_name": "PostToolUse", "tool_use_id": call["id"],
                    "tool_name": call["name"], "tool_input": call["input"],
                    "tool_response": entry.get("toolUseResult") or part.get("content"),
                }  # fmt: skip
                if part.get("is_error"):
                    event |= {"hook_event_name": "PostToolUseFailure", "error": part["content"]}
                send(event, env)
            elif part["type"] == "text" and entry.get("type") == "assistant":
                said = part["text"].strip() or said
            elif part["type"] == "text" and not entry.get("isMeta"):
                if said:
                    send({**base, "hook_event_name": "Stop", "last_assistant_message": said}, env)
                said = ""
                prompt = {"prompt_id": entry["uuid"], "prompt": part["text"]}
                send({**base, "hook_event_name": "UserPromptSubmit", **prompt}, env)
    if said:
        send({**base, "hook_event_name": "Stop", "last_assistant_message": said}, env)
    send({**base, "hook_event_name": "SessionEnd", "reason": "other"}, env)


def fill(data: Path, labels: dict, folders: dict[str, Path], env: dict[str, str]) -> None:
    for kind, text in NOTES:
        command = [ZAPOMNI, "add", text, "--kind", kind, "--project", "shop"]
        subprocess.run(command, env=env, check=True, capture_output=True)
    document = ["--kind", "document", "--source", "demo.md", "--project", "shop"]
    command = [ZAPOMNI, "add", DOCUMENT.read_text(encoding="utf-8"), *document]
    subprocess.run(command, env=env, check=True, capture_output=True)
    # A project has a name once something was done in it.
    about = {"session_id": "first", "cwd": str(folders["shop"]), "prompt_id": "first"}
    send({**about, "hook_event_name": "UserPromptSubmit", "prompt": "hello"}, env)
    for name in labels["sessions"]:
        replay(data / name, folders["spotter"], env)


def ask_all(labels: dict, folders: dict[str, Path], env: dict[str, str], mode: str) -> list[dict]:
    answers = []
    for number, asked in enumerate(labels["prompts"]):
        session = f"{mode}-{number}"
        event = {
            "hook_event_name": "UserPromptSubmit", "session_id": session, "prompt_id": session,
            "cwd": str(folders[asked["project"]]), "prompt": asked["prompt"],
        }  # fmt: skip
        given = send(event, env)
        items = [line for line in given.splitlines() if line.startswith("- ")]
        right = [all(word in item.lower() for word in asked["words"]) for item in items]
        answers.append({**asked, "items": items, "right": right})
        with closing(sqlite3.connect(Path(env["ZAPOMNI_HOME"]) / "zapomni.db")) as connection:
            # The next prompt must not find this one.
            connection.execute("DELETE FROM observations WHERE session_id = ?", (session,))
            connection.commit()
    return answers


def report(answers: list[dict], *, show: bool) -> dict:
    unknown = [answer for answer in answers if not answer["words"]]
    known = [answer for answer in answers if answer["words"]]
    spoken = [answer for answer in answers if answer["items"]]
    correct = [answer for answer in spoken if answer["words"] and answer["right"][0]]
    if show:
        for answer in answers:
            state = "right" if answer in correct else "WRONG" if answer["items"] else "silent"
            expected = "known" if answer["words"] else "unknown"
            print(f"{state:6} {expected:7} {answer['project']:8} {answer['prompt']}")
            for item in answer["items"]:
                print(f"           {item[:150]}")
    return {
        "prompts": len(answers),
        "silent_on_unknown": round(sum(not a["items"] for a in unknown) / len(unknown), 3),
        "right_when_spoken": round(len(correct) / len(spoken), 3) if spoken else None,
        "spoken": len(spoken),
        "known_answered": round(len([a for a in correct if a in known]) / len(known), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--show", action="store_true", help="Print every prompt and its answer.")
    given = parser.parse_args()
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    models = str(load_settings().models_path)
    with tempfile.TemporaryDirectory() as folder:
        folders = {name: Path(folder) / name for name in ("shop", "spotter")}
        for path in folders.values():
            path.mkdir()
        env = {**os.environ, "ZAPOMNI_HOME": f"{folder}/home", "ZAPOMNI_MODELS_DIR": models}
        fill(given.data, labels, folders, env)
        for mode in ("words", "socket"):
            process = None
            if mode == "socket":
                process = subprocess.Popen(
                    [ZAPOMNI, "serve"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
                wait_for_process(env)
            answers = ask_all(labels, folders, env, mode)
            figures = report(answers, show=given.show)
            print(json.dumps({"benchmark": "prompts", "mode": mode, "target": TARGET, **figures}))
            if process is not None:
                process.stdin.close()
                process.wait(timeout=60)
                process.stdout.close()
                if found := describe_process(ShareKey(env), 60):
                    os.kill(found["pid"], signal.SIGTERM)


def wait_for_process(env: dict[str, str]) -> None:
    """Wait until the shared process has loaded its model and answers in time."""
    from zapomni_core.infra.sharing import ask

    question = {"request": "search", "query": "anything", "limit": 1}
    until = time.monotonic() + 120
    while ask(ShareKey(env), question, 60) is None or ask(ShareKey(env), question, 0.15) is None:
        if time.monotonic() > until:
            raise SystemExit("The shared process does not answer.")
        time.sleep(0.2)


if __name__ == "__main__":
    main()

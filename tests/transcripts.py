"""Transcripts of Claude Code, made up: every kind of record, and every trap."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SESSION = "11111111-1111-4111-8111-111111111111"
RESUMED = "22222222-2222-4222-8222-222222222222"
BEGAN = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
SECRET = "ghp_" + "a1B2" * 9
CONTEXT = (
    "## zapomni: earlier sessions\n<zapomni-context-abc123>\nremembered before\n"
    "</zapomni-context-abc123>\n"
)
SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context. The "
    "analysis: the login form posts to /session, and the cookie is dropped by the proxy."
)


@dataclass
class Transcript:
    """A file under construction; every record is a second later than the one before."""

    session: str = SESSION
    folder: str = "/w/shop"
    began: datetime = BEGAN
    lines: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    number: int = 0

    def add(self, kind: str, uuid: str = "", **fields: Any) -> str:
        self.number += 1
        record = {
            "type": kind,
            "uuid": uuid or f"{self.session[:4]}-{self.extra.get('agentId', '')}{self.number}",
            "parentUuid": None,
            "sessionId": self.session,
            "timestamp": (self.began + timedelta(seconds=self.number)).isoformat(),
            "cwd": self.folder,
            "gitBranch": "main",
            "version": "2.1.38",
            "isSidechain": False,
            **self.extra,
            **fields,
        }
        self.lines.append(json.dumps(record, ensure_ascii=False))
        return record["uuid"]

    def bare(self, kind: str, **fields: Any) -> None:
        self.lines.append(json.dumps({"type": kind, **fields}))

    def prompt(self, text: Any, **fields: Any) -> str:
        return self.add("user", message={"role": "user", "content": text}, **fields)

    def say(self, text: str, message: str = "", **fields: Any) -> str:
        content = [{"type": "thinking", "thinking": "no one must read this"}]
        content.append({"type": "text", "text": text})
        return self._assistant(content, message, **fields)

    def call(self, call_id: str, name: str, **given: Any) -> None:
        self._assistant([{"type": "tool_use", "id": call_id, "name": name, "input": given}])

    def _assistant(self, content: list[Any], message: str = "", **fields: Any) -> str:
        said = {"id": message or f"m{self.number}", "role": "assistant", "content": content}
        return self.add("assistant", message={**said, "stop_reason": None}, **fields)

    def result(self, call_id: str, text: str, response: Any = None, *, error: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": error}
        self.add("user", message={"role": "user", "content": [block]}, toolUseResult=response)

    def shell(self, call_id: str, command: str, output: str = "ok") -> None:
        self.call(call_id, "Bash", command=command)
        self.result(call_id, output, {"stdout": output, "stderr": "", "interrupted": False})

    def write(self, path: Path, *, end: str = "\n", age: float = 7200) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(self.lines) + end, encoding="utf-8")
        then = time.time() - age
        os.utime(path, (then, then))
        return path


def main_session() -> Transcript:
    """Return a session with every kind of record."""
    made = Transcript()
    made.bare("file-history-snapshot", messageId="1111-2", snapshot={}, isSnapshotUpdate=False)
    made.add("progress", data={"type": "hook_progress"})
    made.prompt(f"{CONTEXT}make the login work\u2028please")
    made.say("Let me look at the tests of the login first.")
    made.call("t1", "Bash", command="make test", description="Run the tests")
    made.result(
        "t1", "Exit code 2\nAssertionError: cookie missing", "Error: Exit code 2", error=True
    )
    made.call("t2", "Read", file_path="/w/shop/login.py")
    made.call(
        "t3", "Edit", file_path="/w/shop/login.py", old_string="a", new_string="same_site = 1"
    )
    made.result("t2", "1→a", {"type": "text", "file": {"numLines": 1, "totalLines": 1}})
    made.result("t3", "edited", {"filePath": "/w/shop/login.py", "structuredPatch": []})
    made.shell("t4", f"curl -H 'Authorization: Bearer {SECRET}' https://shop.example")
    made.call("t5", "mcp__zapomni__search_memory", query="login")
    made.result("t5", "found", [{"type": "text", "text": "found"}])
    made.shell(
        "t6", "git commit -m 'Set SameSite on the session cookie'", "[main 1a2b3c4] Set SameSite"
    )
    made.say(
        "The proxy dropped the cookie because SameSite was missing. The tests pass now.", "m-final"
    )
    made.add("system", subtype="stop_hook_summary", hookCount=1)
    made.add(
        "attachment", attachment={"type": "hook_success", "content": "injected by another memory"}
    )
    made.prompt("<command-name>/clear</command-name><command-args></command-args>")
    made.prompt(
        "<command-message>deploy</command-message><command-name>/deploy</command-name>"
        "<command-args>to staging on Tuesday</command-args>"
    )
    made.prompt("Caveat: The messages below were generated by the user", isMeta=True)
    made.say("Which region should the deployment of the shop use for staging?")
    question = {"question": "Which region?", "header": "Region", "options": []}
    made.call("t7", "AskUserQuestion", questions=[question])
    made.result(
        "t7",
        "User has answered",
        {"questions": [question], "answers": {"Which region?": "Frankfurt"}},
    )
    made.add("queue-operation", operation="enqueue", content="also bump the version to 4.2")
    made.add("queue-operation", operation="dequeue")
    made.say("I will bump the version as well.")
    made.call("t8", "Bash", command="sleep 100")
    made.prompt([{"type": "text", "text": "[Request interrupted by user]"}])
    made.add("compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 150000})
    made.prompt(CONTEXT + SUMMARY, isCompactSummary=True)
    again = made.prompt(
        [{"type": "text", "text": "ship it"}, {"type": "image", "source": {"data": "aGk="}}]
    )
    made.prompt("ship it", uuid=again)
    made.add("shiny-new-record", payload=1)
    made.add("pr-link", prNumber=7, prUrl="https://github.com/shop/shop/pull/7")
    made.bare("custom-title", sessionId=SESSION, customTitle="Fix the login")
    made.bare("ai-title", sessionId=SESSION, aiTitle="Working on things")
    made.lines.append("{not json")
    made.say("Shipped version 4.2 of the shop to staging in Frankfurt.")
    return made


def resumed_session() -> Transcript:
    """Return a session that was resumed: its first records are those of the session before."""
    old = main_session()
    made = Transcript(RESUMED, began=BEGAN + timedelta(days=1))
    # As older versions named sessions: by a record, in any file.
    made.bare("summary", summary="Cookies of the proxy", leafUuid="1111-2")
    made.bare("summary", summary="Lost", leafUuid="9999-1")
    made.lines += old.lines[2:6]
    made.prompt("continue with the checkout page")
    # Two at once, and no text before them.
    made.call("t21", "Bash", command="npm ci")
    made.call("t22", "Grep", pattern="checkout", path="/w/shop")
    made.result("t22", "Found 2 files", {"numFiles": 2})
    made.result("t21", "added 3 packages", {"stdout": "added 3 packages", "stderr": ""})
    made.shell("t20", "npm run build")
    made.say("The checkout page builds again; the bundle is 30 kB smaller than before.")
    return made


def subagent() -> Transcript:
    made = Transcript(
        extra={"isSidechain": True, "agentId": "a1"}, began=BEGAN + timedelta(seconds=5)
    )
    made.prompt("You are a planner. Plan the login.")
    made.shell("t30", "rg cookie")
    made.say("The cookie is set in session.py and read in proxy.conf, nowhere else.")
    return made


def write_all(root: Path, *, age: float = 7200) -> list[Path]:
    """Write a folder as Claude Code has it; return the transcripts."""
    project = root / "-w-shop"
    agent = project / SESSION / "subagents" / "agent-a1.jsonl"
    paths = [
        main_session().write(project / f"{SESSION}.jsonl", age=age + 20),
        subagent().write(agent, age=age + 10),
        resumed_session().write(project / f"{RESUMED}.jsonl", age=age),
    ]
    agent.with_suffix(".meta.json").write_text('{"agentType": "Plan"}')
    return paths


def long_session(turns: int, session: str = SESSION) -> Transcript:
    """Return a session with many turns of four records each."""
    made = Transcript(session)
    for turn in range(turns):
        made.prompt(f"step {turn}: handle case number {turn} of the importer")
        made.shell(
            f"{session[:4]}-call{turn}", f"pytest tests/test_case_{turn}.py", f"{turn} passed"
        )
        made.say(f"Case number {turn} is handled; test_case_{turn} passes in every order.")
    return made

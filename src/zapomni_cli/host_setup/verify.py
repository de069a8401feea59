"""Trying out what a host is configured with: the server it would start, the hook it would run."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from zapomni_cli.host_setup import entries, json_text
from zapomni_cli.host_setup.files import UnfitFileError, read
from zapomni_cli.host_setup.hosts import Host
from zapomni_cli.host_setup.plans import has_older_hooks
from zapomni_cli.runtime import with_observations
from zapomni_core.exceptions import NotFoundError, ZapomniError
from zapomni_core.modules.observations import Observations
from zapomni_core.settings import Settings

__all__ = ["Check", "is_configured", "verify"]

# Seconds; a host may wait less, a busy machine may need them.
SERVER_SECONDS = 60
HOOK_SECONDS = 30
PROTOCOL = "2025-11-25"
TEXT = "zapomni init --verify: a test event"


@dataclass(frozen=True)
class Check:
    """One thing that was tried.

    Attributes:
        name: What.
        ok: Whether it works.
        detail: What was seen.
        fix: What to do, if it does not work.
    """

    name: str
    ok: bool
    detail: str
    fix: str = ""


def is_configured(host: Host) -> bool:
    """Return whether anything of ours is in a host's files."""
    try:
        if entries.find_server(read(host.server_file), host) is not None:
            return True
        return bool(_hook_lines(host))
    except (OSError, UnfitFileError):
        return True  # What is wrong with it is worth a line.


def verify(host: Host, settings: Settings) -> list[Check]:
    """Start the server as a host is configured to, and send an event through its hook."""
    try:
        if (
            host.name == "claude-code"
            and host.hook_file
            and entries.has_plugin(read(host.hook_file))
        ):
            detail = "installed; it brings the server and the hooks"
            return [Check("plugin", ok=True, detail=detail)]
        checks = [_check_server(host)]
        if host.hook_file or host.scripts:
            lines = _hook_lines(host)
            checks += [_check_events(host, lines), *_check_hook(host, lines, settings)]
    except (OSError, UnfitFileError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        fix = f"Mend {host.server_file}, then run: zapomni init --host {host.name}"
        return [Check("configuration", ok=False, detail=why, fix=fix)]
    return checks


# --- The server -------------------------------------------------------------------------


def _check_server(host: Host) -> Check:
    again = f"zapomni init --host {host.name}"
    entry = entries.find_server(read(host.server_file), host)
    if entry is None:
        return Check("server", ok=False, detail="It is not registered.", fix=f"Run: {again}")
    if entry.get("disabled") is True or entry.get("enabled") in (False, "false"):
        fix = f"Switch zapomni on in {host.title}."
        return Check("server", ok=False, detail="It is registered, but switched off.", fix=fix)
    command, environment = _server_process(entry)
    if not command:
        detail = "It is registered without a command to start."
        return Check("server", ok=False, detail=detail, fix=f"Delete the entry, then run: {again}")
    by_hand = f"Run it by hand to see why: {' '.join(command)}"
    try:
        found, tools = _handshake(command, environment)
    except OSError as error:
        detail = f"It cannot be started: {os.strerror(error.errno or 0)}."
        return Check("server", ok=False, detail=detail, fix=f"Run: {again}")
    except (EOFError, ValueError) as error:
        return Check("server", ok=False, detail=f"{error}", fix=by_hand)
    if found != "zapomni":
        detail = f"Another server answers: {found[:100]}."
        return Check("server", ok=False, detail=detail, fix=f"Delete the entry, then run: {again}")
    return Check("server", ok=True, detail=f"starts and offers {tools} tools")


def _server_process(entry: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the variables that an entry names, as any host writes them."""
    started = entry.get("command", entry.get("cmd"))
    arguments = entry.get("args")
    parts = started if isinstance(started, list) else [started]
    parts = [*parts, *(arguments if isinstance(arguments, list) else [])]
    command = [str(part) for part in parts if part is not None]
    given: Any = next((entry[name] for name in ("env", "environment", "envs") if name in entry), {})
    pairs = given.items() if isinstance(given, dict) else ()
    return command, {str(name): str(value) for name, value in pairs}


def _handshake(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, int]:
    """Return the server's name and how many tools it offers.

    Raises:
        OSError: It cannot be started.
        EOFError: It ended, or did not answer in time.
        ValueError: What it answered is not MCP.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(  # noqa: S603 - what the host's own configuration says
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # nothing is left to write when it has ended
        ) as server,
    ):
        limit = threading.Timer(SERVER_SECONDS, server.kill)
        limit.daemon = True
        limit.start()
        try:
            about = {"name": "zapomni-verify", "version": "1"}
            opening = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}
            _send(server, id=1, method="initialize", params=opening)
            name = _answer(server, 1).get("serverInfo", {}).get("name", "")
            _send(server, method="notifications/initialized")
            _send(server, id=2, method="tools/list", params={})
            return str(name), len(_answer(server, 2).get("tools", []))
        finally:
            limit.cancel()
            server.stdin.close()  # type: ignore[union-attr] # it is a pipe
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _send(server: subprocess.Popen[bytes], **message: Any) -> None:
    assert server.stdin is not None
    with suppress(BrokenPipeError):  # What it said before it ended is read next.
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _answer(server: subprocess.Popen[bytes], number: int) -> dict[str, Any]:
    assert server.stdout is not None
    while line := server.stdout.readline():
        try:
            message = json.loads(line)
        except ValueError:
            raise ValueError("It writes something else than MCP on its output.") from None
        if isinstance(message, dict) and message.get("id") == number:
            result = message.get("result")
            if not isinstance(result, dict):
                raise ValueError("It answered with an error.")
            return result
    raise EOFError(f"It ended, or did not answer within {SERVER_SECONDS} seconds.")


# --- The hooks --------------------------------------------------------------------------


def _hook_lines(host: Host) -> dict[str, list[str]]:
    """Return the command that a host runs for each event, or for each script of ours."""
    lines: dict[str, list[str]] = {}
    text = host.hook_file and read(host.hook_file)
    for event, handler in entries.find_hooks(text or "", host).items():
        arguments = handler.get("args")
        line = str(handler.get("command", handler.get("bash")))
        lines[event] = [line, *arguments] if arguments else ["/bin/sh", "-c", line]
    for path in host.scripts:
        script = read(path)
        if script is None:
            continue
        if path.suffix == ".js":
            # The plugin runs this command; it is tried without the host.
            words = script.partition("\nconst COMMAND = ")[2].partition("\n")[0]
            lines[path.name] = json.loads(words)
        else:
            lines[path.name] = ["bash", str(path)]
    return lines


def _check_events(host: Host, lines: Mapping[str, Sequence[str]]) -> Check:
    wanted = [*host.hooks, *(path.name for path in host.scripts)]
    missing = [name for name in wanted if name not in lines]
    fix = f"Run: zapomni init --host {host.name}"
    if not lines:
        return Check("hooks", ok=False, detail="None is registered.", fix=fix)
    text = host.hook_file and read(host.hook_file)
    if text and json_text.parse(text).value.get("disableAllHooks") is True:
        fix = f"Take disableAllHooks out of {host.hook_file}."
        return Check("hooks", ok=False, detail="They are switched off.", fix=fix)
    if missing:
        return Check("hooks", ok=False, detail=f"Missing: {', '.join(missing)}.", fix=fix)
    if has_older_hooks(host):
        # None is missing, and whether they work is tried next.
        detail = f"{len(lines)} registered, but not as this version would"
        return Check("hooks", ok=True, detail=detail, fix=fix)
    return Check("hooks", ok=True, detail=f"{len(lines)} registered")


def _check_hook(host: Host, lines: Mapping[str, Sequence[str]], settings: Settings) -> list[Check]:
    session = f"zapomni-verify-{uuid.uuid4()}"
    with tempfile.TemporaryDirectory(prefix="zapomni-verify-") as folder:
        event, payload = _test_event(host.name, session, folder)
        line = lines.get(event)
        if line is None:
            return []
        problem = _run_hook(line, payload, folder)
        stored = _take_back(session, settings)
    again = f"Run: zapomni init --host {host.name}"
    if problem:
        return [Check("test event", ok=False, detail=problem, fix=again)]
    if not stored:
        home = "It was accepted, but it is not in this home: "
        detail = home + "ZAPOMNI_HOME may differ, or a setting excludes the folder."
        return [Check("test event", ok=False, detail=detail, fix="Run: zapomni doctor")]
    return [Check("test event", ok=True, detail="stored, read back and removed")]


def _run_hook(line: Sequence[str], payload: Mapping[str, Any], folder: str) -> str:
    """Return what went wrong, if anything."""
    try:
        done = subprocess.run(  # noqa: S603 - what the host's own configuration says
            line,
            input=json.dumps(payload).encode(),
            cwd=folder,
            capture_output=True,
            timeout=HOOK_SECONDS,
            check=False,
        )
    except OSError as error:
        return f"The hook cannot be started: {os.strerror(error.errno or 0)}."
    except subprocess.TimeoutExpired:
        return f"The hook took more than {HOOK_SECONDS} seconds."
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return f"The hook ended with exit code {done.returncode}: {(said or [''])[-1][:200]}"
    return ""


def _take_back(session: str, settings: Settings) -> bool:
    """Return whether the test event was stored, and delete it."""

    async def work(observations: Observations) -> bool:
        try:
            await observations.drain_spool()
            story = await observations.session(session)
        except (NotFoundError, ZapomniError):
            return False
        found = [one for one in story.observations if TEXT in one.content]
        await observations.delete([one.id for one in story.observations])
        return bool(found)

    return with_observations(work, settings)


def _test_event(name: str, session: str, folder: str) -> tuple[str, dict[str, Any]]:
    """Return a prompt as a host would send it, and the event or script it comes by."""
    now = datetime.now(UTC).isoformat()
    common = {"session_id": session, "cwd": folder, "prompt": TEXT}
    events: dict[str, tuple[str, dict[str, Any]]] = {
        "gemini": ("BeforeAgent", {**common, "timestamp": now}),
        "cursor": (
            "beforeSubmitPrompt",
            {"conversation_id": session, "workspace_roots": [folder], "prompt": TEXT},
        ),
        "windsurf": (
            "pre_user_prompt",
            {"trajectory_id": session, "tool_info": {"user_prompt": TEXT}},
        ),
        "copilot": (
            "userPromptSubmitted",
            {"sessionId": session, "cwd": folder, "timestamp": int(time.time() * 1000)},
        ),
        "cline": (
            "UserPromptSubmit.bash",
            {
                "hookName": "prompt_submit",
                "taskId": session,
                "timestamp": now,
                "workspaceRoots": [folder],
                "userPromptSubmit": {"prompt": TEXT},
            },
        ),
        "opencode": ("zapomni.js", {**common, "hook_event_name": "chat.message"}),
    }
    event, fields = events.get(name, ("UserPromptSubmit", common))
    if name == "windsurf":
        fields["agent_action_name"] = event
    return event, {"hook_event_name": event, "prompt": TEXT, **fields}

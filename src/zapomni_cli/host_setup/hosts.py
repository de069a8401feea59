"""The hosts: how to find each, where it reads servers and hooks from, and what they look like."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from zapomni_core.modules.observations import HOOKS_REVISION

__all__ = ["HOSTS", "MARK", "Host", "hosts_of", "server_command"]

SERVER: Final = "zapomni"
MARK: Final = "written by `zapomni init`, removed by `zapomni init --uninstall`"
HOSTS: Final = (
    "claude-code",
    "codex",
    "gemini",
    "cursor",
    "windsurf",
    "vscode",
    "claude-desktop",
    "opencode",
    "copilot",
    "qwen",
    "cline",
    "roo",
    "zed",
    "goose",
    "junie",
    "kiro",
    "amp",
)

# Seconds. A hook takes a tenth of one; the rest is for a busy machine.
TIMEOUT: Final = 5

# Every event costs a process: only those that `zapomni record` makes something of. A change of
# these raises HOOKS_REVISION, by which older hooks are noticed.
_CLAUDE_EVENTS = (
    "SessionStart UserPromptSubmit PostToolUse PostToolUseFailure SubagentStop PostCompact Stop"
    " SessionEnd"
).split()
_CODEX_EVENTS = (
    "SessionStart UserPromptSubmit PostToolUse SubagentStop PostCompact Stop SessionEnd"
).split()
_GEMINI_EVENTS = "SessionStart BeforeAgent AfterTool AfterAgent SessionEnd".split()
_CURSOR_EVENTS = (
    "sessionStart beforeSubmitPrompt afterFileEdit afterShellExecution afterMCPExecution"
    " postToolUse postToolUseFailure subagentStop preCompact afterAgentResponse sessionEnd"
).split()
_WINDSURF_EVENTS = (
    "pre_user_prompt post_read_code post_write_code post_run_command post_mcp_tool_use"
    " post_cascade_response"
).split()
_COPILOT_EVENTS = (
    "sessionStart userPromptSubmitted postToolUse postToolUseFailure agentStop sessionEnd"
).split()
# The names of files in its folder of hooks.
_CLINE_EVENTS = "UserPromptSubmit PostToolUse TaskComplete SessionShutdown".split()


@dataclass(frozen=True)
class Host:
    """A program that runs agents.

    Attributes:
        name: What `--host` calls it.
        title: What people call it.
        folder: What shows that it is installed.
        server_file: Where it reads MCP servers from.
        server_path: Where in that file our server goes.
        server: What to write there.
        program: Its own command line, if it has one.
        hook_file: Where it reads hooks from; None if it has no hooks.
        hooks: What to write for each event.
        hook_frame: What else a new hook file must say.
        scripts: Files that are wholly ours, by their path.
        registers: Whether its own command line registers the server.
        nested: Whether an event lists groups of handlers, or handlers.
        note: What the user has to do, once it is connected.
    """

    name: str
    title: str
    folder: Path
    server_file: Path
    server: Mapping[str, Any]
    server_path: tuple[str, ...] = ("mcpServers", SERVER)
    server_format: Literal["json", "toml", "yaml"] = "json"
    program: str | None = None
    hook_file: Path | None = None
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hook_frame: Mapping[str, Any] = field(default_factory=dict)
    scripts: Mapping[Path, str] = field(default_factory=dict)
    registers: bool = False
    nested: bool = True
    note: str = "Restart it to connect."

    @property
    def is_here(self) -> bool:
        """Whether it seems to be installed."""
        on_path = self.program is not None and shutil.which(self.program) is not None
        return on_path or self.folder.is_dir()

    def add_command(self) -> list[str] | None:
        """Return the host's own command that registers our server, if it is installed."""
        program = shutil.which(self.program) if self.program and self.registers else None
        if program is None:
            return None
        scope = [] if self.name == "codex" else ["--scope", "user"]
        separator = [] if self.name == "gemini" else ["--"]
        command = [self.server["command"], *self.server["args"]]
        return [program, "mcp", "add", *scope, SERVER, *separator, *command]

    def remove_command(self) -> list[str] | None:
        """Return the host's own command that forgets our server, if it is installed."""
        program = shutil.which(self.program) if self.program and self.registers else None
        if program is None:
            return None
        scope = [] if self.name == "codex" else ["--scope", "user"]
        return [program, "mcp", "remove", *scope, SERVER]


def server_command() -> list[str]:
    """Return how to start this installation, whatever PATH a host has."""
    started = Path(sys.argv[0])
    sibling = Path(sys.executable).with_name("zapomni")
    found = shutil.which("zapomni")
    for program in (started, sibling, *([Path(found)] if found else [])):
        if program.name == "zapomni" and program.is_absolute() and os.access(program, os.X_OK):
            return [str(program), "serve"]
    return [sys.executable, "-m", "zapomni_cli", "serve"]


def hosts_of(
    home: Path, environ: Mapping[str, str], server: Sequence[str], hook: Sequence[str]
) -> dict[str, Host]:
    """Describe every host for a user's home folder.

    Args:
        home: The user's home folder.
        environ: Environment variables: some hosts can be moved by one.
        server: The command that serves MCP.
        hook: The command that records an event, without a host's name.
    """
    command = {"command": server[0], "args": list(server[1:])}
    revision = str(HOOKS_REVISION)
    lines = {name: [*hook, "--host", name, "--hooks", revision] for name in HOSTS}
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    described = (
        _claude_code(home, environ, command, lines["claude-code"]),
        _codex(Path(environ.get("CODEX_HOME") or home / ".codex"), command, lines["codex"]),
        _gemini(home / ".gemini", command, lines["gemini"]),
        _cursor(home / ".cursor", command, lines["cursor"]),
        _windsurf(home, command, lines["windsurf"]),
        *_without_hooks(home, command),
        _opencode(config / "opencode", server, lines["opencode"]),
        _copilot(Path(environ.get("COPILOT_HOME") or home / ".copilot"), command, lines["copilot"]),
        _qwen(Path(environ.get("QWEN_HOME") or home / ".qwen"), command, lines["qwen"]),
        _cline(home, environ, command, lines["cline"]),
        *_with_instructions(home, config, command),
    )
    return {host.name: host for host in described}


def _claude_code(
    home: Path, environ: Mapping[str, str], command: Mapping[str, Any], line: Sequence[str]
) -> Host:
    moved = environ.get("CLAUDE_CONFIG_DIR")
    folder = Path(moved or home / ".claude")
    # With args there is no shell in between.
    handler = {"type": "command", "command": line[0], "args": list(line[1:]), "timeout": TIMEOUT}
    return Host(
        name="claude-code",
        title="Claude Code",
        folder=folder,
        program="claude",
        registers=True,
        server_file=(folder if moved else home) / ".claude.json",
        server={"type": "stdio", **command},
        hook_file=folder / "settings.json",
        hooks={event: {"hooks": [handler]} for event in _CLAUDE_EVENTS},
        note="Sessions started from now on are connected.",
    )


def _codex(folder: Path, command: Mapping[str, Any], line: Sequence[str]) -> Host:
    def handler(event: str) -> dict[str, Any]:
        # Codex allows the end of a session no more than three seconds.
        seconds = 3 if event == "SessionEnd" else TIMEOUT
        return {"type": "command", "command": shlex.join(line), "timeout": seconds}

    return Host(
        name="codex",
        title="Codex",
        folder=folder,
        program="codex",
        registers=True,
        server_file=folder / "config.toml",
        server_path=("mcp_servers", SERVER),
        server_format="toml",
        server=command,
        hook_file=folder / "hooks.json",
        hooks={event: {"hooks": [handler(event)]} for event in _CODEX_EVENTS},
        note="Codex runs hooks only once you have trusted them: open it and enter /hooks.",
    )


def _gemini(folder: Path, command: Mapping[str, Any], line: Sequence[str]) -> Host:
    handler = {
        "name": SERVER,
        "type": "command",
        "command": shlex.join(line),
        "timeout": TIMEOUT * 1000,  # milliseconds here
    }
    return Host(
        name="gemini",
        title="Gemini CLI",
        folder=folder,
        program="gemini",
        registers=True,
        server_file=folder / "settings.json",
        server=command,
        hook_file=folder / "settings.json",
        hooks={event: {"hooks": [handler]} for event in _GEMINI_EVENTS},
        note="Sessions started from now on are connected.",
    )


def _cursor(folder: Path, command: Mapping[str, Any], line: Sequence[str]) -> Host:
    handler = {"command": shlex.join(line), "timeout": TIMEOUT}
    return Host(
        name="cursor",
        title="Cursor",
        folder=folder,
        server_file=folder / "mcp.json",
        server=command,
        hook_file=folder / "hooks.json",
        hook_frame={"version": 1},
        hooks=dict.fromkeys(_CURSOR_EVENTS, handler),
        nested=False,
    )


def _windsurf(home: Path, command: Mapping[str, Any], line: Sequence[str]) -> Host:
    folder = home / ".codeium" / "windsurf"
    newer = home / ".codeium" / "mcp_config.json"
    older = folder / "mcp_config.json"
    handler = {"command": shlex.join(line), "show_output": False}
    return Host(
        name="windsurf",
        title="Windsurf",
        folder=folder,
        server_file=newer if newer.exists() and not older.exists() else older,
        server=command,
        hook_file=folder / "hooks.json",
        hooks=dict.fromkeys(_WINDSURF_EVENTS, handler),
        nested=False,
    )


def _without_hooks(home: Path, command: Mapping[str, Any]) -> tuple[Host, Host]:
    mac = sys.platform == "darwin"
    data = home / "Library" / "Application Support" if mac else home / ".config"
    code, claude = data / "Code" / "User", data / "Claude"
    return (
        Host(
            name="vscode",
            title="VS Code",
            folder=code,
            server_file=code / "mcp.json",
            server_path=("servers", SERVER),
            server={"type": "stdio", **command},
            note="Start the server from the MCP view. VS Code gets no hooks.",
        ),
        Host(
            name="claude-desktop",
            title="Claude Desktop",
            folder=claude,
            server_file=claude / "claude_desktop_config.json",
            server=command,
            note="Restart it to connect. It has no hooks.",
        ),
    )


def _opencode(folder: Path, server: Sequence[str], line: Sequence[str]) -> Host:
    commented = folder / "opencode.jsonc"
    source = Path(__file__).with_name("opencode.js").read_text(encoding="utf-8")
    first, _, rest = source.partition("\nconst COMMAND = ")
    script = f"{first}\nconst COMMAND = {json.dumps(list(line))}\n{rest.partition(chr(10))[2]}"
    return Host(
        name="opencode",
        title="opencode",
        folder=folder,
        program="opencode",
        server_file=commented if commented.exists() else folder / "opencode.json",
        server_path=("mcp", SERVER),
        server={"type": "local", "command": list(server), "enabled": True},
        scripts={folder / "plugins" / "zapomni.js": script},
        note="Sessions started from now on are connected.",
    )


def _copilot(folder: Path, command: Mapping[str, Any], line: Sequence[str]) -> Host:
    handler = {"type": "command", "bash": shlex.join(line), "timeoutSec": TIMEOUT}
    return Host(
        name="copilot",
        title="Copilot CLI",
        folder=folder,
        program="copilot",
        server_file=folder / "mcp-config.json",
        server={"type": "local", **command, "tools": ["*"]},
        hook_file=folder / "hooks" / "zapomni.json",
        hook_frame={"version": 1},
        hooks=dict.fromkeys(_COPILOT_EVENTS, handler),
        nested=False,
        note="Sessions started from now on are connected.",
    )


def _qwen(folder: Path, command: Mapping[str, Any], line: Sequence[str]) -> Host:
    handler = {
        "name": SERVER,
        "type": "command",
        "command": shlex.join(line),
        "timeout": TIMEOUT * 1000,  # milliseconds here
    }
    return Host(
        name="qwen",
        title="Qwen Code",
        folder=folder,
        program="qwen",
        server_file=folder / "settings.json",
        server=command,
        hook_file=folder / "settings.json",
        hooks={event: {"hooks": [handler]} for event in _CLAUDE_EVENTS},
        note="Sessions started from now on are connected.",
    )


def _cline(
    home: Path, environ: Mapping[str, str], command: Mapping[str, Any], line: Sequence[str]
) -> Host:
    folder = Path(environ.get("CLINE_DIR") or home / ".cline")
    data = Path(environ.get("CLINE_DATA_DIR") or folder / "data")
    script = f"#!/bin/bash\n# zapomni: {MARK}\nexec {shlex.join(line)}\n"
    return Host(
        name="cline",
        title="Cline",
        folder=folder,
        program="cline",
        server_file=data / "settings" / "cline_mcp_settings.json",
        # Without it Cline waits three seconds, too few on a busy machine.
        server={**command, "timeout": 60},
        scripts={folder / "hooks" / f"{event}.bash": script for event in _CLINE_EVENTS},
        note="Sessions started from now on are connected.",
    )


def _with_instructions(home: Path, config: Path, command: Mapping[str, Any]) -> tuple[Host, ...]:
    """Describe hosts that have no hooks a user can set for all projects."""
    mac = sys.platform == "darwin"
    data = home / "Library" / "Application Support" if mac else home / ".config"
    roo = data / "Code" / "User" / "globalStorage" / "rooveterinaryinc.roo-cline"
    commented = config / "amp" / "settings.jsonc"
    # Goose calls it an extension, and wants to know everything.
    extension = {
        "enabled": True,
        "type": "stdio",
        "name": SERVER,
        "description": "Long-term memory on this machine",
        "cmd": command["command"],
        "args": command["args"],
        "envs": {},
        "timeout": 300,
    }
    return (
        Host(
            name="roo",
            title="Roo Code",
            folder=roo,
            server_file=roo / "settings" / "mcp_settings.json",
            server=command,
        ),
        Host(
            name="zed",
            title="Zed",
            folder=config / "zed",
            program="zed",
            server_file=config / "zed" / "settings.json",
            server_path=("context_servers", SERVER),
            server={"source": "custom", **command},
            note="Zed connects as soon as its settings are saved.",
        ),
        Host(
            name="goose",
            title="Goose",
            folder=config / "goose",
            program="goose",
            server_file=config / "goose" / "config.yaml",
            server_path=("extensions", SERVER),
            server_format="yaml",
            server=extension,
            note="Sessions started from now on are connected.",
        ),
        Host(
            name="junie",
            title="Junie",
            folder=home / ".junie",
            program="junie",
            server_file=home / ".junie" / "mcp" / "mcp.json",
            server=command,
        ),
        Host(
            name="kiro",
            title="Kiro",
            folder=home / ".kiro",
            program="kiro-cli",
            server_file=home / ".kiro" / "settings" / "mcp.json",
            server=command,
        ),
        Host(
            name="amp",
            title="Amp",
            folder=config / "amp",
            program="amp",
            server_file=commented if commented.exists() else config / "amp" / "settings.json",
            server_path=("amp.mcpServers", SERVER),
            server=command,
            note="Sessions started from now on are connected.",
        ),
    )

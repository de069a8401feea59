"""How to use each client without a person: its settings, its options, the names of its tools.

A driver says what its client cannot do here in `cannot`; docs/hosts.md has the same as a table.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

from clients import Machine
from endpoints import Call, Provider, Say, Step

__all__ = ["DRIVERS", "PARTS", "Driver"]

# What a user does with a host, in this order; the columns of the table in docs/hosts.md.
PARTS = (
    "prompt",
    "edits",
    "failure",
    "subagent",
    "question",
    "context",
    "tools",
    "resume",
    "compaction",
    "uninstall",
)
QUESTION, ANSWER = "Which database?", "SQLite"
OPTIONS = [
    {"label": "SQLite", "description": "one file"},
    {"label": "Postgres", "description": "a server"},
]


class Driver:
    """One client on one machine, with the model at `provider`."""

    host: ClassVar[str]
    client: ClassVar[str]
    cannot: ClassVar[dict[str, str]] = {}
    # A file that the client itself writes anew at every start, and that is none of ours.
    rewrites: ClassVar[str] = ""

    def __init__(self, machine: Machine, provider: Provider) -> None:
        self.machine, self.provider = machine, provider
        self.prepare()

    # What a client wants before it works at all.
    def prepare(self) -> None: ...

    def start(self, prompt: str) -> None:
        raise NotImplementedError

    def resume(self, prompt: str) -> None:
        raise NotImplementedError

    def compact(self) -> None:
        raise NotImplementedError

    def ask(self, prompt: str) -> None:
        """Start a session in which QUESTION is asked and answered with ANSWER."""
        raise NotImplementedError

    # The client's tools, by what they do.
    def write(self, name: str, content: str) -> Step:
        raise NotImplementedError

    def edit(self, name: str, old: str, new: str) -> Step:
        raise NotImplementedError

    def shell(self, command: str) -> Step:
        raise NotImplementedError

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        raise NotImplementedError

    def report(self, text: str) -> Step:
        """The last step of an agent that was delegated to."""
        return Say(text)

    def mcp(self, tool: str, **arguments: Any) -> Step:
        raise NotImplementedError


class ClaudeCode(Driver):
    host, client = "claude-code", "claude"

    def prepare(self) -> None:
        settings = self.machine.home / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"cleanupPeriodDays": 20}, indent=2))

    def _environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.provider.url,
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def run(self, *args: str) -> None:
        allowed = "--allowedTools=Bash,Write,Edit,Agent,mcp__zapomni"
        self.machine.run(self.client, allowed, *args, **self._environment())

    def start(self, prompt: str) -> None:
        self.run("-p", prompt)

    def resume(self, prompt: str) -> None:
        self.run("-c", "-p", prompt)

    def compact(self) -> None:
        self.run("-c", "-p", "/compact")

    def ask(self, prompt: str) -> None:
        question = {
            "question": QUESTION,
            "header": "Database",
            "multiSelect": False,
            "options": OPTIONS,
        }
        self.provider.steps.append(Call("AskUserQuestion", {"questions": [question]}))
        # Asked over the client's own protocol, as programs around it are.
        command = (self.client, "-p", "--verbose", "--permission-prompt-tool=stdio")
        formats = ("--input-format=stream-json", "--output-format=stream-json")
        with subprocess.Popen(
            [*command, *formats],
            cwd=self.machine.project,
            env={**self.machine.environment(), **self._environment()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as client:
            limit = threading.Timer(120, client.kill)
            limit.start()
            assert client.stdin
            assert client.stdout

            def say(**message: Any) -> None:
                client.stdin.write(json.dumps(message) + "\n")
                client.stdin.flush()

            say(type="user", message={"role": "user", "content": prompt})
            for line in client.stdout:
                message = json.loads(line)
                if message["type"] == "control_request":
                    given = {**message["request"]["input"], "answers": {QUESTION: ANSWER}}
                    answer = {"behavior": "allow", "updatedInput": given}
                    say(
                        type="control_response",
                        response={
                            "subtype": "success",
                            "request_id": message["request_id"],
                            "response": answer,
                        },
                    )
                elif message["type"] == "result":
                    client.stdin.close()
            limit.cancel()
        assert client.returncode == 0

    def write(self, name: str, content: str) -> Step:
        return Call("Write", {"file_path": str(self.machine.project / name), "content": content})

    def edit(self, name: str, old: str, new: str) -> Step:
        path = str(self.machine.project / name)
        return Call("Edit", {"file_path": path, "old_string": old, "new_string": new})

    def shell(self, command: str) -> Step:
        return Call("Bash", {"command": command})

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        given = {"description": title, "prompt": prompt, "subagent_type": "general-purpose"}
        return [Call("Agent", given)]

    def mcp(self, tool: str, **arguments: Any) -> Step:
        return Call(f"mcp__zapomni__{tool}", arguments)


class Codex(Driver):
    host, client = "codex", "codex"
    cannot: ClassVar = {"question": "it asks in plan mode only, which `codex exec` does not have"}

    def prepare(self) -> None:
        folder = self.machine.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f"""\
model = "gpt-5.5"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.local]
name = "local"
base_url = "{self.provider.url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 0
stream_max_retries = 0

[projects."{self.machine.project}"]
trust_level = "trusted"
"""
        )

    def run(self, *args: str) -> None:
        options = ("--skip-git-repo-check", "--dangerously-bypass-hook-trust")
        config = self.machine.home / ".codex" / "config.toml"
        if "mcp_servers.zapomni" in config.read_text():
            # Otherwise a model that answers at once is not offered its tools yet.
            options += ("-c", "mcp_servers.zapomni.required=true")
        self.machine.run(self.client, "exec", *options, *args, LOCAL_KEY="not-a-key")

    def start(self, prompt: str) -> None:
        self.run(prompt)

    def resume(self, prompt: str) -> None:
        self.run("resume", "--last", prompt)

    def write(self, name: str, content: str) -> Step:
        added = "".join(f"+{line}\n" for line in content.splitlines())
        return Call(
            "apply_patch", text=f"*** Begin Patch\n*** Add File: {name}\n{added}*** End Patch\n"
        )

    def edit(self, name: str, old: str, new: str) -> Step:
        change = f"@@\n-    {old}\n+    {new}\n"
        patch = f"*** Begin Patch\n*** Update File: {name}\n{change}*** End Patch\n"
        return Call("apply_patch", text=patch)

    def shell(self, command: str) -> Step:
        return Call("exec_command", {"cmd": command})

    def compact(self) -> None:
        # So full that Codex compacts before the next turn.
        self.provider.steps.append(Say("Done.", tokens=250_000))
        self.resume("Fill it")
        self.resume("Now it is full")

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        def wait(body: dict[str, Any]) -> Call:
            agent = json.loads(body["input"][-1]["output"])["agent_id"]
            given = {"targets": [agent], "timeout_ms": 60_000}
            return Call("wait_agent", given, namespace="multi_agent_v1")

        given = {"message": prompt, "agent_type": "default"}
        return [Call("spawn_agent", given, namespace="multi_agent_v1"), wait]

    def mcp(self, tool: str, **arguments: Any) -> Step:
        return Call(tool, arguments, namespace="mcp__zapomni")


class Gemini(Driver):
    host, client = "gemini", "gemini"
    cannot: ClassVar = {
        "question": "it has no tool to ask with when it runs without a terminal",
        "compaction": "its event does not say whether anything was compressed",
    }

    def prepare(self) -> None:
        settings = self.machine.home / ".gemini" / "settings.json"
        settings.parent.mkdir()
        own = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        settings.write_text(json.dumps(own, indent=2))

    def run(self, *args: str) -> None:
        self.machine.run(
            self.client,
            "--model=gemini-2.5-flash",
            "--yolo",
            "--skip-trust",
            *args,
            GEMINI_API_KEY="not-a-key",
            GOOGLE_GEMINI_BASE_URL=self.provider.url,
            # It would start itself a second time, for more memory.
            GEMINI_CLI_NO_RELAUNCH="true",
        )

    def start(self, prompt: str) -> None:
        self.run("-p", prompt)

    def resume(self, prompt: str) -> None:
        self.run("--resume", "latest", "-p", prompt)

    def write(self, name: str, content: str) -> Step:
        return Call(
            "write_file", {"file_path": str(self.machine.project / name), "content": content}
        )

    def edit(self, name: str, old: str, new: str) -> Step:
        path = str(self.machine.project / name)
        given = {"file_path": path, "instruction": "x", "old_string": old, "new_string": new}
        return Call("replace", given)

    def shell(self, command: str) -> Step:
        return Call("run_shell_command", {"command": command})

    def mcp(self, tool: str, **arguments: Any) -> Step:
        return Call(f"mcp_zapomni_{tool}", arguments)

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        return [Call("invoke_agent", {"agent_name": "generalist", "prompt": prompt})]

    def report(self, text: str) -> Step:
        return Call("complete_task", {"result": {"response": text}})


class Qwen(Driver):
    host, client = "qwen", "qwen"
    cannot: ClassVar = {
        "question": "it has no tool to ask with when it runs without a terminal",
    }

    def prepare(self) -> None:
        settings = self.machine.home / ".qwen" / "settings.json"
        settings.parent.mkdir()
        own = {
            "$version": 4,
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"enableAutoUpdate": False},
            # An agent that collects memories of its own would make requests, too.
            "memory": {"enableManagedAutoMemory": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        settings.write_text(json.dumps(own, indent=2))

    def run(self, *args: str) -> None:
        self.machine.run(
            self.client,
            "--yolo",
            "--auth-type=openai",
            *args,
            OPENAI_API_KEY="not-a-key",
            OPENAI_BASE_URL=f"{self.provider.url}/v1",
            OPENAI_MODEL="local-model",
            QWEN_CODE_NO_RELAUNCH="true",
        )

    def start(self, prompt: str) -> None:
        self.run("-p", prompt)

    def resume(self, prompt: str) -> None:
        self.run("--continue", "-p", prompt)

    def compact(self) -> None:
        self.resume("/compress")

    def write(self, name: str, content: str) -> Step:
        path = str(self.machine.project / name)
        return Call("write_file", {"file_path": path, "content": content})

    def edit(self, name: str, old: str, new: str) -> Step:
        path = str(self.machine.project / name)
        return Call("edit", {"file_path": path, "old_string": old, "new_string": new})

    def shell(self, command: str) -> Step:
        return Call("run_shell_command", {"command": command})

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        given = {"description": title, "prompt": prompt, "subagent_type": "general-purpose"}
        return [Call("agent", given)]

    def mcp(self, tool: str, **arguments: Any) -> Step:
        return Call(f"mcp__zapomni__{tool}", arguments)


class Copilot(Driver):
    host, client = "copilot", "copilot"
    cannot: ClassVar = {
        "question": "it has no tool to ask with when it runs without a terminal",
        "compaction": "it has no event for it",
    }

    def prepare(self) -> None:
        servers = self.machine.home / ".copilot" / "mcp-config.json"
        servers.parent.mkdir()
        servers.write_text(json.dumps({"mcpServers": {}}, indent=2))

    def run(self, *args: str) -> None:
        self.machine.run(
            self.client,
            "--allow-all-tools",
            "--disable-builtin-mcps",
            *args,
            COPILOT_PROVIDER_BASE_URL=f"{self.provider.url}/v1",
            COPILOT_PROVIDER_API_KEY="not-a-key",
            COPILOT_MODEL="local-model",
            COPILOT_OFFLINE="true",
            COPILOT_AUTO_UPDATE="false",
        )

    def start(self, prompt: str) -> None:
        self.run("-p", prompt)

    def resume(self, prompt: str) -> None:
        self.run("--continue", "-p", prompt)

    def write(self, name: str, content: str) -> Step:
        return Call("create", {"path": str(self.machine.project / name), "file_text": content})

    def edit(self, name: str, old: str, new: str) -> Step:
        path = str(self.machine.project / name)
        return Call("edit", {"path": path, "old_str": old, "new_str": new})

    def shell(self, command: str) -> Step:
        return Call("bash", {"command": command, "description": "Run it"})

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        given = {"description": title, "prompt": prompt, "agent_type": "task", "name": "lexer"}
        return [Call("task", given)]

    def mcp(self, tool: str, **arguments: Any) -> Step:
        call, waits = Call(f"zapomni-{tool}", arguments), iter(range(30))

        def when_offered(body: dict[str, Any]) -> Call:
            # It does not wait for its servers before the first request.
            if call.tool in json.dumps(body["tools"]) or next(waits, None) is None:
                return call
            self.provider.steps.insert(0, when_offered)
            return Call("bash", {"command": "sleep 2", "description": "Wait"})

        return when_offered


class OpenCode(Driver):
    host, client = "opencode", "opencode"
    cannot: ClassVar = {"question": "it has no tool to ask with in `opencode run`"}

    def prepare(self) -> None:
        config = self.machine.home / ".config" / "opencode" / "opencode.json"
        config.parent.mkdir(parents=True)
        own = {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": "local/local-model",
            "small_model": "local/local-model",
            "provider": {
                "local": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": f"{self.provider.url}/v1", "apiKey": "not-a-key"},
                    "models": {"local-model": {"limit": {"context": 200_000, "output": 8_000}}},
                }
            },
        }
        config.write_text(json.dumps(own))
        # Once it has a plugin it installs what plugins may import, and waits a minute where no
        # registry answers. This is what it finds where that was done before.
        (config.parent / "node_modules").mkdir()
        wanted = {"dependencies": {"@opencode-ai/plugin": "*"}}
        (config.parent / "package.json").write_text(json.dumps(wanted))
        lock = json.dumps({"lockfileVersion": 3, "packages": {"": wanted}})
        (config.parent / "package-lock.json").write_text(lock)

    def run(self, *args: str) -> None:
        self.machine.run(
            self.client,
            "run",
            "--auto",
            *args,
            OPENCODE_DISABLE_MODELS_FETCH="1",
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_LSP_DOWNLOAD="1",
        )

    def start(self, prompt: str) -> None:
        # It puts quotes around an argument of several words.
        self.run(*prompt.split())

    def resume(self, prompt: str) -> None:
        self.run("--continue", *prompt.split())

    def compact(self) -> None:
        # So full that opencode compacts after the turn.
        self.provider.steps.append(Say("Done.", tokens=199_000))
        self.resume("Fill it")

    def write(self, name: str, content: str) -> Step:
        return Call("write", {"filePath": str(self.machine.project / name), "content": content})

    def edit(self, name: str, old: str, new: str) -> Step:
        path = str(self.machine.project / name)
        return Call("edit", {"filePath": path, "oldString": old, "newString": new})

    def shell(self, command: str) -> Step:
        return Call("bash", {"command": command})

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        given = {"description": title, "prompt": prompt, "subagent_type": "general"}
        return [Call("task", given)]

    def mcp(self, tool: str, **arguments: Any) -> Step:
        return Call(f"zapomni_{tool}", arguments)


class Cline(Driver):
    host, client = "cline", "cline"
    cannot: ClassVar = {
        "prompt": "it reports no prompt when it runs without a terminal",
        "question": "it has no tool to ask with when it runs without a terminal",
        "context": "it has no hook that gives one",
        "resume": "it resumes a session in a terminal only",
        "compaction": "it has no event for it",
    }
    rewrites = ".cline/data/settings/providers.json"

    def prepare(self) -> None:
        providers = self.machine.home / self.rewrites
        providers.parent.mkdir(parents=True)
        servers = providers.with_name("cline_mcp_settings.json")
        servers.write_text(json.dumps({"mcpServers": {}}, indent=2))
        settings = {
            "provider": "openai-compatible",
            "apiKey": "not-a-key",
            "model": "local-model",
            "baseUrl": f"{self.provider.url}/v1",
        }
        chosen = {
            "settings": settings,
            "updatedAt": "2026-11-16T12:00:00.000Z",
            "tokenSource": "manual",
        }
        own = {
            "version": 1,
            "lastUsedProvider": "openai-compatible",
            "modes": {},
            "providers": {"openai-compatible": chosen},
        }
        providers.write_text(json.dumps(own, indent=2))

    def run(self, *args: str) -> None:
        self.machine.run(self.client, *args)

    def start(self, prompt: str) -> None:
        self.run(prompt)

    def write(self, name: str, content: str) -> Step:
        return Call("editor", {"path": str(self.machine.project / name), "new_text": content})

    def edit(self, name: str, old: str, new: str) -> Step:
        path = str(self.machine.project / name)
        return Call("editor", {"path": path, "old_text": old, "new_text": new})

    def shell(self, command: str) -> Step:
        return Call("run_commands", {"commands": [command]})

    def delegate(self, title: str, prompt: str) -> Sequence[Step]:
        return [Call("spawn_agent", {"systemPrompt": title, "task": prompt})]

    def mcp(self, tool: str, **arguments: Any) -> Step:
        return Call(f"zapomni__{tool}", arguments)


DRIVERS = (ClaudeCode, Codex, Gemini, Copilot, Qwen, OpenCode, Cline)

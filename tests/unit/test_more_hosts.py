"""Events as opencode 1.18.33, Copilot CLI 1.0.102, Qwen Code 0.24.4 and Cline 3.0.65 send them.

The shapes are those that the real clients sent, cut to the fields that are read.
"""

from __future__ import annotations

import pytest

from zapomni_core.modules.observations import PayloadError, detect_host, extract, read_event
from zapomni_core.shared.redaction import Redactor

KEY = b"k" * 32
FOLDER = "/home/dev/project"
FILE = f"{FOLDER}/a.txt"


def opencode(name: str, **fields):
    return {"hook_event_name": name, "session_id": "ses_1", "cwd": FOLDER, **fields}


def opencode_tool(tool: str, given: dict, output: str = "", **metadata):
    answer = {"output": output, "metadata": metadata}
    fields = {"tool_name": tool, "tool_input": given, "tool_response": answer}
    return opencode("tool.execute.after", tool_use_id="call_1", **fields)


def copilot(**fields):
    return {"sessionId": "32ce", "timestamp": 1794832122476, "cwd": FOLDER, **fields}


def copilot_tool(tool: str, given: dict, output: str):
    answer = {"resultType": "success", "textResultForLlm": output}
    return copilot(toolName=tool, toolArgs=given, toolResult=answer)


def qwen(name: str, **fields):
    times = {"timestamp": "2026-11-16T12:30:18.440Z", "prompt_id": "2b8d########0"}
    return {"hook_event_name": name, "session_id": "2b8d", "cwd": FOLDER, **times, **fields}


def block(output: str, code: int) -> str:
    return (
        f"Command: make\nDirectory: (root)\nOutput: {output}\nError: (none)\nExit Code: {code}\n"
        "Signal: (none)\nProcess Group PGID: (none)"
    )


def cline(name: str, **fields):
    return {
        "clineVersion": "",
        "hookName": name,
        "timestamp": "2026-11-16T12:29:46.637Z",
        "taskId": "conv_1",
        "sessionContext": {"rootSessionId": "1794_o4"},
        "workspaceRoots": [FOLDER],
        "agent_id": "agent_1",
        "parent_agent_id": None,
        **fields,
    }


def cline_tool(name: str, given, output):
    return cline(
        "tool_result",
        tool_result={
            "id": "call_1",
            "name": name,
            "input": given,
            "output": output,
            "durationMs": 5,
        },
    )


SHELL = {"command": "make", "description": "build it"}
WRITE = {"filePath": FILE, "content": "hello\n"}
EDIT = {"filePath": FILE, "oldString": "a", "newString": "b"}
SAMPLES = [
    ("opencode", opencode("session.start", source="startup"), "session_start", None),
    ("opencode", opencode("chat.message", prompt="Fix it", message_id="m"), "user_prompt", "Fix"),
    ("opencode", opencode("session.idle"), None, None),
    ("opencode", opencode("session.compacted"), "session_compact", None),
    ("opencode", opencode("session.end"), "session_end", None),
    ("opencode", opencode_tool("write", WRITE, exists=False), "file_write", "a.txt +1 -0"),
    ("opencode", opencode_tool("edit", EDIT), "file_edit", "a.txt +1 -1"),
    ("opencode", opencode_tool("bash", SHELL, "fine", exit=0), "command", "make"),
    ("opencode", opencode_tool("bash", SHELL, "no rule", exit=2), "command_error", "no rule"),
    ("opencode", opencode_tool("notes_search", {"query": "x"}), "mcp_call", "notes.search"),
    ("opencode", opencode_tool("read", {"filePath": FILE}), "file_read", "a.txt"),
    (
        "opencode",
        opencode("tool.failed", tool_name="edit", tool_input=EDIT, error="Could not find it"),
        "command_error",
        "Could not find it",
    ),
    ("copilot", copilot(source="new", initialPrompt="x"), "session_start", None),
    ("copilot", copilot(prompt="Fix it"), "user_prompt", "Fix it"),
    ("copilot", copilot(stopReason="end_turn", stop_hook_active=False), None, None),
    (
        "copilot",
        copilot_tool("create", {"path": FILE, "file_text": "hello\n"}, "Created"),
        "file_write",
        "a.txt +1 -0\n+ hello",
    ),
    (
        "copilot",
        copilot_tool("edit", {"path": FILE, "old_str": "a", "new_str": "b"}, "ok"),
        "file_edit",
        "- a\n+ b",
    ),
    (
        "copilot",
        copilot_tool("bash", SHELL, "out\n<shellId: 0 completed with exit code 3>"),
        "command_error",
        "out",
    ),
    (
        "copilot",
        copilot_tool("bash", SHELL, "out\n<shellId: 0 completed with exit code 0>"),
        "command",
        "make",
    ),
    ("copilot", copilot_tool("notes-search_all", {"query": "x"}, "y"), "mcp_call", "notes."),
    (
        "copilot",
        copilot(toolName="create", toolArgs={"path": FILE}, error="Path already exists"),
        "command_error",
        "Path already exists",
    ),
    ("qwen", qwen("SessionStart", source="startup", model="m"), "session_start", None),
    ("qwen", qwen("UserPromptSubmit", prompt="Fix it"), "user_prompt", "Fix it"),
    ("qwen", qwen("UserPromptSubmit", prompt=""), None, None),
    ("qwen", qwen("Stop", last_assistant_message="Done."), None, None),
    (
        "qwen",
        qwen(
            "PostToolUse",
            tool_name="run_shell_command",
            tool_input=SHELL,
            tool_response={"llmContent": block("good", 0), "returnDisplay": "good"},
        ),
        "command",
        "make",
    ),
    (
        "qwen",
        qwen(
            "PostToolUseFailure",
            tool_name="run_shell_command",
            tool_input=SHELL,
            error=block("make: \nno rule", 2),
        ),
        "command_error",
        "make\nno rule",
    ),
    (
        "qwen",
        qwen("PostToolUse", tool_name="write_file", tool_input={"file_path": FILE, "content": "x"}),
        "file_write",
        "a.txt",
    ),
    (
        "qwen",
        qwen(
            "PostToolUse",
            tool_name="mcp__notes__search",
            tool_input={"query": "x"},
            tool_response={"llmContent": [{"text": "found"}]},
        ),
        "mcp_call",
        "notes.search",
    ),
    ("cline", cline("prompt_submit", userPromptSubmit={"prompt": "Fix"}), "user_prompt", "Fix"),
    (
        "cline",
        cline("agent_end", turn={"outputText": "A lock was missing."}),
        "assistant_message",
        "missing",
    ),
    (
        "cline",
        cline("agent_end", turn={"outputText": "A lock was missing."}, parent_agent_id="a1"),
        None,
        None,
    ),
    (
        "cline",
        cline_tool(
            "spawn_agent", {"systemPrompt": "Be brief", "task": "Read it"}, {"text": "Fine"}
        ),
        "task_spawn",
        "Read it",
    ),
    ("cline", cline("session_shutdown", reason="exit"), "session_end", "exit"),
    (
        "cline",
        cline_tool("editor", {"path": FILE, "new_text": "hello\n"}, {"success": True}),
        "file_write",
        "a.txt +1 -0",
    ),
    (
        "cline",
        cline_tool("editor", {"path": FILE, "old_text": "a", "new_text": "b"}, {"success": True}),
        "file_edit",
        "- a\n+ b",
    ),
    (
        "cline",
        cline_tool(
            "run_commands",
            {"commands": ["make"]},
            [
                {
                    "query": "make",
                    "result": "[Command exited with code 2]\nno rule\n",
                    "error": "Command exited with code 2",
                    "success": False,
                }
            ],
        ),
        "command_error",
        "make\nno rule",
    ),
    (
        "cline",
        cline_tool("run_commands", {"commands": [{"command": "git", "args": ["push"]}]}, []),
        "git_push",
        "git push",
    ),
    ("cline", cline_tool("read_files", {"files": [{"path": FILE}]}, []), "file_read", "a.txt"),
    ("cline", cline_tool("notes__search", {"query": "x"}, "y"), "mcp_call", "notes.search"),
]


@pytest.mark.parametrize(("host", "payload", "obs_type", "content"), SAMPLES)
def test_what_is_stored_of_an_event(host, payload, obs_type, content):
    event = read_event(payload, host)
    found = event and extract(event, Redactor({}, KEY), KEY)
    assert (found and found.obs_type) == obs_type
    if found is not None and content:
        assert content in found.content
    if event is not None:
        assert (event.host, event.cwd) == (host, FOLDER)


def test_a_failed_command_has_its_exit_code_and_only_its_own_output():
    events = [read_event(payload, host) for host, payload, kind, _ in SAMPLES if kind]
    failures = [one for one in events if one.action == "command" and one.data.get("error")]
    assert {one.host for one in failures} == {"opencode", "copilot", "qwen", "cline"}
    for one in failures:
        assert one.data["exit_code"] in (2, 3)
        assert "xit" not in one.data["output"]


def test_what_a_subagent_does_belongs_to_the_session_that_started_it():
    inner = opencode_tool("bash", SHELL, exit=0) | {"agent_id": "ses_2"}
    assert read_event(inner, "opencode").data["subagent"]
    outer = cline("prompt_submit", userPromptSubmit={"prompt": "x"}, parent_agent_id="agent_0")
    assert read_event(outer, "cline") is None


def test_cline_is_recognized_and_wants_a_folder():
    assert detect_host(cline("agent_end")) == "cline"
    with pytest.raises(PayloadError, match="workspaceRoots"):
        read_event(cline("agent_end", workspaceRoots=[]), "cline")

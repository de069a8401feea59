"""What becomes of every event we have a sample of, and of the ones we had to think of."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from zapomni_core.modules.observations import PayloadError, detect_host, extract, read_event
from zapomni_core.shared.redaction import Redactor

SAMPLES = Path(__file__).parents[1] / "fixtures" / "hooks"
KEY = b"k" * 32
PROJECT = "/home/dev/project"


def observe(payload: dict, host: str | None = None):
    event = read_event(payload, host)
    return event and extract(event, Redactor({}, KEY), KEY)


def summary(observation):
    if observation is None:
        return None
    return observation.obs_type, observation.content, observation.file_path, observation.signature


def claude(event: str = "PostToolUse", **fields):
    return {"session_id": "s", "cwd": PROJECT, "hook_event_name": event, **fields}


def bash(command: str, output: str = "", **fields):
    answer = {"stdout": output, "stderr": ""}
    return claude(tool_name="Bash", tool_input={"command": command}, tool_response=answer, **fields)


UNSAFE = (
    "Unable to verify if domain 127.0.0.1 is safe to fetch. This may be due to network "
    "restrictions or enterprise security policies blocking claude.ai."
)
MISSING = "File does not exist. Note: your current working directory is "

START = ("session_start", "Session started: startup", None, None)
RESUME = ("session_resume", "Session started: resume", None, None)
END = ("session_end", "Session ended: other", None, None)

# Sample, then type, content, path and signature; None: nothing is kept.
EXPECTED = {
    "claude-code_InstructionsLoaded": None,
    "claude-code_InstructionsLoaded.2": None,
    "claude-code_InstructionsLoaded.3": None,
    "claude-code_PermissionRequest-Bash": None,
    "claude-code_PermissionRequest-mcp__zapomni__boom": None,
    "claude-code_PermissionRequest-mcp__zapomni__search_memory": None,
    "claude-code_PostCompact": ("session_compact", "All done.", None, None),
    "claude-code_PostToolBatch.6": None,
    "claude-code_PostToolBatch.7": None,
    "claude-code_PostToolUse-Agent": ("task_spawn", "sub: SUBTASK please", None, None),
    "claude-code_PostToolUse-Bash": ("command", "echo hi && ls\nList files", None, None),
    "claude-code_PostToolUse-Bash.2": ("command", "echo from-subagent\nsub", None, None),
    "claude-code_PostToolUse-Edit": (
        "file_edit",
        "a.txt +1 -1\n- world\n+ zapomni",
        f"{PROJECT}/a.txt",
        None,
    ),
    "claude-code_PostToolUse-Glob": ("search", "*.txt", PROJECT, None),
    "claude-code_PostToolUse-Grep": ("search", "zapomni", PROJECT, None),
    "claude-code_PostToolUse-Read": ("file_read", "a.txt", f"{PROJECT}/a.txt", None),
    "claude-code_PostToolUse-TaskCreate": ("tool_other", "TaskCreate: x: do x", None, None),
    "claude-code_PostToolUse-Write": (
        "file_write",
        "a.txt +2 -0\n+ hello\n+ world",
        f"{PROJECT}/a.txt",
        None,
    ),
    "claude-code_PostToolUse-mcp__zapomni__search_memory": None,
    "claude-code_PostToolUseFailure-Bash": (
        "command_error",
        "echo out; echo err >&2; exit 3\nerr",
        None,
        "echo: err",
    ),
    "claude-code_PostToolUseFailure-Read": (
        "command_error",
        f"Read missing.txt\n{MISSING}{PROJECT}.",
        f"{PROJECT}/missing.txt",
        f"Read: {MISSING}P",
    ),
    "claude-code_PostToolUseFailure-WebFetch": (
        "command_error",
        f"WebFetch http://127.0.0.1:9/x\n{UNSAFE}",
        None,
        f"WebFetch: {UNSAFE.replace('127.0.0.1', 'N.N.N.N')}",
    ),
    "claude-code_PostToolUseFailure-mcp__zapomni__boom": None,
    "claude-code_PreCompact": None,
    "claude-code_PreToolUse-Agent": None,
    "claude-code_PreToolUse-Bash": None,
    "claude-code_PreToolUse-Edit": None,
    "claude-code_PreToolUse-Glob": None,
    "claude-code_PreToolUse-Grep": None,
    "claude-code_PreToolUse-Read": None,
    "claude-code_PreToolUse-TaskCreate": None,
    "claude-code_PreToolUse-WebFetch": None,
    "claude-code_PreToolUse-Write": None,
    "claude-code_PreToolUse-mcp__zapomni__boom": None,
    "claude-code_PreToolUse-mcp__zapomni__search_memory": None,
    "claude-code_SessionEnd": ("session_end", "Session ended: other", None, None),
    "claude-code_SessionEnd.2": ("session_end", "Session ended: other", None, None),
    "claude-code_SessionStart-compact": (
        "session_compact",
        "Session started: compact",
        None,
        None,
    ),
    "claude-code_SessionStart-resume": ("session_resume", "Session started: resume", None, None),
    "claude-code_SessionStart-startup": ("session_start", "Session started: startup", None, None),
    "claude-code_Stop": None,
    "claude-code_SubagentStart": None,
    "claude-code_SubagentStop": (
        "task_spawn",
        "general-purpose finished: subagent done",
        None,
        None,
    ),
    "claude-code_SubagentStop.2": None,
    "claude-code_SubagentStop.3": None,
    "claude-code_TaskCreated": None,
    "claude-code_UserPromptSubmit": ("user_prompt", "please do the steps", None, None),
    "claude-code_UserPromptSubmit.2": None,
    "documented/codex_PostToolUse": ("command", "ls", None, None),
    "documented/codex_SessionStart": ("session_start", "Session started: startup", None, None),
    "documented/copilot_sessionStart": ("session_start", "Session started: startup", None, None),
    "documented/cursor_afterFileEdit": (
        "file_edit",
        "/path/to/main.ts +1 -1 foo\n- const foo = 1\n+ const foo = 2",
        "/path/to/main.ts",
        None,
    ),
    "documented/cursor_afterMCPExecution": None,
    "documented/cursor_afterShellExecution": ("command", "npm test", None, None),
    "documented/cursor_beforeSubmitPrompt": ("user_prompt", "Fix the bug in main.ts", None, None),
    "documented/gemini_AfterTool": ("command", "ls", None, None),
    "documented/windsurf_post_run_command": ("command", "npm test", None, None),
    "documented/windsurf_post_write_code": (
        "file_edit",
        "/p/a.py +1 -1\n- a\n+ b",
        "/p/a.py",
        None,
    ),
    "documented/windsurf_pre_user_prompt": ("user_prompt", "Fix it", None, None),
    "claude-code-2.1.325/claude-code_SessionEnd-of-mcp-list": END,
    "claude-code-2.1.325/claude-code_SessionStart-compact": (
        "session_compact",
        "Session started: compact",
        None,
        None,
    ),
    "claude-code-2.1.325/claude-code_SessionStart-resume": RESUME,
    "claude-code-2.1.325/claude-code_SessionStart-startup": START,
    # Its session's file is not there: how the command ended is unknown.
    "codex-0.166.0/codex_PostToolUse-Bash-failed": ("command", "echo hello; exit 3", None, None),
    "codex-0.166.0/codex_PostToolUse-apply_patch": (
        "file_write",
        "a.txt +1 -0\n+ hi",
        f"{PROJECT}/a.txt",
        None,
    ),
    "codex-0.166.0/codex_SessionEnd": END,
    "codex-0.166.0/codex_SessionStart-startup": START,
    "codex-0.166.0/codex_Stop": None,
    "codex-0.166.0/codex_UserPromptSubmit": ("user_prompt", "Make the parser faster", None, None),
    "gemini-0.61.0/gemini_AfterTool-read_file-failed": (
        "command_error",
        f"read_file nope.txt\nFile not found: {PROJECT}/nope.txt",
        "nope.txt",
        "read_file: File not found: P",
    ),
    "gemini-0.61.0/gemini_AfterTool-run_shell_command-failed": (
        "command_error",
        "echo bad; exit 3\nbad",
        None,
        "echo: bad",
    ),
    "gemini-0.61.0/gemini_AfterTool-run_shell_command-passed": ("command", "echo one", None, None),
    "gemini-0.61.0/gemini_AfterTool-write_file": (
        "file_write",
        "a.txt +1 -0\n+ hi",
        f"{PROJECT}/a.txt",
        None,
    ),
    "gemini-0.61.0/gemini_BeforeAgent": ("user_prompt", "An earlier session", None, None),
    "gemini-0.61.0/gemini_BeforeAgent-with-context": (
        "user_prompt",
        "Make the parser faster",
        None,
        None,
    ),
    "gemini-0.61.0/gemini_PreCompress": None,
    "gemini-0.61.0/gemini_SessionEnd": ("session_end", "Session ended: exit", None, None),
    "gemini-0.61.0/gemini_SessionStart-resume": RESUME,
    "gemini-0.61.0/gemini_SessionStart-startup": START,
}


def test_every_sample_is_in_the_table():
    names = {str(path.relative_to(SAMPLES).with_suffix("")) for path in SAMPLES.rglob("*.json")}
    # What whole lives of clients left is given to the hook in tests/hosts.
    elsewhere = re.compile("codex_schema/|.*/life/")
    assert {name for name in names if not elsewhere.match(name)} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_becomes_the_stated_observation(name):
    payload = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    host = name.rpartition("/")[2].partition("_")[0]

    assert detect_host(payload) == host
    assert summary(observe(payload)) == EXPECTED[name]
    assert summary(observe(payload, host)) == EXPECTED[name]


CODEX = {
    "permission-request": None,
    "post-compact": "session_compact",
    "post-tool-use": "tool_other",
    "pre-compact": None,
    "pre-tool-use": None,
    "session-end": "session_end",
    "session-start": "session_start",
    "stop": None,
    "subagent-start": None,
    "subagent-stop": "task_spawn",
    "user-prompt-submit": "user_prompt",
}


@pytest.mark.parametrize("path", sorted((SAMPLES / "codex_schema").iterdir()), ids=lambda p: p.name)
def test_what_codex_promises_to_send_is_understood(path):
    schema = json.loads(path.read_text(encoding="utf-8"))
    made = {}
    for name, field in schema["properties"].items():
        if name.startswith("agent_") and name not in schema["required"]:
            continue  # Only in what agents do that were started by another.
        if field is True:
            made[name] = {"x": "words"}
        elif "const" in field:
            made[name] = field["const"]
        elif "enum" in field:
            made[name] = field["enum"][0]
        else:
            made[name] = {"boolean": False, "integer": 1}.get(field.get("type"), "words")

    observation = observe(made, "codex")

    expected = CODEX[path.name.split(".")[0]]
    assert (observation and observation.obs_type) == expected


# --- Commands ---------------------------------------------------------------------------

COMMITTED = """[main 1a2b3c4] Fix the parser
 3 files changed, 12 insertions(+), 4 deletions(-)
 create mode 100644 src/new.py
"""
PUSHED = """To github.com:org/app.git
   1a2b3c4..5d6e7f8  main -> main
"""


def test_a_commit_is_kept_with_its_hash_branch_message_and_size():
    observation = observe(bash("git add -A && git commit -qm 'Fix the parser'", COMMITTED))
    assert observation.obs_type == "git_commit"
    assert "Fix the parser" in observation.content
    facts = observation.metadata
    assert facts["commit_hash"] == "1a2b3c4"
    assert facts["branch"] == "main"
    assert facts["commit_message"] == "Fix the parser"
    assert (facts["files_changed"], facts["insertions"], facts["deletions"]) == (3, 12, 4)
    assert facts["files"] == ["src/new.py"]


def test_a_silent_commit_still_has_the_message_of_its_command():
    command = "git -C app commit -q -m \"$(cat <<'EOF'\nAdd retries\n\nBecause.\nEOF\n)\""
    observation = observe(bash(command))
    assert observation.obs_type == "git_commit"
    assert observation.metadata["commit_message"] == "Add retries"


def test_a_push_is_kept_with_its_remote_and_range():
    payload = bash("git push origin main")
    payload["tool_response"] = {"stdout": "", "stderr": PUSHED}
    observation = observe(payload)
    assert observation.obs_type == "git_push"
    assert observation.metadata["hash_range"] == "1a2b3c4..5d6e7f8"
    assert observation.metadata["branch"] == "main"
    assert observation.metadata["remote_url"] == "github.com:org/app.git"


@pytest.mark.parametrize(
    ("command", "obs_type"),
    [
        ("git commit -m x && git push", "git_push"),
        ("cd app; GIT_PAGER=cat git --no-pager commit -m x", "git_commit"),
        ("gh pr create --fill", "github"),
        ("git status", "command"),
        ('echo "git push"', "command"),
        ("grep 'git commit' notes.txt", "command"),
        ("legit push", "command"),
        ("ls", "command"),
    ],
)
def test_a_command_is_what_it_runs_not_what_it_mentions(command, obs_type):
    assert observe(bash(command)).obs_type == obs_type


def failure(error: str, command: str = "pytest -x"):
    return observe(
        claude("PostToolUseFailure", tool_name="Bash", tool_input={"command": command}, error=error)
    )


def test_the_same_failure_has_the_same_signature():
    first = failure(
        "Exit code 1\nE   FileNotFoundError: [Errno 2] No such file: '/tmp/a1b2/x.txt'\n1 failed"
    )
    second = failure(
        "Exit code 1\nE   FileNotFoundError: [Errno 3] No such file: '/home/u/y.txt'\n2 failed",
        command="cd app && pytest tests",
    )
    other = failure("Exit code 1\nE   KeyError: 'name'")
    assert first.signature == second.signature != other.signature
    assert first.metadata["exit_code"] == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            "Exit code 2\nok\nmain.c:3:5: error: unknown type name 'foo'\nmore",
            "error: unknown type",
        ),
        ("Traceback (most recent call last):\n  File\nValueError: bad\nValueError: worse", "worse"),
        ("Exit code 127\nbash: foo: command not found", "command not found"),
        ("Exit code 1", ""),
    ],
)
def test_the_telling_line_of_an_error_is_found(error, line):
    assert line in failure(error).content


def test_the_error_at_the_end_of_a_long_output_is_found():
    noise = "".join(f"compiled {number}\n" for number in range(10_000))
    observation = failure(f"Exit code 1\n{noise}ld: error: undefined symbol _main\n")
    assert observation.content.endswith("ld: error: undefined symbol _main")
    assert observation.metadata["exit_code"] == 1


def test_an_interrupted_command_is_no_failure_and_an_interrupted_tool_is_nothing():
    fields = {"error": "interrupted", "is_interrupt": True}
    stopped = claude(
        "PostToolUseFailure", tool_name="Bash", tool_input={"command": "sleep 9"}, **fields
    )
    assert observe(stopped).obs_type == "command"
    assert observe(stopped).metadata["interrupted"] is True
    assert observe({**stopped, "tool_name": "Read", "tool_input": {"file_path": "/a"}}) is None


@pytest.mark.parametrize(
    ("payload", "host"),
    [
        (
            {
                **claude(turn_id="t", tool_name="shell"),
                "tool_input": {"command": ["bash", "-lc", "make"]},
                "tool_response": json.dumps(
                    {"output": "boom: error", "metadata": {"exit_code": 2}}
                ),
            },
            "codex",
        ),
        (
            {
                **claude("AfterTool", tool_name="run_shell_command"),
                "tool_input": {"command": "make"},
                "tool_response": {"llmContent": "Output: boom: error\nExit Code: 2"},
            },
            "gemini",
        ),
        (
            {
                "hook_event_name": "afterShellExecution",
                "conversation_id": "c",
                "workspace_roots": ["/p"],
                "command": "make",
                "output": "boom: error",
                "exit_code": 2,
            },
            "cursor",
        ),
        (
            {
                "timestamp": 1704614400000,
                "cwd": "/p",
                "toolName": "bash",
                "toolArgs": '{"command": "make"}',
                "toolResult": {"resultType": "failure", "textResultForLlm": "boom: error"},
            },
            "copilot",
        ),
        (
            {"session_id": "s", "cwd": "/p", "event": "command", "command": "make"}
            | {"exit_code": 2, "output": "boom: error"},
            "generic",
        ),
    ],
    ids=["codex", "gemini", "cursor", "copilot", "generic"],
)
def test_every_hosts_way_to_say_failed_is_understood(payload, host):
    assert detect_host(payload) == host
    observation = observe(payload)
    assert observation.obs_type == "command_error"
    assert observation.signature.startswith("make: ")
    assert "boom: error" in observation.content


CODEX_FAILED = SAMPLES / "codex-0.166.0" / "codex_PostToolUse-Bash-failed.json"
ROLLOUT = SAMPLES / "codex-0.166.0" / "rollout.jsonl"


def test_codex_says_how_a_command_ended_only_in_its_sessions_file(tmp_path):
    payload = json.loads(CODEX_FAILED.read_text(encoding="utf-8"))
    file = tmp_path / "rollout.jsonl"
    payload["transcript_path"] = str(file)

    file.write_bytes(ROLLOUT.read_bytes())
    failed = observe(payload, "codex")
    assert (failed.obs_type, failed.content) == ("command_error", "echo hello; exit 3\nhello")
    assert failed.metadata["exit_code"] == 3

    file.write_bytes(ROLLOUT.read_bytes().replace(b'"exit_code":3', b'"exit_code":0'))
    passed = observe(payload, "codex")
    assert passed.obs_type == "command"
    assert "outcome" not in passed.metadata


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'\xff\x00 not JSON, but call_1 and "exit_code"\n',
        b'{"payload": {"item": {"id": "call_10", "exit_code": 3}}}\n{"a": "call_1 "exit_code""}',
        b'[{"id": "call_1", "exit_code": 3}]\n{"payload": "call_1", "b": {"exit_code": 3}}\n',
        ROLLOUT.read_bytes() + b'{"pad": "' + b"x" * 600_000 + b'"}\n',
    ],
    ids=["empty", "no JSON", "another call", "another shape", "too far back"],
)
def test_a_command_of_unknown_outcome_neither_failed_nor_passed(tmp_path, content):
    payload = json.loads(CODEX_FAILED.read_text(encoding="utf-8"))
    payload["transcript_path"] = str(tmp_path / "rollout.jsonl")
    (tmp_path / "rollout.jsonl").write_bytes(content)
    observation = observe(payload, "codex")
    assert observation.obs_type == "command"
    assert observation.metadata["outcome"] == "unknown"
    assert observation.signature is None


def test_a_tool_that_answers_with_an_error_has_failed():
    answer = {"content": [{"type": "text", "text": "no such table"}], "isError": True}
    payload = claude(tool_name="mcp__db__query", tool_input={"q": "x"}, tool_response=answer)
    failed = observe(payload)
    assert (failed.obs_type, failed.content.split("\n")[-1]) == ("command_error", "no such table")
    assert (
        observe({**payload, "tool_response": {**answer, "isError": False}}).obs_type == "mcp_call"
    )


def test_a_sessions_file_that_is_a_pipe_does_not_hold_the_hook(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    payload = json.loads(CODEX_FAILED.read_text(encoding="utf-8"))
    payload["transcript_path"] = str(tmp_path / "pipe")
    assert observe(payload, "codex").metadata["outcome"] == "unknown"


def test_an_attempt_of_unknown_outcome_is_no_commit():
    run = {"command_line": "git commit -m 'Add a cache'", "cwd": "/p"}
    payload = {"agent_action_name": "post_run_command", "trajectory_id": "t", "tool_info": run}
    assert observe(payload).obs_type == "command"
    run["output"] = "[main 1234567] Add a cache\n 1 file changed, 1 insertion(+)"
    assert observe(payload).obs_type == "git_commit"


@pytest.mark.parametrize(
    ("content", "display", "expected"),
    [
        ("Output: a\nExit Code: 2\nProcess Group PGID: 7", "a", ("command_error", "make\na")),
        ("Output: (empty)\nExit Code: 2\nProcess Group PGID: 7", "", ("command_error", "make\n")),
        ("Output: (empty)\nSignal: 9\nProcess Group PGID: 7", "", ("command_error", "make\n")),
        ("Output: a\nExit Code: --3\nProcess Group PGID: 7", "", ("command", "make")),
        ("Output: a\nExit Code: ²", "", ("command", "make")),
        (f"Output: a\nExit Code: {'9' * 5000}", "", ("command", "make")),
        ("Output: \nError: ", "", ("command_error", "make")),
        # The program said this, not the host.
        ("Output: a\nExit Code: 2\nProcess Group PGID: 7", "a\nExit Code: 2", ("command", "make")),
        ("Output: Exit Code: 2\nok\nProcess Group PGID: 7", "", ("command", "make")),
    ],
)
def test_gemini_says_how_a_command_ended_after_its_output(content, display, expected):
    answer = {"llmContent": content, "returnDisplay": display}
    payload = claude("AfterTool", tool_name="run_shell_command", tool_response=answer)
    observation = observe({**payload, "tool_input": {"command": "make"}}, "gemini")
    assert observation.obs_type == expected[0]
    assert observation.content.startswith(expected[1])


# --- Edits ------------------------------------------------------------------------------


def test_an_edit_says_what_changed():
    old = "def area(r):\n    return 3 * r * r\n"
    new = "def area(radius):\n    return math.pi * radius**2\n"
    given = {"file_path": f"{PROJECT}/geo.py", "old_string": old, "new_string": new}
    content = observe(claude(tool_name="Edit", tool_input=given, tool_response={})).content
    assert content.startswith("geo.py +2 -2 area\n")
    assert "+ return math.pi * radius**2" in content


def test_a_patch_of_codex_names_its_files_and_definitions():
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@ class Shop\n-    def buy(self):\n"
        "+    def buy(self, count):\n*** Add File: src/b.py\n+x = 1\n*** End Patch"
    )
    payload = claude(tool_name="apply_patch", tool_input={"command": patch}, turn_id="t")
    observation = observe(payload)
    assert observation.obs_type == "file_edit"
    assert observation.file_path == f"{PROJECT}/src/a.py"
    assert observation.content.startswith("src/a.py, src/b.py +2 -1 buy")
    assert observation.metadata["files"] == ["src/a.py", "src/b.py"]


def test_a_written_file_is_hashed_not_kept():
    text = "".join(f"line number {number}\n" for number in range(5000))
    given = {"file_path": f"{PROJECT}/big.txt", "content": text}
    observation = observe(claude(tool_name="Write", tool_input=given))
    assert len(observation.content) <= 500
    assert observation.metadata["lines"] == 5000
    assert len(observation.metadata["hash"]) == 16
    assert "line number 9" not in json.dumps(observation.metadata)


# --- Limits -----------------------------------------------------------------------------


def test_nothing_long_is_kept_verbatim():
    long = "word " * 100_000
    for payload in (
        claude("UserPromptSubmit", prompt=long),
        bash(long, long),
        claude("PostToolUseFailure", tool_name="Bash", tool_input={"command": long}, error=long),
        claude(tool_name="mcp__a__b", tool_input={"x": long}, tool_response=long),
        claude(tool_name="Agent", tool_input={"description": long, "prompt": long}),
        claude("PostCompact", compact_summary=long),
        claude(tool_name="Grep", tool_input={"pattern": long, "path": long}),
        claude(tool_name="Odd", tool_input={"what": long}),
    ):
        observation = observe(payload)
        limit = 2000 if observation.obs_type in {"user_prompt", "session_compact"} else 500
        assert len(observation.content) <= limit
        assert len(json.dumps(observation.metadata)) <= 4096


def test_secrets_are_masked_before_the_text_is_cut():
    token = "gh" + "p_" + "a1B2c3D4e5F6" * 3
    for pad in range(440, 500):
        observation = observe(bash("x" * pad + " " + token))
        assert token[:12] not in observation.content
    observation = observe(claude(tool_name="Read", tool_input={"file_path": f"/srv/{token}/x"}))
    assert token not in observation.file_path
    assert observation.redactions


def test_a_private_key_in_an_edit_is_masked_as_a_whole():
    body = [f"+{'MIIEow' * 10}{number}" for number in range(30)]
    kind = "PRIVATE " + "KEY"
    lines = [f"+-----BEGIN {kind}-----", *body, f"+-----END {kind}-----", "+done = 1"]
    answer = {"structuredPatch": [{"lines": [" a = 1", *lines]}]}
    given = {"file_path": "/a", "old_string": "", "new_string": ""}
    observation = observe(claude(tool_name="Edit", tool_input=given, tool_response=answer))
    assert "MIIEow" not in observation.content
    assert "done = 1" in observation.content


@pytest.mark.parametrize(
    "text",
    ["<task-notification>\n<task-id>x", "  <system-reminder>Be nice</system-reminder>", "", "  "],
)
def test_what_a_machine_said_is_no_prompt(text):
    assert observe(claude("UserPromptSubmit", prompt=text)) is None


CONTEXT = (
    "## zapomni: Recent Context\n\nRecorded by hooks.\n\n<zapomni-context-0123456789ab>\n"
    "| #1 | earlier words |\n</zapomni-context-0123456789ab>"
)


@pytest.mark.parametrize(
    "text",
    [
        f"{CONTEXT}\nFix the parser",
        f"Fix the parser\n\n{CONTEXT}",
        "<hook_context>" + CONTEXT.replace("<", "&lt;").replace(">", "&gt;") + "</hook_context>\n\n"
        "Fix the parser",
        f"<hook_context>other hook's words</hook_context>{CONTEXT}Fix the parser",
        "<system-reminder>earlier words</system-reminder>\nFix the parser",
        "Fix the parser<system-reminder>\nearlier words\n</system-reminder>",
        "<environment_context>\n<cwd>/p</cwd>\n</environment_context>\n\nFix the parser",
        "<ide_selection>earlier words</ide_selection>Fix the parser",
        # A host may have cut it.
        "Fix the parser\n" + CONTEXT[:-30],
    ],
)
def test_what_hosts_and_zapomni_add_is_not_the_users_words(text):
    assert observe(claude("UserPromptSubmit", prompt=text)).content == "Fix the parser"


@pytest.mark.parametrize(
    "text",
    [CONTEXT, f"<hook_context>{CONTEXT}", "<hook_context>cut", f" <hook_context>\n{CONTEXT}"],
)
def test_nothing_is_left_of_a_prompt_that_only_a_machine_wrote(text):
    assert observe(claude("UserPromptSubmit", prompt=text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "Why is there a <system-reminder> in the log?",
        "Rename zapomni-context-dir to </zapomni-context-0123456789ab> please",
        "a &lt;hook_context&gt; b",
    ],
)
def test_a_mention_of_a_tag_stays(text):
    assert observe(claude("UserPromptSubmit", prompt=text)).content == text


def test_contexts_in_outputs_and_results_are_not_stored_either():
    kept = [
        observe(bash("cat log", f"one\n{CONTEXT}")),
        observe(claude("PostCompact", compact_summary=f"Parsed. {CONTEXT}")),
        observe(claude("SubagentStop", agent_type="x", last_assistant_message=f"Ok {CONTEXT}")),
        observe({**bash(f"echo '{CONTEXT}'"), "hook_event_name": "PostToolUseFailure"}
                | {"error": f"Exit code 1\n{CONTEXT}"}),
    ]  # fmt: skip
    for observation in kept:
        stored = f"{observation.content} {observation.metadata} {observation.signature}"
        assert "earlier words" not in stored
        assert "Recent Context" not in stored


def test_many_openings_cost_no_more_than_their_length():
    text = "<system-reminder>" * 50_000 + "<zapomni-context-" * 50_000
    assert observe(claude("UserPromptSubmit", prompt=text)) is None


def test_unknown_events_tools_and_fields_are_no_error():
    assert observe(claude("SomethingNew", more={"a": 1})) is None
    assert observe(claude(tool_name="Brand-New", tool_input={"q": "x"})).obs_type == "tool_other"
    assert observe(claude(tool_name="ToolSearch", tool_input={"query": "x"})) is None
    assert observe({"session_id": "s", "cwd": "/p", "event": "unheard-of"}) is None


@pytest.mark.parametrize("junk", [None, 3, [], "x", {"a": []}, True, [[1]], {"lines": 3}])
def test_fields_of_the_wrong_type_are_as_good_as_absent(junk):
    for tool in ("Bash", "Read", "Write", "Edit", "Grep", "Agent", "mcp__a__b", "apply_patch"):
        given = {"command": junk, "file_path": junk, "edits": junk, "pattern": junk, "prompt": junk}
        for answer in (junk, {"structuredPatch": junk, "file": junk, "content": junk}):
            payload = claude(tool_name=tool, tool_input=given, tool_response=answer)
            observe(payload)
            observe({**payload, "tool_input": junk})
            observe({**payload, "hook_event_name": "PostToolUseFailure", "error": junk})
            observe(payload, "codex")
            observe({**payload, "hook_event_name": "AfterTool"}, "gemini")


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"session_id": "s", "cwd": "/p"},
        {"session_id": "s", "hook_event_name": "Stop"},
        {"cwd": "/p", "hook_event_name": "Stop", "session_id": 3},
        {"conversation_id": "c", "hook_event_name": "stop"},
        {"agent_action_name": "post_run_command"},
        {"event": "prompt", "cwd": "/p"},
    ],
)
def test_an_event_without_its_required_fields_is_refused(payload):
    with pytest.raises(PayloadError, match="missing"):
        read_event(payload)


# --- Other hosts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "payload", "obs_type", "content"),
    [
        ("gemini", claude("BeforeAgent", prompt="hello there"), "user_prompt", "hello there"),
        ("gemini", claude("SessionEnd", reason="exit"), "session_end", "Session ended: exit"),
        (
            "gemini",
            claude("AfterTool", tool_name="mcp_shop_find", tool_input={"q": 1}, tool_response={}),
            "mcp_call",
            'shop.find {"q":1}',
        ),
        (
            "gemini",
            claude("AfterTool", tool_name="google_web_search", tool_input={"query": "sqlite wal"}),
            "web_search",
            "sqlite wal",
        ),
        (
            "cursor",
            {"hook_event_name": "postToolUse", "conversation_id": "c", "cwd": "/p"}
            | {"tool_name": "Read", "tool_input": {"file_path": "/p/a.py"}},
            "file_read",
            "a.py",
        ),
        *(
            (
                "cursor",
                {"hook_event_name": name, "conversation_id": "c", "cwd": "/p", **fields},
                obs_type,
                content,
            )
            for name, fields, obs_type, content in [
                ("sessionStart", {}, "session_start", "Session started: startup"),
                ("sessionEnd", {"reason": "closed"}, "session_end", "Session ended: closed"),
                ("preCompact", {}, "session_compact", "Context compacted"),
                (
                    "subagentStop",
                    {"subagent_type": "explore", "summary": "found it"},
                    "task_spawn",
                    "explore finished: found it",
                ),
                (
                    "postToolUseFailure",
                    {
                        "tool_name": "Shell",
                        "tool_input": '{"command": "make"}',
                        "error": "error: x",
                    },
                    "command_error",
                    "make\nerror: x",
                ),
            ]
        ),
        (
            "windsurf",
            {"agent_action_name": "post_read_code", "trajectory_id": "t"}
            | {"tool_info": {"file_path": "/p/a.py"}},
            "file_read",
            "/p/a.py",
        ),
        (
            "windsurf",
            {"agent_action_name": "post_mcp_tool_use", "trajectory_id": "t"}
            | {"tool_info": {"mcp_server_name": "shop", "mcp_tool_name": "find"}},
            "mcp_call",
            "shop.find",
        ),
        (
            "copilot",
            {"timestamp": 1704614400000, "cwd": "/p", "prompt": "do it now"},
            "user_prompt",
            "do it now",
        ),
        (
            "generic",
            {"session_id": "s", "cwd": "/p", "event": "marker", "text": "release 1.0"},
            "marker",
            "release 1.0",
        ),
        (
            "generic",
            {"session_id": "s", "cwd": "/p", "event": "edit", "path": "/p/a.py"}
            | {"old": "x = 1", "new": "x = 2"},
            "file_edit",
            "a.py +1 -1\n- x = 1\n+ x = 2",
        ),
        (
            "generic",
            {"session_id": "s", "cwd": "/p", "event": "fetch", "url": "https://example.com/a"},
            "web_fetch",
            "https://example.com/a",
        ),
    ],
)
def test_other_hosts_say_the_same_in_their_words(host, payload, obs_type, content):
    observation = observe(payload, host)
    assert (observation.obs_type, observation.content) == (obs_type, content)


def test_a_hosts_own_clock_is_used_if_it_is_sane():
    base = {"session_id": "s", "cwd": "/p", "event": "marker", "text": "x"}
    assert read_event({**base, "timestamp": 1704614400000}).timestamp == 1704614400
    assert read_event({**base, "timestamp": "2024-01-07T08:00:00Z"}).timestamp == 1704614400
    for odd in (-5, 10**30, "yesterday", True, None, float("nan")):
        assert read_event({**base, "timestamp": odd}).timestamp is None


# --- What came of a turn, what the user said, and what is no news ---------------------------


FOUND_OUT = """Great, I found the cause.

## The cause
- **The importer** reads `orders.csv` twice, so totals double.
- Fixed in `import.py` by `read_orders`.

```python
read(orders)
```

| File | Change |
|------|--------|
| import.py | reads once |

Let me know if you want me to add a test!"""


@pytest.mark.parametrize(
    ("host", "payload"),
    [
        ("claude-code", claude("Stop", last_assistant_message=FOUND_OUT)),
        ("codex", claude("Stop", last_assistant_message=FOUND_OUT, turn_id="t", model="m")),
        ("qwen", claude("Stop", last_assistant_message=FOUND_OUT)),
        ("gemini", claude("AfterAgent", prompt="x", prompt_response=FOUND_OUT)),
        (
            "cursor",
            {"hook_event_name": "afterAgentResponse", "conversation_id": "c",
             "workspace_roots": ["/p"], "text": FOUND_OUT},
        ),
        (
            "windsurf",
            {"agent_action_name": "post_cascade_response", "trajectory_id": "t",
             "tool_info": {"response": FOUND_OUT}},
        ),
    ],
)  # fmt: skip
def test_the_end_of_a_turn_stores_what_the_agent_found_out(host, payload):
    found = observe(payload, host)
    assert found.obs_type == "assistant_message"
    assert "The importer reads orders.csv twice, so totals double." in found.content
    assert "by read_orders." in found.content
    assert "import.py: reads once" in found.content
    for left_out in ("Great", "Let me know", "```", "read(orders)", "**", "---", "Change"):
        assert left_out not in found.content


def test_columns_of_a_wide_table_keep_their_names():
    table = "| Task | Owner | Depends on |\n|---|---|---|\n| Add the alias | Ada | Install tools |"
    found = observe(claude("Stop", last_assistant_message=table))
    assert found.content == "Task: Owner: Depends on\nAdd the alias: Ada: Install tools"


@pytest.mark.parametrize("text", ["", "Done.", "All done.", "Let me know if you need more."])
def test_a_reply_that_says_nothing_is_not_stored(text):
    assert observe(claude("Stop", last_assistant_message=text)) is None


def test_a_long_reply_is_cut_at_a_sentence_and_has_no_secret():
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0" + "K1l2M3n4O5p6Q7r8"
    reply = f"The token {secret} is refused by the server. " + "It answers with 401 again. " * 100
    content = observe(claude("Stop", last_assistant_message=reply)).content
    assert len(content) <= 1000
    assert content.endswith("again. …")
    assert secret not in content


def test_what_the_user_answered_is_stored_with_the_question():
    asked = {"questions": [{"question": "Which database?"}, {"question": "Which port?"}]}
    answers = {"Which database?": "SQLite", "Which port?": ["8080", "8081"]}
    found = observe(
        claude(
            "PostToolUse",
            tool_name="AskUserQuestion",
            tool_input=asked,
            tool_response={**asked, "answers": answers},
        )
    )
    assert found.obs_type == "user_answer"
    assert found.content == "Which database? → SQLite\nWhich port? → 8080, 8081"
    answered = {"questions": [{"id": "db", "question": "Which database?"}]}
    found = observe(
        claude(
            "PostToolUse",
            tool_name="request_user_input",
            tool_input=answered,
            tool_response={"answers": {"db": {"answers": ["PostgreSQL"]}}},
            turn_id="t",
        ),
        "codex",
    )
    assert (found.obs_type, found.content) == ("user_answer", "Which database? → PostgreSQL")


@pytest.mark.parametrize(
    "command",
    [
        "zapomni search deploy",
        "cd /p && .venv/bin/zapomni search deploy --json | jq .results",
        "uvx zapomni add x",
        "python3 -m zapomni_cli list",
    ],
)
def test_our_own_command_is_not_stored(command):
    assert observe(bash(command)) is None


@pytest.mark.parametrize(
    "command",
    ["git clone zapomni", "zapomni list; make test", "pytest tests -k zapomni", "cat zapomni.md"],
)
def test_other_commands_that_name_us_are_stored(command):
    assert observe(bash(command)).content == command


def test_what_the_user_refused_did_not_happen():
    refused = claude(
        "PostToolUseFailure",
        tool_name="Bash",
        tool_input={"command": "rm -rf build"},
        error="The user doesn't want to proceed with this tool use. The tool use was rejected.",
    )
    assert observe(refused) is None

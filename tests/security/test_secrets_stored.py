"""Secrets and private words on every way into the home: warned of, masked, or never captured."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from command import patient_hook
from command import zapomni as run

PAT = "gh" + "p_" + "a1B2c3D4e5F6" * 3
AWS = "AK" + "IA" + "QWADE5R42RDZ4JEM"
TEXT = f"deploy with {PAT}\npassword = 'swordfish'"
NUMBER = iter(range(10**9))


@pytest.fixture
def home(private_home, monkeypatch) -> Path:
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    return private_home


def zapomni(
    *args: str, given: str = "", cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    with contextlib.chdir(cwd or Path.cwd()):
        done = run(*args, given=given.encode(), **(env or {}))
    assert done.returncode == 0, done.stderr
    said, told = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, said, told)


def record(event: dict, **env: str) -> None:
    number = next(NUMBER)
    base = {"session_id": "s", "cwd": "/nowhere/app", "tool_use_id": f"t{number}"}
    done = subprocess.run(
        patient_hook(),
        input=json.dumps({**base, "prompt_id": f"p{number}", **event}).encode(),
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )
    assert (done.returncode, done.stderr) == (0, b"")


def tool(name: str, given: dict, response: object = "") -> dict:
    return {
        "hook_event_name": "PostToolUse",
        "tool_name": name,
        "tool_input": given,
        "tool_response": response,
    }


def prompt(text: str) -> dict:
    return {"hook_event_name": "UserPromptSubmit", "prompt": text}


def holds(home: Path, word: str) -> list[str]:
    """Return the files under the home whose raw bytes have a word."""
    wanted = word.lower().encode()
    files = (path for path in home.rglob("*") if path.is_file())
    return [path.name for path in files if wanted in path.read_bytes().lower()]


# --- What a user adds ---------------------------------------------------------------------


def test_add_and_update_warn_of_secrets_by_kind_and_never_repeat_them(home):
    added = zapomni("add", "-", given=TEXT)
    assert "1 github-pat, 1 password" in added.stderr
    shown = zapomni("add", f"and {AWS}", "--metadata", '{"password": "hunter2go"}', "--json")
    assert "1 aws-access-key, 1 password" in json.loads(shown.stdout)["notice"]
    changed = zapomni("update", added.stdout.strip(), "--text", f"now {AWS}")
    assert "1 aws-access-key" in changed.stderr
    for told in (added.stderr, shown.stdout, changed.stderr):
        assert not any(secret in told for secret in (PAT, AWS, "swordfish", "hunter2go"))
    assert zapomni("add", "The token expires after an hour.").stderr == ""


def test_with_redact_nothing_of_a_secret_reaches_the_home(home):
    added = zapomni("add", "-", "--redact", "--metadata", '{"api_key": "a1B2c3D4"}', given=TEXT)
    assert "masked before it was stored: 1 github-pat, 1 password, 1 secret" in added.stderr
    zapomni("update", added.stdout.strip(), "--text", f"now {AWS}", "--redact")
    assert "[REDACTED:aws-access-key:" in zapomni("get", added.stdout.strip()).stdout
    for secret in (PAT[8:], "swordfish", AWS[6:], "a1b2c3d4"):
        assert holds(home, secret) == []


def test_a_stored_memory_is_masked_by_an_update_with_redact_alone(home):
    memory_id = zapomni("add", "-", given=TEXT).stdout.strip()
    changed = zapomni("update", memory_id, "--redact")
    assert "masked" in changed.stderr
    assert "history" in changed.stderr
    assert PAT not in zapomni("get", memory_id).stdout
    assert "[REDACTED:github-pat:" in zapomni("search", "deploy").stdout


@pytest.mark.anyio
async def test_agents_are_warned_by_kind_and_can_have_secrets_masked(home):
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "zapomni_cli", "serve"], env=dict(os.environ)
    )
    async with Client(server) as client:

        async def call(name: str, **arguments) -> dict:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            assert PAT not in str(result.content)
            return result.structured_content

        masked = await call("add_memory", text=f"first {PAT}", redact=True)
        assert "masked before it was stored: 1 github-pat" in masked["notice"]
        plain = await call("add_memory", text="nothing in it")
        assert "notice" not in plain
        memory_id = plain["memory_id"]
        changed = await call("update_memory", memory_id=memory_id, text=PAT, redact=True)
        assert "1 github-pat" in changed["notice"]
        assert holds(home, PAT[8:]) == []
        told = await call("add_memory", text=f"second {PAT}")
        assert "contain secrets, and they are stored as they are: 1 github-pat" in told["notice"]


# --- What is indexed ----------------------------------------------------------------------

SOURCE = f'''"""Talks to the shop.

The old token was {PAT}.
"""

def connect(host, password="swordfish", user="bob"):
    """Open a connection; the password is swordfish1x."""
    key = """-----BEGIN RSA PRIVATE {"KEY"}-----
MIIEowIBAAKCAQEAaB3dEf7hKlMnOpQrStUvWxYz0123456789abcdefghijklmnop
aB3dEf7hKlMnOpQrStUvWxYz0123456789abcdefghijklmnopqrstuvwxyzABCDEF
-----END RSA PRIVATE {"KEY"}-----"""
    return open_shop(host, user, password, key)


def after(value):
    return value + 1
'''


def test_indexed_code_is_masked_and_citations_stay_right(home, tmp_path):
    pytest.importorskip("tree_sitter")
    root = tmp_path / "shop"
    root.mkdir()
    (root / "shop.py").write_text(SOURCE, encoding="utf-8")
    (root / "notes.txt").write_text("only for me\n", encoding="utf-8")
    environ = {**os.environ, "ZAPOMNI_PRIVATE_PATHS": "notes.*"}
    zapomni("index", str(root), cwd=root, env=environ)
    for secret in (PAT[8:], "swordfish", "aB3dEf7hKl", "MIIEowIB", "only for me"):
        assert holds(home, secret) == [], secret
    found = zapomni("code", "search", "open_shop", "--json", cwd=root)
    assert "open_shop(host, user, password, key)" in found.stdout
    # Every line is where it was, and hashes are those of the file itself.
    outline = json.loads(zapomni("code", "outline", "shop.py", "--json", cwd=root).stdout)
    (symbol,) = [one for one in outline["symbols"] if one["name"] == "after"]
    lines = SOURCE.splitlines()
    assert lines[symbol["start_line"] - 1] == "def after(value):"
    memory_id = zapomni("add", "Shops open.", "--cites", "shop.py:connect", cwd=root).stdout.strip()
    assert "shop.py:connect: fresh" in zapomni("get", memory_id, "--json", cwd=root).stdout or (
        '"status": "fresh"' in zapomni("get", memory_id, "--json", cwd=root).stdout
    )
    assert "0 new, 2 unchanged" not in zapomni("index", str(root), cwd=root, env=environ).stdout


# --- What is never captured ---------------------------------------------------------------

OPEN, CLOSE = "<private>", "</private>"


@pytest.mark.parametrize(
    "text",
    [
        f"before {OPEN}hidden-word{CLOSE} after",
        f"before {OPEN}hidden-word",
        f"before {OPEN}a {OPEN}b{CLOSE} hidden-word{CLOSE} after",
        "before <PRIVATE>hidden-word</Private > after",
        "before &lt;private&gt;hidden-word&lt;/private&gt; after",
        f"{OPEN}one{CLOSE} before {OPEN}hidden-word{CLOSE}",
    ],
)
def test_private_spans_are_captured_in_no_field(home, text):
    record(prompt(text))
    record(tool("Bash", {"command": f"echo {text}", "description": text}, text))
    record(tool("Edit", {"file_path": f"/p/{text}", "old_string": "", "new_string": text}))
    record(tool("mcp__a__b", {"q": [text, {"deep": text}]}, {"out": text}))
    record(
        {**tool("Bash", {"command": "ls"}), "hook_event_name": "PostToolUseFailure", "error": text}
    )
    record({**prompt("x"), "session_id": text, "cwd": f"/nowhere/{text}"})
    record(tool(text, {text: text}))
    assert holds(home, "hidden-word") == []
    assert holds(home, "before") != []


def test_words_about_privacy_stay(home):
    record(prompt("make the field private and </private> stays as it is"))
    assert holds(home, "make the field private and </private> stays") != []


@pytest.mark.parametrize(
    "event",
    [
        tool("Read", {"file_path": "/p/.env"}, "hidden-word"),
        tool("Write", {"file_path": "/p/.env.local", "content": "A=hidden-word"}),
        tool(
            "Edit", {"file_path": "/p/tls/site.pem", "old_string": "", "new_string": "hidden-word"}
        ),
        tool("Bash", {"command": "cat .env | grep hidden-word"}, "hidden-word"),
        tool("Bash", {"command": "echo hidden-word > '/home/me/.ssh/id_rsa'"}),
        tool("mcp__files__read_file", {"path": "/p/.aws/credentials"}, "hidden-word"),
        tool("Grep", {"pattern": "hidden-word", "path": "/p/secrets.yml"}),
        tool("apply_patch", {"input": "*** Begin Patch\n*** Add File: .env\n+A=hidden-word\n"}),
        tool("Write", {"file_path": "/p/plans/a.hidden-word", "content": "x"}),
        tool("Read", {"file_path": "/p/diary/2026/may.md", "first": "hidden-word"}, "hidden-word"),
    ],
    ids=lambda event: event["tool_name"],
)
def test_files_of_private_paths_are_not_captured(home, event):
    record(prompt("go on"))
    record(event, ZAPOMNI_PRIVATE_PATHS="diary/:*.hidden-*")
    assert holds(home, "hidden-word") == []
    assert holds(home, ".env") == []
    assert holds(home, "go on") != []


def test_private_paths_are_read_from_the_configuration_file_with_exceptions(home):
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(
        'private_paths = ["*.journal", "!.npmrc"]\n', encoding="utf-8"
    )
    record(tool("Write", {"file_path": "/p/day.journal", "content": "hidden-word"}))
    record(tool("Write", {"file_path": "/p/.npmrc", "content": "seen-word = 1"}))
    record(tool("Read", {"file_path": "/p/.env.example"}))
    assert holds(home, "day.journal") == []
    assert holds(home, "/p/.npmrc") != []
    assert holds(home, "/p/.env.example") != []


# --- Other places of the home -------------------------------------------------------------


@pytest.mark.parametrize("word", ["tiger12x9", PAT])
def test_credentials_of_a_remote_reach_no_file_of_the_home(home, tmp_path, word):
    root = tmp_path / "app"
    subprocess.run(["git", "init", "-q", str(root)], check=True, timeout=300)
    remote = f"https://bob:{word}@git.example.com/org/app.git"
    add = ["git", "-C", str(root), "remote", "add", "origin", remote]
    subprocess.run(add, check=True, timeout=300)
    record({**prompt("go on"), "cwd": str(root)})
    record({"hook_event_name": "SessionStart", "source": "startup", "cwd": str(root)})
    (root / "a.py").write_text("x = 1\n", encoding="utf-8")
    zapomni("index", str(root), cwd=root)
    assert holds(home, word[-8:]) == []
    assert holds(home, "org/app") != []


def test_the_signature_of_a_failure_has_no_secret(home):
    failed = {"hook_event_name": "PostToolUseFailure", "error": f"Error: bad key {AWS} for x"}
    record({**tool("Bash", {"command": "deploy"}), **failed})
    record({**tool(f"tool_{AWS}", {"q": 1}), **failed, "error": "Error: password='swordfish'"})
    assert holds(home, AWS[6:]) == []
    assert holds(home, "swordfish") == []

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from command import answer, zapomni
from zapomni_cli.host_setup.hosts import HOSTS, hosts_of
from zapomni_cli.main import COMMANDS
from zapomni_core.infra.sharing import VERSION

ROOT = Path(__file__).parents[2]

# Stands for a host's own command line: notes what it is called with, keeps servers as they do.
FAKE = """#!{python}
import json, os, pathlib, sys
home = pathlib.Path(os.environ["HOME"])
with open(home / "calls.jsonl", "a") as log:
    log.write(json.dumps(sys.argv) + "\\n")
if "{mode}" == "fails":
    sys.exit("no such option")
name, args = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
args = [a for a in args if a not in ("--scope", "user", "--")]
file = home / {{"claude": ".claude.json", "gemini": ".gemini/settings.json"}}[name]
content = json.loads(file.read_text()) if file.exists() else {{}}
servers = content.setdefault("mcpServers", {{}})
if args[1] == "add":
    servers[args[2]] = {{"command": args[3], "args": args[4:], "env": {{}}}}
else:
    del servers[args[2]]
file.parent.mkdir(exist_ok=True)
file.write_text(json.dumps(content, indent=2))
"""


@pytest.fixture
def home(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = private_home.parent / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    moved = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "QWEN_HOME", "XDG_CONFIG_HOME")
    for name in (*moved, "CLINE_DIR", "CLINE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return private_home.parent


def put_program(home: Path, name: str, mode: str = "works") -> Path:
    program = home / "bin" / name
    program.write_text(FAKE.format(python=sys.executable, mode=mode))
    program.chmod(0o755)
    return program


def calls(home: Path) -> list[list[str]]:
    log = home / "calls.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def everything_under(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def at_a_terminal(typed: bytes, *args: str) -> tuple[int, str]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "zapomni_cli", *args])
    os.write(terminal, typed)
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


# --- Finding and asking ------------------------------------------------------------------


def test_only_hosts_that_are_here_are_connected(home):
    (home / ".cursor").mkdir()
    (home / ".codex").mkdir()
    report = json.loads(answer("init", "--yes", "--json"))
    assert [entry["host"] for entry in report["hosts"]] == ["codex", "cursor"]
    assert (home / ".cursor" / "hooks.json").exists()
    assert not (home / ".gemini").exists()


def test_with_no_host_here_it_says_what_to_do(home):
    done = zapomni("init")
    assert done.returncode == 1
    assert b"--host claude-code" in done.stderr


def test_a_dry_run_shows_the_change_and_makes_none(home):
    (home / ".cursor").mkdir()
    before = everything_under(home)
    plan = answer("init", "--dry-run")
    assert "server  ~/.cursor/mcp.json: 10 lines added" in plan
    assert "afterShellExecution" not in plan
    shown = answer("init", "--dry-run", "--verbose")
    assert '+    "zapomni": {' in shown
    assert "afterShellExecution" in shown
    assert everything_under(home) == before


def test_in_a_pipe_nothing_is_done_without_yes(home):
    (home / ".cursor").mkdir()
    done = zapomni("init", given=b"y\n")
    assert done.returncode == 2
    assert b"--yes" in done.stderr
    assert list((home / ".cursor").iterdir()) == []


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 130), (b"y\n", 0)])
def test_at_a_terminal_it_asks_first(home, typed, code):
    (home / ".cursor").mkdir()
    ended, shown = at_a_terminal(typed, "init")
    assert ended == code, shown
    assert "Connect?" in shown
    assert (home / ".cursor" / "mcp.json").exists() == (code == 0)


# --- Connecting and disconnecting --------------------------------------------------------


def test_every_host_can_be_connected_checked_and_disconnected(home, tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    before = everything_under(home)
    everyone = [f"--host={name}" for name in HOSTS]

    umask = os.umask(0)
    try:
        answer("init", "--yes", *everyone)
    finally:
        os.umask(umask)
    connected = everything_under(home)
    written = [Path(name) for name in connected.keys() - before.keys()]
    assert len(written) == 28
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}

    again = json.loads(answer("init", "--json", *everyone))
    assert not any(entry["files"] or entry["commands"] for entry in again["hosts"])
    assert everything_under(home) == connected

    answer("init", "--uninstall", "--yes")
    assert everything_under(home) == before
    assert "Nothing of Zapomni" in answer("init", "--uninstall")
    assert [path.name for path in project.rglob("*")] == [".git"]


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("claude", ["mcp", "add", "--scope", "user", "zapomni", "--"]),
        ("gemini", ["mcp", "add", "--scope", "user", "zapomni"]),
    ],
)
def test_a_hosts_own_command_registers_the_server_and_forgets_it(home, name, added):
    program = put_program(home, name)
    assert f"$ {program} mcp add" in answer("init", "--dry-run")
    assert calls(home) == []

    answer("init", "--yes")
    (call,) = calls(home)
    assert call[1 : 1 + len(added)] == added
    assert Path(call[1 + len(added)]).is_absolute()
    assert call[-1] == "serve"
    answer("init", "--yes")
    assert len(calls(home)) == 1

    answer("init", "--uninstall", "--yes")
    # Gemini CLI keeps servers in the file that has the hooks: the whole file is put back.
    removed = [["mcp", "remove", "--scope", "user", "zapomni"]] if name == "claude" else []
    assert [call[1:] for call in calls(home)[1:]] == removed
    left = [*home.glob(".claude.json"), *home.glob(".*/settings.json")]
    assert "zapomni" not in "".join(file.read_text() for file in left)


def test_a_file_that_a_hosts_own_command_wrote_anew_gets_back_its_bytes(home):
    put_program(home, "gemini")
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"ui" : {"theme":"GitHub"} }\n')
    answer("init", "--yes")
    assert json.loads(settings.read_text())["mcpServers"]["zapomni"]["args"] == ["serve"]
    answer("init", "--uninstall", "--yes")
    assert settings.read_text() == '{"ui" : {"theme":"GitHub"} }\n'


def test_a_hosts_command_that_fails_is_made_up_for_by_changing_its_file(home):
    put_program(home, "codex", mode="fails")
    report = json.loads(answer("init", "--yes", "--json"))
    config = tomllib.loads((home / ".codex" / "config.toml").read_text())
    assert config["mcp_servers"]["zapomni"]["args"] == ["serve"]
    assert "no such option" in report["hosts"][0]["notes"][0]

    answer("init", "--uninstall", "--yes")
    assert not (home / ".codex" / "config.toml").exists()


def test_a_broken_file_is_refused_while_other_hosts_are_connected(home):
    (home / ".cursor").mkdir()
    (home / ".codex").mkdir()
    (home / ".cursor" / "hooks.json").write_text("{ broken")
    done = zapomni("init", "--yes")
    assert done.returncode == 1
    assert b"cannot be changed safely" in done.stdout
    assert (home / ".cursor" / "hooks.json").read_text() == "{ broken"
    assert not (home / ".cursor" / "mcp.json").exists()
    assert (home / ".codex" / "hooks.json").exists()


def test_a_file_that_cannot_be_written_ends_in_words_not_in_a_traceback(home):
    (home / ".cursor").write_text("a file where a folder should be")
    done = zapomni("init", "--host", "cursor", "--yes")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_a_file_written_on_windows_keeps_its_mark_and_line_ends_and_undo_gives_its_bytes(home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    mine = '{\n    // mine\n    "mcpServers": {\n        "other": {"command": "x"}\n    }\n}\n'
    before = b"\xef\xbb\xbf" + mine.replace("\n", "\r\n").encode()
    file.write_bytes(before)

    answer("init", "--host", "cursor", "--yes")
    changed = file.read_bytes()
    assert changed.startswith(b"\xef\xbb\xbf{\r\n    // mine\r\n")
    assert b'\r\n        "zapomni": {\r\n            "command"' in changed
    assert changed.count(b"\n") == changed.count(b"\r\n")
    assert changed.count(b"\xef\xbb\xbf") == 1

    answer("init", "--uninstall", "--yes")
    assert file.read_bytes() == before
    assert list(file.parent.glob("*.bak")) == []


# --- What was installed works ------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_the_installed_hook_records_what_happens(home, name, tmp_path):
    answer("init", "--host", name, "--yes")
    settings = home / (".claude/settings.json" if name == "claude-code" else ".codex/hooks.json")
    handler = json.loads(settings.read_text())["hooks"]["UserPromptSubmit"][0]["hooks"][0]
    line = [handler["command"], *handler.get("args", [])]
    if name == "codex":
        line = shlex.split(handler["command"])
    event = {"session_id": "s1", "cwd": str(tmp_path), "hook_event_name": "UserPromptSubmit"}

    done = subprocess.run(
        line,
        input=json.dumps({**event, "prompt": "Make the tests pass"}).encode(),
        capture_output=True,
        timeout=300,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    # On a busy machine the event may wait for the next one.
    following = {"session_id": "s2", "cwd": str(tmp_path), "event": "marker", "text": "next"}
    answer("record", given=json.dumps(following).encode())
    captured = json.loads(answer("status", "--json"))["observations"]
    assert captured["by_type"]["user_prompt"]["count"] == 1
    assert captured["hosts"][name]["last_capture"] is not None
    assert (captured["lost"], captured["waiting_in_spool"]) == (0, 0)


def run_hook(line: list[str], **event: str) -> str:
    done = subprocess.run(
        line, input=json.dumps(event).encode(), capture_output=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_hooks_of_an_older_version_are_noticed_by_status_and_a_new_session_and_renewed(
    home, tmp_path
):
    answer("init", "--host", "claude-code", "--host", "cursor", "--yes")
    file = home / ".claude" / "settings.json"
    new = file.read_text()
    assert json.loads(answer("status", "--json"))["outdated_hooks"] == []
    # What the version before this one wrote: no number, and no hook for the end of a turn.
    older = json.loads(new)
    del older["hooks"]["Stop"]
    for groups in older["hooks"].values():
        del groups[0]["hooks"][0]["args"][-2:]
    file.write_text(json.dumps(older))

    assert json.loads(answer("status", "--json"))["outdated_hooks"] == ["claude-code"]
    done = zapomni("status")
    assert b"claude-code (older hooks)" in done.stdout
    assert b"`zapomni init` renews the older hooks" in done.stderr
    handler = older["hooks"]["SessionStart"][0]["hooks"][0]
    start = {"cwd": str(tmp_path), "hook_event_name": "SessionStart", "source": "startup"}
    old, line = [handler["command"], *handler["args"]], "Ask the user to run: zapomni init"
    assert run_hook(old, session_id="s1", **start).count(line) == 1
    assert line not in run_hook(old, session_id="s1", **{**start, "source": "compact"})

    answer("init", "--yes")
    assert json.loads(file.read_text()) == json.loads(new)
    handler = json.loads(file.read_text())["hooks"]["SessionStart"][0]["hooks"][0]
    assert line not in run_hook([handler["command"], *handler["args"]], session_id="s2", **start)


def test_the_end_of_a_turn_is_accepted_and_stores_nothing(home, tmp_path):
    answer("init", "--host", "claude-code", "--yes")
    hooks = json.loads((home / ".claude" / "settings.json").read_text())["hooks"]
    handler = hooks["Stop"][0]["hooks"][0]
    event = {"session_id": "s1", "cwd": str(tmp_path), "hook_event_name": "Stop"}
    assert run_hook([handler["command"], *handler["args"]], **event) == ""
    assert json.loads(answer("status", "--json"))["observations"]["total"] == 0


# --- Trying it out -----------------------------------------------------------------------


def test_verify_starts_each_server_and_sends_an_event_through_each_hook(home):
    hosts = ["--host=cursor", "--host=goose", "--host=opencode"]
    answer("init", "--yes", *hosts)
    connected = everything_under(home)

    tried = json.loads(answer("init", "--verify", "--json", *hosts))

    names = {host: [check["name"] for check in checks] for host, checks in tried.items()}
    with_hooks = ["server", "hooks", "test event"]
    assert names == {"cursor": with_hooks, "goose": ["server"], "opencode": with_hooks}
    assert all(check["ok"] for checks in tried.values() for check in checks), tried
    assert "14 tools" in tried["goose"][0]["detail"]
    captured = json.loads(answer("status", "--json"))["observations"]
    assert (captured["total"], captured["sessions"]) == (0, 0)
    assert b"zapomni init --verify" not in (home / ".zapomni" / "zapomni.db").read_bytes()
    after = everything_under(home)
    assert {name: after[name] for name in connected} == connected


@pytest.mark.parametrize(
    ("change", "said", "advice"),
    [
        ({"command": "/gone/zapomni"}, "cannot be started", "zapomni init --host cursor"),
        ({"command": "/bin/echo", "args": ["hi"]}, "something else than MCP", "by hand"),
        ({"command": "/bin/true", "args": []}, "ended", "by hand"),
        ({"disabled": True}, "switched off", "Switch zapomni on"),
        (None, "not registered", "zapomni init --host cursor"),
    ],
)
def test_verify_says_what_is_wrong_with_a_server_and_what_to_do(home, change, said, advice):
    answer("init", "--yes", "--host", "cursor")
    file = home / ".cursor" / "mcp.json"
    content = json.loads(file.read_text())
    if change is None:
        content["mcpServers"].clear()
    else:
        content["mcpServers"]["zapomni"] |= change
    file.write_text(json.dumps(content))

    done = zapomni("init", "--verify", "--host", "cursor")

    assert done.returncode == 1
    shown = done.stdout.decode()
    assert "FAIL  server: " in shown
    assert said in shown
    assert advice in shown
    assert "ok    test event: stored, read back and removed" in shown


@pytest.mark.parametrize(
    ("event", "line", "said"),
    [
        ("afterAgentResponse", None, "Missing: afterAgentResponse."),
        ("beforeSubmitPrompt", "/gone/zapomni record --host cursor", "exit code 127"),
        ("beforeSubmitPrompt", "ZAPOMNI_HOME=$PWD/z {}", "not in this home"),
        ("beforeSubmitPrompt", "{} --nonsense", "usage: zapomni record"),
    ],
)
def test_verify_says_what_is_wrong_with_a_hook_and_what_to_do(home, event, line, said):
    answer("init", "--yes", "--host", "cursor")
    file = home / ".cursor" / "hooks.json"
    content = json.loads(file.read_text())
    if line is None:
        del content["hooks"][event]
    else:
        (handler,) = content["hooks"][event]
        handler["command"] = line.format(handler["command"])
    file.write_text(json.dumps(content))
    (home / ".cursor" / "mcp.json").unlink()  # The server is another test's.

    done = zapomni("init", "--verify", "--host", "cursor")

    assert done.returncode == 1
    assert said in done.stdout.decode()
    assert b"Run: zapomni " in done.stdout


def test_verify_names_hooks_that_work_but_are_those_of_an_older_version(home):
    answer("init", "--yes", "--host", "cursor")
    file = home / ".cursor" / "hooks.json"
    file.write_text(re.sub(r" --hooks \d+", "", file.read_text()))

    tried = json.loads(answer("init", "--verify", "--json", "--host", "cursor"))["cursor"]

    (hooks,) = [check for check in tried if check["name"] == "hooks"]
    assert "not as this version would" in hooks["detail"]
    assert hooks["fix"] == "Run: zapomni init --host cursor"
    assert all(check["ok"] for check in tried)


def test_verify_without_anything_connected_says_so(home):
    (home / ".cursor").mkdir()
    done = zapomni("init", "--verify")
    assert done.returncode == 1
    assert b"zapomni init" in done.stderr
    assert zapomni("init", "--verify", "--uninstall").returncode == 2


# --- Plugins -----------------------------------------------------------------------------

PLUGINS = [
    ROOT / "plugins" / "claude-code" / "plugins" / "zapomni",
    ROOT / "plugins" / "codex",
]
GEMINI = ROOT / "plugins" / "gemini"


def parsed(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_plugins_carry_the_name_and_version_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    market = parsed(ROOT / "plugins" / "claude-code" / ".claude-plugin" / "marketplace.json")
    manifests = [
        parsed(PLUGINS[0] / ".claude-plugin" / "plugin.json"),
        parsed(PLUGINS[1] / ".codex-plugin" / "plugin.json"),
        *market["plugins"],
    ]
    for manifest in [*manifests, parsed(GEMINI / "gemini-extension.json")]:
        assert (manifest["name"], manifest["version"]) == (project["name"], VERSION)
        assert manifest.get("license") == (project["license"] if manifest in manifests else None)
    catalog = parsed(ROOT / "plugins" / ".agents" / "plugins" / "marketplace.json")
    (entry,) = catalog["plugins"]
    assert entry["name"] == project["name"]
    assert (ROOT / "plugins" / entry["source"]["path"]).resolve() == PLUGINS[1]
    source = ROOT / "plugins" / "claude-code" / market["plugins"][0]["source"]
    assert source.resolve() == PLUGINS[0]


def test_every_json_file_of_the_plugins_is_valid():
    files = [p for p in (ROOT / "plugins").rglob("*.json") if p.is_file()]
    assert len(files) >= 7
    for file in files:
        assert isinstance(parsed(file), dict), file


@pytest.mark.parametrize(
    ("plugin", "host"),
    [(PLUGINS[0], "claude-code"), (PLUGINS[1], "codex"), (GEMINI, "gemini")],
)
def test_a_plugins_hooks_are_those_of_init_and_its_commands_exist(home, plugin, host):
    hooks = parsed(plugin / "hooks" / "hooks.json")["hooks"]
    wanted = hosts_of(home, {}, ["zapomni", "serve"], ["zapomni", "record"])[host]
    assert hooks == {event: [entry] for event, entry in wanted.hooks.items()}
    servers = "gemini-extension.json" if host == "gemini" else ".mcp.json"
    server = parsed(plugin / servers)["mcpServers"]["zapomni"]
    assert (server["command"], server["args"]) == ("zapomni", ["serve"])
    event = {"session_id": "s", "cwd": str(home), "hook_event_name": "Stop"}
    done = zapomni("record", "--host", host, given=json.dumps(event).encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "serve" in COMMANDS


def test_the_plugin_for_opencode_is_the_one_that_init_writes_with_the_command_from_the_path(home):
    wanted = hosts_of(home, {}, ["zapomni", "serve"], ["zapomni", "record"])["opencode"]
    (script,) = wanted.scripts.values()
    mine = (ROOT / "plugins" / "opencode" / "zapomni.js").read_text()
    assert mine.splitlines()[1:] == script.splitlines()[1:]


@pytest.mark.parametrize("plugin", [*PLUGINS, GEMINI])
def test_a_plugins_hooks_have_the_shape_that_hosts_load(plugin):
    """Each event has a list of groups, each group a list of handlers; hosts skip anything else."""
    document = parsed(plugin / "hooks" / "hooks.json")
    assert document.keys() <= {"description", "hooks"}
    assert "SessionStart" in document["hooks"]
    for event, groups in document["hooks"].items():
        assert isinstance(groups, list), event
        assert groups, event
        for group in groups:
            assert group.keys() <= {"matcher", "hooks"}
            assert isinstance(group["hooks"], list)
            for handler in group["hooks"]:
                assert handler["type"] == "command"
                assert isinstance(handler["command"], str)
                assert isinstance(handler["timeout"], int)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugins_skill_has_a_name_a_description_and_only_commands_that_exist(plugin):
    skill = (plugin / "skills" / "zapomni" / "SKILL.md").read_text()
    _, head, body = skill.split("---\n", 2)
    assert "name: zapomni\n" in head
    assert "description: " in head
    words = body.replace("`", " ").split()
    used = {b for a, b in pairwise(words) if a == "zapomni" and b.islower()}
    assert used <= COMMANDS.keys()
    readme = plugin / "README.md"
    assert len(readme.read_text().split()) >= 40

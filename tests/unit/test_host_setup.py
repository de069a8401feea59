from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import tomllib
from pathlib import Path

import pytest
import yaml

from zapomni_cli.host_setup import entries, json_text, toml_text, yaml_text
from zapomni_cli.host_setup.files import UnfitFileError, read, replace
from zapomni_cli.host_setup.hosts import HOSTS, hosts_of
from zapomni_cli.host_setup.plans import apply, plan_install, plan_uninstall
from zapomni_cli.host_setup.records import Records, load_records
from zapomni_core.modules.observations import HOOKS_REVISION, read_event

SERVE = ["/opt/zapomni/bin/zapomni", "serve"]
HOOK = ["/opt/zapomni/bin/python3", "-I", "-S", "/opt/zapomni/lib/zapomni_cli/hook.py"]

# Comments, a trailing comma, tabs, odd spacing, and somebody's own server and hooks.
ODD = """{
\t// mine
\t"theme" : "dark",
\t"mcpServers": { "other": {"command": "x", "env": {"KEY": "v"}} },
\t"hooks": {
\t\t"SessionStart": [
\t\t\t{ "matcher": "startup", "hooks": [ {"type": "command", "command": "mine.sh"} ] } // keep
\t\t],
\t\t"Stop": [],
\t},
}
"""
DOCUMENTS = [
    "{}",
    "{}\n",
    "{ }\n",
    "",
    '{"a":1}',
    '{"a": 1, "hooks": {}}',
    '{\n    "a": [\n        1\n    ]\n}',
    '{\r\n  "a": 1\r\n}\r\n',
    '{\n  "mcpServers": {},\n  "hooks": {\n    "AfterTool": []\n  }\n}\n',
    ODD,
    "\ufeff",
    "\ufeff{}",
    '\ufeff{"a":1}',
    '\ufeff{\r\n    "servers": {\r\n    },\r\n    "hooks": {}\r\n}\r\n',
    "\ufeff" + ODD.replace("\n", "\r\n"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


@pytest.fixture
def records(home: Path) -> Records:
    return load_records(home / ".zapomni" / "init.json")


def host_of(home: Path, name: str, hook: list[str] = HOOK):
    return hosts_of(home, {}, SERVE, hook)[name]


def files_of(host) -> list[Path]:
    """Return the files that a host and we share."""
    return list(dict.fromkeys(file for file in (host.server_file, host.hook_file) if file))


# What a file may hold that is not JSON.
OTHER_FORMATS = {
    ".toml": "a = 1",
    ".yaml": "# mine\nMODEL: x  # keep\nextensions:\n  developer: # that\n    enabled: true\n",
}
# Hosts that share a shape are not each given every document.
SHAPES = ["claude-code", "codex", "gemini", "cursor", "vscode", "copilot", "zed", "goose"]


def install(host, records: Records):
    plan = plan_install(host, records)
    assert not plan.problem, plan.problem
    apply(plan, records)
    assert not plan.problem, plan.problem
    return plan


def uninstall(host, records: Records):
    plan = plan_uninstall(host, records)
    assert not plan.problem, plan.problem
    apply(plan, records)
    assert not plan.problem, plan.problem
    return plan


def everything_under(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- JSON as text ------------------------------------------------------------------------


@pytest.mark.parametrize("text", [document for document in DOCUMENTS if document.strip("\ufeff")])
def test_what_is_put_in_and_taken_out_again_leaves_the_text_as_it_was(text):
    put = json_text.put(text, ["deep", "er"], {"k": ["v"]})
    assert json_text.parse(put).value["deep"] == {"er": {"k": ["v"]}}
    back = json_text.remove(put, ["deep"])
    # An object with nothing but blanks inside loses them; all else stays.
    assert back == text.replace("{ }", "{}")


def test_comments_spacing_and_order_of_others_stay():
    changed = json_text.append(ODD, ["hooks", "SessionStart"], {"new": 1})
    changed = json_text.put(changed, ["mcpServers", "zapomni"], {"command": "z"})
    for line in ODD.splitlines():
        if "SessionStart" not in line and "mcpServers" not in line and "startup" not in line:
            assert line in changed.splitlines()
    assert "// keep" in changed
    value = json_text.parse(changed).value
    assert list(value) == ["theme", "mcpServers", "hooks"]
    assert value["hooks"]["SessionStart"][1] == {"new": 1}


def random_value(draw: random.Random, depth: int = 0):
    kind = draw.random()
    if depth > 3 or kind < 0.4:
        return draw.choice([1, -2.5, True, None, "", 'a"b', "// no", "/* no */", "{[,", "č\n"])
    if kind < 0.7:
        return {f"{draw.choice('abc')}{n}": random_value(draw, depth + 1) for n in range(3)}
    return [random_value(draw, depth + 1) for _ in range(draw.randint(0, 3))]


def random_text(draw: random.Random, value, newline: str) -> str:
    def blank() -> str:
        gaps = ["", "", " ", newline + "\t", f" // c{newline}", "/* x, ] } */"]
        return draw.choice(gaps)

    if isinstance(value, dict):
        parts = [
            f"{blank()}{json.dumps(key)}{blank()}:{blank()}{random_text(draw, inner, newline)}"
            for key, inner in value.items()
        ]
    elif isinstance(value, list):
        parts = [blank() + random_text(draw, inner, newline) for inner in value]
    else:
        return json.dumps(value)
    trailing = "," if parts and draw.random() < 0.2 else ""
    inside = ",".join(part + blank() for part in parts) + trailing + blank()
    return f"{{{inside}}}" if isinstance(value, dict) else f"[{inside}]"


ROUNDS = int(os.environ.get("ANY_DOCUMENTS", "300"))


def test_any_document_takes_our_entries_and_gives_them_back():
    draw = random.Random(7)
    for _ in range(ROUNDS):
        theirs = [random_value(draw) for _ in range(draw.randint(0, 2))]
        document = {"x": random_value(draw), "hooks": {"E": theirs}}
        text = random_text(draw, document, draw.choice(["\n", "\r\n"]))
        assert json_text.parse(text).value == document

        added = json_text.append(text, ["hooks", "E"], {"z": [1, {"q": 2}]})
        added = json_text.put(added, ["mcpServers", "zapomni"], {"command": "c"})
        back = json_text.remove(added, ["hooks", "E", len(theirs)])
        back = json_text.remove(back, ["mcpServers"])

        assert json_text.parse(back).value == document


def test_a_value_is_replaced_in_its_place():
    text = '{\n  "a": {"old": 1},\n  "b": 2\n}\n'
    assert json_text.parse(json_text.put(text, ["a"], [1])).value == {"a": [1], "b": 2}


@pytest.mark.parametrize(
    "broken",
    ["{", '{"a" 1}', '{"a": 1 "b": 2}', "{} {}", '{"a": }', "{1: 2}", "[" * 100_000, '{"a": "'],
)
def test_broken_json_is_refused(broken):
    with pytest.raises(UnfitFileError):
        json_text.parse(broken)


@pytest.mark.parametrize(("text", "path"), [('{"a": 1}', ["a", "b"]), ("[]", ["a"])])
def test_a_shape_that_leaves_no_room_is_refused(text, path):
    with pytest.raises(UnfitFileError):
        json_text.put(text, path, 1)


def test_a_name_written_twice_is_not_removed_by_half():
    with pytest.raises(UnfitFileError):
        json_text.remove('{"a": 1, "a": 2}', ["a"])


# --- TOML as text ------------------------------------------------------------------------

TABLE = ("mcp_servers", "zapomni")
VALUES = {"command": "/opt/za pomni", "args": ["serve"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "x"  # mine\n',
        'model = "x"',
        'a = 1\r\n\r\n[mcp_servers.other]\r\ncommand = "y"\r\n',
        '[[list]]\nx = """\n[mcp_servers.zapomni]\n"""\n',
    ],
)
def test_a_table_is_added_and_removed_without_touching_the_rest(text):
    added = toml_text.add_table(text, TABLE, VALUES)
    assert added.startswith(text)
    assert tomllib.loads(added)["mcp_servers"]["zapomni"] == VALUES
    removed = toml_text.remove_table(added, TABLE)
    assert removed == (text if text.endswith("\n") or not text else text + "\n")


def test_a_table_written_by_the_host_itself_is_removed_with_its_own_tables():
    text = (
        'a = 1\n\n[mcp_servers.zapomni]\ncommand = "z"\n\n[mcp_servers.zapomni.env]\nK = "v"\n'
        "\n[other]\nb = 2\n"
    )
    assert tomllib.loads(toml_text.remove_table(text, TABLE)) == {"a": 1, "other": {"b": 2}}


@pytest.mark.parametrize("text", ["mcp_servers = {other = {}}\n", "mcp_servers = 1\n", "a = \n"])
def test_toml_that_leaves_no_room_is_refused(text):
    with pytest.raises(UnfitFileError):
        toml_text.add_table(text, TABLE, VALUES)


def test_an_inline_table_is_not_cut_out_of_its_line():
    with pytest.raises(UnfitFileError):
        toml_text.remove_table('mcp_servers = {zapomni = {command = "z"}}\n', TABLE)


# --- YAML as text ------------------------------------------------------------------------

ENTRY = ("extensions", "zapomni")
EXTENSION = {"enabled": True, "type": "stdio", "cmd": "/opt/za: pomni", "args": ["serve", "# no"]}
GOOSE = """\
# mine
GOOSE_PROVIDER: "anthropic"  # keep
prompt: |
  extensions:
    zapomni: not this one
extensions:
  # the built-in one
  developer:
    bundled: true
    args:
    - a
  memory:
    enabled: false

# after
other: [1, 2]
"""
YAML_TEXTS = [
    GOOSE,
    GOOSE.replace("\n", "\r\n"),
    "---\n" + GOOSE,
    "\ufeff" + GOOSE,
    GOOSE.replace("  developer", "    developer").replace("  memory", "    memory"),
    "",
    "# nothing yet\n",
    "a: 1",
    "extensions: {}  # none\nb: 2\n",
    "extensions:\n",
    '"extensions":\n  x:\n    cmd: y\nlast: 1\n',
]


@pytest.mark.parametrize("text", YAML_TEXTS)
def test_a_yaml_entry_is_added_and_removed_without_touching_the_rest(text):
    added = yaml_text.add_entry(text, ENTRY, EXTENSION)

    before = yaml.safe_load(text) or {}
    after = yaml.safe_load(added)
    assert after["extensions"].pop("zapomni") == EXTENSION
    assert after == {**before, "extensions": before.get("extensions") or {}}
    for line in text.splitlines():
        assert line in added.splitlines() or line.startswith("extensions: {}")
    assert yaml_text.find_entry(added, ENTRY)["args"] == EXTENSION["args"]
    removed = yaml_text.remove_entry(added, ENTRY)
    assert yaml.safe_load(removed) == {**before, "extensions": before.get("extensions") or {}}
    if before.get("extensions"):
        assert removed == text


def test_a_yaml_entry_that_the_host_wrote_again_is_read_changed_and_removed():
    """Goose rewrites its file in its own style, without comments."""
    ours = yaml.safe_dump({"a": 1, "extensions": {"zapomni": EXTENSION, "z": {"cmd": "x"}}, "b": 2})
    found = yaml_text.find_entry(ours, ENTRY)
    assert (found["cmd"], found["args"]) == (EXTENSION["cmd"], EXTENSION["args"])
    removed = yaml_text.remove_entry(ours, ENTRY)
    assert yaml.safe_load(removed) == {"a": 1, "extensions": {"z": {"cmd": "x"}}, "b": 2}


@pytest.mark.parametrize(
    "text",
    [
        "extensions: {a: {cmd: b}}\n",
        "extensions: null\n",
        "extensions:\n  - a\n",
        "- a\n",
        "a: 1\n---\nb: 2\n",
        "extensions:\n  a: 1\nextensions:\n  b: 1\n",
        "\textensions:\n",
    ],
)
def test_yaml_that_leaves_no_room_is_refused(text):
    with pytest.raises(UnfitFileError):
        yaml_text.add_entry(text, ENTRY, EXTENSION)


# --- Install and uninstall ---------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTS)
def test_connecting_a_host_twice_changes_nothing_the_second_time(home, records, name):
    host = host_of(home, name)
    install(host, records)
    before = everything_under(home)

    again = plan_install(host, load_records(records.path))

    assert again.is_empty
    assert everything_under(home) == before


@pytest.mark.parametrize("name", HOSTS)
def test_what_was_created_for_a_host_is_gone_after_uninstall(home, records, name):
    install(host_of(home, name), records)
    uninstall(host_of(home, name), load_records(records.path))
    assert everything_under(home) == {}


@pytest.mark.parametrize(
    ("name", "document"),
    [(name, document) for name in HOSTS for document in (DOCUMENTS if name in SHAPES else [ODD])],
)
def test_uninstall_restores_every_byte_if_nobody_wrote_meanwhile(home, records, name, document):
    host = host_of(home, name)
    for file in files_of(host):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(OTHER_FORMATS.get(file.suffix, document).encode())
    before = everything_under(home)

    install(host, records)
    assert everything_under(home) != before
    uninstall(host, load_records(records.path))

    assert everything_under(home) == before


@pytest.mark.parametrize("name", HOSTS)
def test_edits_made_since_are_kept_by_uninstall(home, records, name):
    host = host_of(home, name)
    install(host, records)
    for file in files_of(host):
        if file.suffix in OTHER_FORMATS:
            late = "late = 1\n" if file.suffix == ".toml" else "late: 1\n"
            file.write_text(late + file.read_text())
        else:
            file.write_text(json_text.put(file.read_text(), ["late", "edit"], 1))

    uninstall(host, load_records(records.path))

    for file in files_of(host):
        text = file.read_text()
        readers = {".toml": tomllib.loads, ".yaml": yaml.safe_load}
        content = readers.get(file.suffix, json.loads)(text)
        expected = {"late": 1} if file.suffix in OTHER_FORMATS else {"late": {"edit": 1}}
        if file.suffix == ".yaml":
            assert content.pop("extensions") == {}
        assert {**host.hook_frame, **content} == {**host.hook_frame, **expected}


def test_a_later_init_moves_the_hooks_to_the_new_place_and_uninstall_still_restores(home, records):
    file = host_of(home, "claude-code").hook_file
    replace(file, ODD)
    install(host_of(home, "claude-code"), records)
    moved = host_of(home, "claude-code", ["/new/bin/python3", "/new/zapomni_cli/hook.py"])

    install(moved, load_records(records.path))

    assert entries.has_hooks(read(file), moved)
    assert "/opt/zapomni/lib" not in file.read_text()
    uninstall(moved, load_records(records.path))
    assert file.read_text() == ODD
    assert list(file.parent.iterdir()) == [file]


def test_somebodys_hook_in_our_group_stays(home, records):
    host = host_of(home, "claude-code")
    install(host, records)
    document = json.loads(host.hook_file.read_text())
    mine = {"type": "command", "command": "mine.sh"}
    document["hooks"]["SessionEnd"][0]["hooks"].append(mine)
    host.hook_file.write_text(json.dumps(document))

    uninstall(host, load_records(records.path))

    assert json.loads(host.hook_file.read_text()) == {"hooks": {"SessionEnd": [{"hooks": [mine]}]}}


@pytest.mark.parametrize(
    "line",
    [
        "/home/ada/zapomni/record.sh --host claude-code",
        "zapomni record",
        "other record --host codex",
        "an 'open quote",
    ],
)
def test_only_our_own_line_is_taken_for_ours(home, line):
    host = host_of(home, "claude-code")
    handler = {"type": "command", "command": line}
    text = json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}})
    assert entries.remove_hooks(text, host) == text


def test_a_hook_line_written_by_hand_is_replaced_not_doubled(home, records):
    host = host_of(home, "cursor")
    by_hand = {"command": "zapomni record --host cursor"}
    replace(host.hook_file, json.dumps({"version": 1, "hooks": {"sessionEnd": [by_hand]}}))
    install(host, records)
    found = json.loads(host.hook_file.read_text())["hooks"]["sessionEnd"]
    assert found == [host.hooks["sessionEnd"]]


# --- Care for the files ------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"{ not json", b"\xff\xfe", b"[]", b'{"hooks": 1}'])
@pytest.mark.parametrize("name", ["claude-code", "gemini", "cursor", "codex"])
def test_a_broken_file_is_refused_and_nothing_is_touched(home, records, name, content):
    host = host_of(home, name)
    host.hook_file.parent.mkdir(parents=True, exist_ok=True)
    host.hook_file.write_bytes(content)
    before = everything_under(home)

    plan = plan_install(host, records)

    assert "Nothing was changed" in plan.problem
    assert plan.is_empty
    assert everything_under(home) == before


def test_a_copy_is_made_that_only_the_owner_reads_and_the_mode_stays(home, records):
    host = host_of(home, "claude-code")
    replace(host.hook_file, ODD)
    host.hook_file.chmod(0o640)

    plan = install(host, records)

    (copy,) = plan.backups
    assert copy.parent == host.hook_file.parent
    assert copy.read_text() == ODD
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(host.hook_file.stat().st_mode) == 0o640
    assert stat.S_IMODE(host.server_file.stat().st_mode) == 0o600


def test_a_linked_file_stays_a_link(home, records, tmp_path):
    host = host_of(home, "claude-code")
    dotfiles = tmp_path / "dotfiles" / "settings.json"
    replace(dotfiles, ODD)
    host.hook_file.parent.mkdir()
    host.hook_file.symlink_to(dotfiles)

    install(host, records)

    assert host.hook_file.is_symlink()
    assert entries.has_hooks(dotfiles.read_text(), host)
    uninstall(host, load_records(records.path))
    assert host.hook_file.is_symlink()
    assert dotfiles.read_text() == ODD


def test_a_file_changed_between_looking_and_writing_is_left_alone(home, records):
    host = host_of(home, "cursor")
    replace(host.hook_file, "{}")
    plan = plan_install(host, records)
    replace(host.hook_file, '{"version": 1}')

    apply(plan, records)

    assert "another program" in plan.problem
    assert host.hook_file.read_text() == '{"version": 1}'


def test_a_server_somebody_else_set_up_is_kept_and_not_uninstalled(home, records, tmp_path):
    program = tmp_path / "uvx"
    program.write_text("")
    program.chmod(0o755)
    host = host_of(home, "cursor")
    by_hand = {"command": str(program), "args": ["zapomni", "serve"], "env": {"A": "b"}}
    replace(host.server_file, json.dumps({"mcpServers": {"zapomni": by_hand}}))

    plan = install(host, records)
    assert any("left as it is" in note for note in plan.notes)
    uninstall(host, load_records(records.path))

    assert json.loads(host.server_file.read_text()) == {"mcpServers": {"zapomni": by_hand}}


def test_a_server_whose_program_is_gone_is_replaced(home, records):
    host = host_of(home, "cursor")
    replace(host.server_file, '{"mcpServers": {"zapomni": {"command": "/gone/zapomni"}}}')
    install(host, records)
    found = json.loads(host.server_file.read_text())["mcpServers"]["zapomni"]
    assert entries.is_our_server(found, host)


def test_nothing_is_written_where_the_plugin_is_installed(home, records):
    host = host_of(home, "claude-code")
    replace(host.hook_file, '{"enabledPlugins": {"zapomni@zapomni": true}}')
    plan = plan_install(host, records)
    assert plan.is_empty
    assert "plugin" in plan.notes[0]


def test_lost_records_do_not_keep_uninstall_from_finding_what_is_ours(home, records):
    for name in HOSTS:
        install(host_of(home, name), records)
    records.path.write_text("{broken")
    for name in HOSTS:
        uninstall(host_of(home, name), load_records(records.path))
    left = {n: text for n, text in everything_under(home).items() if not n.endswith(".bak")}
    assert b"/opt/zapomni" not in b"".join(left.values())


# --- What is written ---------------------------------------------------------------------


def test_hosts_that_were_moved_by_their_own_variable_are_found_there(home):
    hosts = hosts_of(home, {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"}, SERVE, HOOK)
    assert str(hosts["claude-code"].server_file) == "/c/.claude.json"
    assert str(hosts["claude-code"].hook_file) == "/c/settings.json"
    assert str(hosts["codex"].hook_file) == "/x/hooks.json"


def test_hooks_go_without_a_shell_where_the_host_can_and_quoted_where_it_cannot(home):
    spaced = ["/my tools/python3", "/my tools/zapomni_cli/hook.py"]
    claude = host_of(home, "claude-code", spaced).hooks["SessionStart"]["hooks"][0]
    assert claude["command"] == spaced[0]
    assert claude["args"] == [spaced[1], "--host", "claude-code", "--hooks", str(HOOKS_REVISION)]
    codex = host_of(home, "codex", spaced).hooks["SessionEnd"]["hooks"][0]
    assert codex["command"].startswith("'/my tools/python3' '/my tools/")
    assert codex["timeout"] == 3


FIELDS = {
    "session_id": "s",
    "conversation_id": "s",
    "trajectory_id": "s",
    "execution_id": "e",
    "generation_id": "g",
    "cwd": "/p",
    "workspace_roots": ["/p"],
    "prompt": "Fix it",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_response": {"stdout": "a"},
    "last_assistant_message": "Done.",
    "summary": "Done.",
    "command": "ls",
    "file_path": "/p/a",
    "edits": [{"old_string": "a", "new_string": "b"}],
}


# The end of a turn, with the agent's last message.
TURN_ENDS = {"Stop", "AfterAgent", "afterAgentResponse", "post_cascade_response"}


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini", "cursor", "windsurf", "qwen"])
def test_every_event_a_hook_is_set_for_is_one_that_record_understands(home, name):
    info = {"user_prompt": "x", "command_line": "ls", "file_path": "/p/a", "mcp_tool_name": "t"}
    events = host_of(home, name).hooks
    assert len(events.keys() & TURN_ENDS) == 1
    for event in events:
        tool = "Read" if name == "cursor" and event == "postToolUse" else FIELDS["tool_name"]
        named = {**FIELDS, "agent_action_name": event, "tool_info": info}
        payload = {**FIELDS, "tool_name": tool, "hook_event_name": event}
        found = read_event(named if name == "windsurf" else payload, name)
        assert found is not None, event
        assert (found.action == "reply") == (event in TURN_ENDS)


def test_a_change_of_the_registered_events_raises_the_number_by_which_old_hooks_are_noticed(home):
    hosts = hosts_of(home, {}, SERVE, HOOK).values()
    events = {
        host.name: sorted([*host.hooks, *(path.name for path in host.scripts)]) for host in hosts
    }
    text = json.dumps({name: found for name, found in events.items() if found}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert (HOOKS_REVISION, digest) == (2, "21797a35abff"), text


def test_a_file_of_the_user_in_the_place_of_a_script_is_left_alone(home, records):
    host = host_of(home, "opencode")
    (script,) = host.scripts
    replace(script, "export const Mine = async () => ({})\n")
    plan = plan_install(host, records)
    assert "was not written by zapomni" in plan.problem
    assert plan.is_empty
    assert uninstall(host, records).is_empty


def test_a_file_made_for_us_to_which_the_host_added_its_schema_is_gone_after_uninstall(
    home, records
):
    host = host_of(home, "opencode")
    install(host, records)
    schema = "https://opencode.ai/config.json"
    host.server_file.write_text(json_text.put(host.server_file.read_text(), ["$schema"], schema))
    uninstall(host, load_records(records.path))
    assert not host.server_file.exists()


def test_an_older_script_is_replaced_and_uninstall_leaves_no_file(home, records):
    install(host_of(home, "cline", ["/old/python3", "/old/zapomni_cli/hook.py"]), records)
    host = host_of(home, "cline")
    install(host, load_records(records.path))
    assert {read(path) for path in host.scripts} == set(host.scripts.values())
    uninstall(host, load_records(records.path))
    assert everything_under(home) == {}

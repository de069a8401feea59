from __future__ import annotations

import json
import re
import stat
import subprocess
import sys

import pytest

from zapomni_cli.record import hook_command
from zapomni_core.modules.observations import changes, errors, replies, shell
from zapomni_core.shared import quick_re, redaction
from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.redaction_rules import CONTEXTS, NAMES, SERVICES, SHAPES, TOKENS

SOURCES = sorted(
    {
        NAMES,
        r"(?i)(?P<a>x)|(?P<b>y)",
        *(rule[2] for rules in (TOKENS, SHAPES, SERVICES, CONTEXTS) for rule in rules),
        *(
            value
            for module in (redaction, errors, replies, shell, changes)
            for name, value in vars(module).items()
            if isinstance(value, str) and name.startswith("_") and name.strip("_").isupper()
        ),
    }
)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Begin as a new process does, with or without what an earlier one stored."""

    def begin():
        monkeypatch.setattr(quick_re, "_compiled", {})
        quick_re.use_programs(str(tmp_path))
        return tmp_path / quick_re.PROGRAMS_FILE

    monkeypatch.setattr(quick_re, "_store", quick_re._store)
    return begin


@pytest.fixture
def without_re(monkeypatch):
    def refuse(source):
        raise AssertionError(f"compiled again: {source}")

    return lambda: monkeypatch.setattr(quick_re, "_compile", refuse)


def test_a_stored_program_is_the_one_that_re_makes(store, without_re):
    store()
    for source in SOURCES:
        quick_re.compile(source)
    store()
    without_re()
    for source in SOURCES:
        expected = re.compile(source)
        found = quick_re.compile(source)
        # Equal patterns have the same program and flags.
        assert found == expected
        assert (found.groups, found.groupindex) == (expected.groups, expected.groupindex)
    match = quick_re.match(r"(?i)(?P<a>x)|(?P<b>y)", "Y")
    assert match is not None
    assert match.lastgroup == "b"


def test_the_functions_do_what_those_of_re_do(store):
    text = "one two  three"
    for _ in range(2):
        store()
        assert quick_re.findall(r"\w+", text) == re.findall(r"\w+", text)
        assert quick_re.split(r"\s+", text) == re.split(r"\s+", text)
        assert quick_re.sub(r"\s+", "-", text) == re.sub(r"\s+", "-", text)
        spans = [found.span() for found in quick_re.finditer(r"t\w+", text)]
        assert spans == [found.span() for found in re.finditer(r"t\w+", text)]
        assert quick_re.search(r"t\w+", text)[0] == "two"
        assert quick_re.match(r"t\w+", text) is None
        assert quick_re.fullmatch(r"[a-z ]+", text) is not None


@pytest.mark.parametrize("cut", [1, 20, 30, 50, 60, -1])
def test_a_damaged_program_is_made_again(store, without_re, cut):
    file = store()
    quick_re.compile(r"(?P<word>\w+) again")
    whole = file.read_bytes()
    file.write_bytes(whole[:cut])
    store()
    assert quick_re.compile(r"(?P<word>\w+) again") == re.compile(r"(?P<word>\w+) again")
    store()
    without_re()
    assert quick_re.compile(r"(?P<word>\w+) again") == re.compile(r"(?P<word>\w+) again")


def test_a_changed_program_is_not_believed(store):
    file = store()
    quick_re.compile("a+b")
    whole = file.read_bytes()
    for place in range(1, len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        store()
        assert quick_re.compile("a+b") == re.compile("a+b")


def test_programs_of_another_python_are_not_used(store, monkeypatch):
    file = store()
    monkeypatch.setattr(quick_re, "_MACHINE", "another")
    quick_re.compile("a+b")
    monkeypatch.undo()
    before = file.read_bytes()
    store()
    quick_re.compile("a+b")
    assert file.read_bytes().startswith(before)
    assert len(file.read_bytes()) > len(before)


def test_a_program_that_python_refuses_is_compiled(store):
    file = store()
    quick_re.compile("a+b")
    name, _, _ = file.read_bytes().strip().split(b" ", 2)
    for program in ("00000000" * 3, "ffffffff" * 40, "00"):
        broken = json.dumps([0, 1, {"x": 1}, program]).encode()
        check = keyed_hash(broken, name, 8).encode()
        file.write_bytes(b"\n%s %s %s\n" % (name, check, broken))
        store()
        assert quick_re.compile("a+b") == re.compile("a+b")


def test_a_file_that_grew_too_large_begins_again(store, monkeypatch):
    file = store()
    quick_re.compile("a+b")
    monkeypatch.setattr(quick_re, "MAX_BYTES", 10)
    store()
    assert quick_re.compile("a+b") == re.compile("a+b")
    assert not file.exists()
    store()
    quick_re.compile("a+b")
    assert file.exists()


def test_where_nothing_can_be_written_patterns_are_compiled(store, tmp_path):
    quick_re.use_programs(str(tmp_path / "missing"))
    assert quick_re.findall("[a-c]", "abcd") == ["a", "b", "c"]


COMMAND = {"command": "mkdir -p x && cat api/key.txt", "description": "Read the path"}
EDIT = {"file_path": "a.py", "old_string": "token = 1", "new_string": "def use(key): pass"}
SECRET = {"command": "export API_TOKEN=" + "ab12" * 8}


def send(home, tool, given, number):
    """Send an event as a host does; return the modules that were loaded for it."""
    payload = {
        "session_id": "s", "cwd": str(home), "hook_event_name": "PostToolUse",
        "tool_use_id": f"{tool}{number}", "tool_name": tool, "tool_input": given,
        "tool_response": {"stdout": "compiling\n", "stderr": ""},
    }  # fmt: skip
    python, *rest = hook_command("claude-code")
    done = subprocess.run(
        [python, "-X", "importtime", *rest],
        input=json.dumps(payload), env={"ZAPOMNI_HOME": str(home)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_a_hook_loads_re_only_for_a_pattern_that_no_hook_needed_before(tmp_path):
    home = tmp_path / "home"
    events = [("Bash", COMMAND), ("Edit", EDIT), ("Bash", SECRET)]
    first, *_ = [send(home, tool, given, n) for n, (tool, given) in enumerate(events)]
    assert "re" in first
    heavy = {"re", "enum", "functools", "collections", "json", "datetime", "typing", "pathlib"}
    for number, (tool, given) in enumerate(events):
        loaded = send(home, tool, given, f"again{number}")
        assert "_sqlite3" in loaded
        assert loaded & heavy == set()
    stored = home / quick_re.PROGRAMS_FILE
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert b"ab12ab12" not in stored.read_bytes()


def test_simultaneous_hooks_may_store_the_same_programs(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from zapomni_core.shared import quick_re\n"
        "quick_re.use_programs(sys.argv[2])\n"
        "for n in range(30): assert quick_re.match(f'a{{{n}}}b', 'a' * n + 'b')\n"
    )
    source = quick_re.__file__.rsplit("/", 3)[0]
    command = [sys.executable, "-I", "-S", "-c", code, source, str(tmp_path)]
    running = [subprocess.Popen(command) for _ in range(6)]
    assert [process.wait(60) for process in running] == [0] * 6
    done = subprocess.run(
        [*command[:4], code + "assert 're' not in sys.modules", *command[5:]], check=False
    )
    assert done.returncode == 0

import json
import subprocess
import sys

import pytest

from zapomni_core.shared import quick_json
from zapomni_core.shared.quick_json import dumps, loads

VALUES = [
    *(None, True, False, 0, -1, 2**70, 1.5, -0.0, 1e300, "", "text", [], {}, [[]], {"a": {}}),
    *('"\\/\b\f\n\r\t\x00\x1f\x7f', "é€😀\u2028", "\ud800", {"é": ["\ud800", None]}),
    {"a": [1, 2.5, "x", None, True, {"b": []}], "c": {"d": "e"}, "": ""},
    {2: "a", None: "b", True: "c", 1.5: "d"},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_is_written_and_read_is_what_json_writes_and_reads(value):
    assert dumps(value) == json.dumps(value, ensure_ascii=False)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert dumps(value, separators=(",", ":")) == compact
    for text in (json.dumps(value), compact, f" \t\r\n{compact}\n "):
        assert loads(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{", "[1,", '{"a"', '{"a":}', "[1 2]", "1 2", "{} {}", "nul", "'a'", '"a', "01"),
        *('"\n"', '"\\x"', '"\\u12"', "\ufeff{}", "\xa0{}", "{}\x0b", "[1]]", "{a: 1}", "9" * 5000),
    ],
    ids=ascii,
)
def test_what_json_refuses_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - json's own error, or ours
        json.loads(text)
    with pytest.raises(ValueError):  # noqa: PT011
        loads(text)


def test_numbers_that_are_none_are_read_as_json_reads_them():
    read, meant = loads("[NaN, Infinity, -Infinity]"), json.loads("[NaN, Infinity, -Infinity]")
    assert list(map(repr, read)) == list(map(repr, meant))
    assert dumps(read) == json.dumps(meant)


def test_what_is_no_value_too_deep_or_inside_of_itself_is_refused():
    ring: list[object] = []
    ring.append(ring)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value, error in ((object(), TypeError), ({(1,): 2}, TypeError), (ring, ValueError)):
        with pytest.raises(error):
            dumps(value)
    with pytest.raises(RecursionError):
        dumps(deep)
    with pytest.raises(RecursionError):
        loads("[" * 100_000)


def test_a_python_with_other_insides_does_it_by_json(monkeypatch):
    monkeypatch.setattr(quick_json, "_scan", None)
    for value in VALUES:
        assert dumps(value) == json.dumps(value, ensure_ascii=False)
        assert loads(dumps(value)) == json.loads(json.dumps(value))
    with pytest.raises(ValueError, match="Expecting value"):
        loads("nul")


@pytest.mark.parametrize("text", ['{"a": [1, "b"]}', "{", '"\\x"', "nul", "{} {}"])
def test_nothing_is_loaded_for_it_and_errors_are_the_same(text):
    program = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from zapomni_core.shared.quick_json import _scan, loads\n"
        "assert _scan\n"
        "try: print(loads(sys.argv[2]), *{'json', 're'} & set(sys.modules))\n"
        "except ValueError: print('refused')"
    )
    source = quick_json.__file__.rsplit("/", 3)[0]
    command = [sys.executable, "-I", "-S", "-c", program, source, text]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == (b"{'a': [1, 'b']}\n" if text.startswith('{"') else b"refused\n")

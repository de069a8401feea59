"""What is read from a file, good or bad."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import Paragraphs, calls, outline, read

from zapomni_core.exceptions import ProcessingError
from zapomni_core.modules.codebase import (
    CodeParser,
    SourceFile,
    content_hash,
    pack_facts,
    unpack_facts,
)
from zapomni_core.modules.codebase import languages as grammars
from zapomni_core.modules.codebase.languages import LANGUAGES

PYTHON = '''"""Module."""
import os

LIMIT = 3


class Foo(Base):
    """A foo."""

    kind = "k"

    @property
    @cached(size=2)
    def value(
        self,
        x,  # a comment
    ) -> int:
        """Return it."""
        return 1


def top(): return Foo()
'''


def symbol(file, name):
    return next(one for one in file.symbols if one.qualified_name == name)


def test_a_symbol_knows_where_it_stands_and_what_it_is():
    file = read("pkg/mod.py", PYTHON)
    value = symbol(file, "Foo.value")

    assert file.symbols[0][:5] == ("mod", "", "module", "", "Module.")
    assert (file.symbols[0].start_line, file.symbols[0].end_line) == (1, 22)
    assert value.name == "value"
    assert value.kind == "method"
    assert value.signature == "def value( self, x, ) -> int"
    assert value.docstring == "Return it."
    assert value.decorators == ("property", "cached(size=2)")
    assert (value.start_line, value.end_line) == (12, 19)
    source = PYTHON.encode()[value.start_byte : value.end_byte]
    assert source.startswith(b"@property")
    assert source.endswith(b"return 1")
    assert value.content_hash == content_hash(source)
    assert file.symbols[value.parent].qualified_name == "Foo"
    assert symbol(file, "LIMIT").kind == "constant"
    assert symbol(file, "Foo.kind").kind == "field"
    assert symbol(file, "Foo").signature == "class Foo(Base)"
    assert file.lines == 22


def test_a_renamed_symbol_keeps_the_hash_of_the_rest():
    before = symbol(read("a.py", "def old(x):\n    return x\n"), "old")
    renamed = symbol(read("a.py", "\n\ndef newer(x):\n    return x\n"), "newer")
    changed = symbol(read("a.py", "def old(x):\n    return x + 1\n"), "old")

    assert before.content_hash != renamed.content_hash
    assert before.body_hash == renamed.body_hash
    assert before.body_hash != changed.body_hash


def test_a_moved_symbol_keeps_its_hash():
    alone = symbol(read("a.py", "def f(x):\n    return x\n"), "f")
    moved = symbol(read("b.py", "import os\n\n\ndef f(x):\n    return x\n\n\ny = 2\n"), "f")

    assert alone.content_hash == moved.content_hash


def test_symbols_of_the_same_name_are_told_apart():
    file = read(
        "a.py",
        "class A:\n    @property\n    def x(self): ...\n    @x.setter\n    def x(self, v): ...\n"
        "if 1:\n    def f(): ...\nelse:\n    def f():\n        def g(): ...\n",
    )
    names = ["class A", "method A.x", "method A.x#2", "function f", "function f#2", "function f.g"]
    assert outline(file) == names


def test_a_syntax_error_costs_only_its_own_place():
    file = read(
        "a.py",
        "def good(x):\n    return help(x)\n\nclass Broken(:\n    def inner(self: ]\n\n"
        "def also_good():\n    return good(1)\n",
    )
    assert file.has_errors
    assert "function good" in outline(file)
    assert "function also_good" in outline(file)
    assert "also_good -> good" in calls(file)


def test_names_in_any_script_are_names():
    file = read(
        "a.py", "class Größe:\n    def größer(self):\n        return self.größer().ähnlich()\n"
    )

    assert outline(file) == ["class Größe", "method Größe.größer"]
    assert calls(file) == [
        "Größe.größer -> self.größer().ähnlich",
        "Größe.größer -> self.größer",
    ]


def test_lines_may_end_as_they_like():
    unix = read("a.py", "import a\n\ndef f():\n    g()\n")
    windows = read("a.py", "import a\r\n\r\ndef f():\r\n    g()\r\n")

    assert [one[5:8] for one in unix.symbols[1:]] == [one[5:8] for one in windows.symbols[1:]]
    assert windows.facts == unix.facts


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n", " ", "\ufeff", "\x00", "#"])
@pytest.mark.parametrize("name", ["a.py", "a.go", "a.md", "a.json", "a.txt", "a.sql"])
def test_next_to_nothing_is_read_as_nothing(name, text):
    file = read(name, text)

    assert len(file.symbols) == 1
    assert file.lines == (text.count("\n") if text.endswith("\n") else len(text[:1]))


def test_what_a_name_stands_for_is_kept():
    file = read(
        "a.py",
        "x = A() if y else B()\nz = [C(i) for i in y]\nw = 'text'\nv: list[D] = []\n"
        "def f(p, q: E, r: F = None, s=G()):\n    with open_it() as t:\n        return t\n"
        "    for u in q.all(): yield u\n",
    )
    found = {(one.name, one.kind, one.value) for one in file.facts.bindings}
    assert {
        ("x", "value", "A()|B()"),
        ("z", "value", "*C()"),
        ("w", "value", "!"),
        ("v", "type", "list[D]"),
        ("p", "value", ""),
        ("q", "type", "E"),
        ("r", "type", "F"),
        ("s", "value", "G()"),
        ("t", "enter", "open_it()"),
        ("return", "value", "t"),
        ("u", "element", "q.all()"),
        ("yield", "value", "u"),
    } <= found


def test_facts_survive_being_written_down():
    facts = read("a.py", PYTHON + "\nfrom é import ü\n").facts

    assert unpack_facts(pack_facts(facts)) == facts


def test_without_the_extra_code_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(grammars, "_is_installed", lambda module: module != "tree_sitter_go")

    with pytest.raises(ProcessingError, match=r"zapomni\[code\]") as caught:
        read("a.go", "package main\n")
    assert caught.value.error_code == "CODE_003"
    assert read("a.txt", "plain text needs nothing").chunks


# Long enough to nest beyond any stack; `make soak` sets a hundred thousand.
N = int(os.environ.get("HOSTILE_SIZE", "1500"))
HOSTILE = {
    "brackets left open": b"(" * N,
    "brackets nested": b"(" * N + b")" * N,
    "braces left open": b"{" * N,
    "calls nested": b"f(" * N + b")" * N,
    "one chain": b"a." * N,
    "one sum": b"x=" + b"a+" * N + b"a;",
    "comparisons": b"a<" * N,
    "quotes": b'"' * N,
    "marks": b";" * N,
    "keywords": b"else " * N,
    "blocks": b"if x {\n" * (N // 7),
    "classes": b"class A {\n" * (N // 10),
    "colons": b"a: " * (N // 3),
    "noise": bytes((n * 7919) % 95 + 32 for n in range(N)),
    "blank lines": b"\n" * N,
    "deep indentation": b"".join(b" " * n + b"if x:\n" for n in range(400)),
    "deep list": b"".join(b"  " * n + b"- a\n" for n in range(400)),
    "deep object": b'{"a":' * (3 * N) + b"1" + b"}" * (3 * N),
}


def cpu() -> float:
    return sum(os.times()[:4])


@pytest.mark.parametrize("language", [*LANGUAGES, "text"])
def test_no_file_keeps_us_busy_or_breaks_us(language, monkeypatch):
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # It takes twice as long.
    suffix = LANGUAGES[language].suffixes.split()[0] if language != "text" else ".txt"
    started = cpu()

    with CodeParser(Paragraphs()) as parser:
        files = [parser.parse(SourceFile(f"a{suffix}", "", "", data)) for data in HOSTILE.values()]

    assert [file.symbols[0].kind for file in files] == ["module"] * len(HOSTILE)
    # The parser is stopped after 2 seconds, whatever it reads.
    assert cpu() - started < 6 * len(HOSTILE)


def test_functions_nested_without_end_are_read_without_recursion():
    text = "".join("  " * n + f"def f{n}():\n" for n in range(1500)) + "  " * 1500 + "pass\n"

    file = read("a.py", text)

    assert len(file.symbols) > 300
    assert file.chunks


@given(st.binary(max_size=300), st.sampled_from(sorted(LANGUAGES)))
def test_any_bytes_are_read(noise, language):
    data = noise.decode("utf-8", "replace").encode()
    suffix = LANGUAGES[language].suffixes.split()[0]

    file = read(f"a{suffix}", data)

    for one in file.symbols:
        assert 0 <= one.start_byte <= one.end_byte <= len(data)
        assert 1 <= one.start_line <= one.end_line
        assert one.parent < len(file.symbols)
    names = [one.qualified_name for one in file.symbols]
    assert len(names) == len(set(names))
    assert unpack_facts(pack_facts(file.facts)) == file.facts


def test_the_hash_of_the_file_is_kept():
    with CodeParser(Paragraphs()) as parser:
        for name in ("a.txt", "a.py", "a.md"):
            assert parser.parse(SourceFile(name, "stamp", "abc", b"x")).content_hash == "abc"


def test_a_file_that_takes_the_parser_down_is_read_as_text_and_the_next_one_as_ever():
    # So many open brackets make this grammar ask for tens of gigabytes.
    with CodeParser(Paragraphs()) as parser:
        broken = parser.parse(SourceFile("A.java", "", "", b"a<" * 100_000))
        good = parser.parse(SourceFile("B.java", "", "", b"class B { void m() { n(); } }\n"))

    assert broken.language == "text"
    assert broken.has_errors
    assert broken.chunks
    assert outline(good) == ["class B", "method B.m"]


def test_a_parser_that_was_killed_meanwhile_is_started_again():
    with CodeParser(Paragraphs()) as parser:
        first = parser.parse(SourceFile("a.py", "", "", b"def f(): ...\n"))
        parser._process.kill()
        parser._process.wait()
        assert parser.parse(SourceFile("a.py", "", "", b"def f(): ...\n")) == first


def test_a_parser_that_does_not_answer_is_not_waited_for(monkeypatch):
    with CodeParser(Paragraphs()) as parser:
        parser.parse(SourceFile("a.py", "", "", b"x = 1\n"))
        monkeypatch.setattr("zapomni_core.modules.codebase.parser.PATIENCE", 0.2)
        parser._process.send_signal(signal.SIGSTOP)
        file = parser.parse(SourceFile("a.py", "", "", b"def f(): ...\n"))
    assert file.language == "text"
    assert file.has_errors


def test_a_parser_that_cannot_be_started_is_said_so(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/true")

    with CodeParser(Paragraphs()) as parser, pytest.raises(ProcessingError) as caught:
        parser.parse(SourceFile("a.py", "", "", b"x = 1\n"))
    assert caught.value.error_code == "CODE_004"


def test_nothing_of_the_folder_we_are_started_in_is_run(tmp_path, monkeypatch):
    for name in ("pickle", "tree_sitter", "zapomni_core", "sitecustomize", "gc"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)

    with CodeParser(Paragraphs()) as parser:
        assert outline(parser.parse(SourceFile("a.py", "", "", b"def f(): ...\n"))) == [
            "function f"
        ]
    assert not (tmp_path / "ran").exists()


def test_the_parser_ends_with_whoever_started_it():
    child = (
        "import os, sys; from reading import Paragraphs\n"
        "from zapomni_core.modules.codebase import CodeParser, SourceFile\n"
        "parser = CodeParser(Paragraphs()); parser.parse(SourceFile('a.py', '', '', b'x = 1'))\n"
        "print(parser._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", child], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip
    parser = int(done.stdout)
    deadline = time.monotonic() + 120
    while Path(f"/proc/{parser}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{parser}").exists()

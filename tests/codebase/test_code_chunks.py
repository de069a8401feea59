"""Passages follow symbols, fit the embedder, and say where they stand."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import read

import zapomni_core
from zapomni_core.adapters.tokenizer import load_tokenizer
from zapomni_core.modules.codebase import SourceFile
from zapomni_core.modules.codebase.parse import parse_code
from zapomni_core.settings import load_settings

SOURCES = sorted(Path(zapomni_core.__file__).parent.rglob("*.py"))


def size_of(text: str) -> int:
    """About as many tokens as the model makes of it: a mark is one, seven letters are two."""
    letters = len(re.findall(rb"[A-Za-z0-9\x80-\xff]", text.encode()))
    return len(re.findall(rb"[^A-Za-z0-9\s\x80-\xff]", text.encode())) + 2 * letters // 7


def texts(file):
    return [chunk.text for chunk in file.chunks]


def assert_promises(file, data: bytes, size: int) -> None:
    for chunk in file.chunks:
        assert data[chunk.start_byte : chunk.end_byte].decode() == chunk.text
        assert chunk.text.strip()
        assert 1 <= chunk.start_line <= chunk.end_line <= max(1, file.lines)
        symbol = file.symbols[chunk.symbol]
        assert chunk.start_byte < symbol.end_byte
        # However long the context is, it leaves the text 80 tokens, or the size if smaller.
        room = max(size - size_of(chunk.context), min(80, size))
        assert size_of(chunk.text) <= room
        assert chunk.context.startswith(file.path)
    places = [(chunk.start_byte, chunk.end_byte) for chunk in file.chunks]
    assert places == sorted(places)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(places))


PIECES = st.sampled_from(
    [
        *("def f(x):\n", "class A:\n", "    def m(self):\n", "        return 1\n", "    x = 1\n"),
        *("import os\n", "\n", "# comment\n", "@dec\n", "    " + "word " * 30 + "\n", "é = 'ü'\n"),
        *('    """Doc."""\n', "x" * 400 + "\n", "\t\tdeep()\n", "if x:\n", "else:\n", ")\n", "}\n"),
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join), st.integers(10, 200))
def test_any_code_is_cut_by_the_rules(text, size):
    # In this process: one that parses cuts to one size, and there are two hundred.
    file = parse_code(SourceFile("a.py", "", "", text.encode()), "python", size)

    assert_promises(file, text.encode(), size)
    left_out = bytearray(text.encode())
    for chunk in file.chunks:
        left_out[chunk.start_byte : chunk.end_byte] = b"\0" * (chunk.end_byte - chunk.start_byte)
    # Between passages nothing is left out but blanks, and a lonely word or bracket.
    assert all(len(re.findall(rb"\w+", gap)) < 2 for gap in left_out.split(b"\0"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_our_own_code_is_cut_by_the_rules(path):
    data = path.read_bytes()
    assert_promises(read("src/" + path.name, data), data, 200)


def test_a_passage_fits_the_embedding_model():
    tokenizer = load_tokenizer(load_settings().models_path)
    sizes = [
        len(tokenizer.offsets(f"{chunk.context}\n{chunk.text}"))
        for path in SOURCES
        for chunk in read("src/" + path.name, path.read_bytes()).chunks
    ]
    # The model reads 254; what is beyond is not seen in the vector, and still found by its words.
    assert sum(size <= 254 for size in sizes) >= 0.99 * len(sizes)


CODE = '''"""What it is for."""

import os

LIMIT = 3


# Counts things.
# Slowly.
@cached
def count(things):
    def inner():
        return 1

    return len(things)


class Box:
    """Holds things."""

    size = 3

    def put(self, thing):
        self.things.append(thing)

    def take(self):
        return self.things.pop()


main()
'''


def test_each_function_is_a_passage_and_the_rest_goes_with_what_it_stands_in():
    file = read("pkg/box.py", CODE)

    assert [(chunk.context, chunk.text.splitlines()[0]) for chunk in file.chunks] == [
        ("pkg/box.py", '"""What it is for."""'),
        ("pkg/box.py count", "# Counts things."),
        ("pkg/box.py Box", "class Box:"),
        ("pkg/box.py Box.put", "    def put(self, thing):"),
        ("pkg/box.py Box.take", "    def take(self):"),
    ]
    assert file.chunks[1].text.endswith("return len(things)")
    assert file.chunks[2].text.endswith("size = 3")


def test_a_long_function_is_cut_where_it_is_least_indented_and_each_part_says_whose_it_is():
    body = "".join(
        f"    step_{n} = start({n})\n    for item in step_{n}:\n"
        "        item.run()\n        item.stop()\n"
        for n in range(20)
    )
    file = read("a.py", f"def long(x):\n{body}")

    assert len(file.chunks) > 2
    assert file.chunks[0].context == "a.py long"
    assert all(chunk.context == "a.py long def long(x)" for chunk in file.chunks[1:])
    assert all(re.match(r"    (step_|for)", chunk.text) for chunk in file.chunks[1:])


def test_a_line_longer_than_a_passage_is_cut_within_characters_never_inside_one():
    text = "x = '" + "длинная строка " * 200 + "'\n"
    file = read("a.py", text)

    assert len(file.chunks) > 5
    assert "".join(texts(file)).replace(" ", "") == text.strip().replace(" ", "")


def test_a_class_without_methods_is_one_passage():
    file = read(
        "a.ts", "/** A point. */\nexport interface Point {\n  x: number;\n  y: number;\n}\n"
    )

    assert texts(file) == [
        "/** A point. */\nexport interface Point {\n  x: number;\n  y: number;\n}"
    ]


def test_keys_stay_together_and_know_their_place():
    file = read("a.toml", "".join(f"[part{n}]\nname = 'x'\nvalue = {n}\n\n" for n in range(40)))

    assert 1 < len(file.chunks) < 15
    assert all(chunk.text.startswith("[part") for chunk in file.chunks)


def test_prose_is_cut_by_the_chunker_given_and_belongs_to_its_section():
    file = read("docs/a.md", "Before.\n\n# Größe\n\nText é.\n\n## Inner\n\nMore.\n")

    assert [(chunk.text, chunk.context) for chunk in file.chunks] == [
        ("Before.", "docs/a.md"),
        ("# Größe", "docs/a.md Größe"),
        ("Text é.", "docs/a.md Größe"),
        ("## Inner", "docs/a.md Größe.Inner"),
        ("More.\n", "docs/a.md Größe.Inner"),
    ]
    assert [chunk.start_line for chunk in file.chunks] == [1, 3, 5, 7, 9]


def test_text_without_a_grammar_is_cut_by_the_chunker_given():
    file = read("notes.txt", "One.\n\nTwo.")

    assert file.language == "text"
    assert texts(file) == ["One.", "Two."]

"""A single file of code, cut as a text to be kept."""

from __future__ import annotations

import importlib.util

import pytest

from zapomni_core.modules.codebase import ASTChunker
from zapomni_db.models import Chunk

CODE = """\
GREETING = "Grüß Gott"


def greet(name):
    \"""Say hello.\"""
    return f"{GREETING}, {name}"


class Bell:
    def ring(self):
        return greet("Zoë")
"""


class Whole:
    """A chunker whose one passage is the text."""

    def chunk(self, text: str) -> list[Chunk]:
        return [Chunk(text=text, index=0, start_char=0, end_char=len(text))]


def cut(path: str, text: str = CODE, size: int = 30) -> list[Chunk]:
    return ASTChunker(path, Whole(), size).chunk(text)


def test_code_is_cut_at_its_functions_and_classes():
    chunks = cut("greetings.py")
    assert [c.text.split("(")[0].split("\n")[0] for c in chunks] == [
        'GREETING = "Grüß Gott"',
        "def greet",
        "class Bell:",
        "    def ring",
    ]
    assert [c.index for c in chunks] == [0, 1, 2, 3]
    assert all(CODE[c.start_char : c.end_char] == c.text for c in chunks)


@pytest.mark.parametrize("path", ["notes.txt", "notes.md", "paper.pdf", "README", ""])
def test_what_is_no_code_is_cut_by_the_other_chunker(path):
    assert [c.text for c in cut(path)] == [CODE]


def test_without_the_parsers_code_is_cut_as_any_text(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert [c.text for c in cut("greetings.py")] == [CODE]


@pytest.mark.parametrize("text", ["# nothing but a comment\n", "def broken(:\n", "\ud800 = 1\n"])
def test_every_text_has_a_passage(text):
    assert cut("odd.py", text)

"""Parses one file of code: its symbols, its passages, and what it says about others.

A grammar is native code and its input untrusted: this runs in a child process (`child`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zapomni_core.modules.codebase.facts import read_facts
from zapomni_core.modules.codebase.languages import load_grammar
from zapomni_core.modules.codebase.models import ParsedFile, SourceFile, mentioned_names, pack_facts
from zapomni_core.modules.codebase.outline import Captures, Lines, Outline, chunk_code

if TYPE_CHECKING:
    from tree_sitter import Point, Tree

__all__ = ["PROSE", "parse_code"]


PROSE = frozenset({"markdown", "text"})
"""Languages whose passages are cut as those of any other text."""

# Recovering from errors may take a grammar time that grows with the square of the file.
PARSE_SECONDS = 2.0
READ_STEP = 4096
# No one nests deeper, and below 32,767 levels a query slows down a thousandfold.
QUERY_DEPTH = 1000
# A query looks for the next named sibling of every node; among thousands of marks in a row there
# is none. So many such looks take about a second.
MAX_LOOKS = 100_000_000


def parse_code(source: SourceFile, language: str, size: int) -> ParsedFile:
    """Read a file's symbols, passages and facts; prose gets no passages yet.

    What is not valid in its language is passed over; the rest is read all the same.
    """
    data = source.data
    lines = Lines(data)
    outline = Outline(data, lines, source.path.rpartition("/")[2].partition(".")[0])
    matches, has_errors = ([], False) if language == "text" else _matches(data, language)
    facts = read_facts(outline, language, outline.read(matches))
    symbols = outline.symbols
    prose = language in PROSE
    chunks = [] if prose else chunk_code(source.path, data, lines, symbols, outline.leads(), size)
    return ParsedFile(
        source.path,
        language,
        len(lines.starts) if data else 0,
        source.content_hash,
        tuple(symbols),
        tuple(chunks),
        pack_facts(facts),
        tuple(mentioned_names(facts)),
        has_errors,
    )


def _matches(data: bytes, language: str) -> tuple[list[tuple[int, Captures]], bool]:
    """Return what the language's query finds, and whether part of the file is not valid."""
    from tree_sitter import Parser, QueryCursor

    grammar, query = load_grammar(language)
    deadline = time.thread_time() + PARSE_SECONDS

    def read(byte: int, _: Point) -> bytes:
        # To a parser that took too long the file ends here; cancelling it would crash it.
        return data[byte : byte + READ_STEP] if time.thread_time() < deadline else b""

    tree = Parser(grammar).parse(read)
    has_errors = tree.root_node.has_error
    if has_errors and _looks(tree) > MAX_LOOKS:
        return [], True
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(QUERY_DEPTH)
    return cursor.matches(tree.root_node), has_errors


def _looks(tree: Tree) -> int:
    """Return how often a query would look in vain for a named sibling."""
    cursor = tree.walk()
    looks = run = 0
    while True:
        node = cursor.node
        assert node is not None
        run = 0 if node.is_named else run + 1
        looks += run
        if cursor.goto_first_child():
            run = 0
            continue
        while not cursor.goto_next_sibling():
            run = 0
            if not cursor.goto_parent():
                return looks

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_db.models import Chunk


class WordTokenizer:
    """Every word and every other visible character is a token."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    def count(self, text: str) -> int:
        return len(self.offsets(text))


class SilentTokenizer:
    def offsets(self, text: str) -> list[tuple[int, int]]:
        return []


class BrokenTokenizer:
    def offsets(self, text: str) -> list[tuple[int, int]]:
        raise RuntimeError("no vocabulary")


def chunk(text: str, size: int = 20, overlap: int = 0) -> list[Chunk]:
    return SemanticChunker(WordTokenizer(), size, overlap).chunk(text)


def texts(text: str, size: int = 20, overlap: int = 0) -> list[str]:
    return [c.text for c in chunk(text, size, overlap)]


def assert_promises(text: str, chunks: list[Chunk], size: int) -> None:
    covered = set()
    for position, c in enumerate(chunks):
        assert c.index == position
        assert text[c.start_char : c.end_char] == c.text
        assert c.text.strip()
        assert WordTokenizer().count(c.text) <= size
        covered.update(range(c.start_char, c.end_char))
    starts = [c.start_char for c in chunks]
    assert all(before < after for before, after in itertools.pairwise(starts))
    assert {i for i, char in enumerate(text) if not char.isspace()} <= covered


MARKDOWN_PIECES = st.sampled_from(
    [
        *("# Title\n", "## Part ##\n", "```py\n", "```\n", "~~~~\n", "- item\n", "1. item\n"),
        *("| a | b |\n", "\n", "\n\n", "One. Two! ", "e.g. this", "3.14 ", "word " * 12, "\r\n"),
        *("这是一句话。", "x" * 90, " " * 90, "\x00", "\u200b", "…", "    indented\n", "#", "."),
    ]
)
ANY_TEXT = st.one_of(st.text(max_size=400), st.lists(MARKDOWN_PIECES, max_size=40).map("".join))


@given(text=ANY_TEXT, size=st.integers(1, 40), data=st.data())
def test_any_text_keeps_every_promise_at_any_size(text, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    chunks = chunk(text, size, overlap)
    assert_promises(text, chunks, size)
    assert chunks == chunk(text, size, overlap)


@given(text=st.text(max_size=2000))
def test_text_the_tokenizer_knows_nothing_of_is_covered_all_the_same(text):
    chunks = SemanticChunker(SilentTokenizer(), 16, 4).chunk(text)
    assert_promises(text, chunks, len(text) + 1)


def test_blank_text_has_no_passages():
    assert chunk("") == []
    assert chunk(" \n\t\n ") == []


def test_short_text_is_one_passage_without_the_blank_lines_around_it():
    (only,) = chunk("\n\n  def f():\n      pass\n\n")
    assert only.text == "  def f():\n      pass"
    assert only.start_char == 2
    assert only.metadata == {}


def test_long_prose_is_cut_between_sentences():
    assert texts("One two three. Four five six. Seven eight nine.", size=8) == [
        "One two three. Four five six.",
        "Seven eight nine.",
    ]


@pytest.mark.parametrize(
    "whole",
    [
        "Ask Dr. Novak about it.",
        "Try one, e.g. Redis.",
        "The value 3.14 is enough.",
        "It was J. Smith who knew.",
        "See fig. 7 for more.",
        "Wait... what happened?",
    ],
)
def test_abbreviations_initials_and_decimals_do_not_end_a_sentence(whole):
    assert texts(f"First one ends here. {whole} Last one ends here too.", size=9) == [
        "First one ends here.",
        whole,
        "Last one ends here too.",
    ]


def test_chinese_sentences_are_cut_without_blanks():
    class CharacterTokenizer:
        def offsets(self, text):
            return [(i, i + 1) for i in range(len(text))]

    sentences = ["今天天气很好。", "我们出去走走\uff01", "你来吗\uff1f"]
    chunks = SemanticChunker(CharacterTokenizer(), 8, 0).chunk("".join(sentences))
    assert [c.text for c in chunks] == sentences


def test_paragraphs_are_kept_together_when_the_passage_is_already_half_full():
    first = "One two three four five six seven."
    second = "Eight nine ten. Eleven twelve thirteen fourteen fifteen."
    assert texts(f"{first}\n\n{second}", size=16) == [first, second]


def test_a_fence_that_fits_is_never_cut():
    code = "```python\n" + "x = 1\n" * 4 + "```"
    assert texts(f"Some words before it.\n\n{code}\n\nSome after.", size=20)[1] == code


def test_a_fence_that_does_not_fit_is_cut_between_lines():
    lines = [f"value_{i} = compute({i})" for i in range(12)]
    pieces = texts("```\n" + "\n".join(lines) + "\n```", size=20)
    assert len(pieces) > 1
    assert all(line in "\n".join(pieces).split("\n") for line in lines)


def test_headings_inside_a_fence_are_not_headings():
    (only,) = chunk("# Real\n\n```sh\n# not a heading\n```\n", size=40)
    assert only.metadata == {"headings": ["Real"]}


def test_an_unclosed_fence_runs_to_the_end():
    last = chunk("# Real\n\n```\n# comment\n" + "run it now\n" * 10)[-1]
    assert last.metadata == {"headings": ["Real"]}


def test_passages_carry_the_headings_they_stand_under():
    body = "Words enough to fill more than half of it here."
    chunks = chunk(f"# A\n\n{body}\n\n## B ##\n\n{body}\n\n# C\n\n{body}\n", size=17)
    assert [c.metadata["headings"] for c in chunks] == [["A"], ["A", "B"], ["C"]]
    assert [c.text.split("\n")[0] for c in chunks] == ["# A", "## B ##", "# C"]


def test_small_sections_share_a_passage():
    (only,) = chunk("# A\n\none\n\n# B\n\ntwo\n\n# C\n\nthree\n")
    assert only.metadata == {"headings": ["A"]}


def test_a_heading_stays_with_the_text_below_it():
    filler = "Seven words stand here and say little."
    body = "Nine words of body stand under the second heading."
    assert texts(f"{filler}\n\n## Next\n\n{body}", size=14)[-1] == f"## Next\n\n{body}"


def test_long_headings_are_cut_in_metadata():
    (only,) = chunk("# " + "y" * 300 + "\n\ntext", size=200)
    assert only.metadata == {"headings": ["y" * 120]}


def test_tables_and_lists_are_cut_between_rows_and_items():
    rows = [f"| name {i} | value {i}. More |" for i in range(8)]
    assert all(
        line.startswith("| name") and line.endswith("|")
        for piece in texts("\n".join(rows), size=25)
        for line in piece.split("\n")
    )
    items = [f"- item {i} is here. It has two sentences" for i in range(8)]
    pieces = texts("Intro:\n" + "\n".join(items), size=25)
    assert [line for piece in pieces for line in piece.split("\n")] == ["Intro:", *items]


def test_neighbours_share_whole_sentences_up_to_the_overlap():
    sentences = [f"Sentence number {i} ends." for i in range(6)]
    pieces = texts(" ".join(sentences), size=15, overlap=5)
    assert pieces == [
        " ".join(sentences[0:3]),
        " ".join(sentences[2:5]),
        " ".join(sentences[4:6]),
    ]


def test_code_overlaps_by_whole_lines():
    lines = [f'say("Line {i}. Still {i}")' for i in range(6)]
    second = texts("```\n" + "\n".join(lines) + "\n```", size=40, overlap=12)[1]
    assert second.split("\n")[0] in lines


def test_nothing_is_repeated_across_a_heading():
    sentences = " ".join(f"Sentence number {i} ends." for i in range(3))
    chunks = chunk(f"# A\n\n{sentences}\n\n# B\n\n{sentences}", size=18, overlap=6)
    assert [c.text.split("\n")[0] for c in chunks] == ["# A", "# B"]
    assert chunks[1].start_char > chunks[0].end_char


@pytest.mark.parametrize("unit", ["x", "ab ", "a. ", "```\n", "# h\n\n", "....", ".\n", "- a\n"])
def test_monotonous_text_is_split_into_bounded_passages(unit):
    text = unit * (60_000 // len(unit))
    chunks = SemanticChunker(WordTokenizer(), 200, 30).chunk(text)
    assert_promises(text, chunks, 200)
    assert max(len(c.text) for c in chunks) <= 200 * 64


def test_a_single_endless_word_is_cut_to_passages_of_ordinary_length():
    lengths = {len(c.text) for c in SemanticChunker(WordTokenizer(), 200, 30).chunk("x" * 8000)}
    assert max(lengths) <= 200 * 4


def test_a_failing_tokenizer_is_a_processing_error():
    with pytest.raises(ProcessingError) as caught:
        SemanticChunker(BrokenTokenizer()).chunk("secret text")
    assert caught.value.error_code == "PROC_001"
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1)])
def test_impossible_sizes_are_refused(size, overlap):
    with pytest.raises(ValidationError) as caught:
        SemanticChunker(WordTokenizer(), size, overlap)
    assert caught.value.error_code == "VAL_003"

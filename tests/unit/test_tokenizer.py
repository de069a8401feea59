from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from zapomni_core.adapters import tokenizer as module
from zapomni_core.adapters.model_files import MODEL, find_model
from zapomni_core.adapters.tokenizer import (
    ApproximateTokenizer,
    LazyTokenizer,
    ModelTokenizer,
    load_tokenizer,
    read_tokenizer,
)
from zapomni_core.settings import load_settings

# Real text that every Python has.
PROSE = "\n\n".join(
    path.read_text(encoding="utf-8", errors="replace")
    for path in sorted(Path(shutil.__file__).parent.glob("a*.py"))
)


@pytest.fixture
def models() -> Path:
    return load_settings().models_path


def test_offsets_point_at_the_tokens_of_the_text(models):
    text = "Zapomni remembers: naïve café, C++ and 東京."
    tokens = [text[start:end] for start, end in load_tokenizer(models).offsets(text)]
    assert "".join(tokens) == text.replace(" ", "")
    assert tokens[-3:] == ["東", "京", "."]


def test_a_long_text_in_pieces_has_the_tokens_of_the_whole_text(models, monkeypatch):
    whole = read_tokenizer(find_model(models).tokenizer).encode(PROSE, add_special_tokens=False)
    assert len(PROSE) > 3 * module.PIECE
    assert load_tokenizer(models).offsets(PROSE) == whole.offsets
    monkeypatch.setattr(module, "PIECE", 7)
    assert load_tokenizer(models).offsets(PROSE) == whole.offsets


def test_the_tokenizer_does_not_cut_at_the_models_window(models):
    assert len(load_tokenizer(models).offsets("word " * 5000)) == 5000


@pytest.mark.parametrize("text", ["", " \n\t ", "\x00"])
def test_a_text_without_words_has_no_tokens(models, text):
    assert load_tokenizer(models).offsets(text) == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("a cat, on_mats", ["a", "cat", ",", "on", "_", "mats"]),
        ("representation", ["rep", "rese", "nta", "tion"]),
        ("дядя", ["д", "я", "д", "я"]),
    ],
)
def test_the_approximation_counts_long_words_as_several_pieces(text, tokens):
    offsets = ApproximateTokenizer().offsets(text)
    assert [text[start:end] for start, end in offsets] == tokens


def test_the_approximation_is_close_to_the_model_on_real_text(models):
    guessed = len(ApproximateTokenizer().offsets(PROSE))
    assert guessed / len(load_tokenizer(models).offsets(PROSE)) == pytest.approx(1, abs=0.2)


def test_without_the_model_the_approximation_serves(tmp_path):
    assert isinstance(load_tokenizer(tmp_path), ApproximateTokenizer)


def test_a_tampered_tokenizer_file_is_not_used(models, tmp_path):
    shutil.copytree(models / MODEL, tmp_path / MODEL)
    with (tmp_path / MODEL / "tokenizer.json").open("a") as file:
        file.write(" ")
    assert isinstance(load_tokenizer(tmp_path), ApproximateTokenizer)


def test_a_model_pulled_while_we_run_is_used_from_then_on(models, tmp_path):
    lazy = LazyTokenizer(tmp_path)
    assert lazy.offsets("unbelievable") != load_tokenizer(models).offsets("unbelievable")
    shutil.copytree(models / MODEL, tmp_path / MODEL)
    assert lazy.offsets("unbelievable") == load_tokenizer(models).offsets("unbelievable")
    assert isinstance(lazy._loaded, ModelTokenizer)

"""Where the embedding model's tokens begin and end in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from zapomni_core.adapters.model_files import TOKENIZER, check_file, find_model
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.infra.logging import get_logger

if TYPE_CHECKING:
    import tokenizers

__all__ = [
    "ApproximateTokenizer",
    "LazyTokenizer",
    "ModelTokenizer",
    "Tokenizer",
    "load_tokenizer",
    "read_tokenizer",
]

log = get_logger(__name__)

# Encoding holds the interpreter lock: 20,000 characters keep other threads waiting ~15 ms.
PIECE = 20_000
SHORT_WORD = 6
WORD_PIECE = 4
# Words, else every visible character by itself: the model divides at punctuation and at _.
_WORDS = re.compile(r"[^\W_]+|[^\w\s]|_")
_GAP = re.compile(r"[ \n]")


class Tokenizer(Protocol):
    """Finds tokens. Implemented by ModelTokenizer and ApproximateTokenizer."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where each token of the text begins and ends, in order."""
        ...


def load_tokenizer(models_path: Path) -> Tokenizer:
    """Return the model's own tokenizer, or the approximation while the model is missing."""
    try:
        path = find_model(models_path).tokenizer
        check_file(path, TOKENIZER)
    except EmbeddingError as error:
        log.info("tokenizer_approximate", error_code=error.error_code)
        return ApproximateTokenizer()
    return ModelTokenizer(path)


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Read the file and switch off its own cutting and padding."""
    from tokenizers import Tokenizer as Engine  # a native library, on first use

    engine = Engine.from_file(str(path))
    engine.no_truncation()
    engine.no_padding()
    return engine


class ModelTokenizer:
    """The embedding model's own tokens, special tokens left out."""

    def __init__(self, path: Path) -> None:
        self._engine = read_tokenizer(path)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where each token begins and ends; a text of any size."""
        found: list[tuple[int, int]] = []
        for begin, piece in _pieces(text):
            encoding = self._engine.encode(piece, add_special_tokens=False)
            found.extend((begin + start, begin + end) for start, end in encoding.offsets)
        return found


class ApproximateTokenizer:
    """A guess at the tokens from words and punctuation alone: 1 to 14 % too many in English."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return a token per punctuation mark and short word, several per long word."""
        found: list[tuple[int, int]] = []
        for match in _WORDS.finditer(text):
            start, end = match.span()
            if end - start == 1 or (end - start <= SHORT_WORD and match[0].isascii()):
                found.append((start, end))
            else:
                # An English vocabulary spells other scripts almost letter by letter.
                count = round((end - start) / (WORD_PIECE if match[0].isascii() else 1))
                ends = [start + (end - start) * index // count for index in range(count + 1)]
                found.extend(pairwise(ends))
        return found


class LazyTokenizer:
    """The tokenizer that fits, loaded with the first text: searches never need it."""

    def __init__(self, models_path: Path) -> None:
        self._models_path = models_path
        self._loaded: Tokenizer | None = None

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where each token begins and ends."""
        tokenizer = self._loaded or load_tokenizer(self._models_path)
        # The approximation is not kept: the model may be pulled while we run.
        if isinstance(tokenizer, ModelTokenizer):
            self._loaded = tokenizer
        return tokenizer.offsets(text)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Cut between words only: tokens never span whitespace, so the cuts change nothing."""
    begin = 0
    while begin < len(text):
        gap = _GAP.search(text, begin + PIECE)
        end = gap.start() if gap else len(text)
        yield begin, text[begin:end]
        begin = end

"""Fit the projection of token vectors from 384 to 96 dimensions.

    python tools/fit_projection.py

Embeds two kinds of text with the local model: docstrings and pydoc topics of Python's standard
library (PSF licence), and sentences that use every word of the model's own vocabulary once. Writes
the 96 directions in which their tokens differ most, rotated so that all carry alike, and the
standard deviations along them, to `src/zapomni_core/adapters/minilm_projection.bin`, in 10 bits a
number: a token's two bits per direction need no more, and the wheel stays small.
"""

from __future__ import annotations

import ast
import pydoc_data.topics
import random
import re
import sysconfig
from pathlib import Path

import numpy as np

from zapomni_core.adapters.local_embedder import LocalEmbedder
from zapomni_core.adapters.model_files import find_model
from zapomni_core.adapters.tokenizer import read_tokenizer
from zapomni_core.settings import load_settings
from zapomni_core.shared.token_codec import DIMENSION, TokenCodec

PASSAGES = 1500
TARGET = Path(__file__).parent.parent / "src/zapomni_core/adapters/minilm_projection.bin"


def passages() -> list[str]:
    found = set()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if {"site-packages", "test", "tests", "idlelib", "lib2to3"} & set(path.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                found.add((ast.get_docstring(node) or "")[:1000])
    for topic in pydoc_data.topics.topics.values():
        found |= {" ".join(part.split())[:1000] for part in re.split(r"\n\s*\n", topic)}
    chosen = sorted(text for text in found if len(text) >= 100)
    random.Random(7).shuffle(chosen)
    return chosen[:PASSAGES]


SENTENCES = (
    "{} {} is a {} in the {} of {}.",
    "The {} was {} by {} and {} before {}.",
    "{} said that {} had a {} with {} near {}.",
    "She likes {} and {}, but her {} prefers the {} {}.",
)


def every_word(models_path: Path) -> list[str]:
    vocabulary = read_tokenizer(find_model(models_path).tokenizer).get_vocab()
    words = sorted(word for word in vocabulary if re.fullmatch(r"[a-z]{3,}", word))
    dice = random.Random(7)
    dice.shuffle(words)
    lines = []
    while len(words) >= 5:
        five = [words.pop() for _ in range(5)]
        named = [word.capitalize() if dice.random() < 0.3 else word for word in five]
        lines.append(dice.choice(SENTENCES).format(*named))
    return [" ".join(lines[n : n + 4]) for n in range(0, len(lines), 4)]


def main() -> None:
    models_path = load_settings().models_path
    embedder = LocalEmbedder(models_path)
    texts = passages()[::2] + every_word(models_path)
    tokens = np.concatenate([embedder.raw_tokens(text) for text in texts])
    _, vectors = np.linalg.eigh(tokens.T @ tokens)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(DIMENSION, DIMENSION)))[0]
    directions = (rotation @ vectors[:, ::-1][:, :DIMENSION].T).astype(np.float32)
    rows = tokens @ directions.T
    deviations = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).std(axis=0)
    TARGET.write_bytes(TokenCodec.encode(directions, deviations))
    print(f"wrote {TARGET.name}: {len(texts)} texts, {len(tokens)} tokens")


if __name__ == "__main__":
    main()

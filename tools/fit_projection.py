"""Fit the projection of token vectors from 384 to 48 dimensions.

    python tools/fit_projection.py

Reads docstrings and pydoc topics of Python's standard library (PSF licence), embeds them with the
local model, and writes the 48 directions in which tokens differ most to
`src/zapomni_core/adapters/minilm_projection.bin` as float32, row by row.
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
from zapomni_core.settings import load_settings
from zapomni_core.shared.late_interaction import DIMENSION

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


def main() -> None:
    embedder = LocalEmbedder(load_settings().models_path)
    moments = np.zeros((384, 384))
    for text in passages():
        tokens = embedder.raw_tokens(text)
        moments += tokens.T @ tokens
    _, vectors = np.linalg.eigh(moments)
    directions = vectors[:, ::-1][:, :DIMENSION].T.astype(np.float32)
    TARGET.write_bytes(directions.tobytes())
    print(f"wrote {TARGET.name}: {directions.shape}, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()

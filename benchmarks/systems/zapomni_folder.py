"""Zapomni with a sentence encoder in a folder: ENCODER names it."""

from __future__ import annotations

import os
from typing import ClassVar

from benchmarks.systems import zapomni


class Index(zapomni.Index):
    settings: ClassVar[dict[str, str]] = {
        "embedder": "folder",
        "embedding_model": os.environ.get("ENCODER", ""),
    }

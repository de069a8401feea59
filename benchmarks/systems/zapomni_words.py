"""Zapomni without a model: its words alone, window and parent included."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.systems import zapomni


class Index(zapomni.Index):
    settings: ClassVar[dict[str, str]] = {"embedder": "none"}

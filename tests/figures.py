"""Figures of `make soak` for docs/promises.md; other runs print them and keep nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

__all__ = ["note"]


def note(promise: str, what: str, figures: str) -> None:
    """Keep what was measured for a promise in the file that SOAK_FIGURES names."""
    print(f"{promise}, {what}: {figures}")
    file = os.environ.get("SOAK_FIGURES")
    if file:
        path = Path(file)
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known.setdefault(promise, {})[what] = figures
        path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")

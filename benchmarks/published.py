"""Rankings that a peer published about its own run, question by question.

MemPalace commits its results on LoCoMo (`benchmarks/results_locomo_*_session_*.json`): a list of
{"sample_id", "question", "retrieved_ids": ["session_4", ...], ...}. Scored on the same questions
as Zapomni (`benchmarks.retrieval --published FILE`) they need nobody's word and no second run of
their program. Nothing of such a file is in this repository.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

_SESSION = re.compile(r"session_(\d+)")


def read_rankings(path: Path) -> dict[tuple[str, str], list[str]]:
    """Return the ids that were retrieved, best first, by conversation and question."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    # A session is S4 in our files; a turn has the name that LoCoMo gives it.
    return {
        (row["sample_id"], row["question"]): [
            _SESSION.sub(r"S\1", name) for name in row["retrieved_ids"]
        ]
        for row in rows
    }

"""Reads the memories that matter most to some projects, in one query. Standard library only."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Final, LiteralString

__all__ = ["read_important"]

# Current memories of some projects (the empty name: of none), as the user or an agent wrote them:
# no files, no code, nothing fetched, nothing expired or not trusted. Pinned, then choices, then the
# newest.
IMPORTANT: Final[LiteralString] = """
SELECT m.id, m.kind AS kind, substr(t.text, 1, :chars) AS text
FROM memories m JOIN memory_texts t ON t.memory_key = m.key
WHERE m.project IN (SELECT value FROM json_each(:projects))
    AND m.superseded_by IS NULL AND m.trusted
    AND (m.expires_at IS NULL OR m.expires_at > :now)
    AND m.kind NOT IN ('code', 'document')
    AND m.parent = ''
    AND instr(m.source, '://') = 0
ORDER BY m.pinned DESC, m.kind IN ('preference', 'decision') DESC, m.created_at DESC, m.key DESC
LIMIT :most"""


def read_important(
    connection: sqlite3.Connection, projects: list[str], chars: int, most: int
) -> list[tuple[str, str, str]]:
    """Return id, kind and beginning of each memory, the most important first."""
    now = time.time_ns() // 1000
    asked = {"now": now, "projects": json.dumps(projects), "chars": chars, "most": most}
    rows = connection.execute(IMPORTANT, asked)
    return [(memory_id, kind, text) for memory_id, kind, text in rows]

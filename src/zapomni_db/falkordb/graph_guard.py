"""Changes of the graph that are planned first: look, plan, write if nothing changed meanwhile.

The Store counts every change of what the graph is made of (`graph`). Whoever plans one reads that
number first. The statement that writes does nothing if it is another one by then, and the plan is
made anew. Storing memories is not counted: it takes nothing away from a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from zapomni_db.falkordb.connection import Session

__all__ = ["SWEEP", "Transaction", "look"]


async def look(session: Session) -> tuple[int, int]:
    """Return the number of the last change, and how many merges there are."""
    rows = await session.read_store(
        "MATCH (s:Store) OPTIONAL MATCH (g:Merge) RETURN s.graph, count(g)"
    )
    seen, number = rows[0]
    return seen, number


_GUARD: LiteralString = """
MATCH (s:Store) WHERE s.graph = $seen
WITH s, s.keys AS base
SET s.version = s.version + 1, s.graph = s.graph + 1, s.keys = base + $keys
WITH s, base
"""

SWEEP: LiteralString = """
OPTIONAL MATCH (e:Entity {id: x}) WHERE NOT e.given AND indegree(e, 'MENTIONS') = 0
    AND indegree(e, 'RELATES') = 0 AND outdegree(e, 'RELATES') = 0
DELETE e
"""
"""Deletes the entity `x` if nothing speaks of it any more."""


class Transaction:
    """One statement, put together from parts; each part is run for every row `x` of a list.

    A part that may find nothing for a row looks with OPTIONAL MATCH: without a row, all that
    comes after it would not happen.
    """

    def __init__(self, seen: int) -> None:
        self.values: dict[str, Any] = {"seen": seen}
        self._parts: list[LiteralString] = []
        self._keys = 0

    def next_key(self) -> int:
        """Return a number that no other row of the store will have once `base` is added."""
        self._keys += 1
        return self._keys

    def add(self, part: LiteralString, name: LiteralString, rows: Sequence[Any]) -> None:
        """Do this for these rows."""
        if rows:
            self._parts.append(f"UNWIND ${name} AS x {part} WITH s, base, count(*) AS done ")
            self.values[name] = rows

    async def write(self, session: Session) -> bool:
        """Write all of it; False if something was changed since we looked."""
        statement = _GUARD + "".join(self._parts) + "RETURN s.graph"
        return bool(await session.write(statement, keys=self._keys, **self.values))

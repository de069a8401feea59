"""Any statement that only reads, its answer in the words of the `falkordb` package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from falkordb.asyncio.graph import AsyncGraph
from falkordb.asyncio.query_result import QueryResult

from falkordb import Edge, Node
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.values import decode

__all__ = ["GraphRows", "run"]


@dataclass(frozen=True)
class GraphRows:
    """The answer to a statement; nodes, edges and paths are those of the `falkordb` package."""

    rows: list[dict[str, Any]]
    """Values by the name of their column."""

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.rows)


async def run(session: Session, statement: str, values: Mapping[str, Any]) -> GraphRows:
    answer = await session.ask("GRAPH.RO_QUERY", statement, dict(values))
    parsed = QueryResult(AsyncGraph(session.redis, session.graph))
    await parsed.parse(answer)
    names = [name for _, name in parsed.header]
    rows = [dict(zip(names, map(_restored, row), strict=True)) for row in parsed.result_set]
    return GraphRows(rows)


def _restored(value: Any) -> Any:
    """Return a value with its texts as they were given."""
    if isinstance(value, str):
        return decode(value)
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if isinstance(value, dict):
        return {name: _restored(item) for name, item in value.items()}
    if isinstance(value, Node | Edge):
        value.properties = _restored(value.properties)
    return value

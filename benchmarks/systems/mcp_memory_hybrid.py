"""mcp-memory-service asked for its hybrid mode: keywords and vectors."""

from __future__ import annotations

from benchmarks.systems import mcp_memory


class Index(mcp_memory.Index):
    def _ask(self, query: str, limit: int):
        return self._storage.retrieve_hybrid(query, limit)

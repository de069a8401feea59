"""The systems that are compared, one module each.

A module has a class `Index(folder, vectors)` that opens or creates an index in a folder, with
`add(docs)`, `search(query, limit)` returning document ids, best first, and `close()`. Documents
are dictionaries with `id`, `text`, `group` and `time`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["DEFAULT", "OWN", "SYSTEMS", "load", "needs_vectors"]

SYSTEMS = {
    "zapomni": "zapomni",
    "zapomni-words": "zapomni_words",
    "zapomni-folder": "zapomni_folder",
    "zapomni-vectors": "zapomni_vectors",
    "zapomni-graph": "zapomni_graph",
    "grep": "grep",
    "fts5": "fts5",
    "bm25s": "bm25s_words",
    "chromadb": "chroma",
    "lancedb": "lance",
    "txtai": "txtai_hybrid",
    "mem0": "mem0_raw",
    "mcp-memory-service": "mcp_memory",
    "mcp-memory-service-hybrid": "mcp_memory_hybrid",
}
# The graph is an addition; the hybrid one takes half a second for a question.
SPECIAL = ("zapomni-folder", "zapomni-graph", "mcp-memory-service-hybrid")
DEFAULT = [name for name in SYSTEMS if name not in SPECIAL]
# Run by the interpreter that runs the benchmark; the others live in the peers' environment.
OWN = frozenset(
    {
        "zapomni",
        "zapomni-words",
        "zapomni-folder",
        "zapomni-vectors",
        "zapomni-graph",
        "grep",
        "fts5",
    }
)
_WITHOUT_VECTORS = OWN | {"bm25s"}


def needs_vectors(system: str) -> bool:
    """Say whether a system is handed vectors, without importing it: it may not be installed."""
    return system not in _WITHOUT_VECTORS


def load(system: str) -> ModuleType:
    return import_module(f"{__name__}.{SYSTEMS[system]}")

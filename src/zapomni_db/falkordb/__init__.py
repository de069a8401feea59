"""FalkorDB: the server engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zapomni_db.falkordb.client import FalkorDBClient

__all__ = ["FalkorDBClient"]


def __getattr__(name: str) -> Any:
    # Starting a server needs no driver, and both may be missing: `zapomni[falkordb]` brings them.
    if name == "FalkorDBClient":
        from zapomni_db.falkordb.client import FalkorDBClient

        return FalkorDBClient
    raise AttributeError(name)

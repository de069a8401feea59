"""What the processes of the graph's crash test run."""

from __future__ import annotations

import asyncio
from typing import Any

from zapomni_core.engine import create_extractor
from zapomni_core.modules.graph import build_graph
from zapomni_core.settings import load_settings
from zapomni_db.graph_models import GraphScope
from zapomni_db.sqlite.storage import SqliteStorage

__all__ = ["read_everything"]


def read_everything(home: str) -> dict[str, Any]:
    """Read what is unread into the graph, a few passages at a time."""
    return asyncio.run(_read(home))


async def _read(home: str) -> dict[str, Any]:
    settings = load_settings({}, home=home)

    async def ignore(_done: int, _total: int | None, _message: str) -> None:
        pass

    async with SqliteStorage(settings.database_path) as storage:
        return await build_graph(storage, create_extractor(settings), GraphScope(), ignore)

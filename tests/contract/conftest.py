"""Every engine keeps the same promises: the tests here run on each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from zapomni_db.falkordb import FalkorDBClient
from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite.storage import SqliteStorage


@pytest.fixture(params=["sqlite", "falkordb"])
async def storage(request, anyio_backend, tmp_path) -> AsyncIterator[StorageProvider]:
    if request.param == "sqlite":
        async with SqliteStorage(tmp_path / "store" / "zapomni.db") as opened:
            yield opened
    else:
        server = request.getfixturevalue("falkordb_server")
        graph = request.getfixturevalue("falkordb_graph")
        async with FalkorDBClient(unix_socket=str(server.socket), graph_name=graph) as opened:
            yield opened

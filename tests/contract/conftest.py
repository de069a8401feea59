"""Every engine keeps the same promises: the tests here run on each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite.storage import SqliteStorage


@pytest.fixture(params=["sqlite"])
async def storage(request, anyio_backend, tmp_path) -> AsyncIterator[StorageProvider]:
    async with SqliteStorage(tmp_path / "store" / "zapomni.db") as opened:
        yield opened

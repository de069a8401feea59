"""Nothing that is stored or asked for is ever read as a part of a query."""

from __future__ import annotations

import pytest

from builders import memory, vector
from zapomni_db.models import MemoryFilter, TextSearchRequest

pytestmark = pytest.mark.anyio

HOSTILE = [
    "'); DROP TABLE memories; --",
    "' OR '1'='1",
    '" OR 1=1 --',
    "x' UNION SELECT text FROM memory_texts --",
    "'}) DETACH DELETE (n) //",
    "\\' OR true //",
    "$project ?1 :id @x",
    "NEAR(a b) AND NOT * ^ {col}: (",
    "%_[]*?\\",
]


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_that_looks_like_a_query_is_only_a_value(storage, value):
    plain = await storage.store_memory(memory("an ordinary note", vector(1)))
    fields = {"project": value, "source": value, "kind": "note", "parent": value}
    made = memory(f"about {value}", vector(0, 1), tags=[value], idempotency_key=value, **fields)
    odd = await storage.store_memory(made)

    for given in [*({name: value} for name in ("project", "source", "parent")), {"tags": [value]}]:
        page = await storage.list_memories(MemoryFilter(**given), 10, 0)
        assert [item.memory_id for item in page.items] == [odd]
    again = await storage.find_existing(value, f"about {value}", value, value, 0)
    assert (again.memory_id, again.status) == (odd, "replayed")
    assert await storage.find_existing("", value, None) is None
    await storage.bm25_search(TextSearchRequest(terms=[value, "note"], limit=10))
    assert (await storage.get_memory(odd)).text == f"about {value}"
    assert await storage.get_memory(value) is None
    assert await storage.delete_memory(value) is False
    page = await storage.list_memories(MemoryFilter(), 10, 0)
    assert {item.memory_id for item in page.items} == {plain, odd}
    assert await storage.check_integrity() == {}

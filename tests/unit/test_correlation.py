from __future__ import annotations

import asyncio

import pytest

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.correlation import current_correlation_id, operation

pytestmark = pytest.mark.anyio


@operation()
async def observed() -> str | None:
    await asyncio.sleep(0)
    return current_correlation_id()


async def test_outside_an_operation_there_is_no_id():
    assert current_correlation_id() is None


async def test_an_operation_has_an_id_and_leaves_none_behind():
    with operation() as given:
        assert current_correlation_id() == given
    assert current_correlation_id() is None


async def test_a_nested_operation_keeps_the_outer_id():
    with operation() as outer:
        with operation() as inner:
            assert inner == outer
        assert current_correlation_id() == outer
        assert await observed() == outer


async def test_a_decorated_function_has_its_own_id_on_every_call():
    first, second = await observed(), await observed()
    assert first is not None
    assert second is not None
    assert first != second
    assert current_correlation_id() is None


async def test_operations_running_at_the_same_time_do_not_share_an_id():
    ids = await asyncio.gather(*[observed() for _ in range(10)])
    assert len(set(ids)) == 10


async def test_a_failing_operation_ends_too():
    with pytest.raises(RuntimeError), operation():
        raise RuntimeError
    assert current_correlation_id() is None


async def test_an_error_carries_the_id_of_its_operation():
    with operation() as given:
        assert ValidationError("wrong").correlation_id == given
    assert ValidationError("wrong").correlation_id != given

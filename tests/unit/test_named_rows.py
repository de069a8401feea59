from __future__ import annotations

import pytest

from zapomni_db.named_rows import NamedTuple


class Point(NamedTuple):
    """A place."""

    x: int
    y: int


def test_a_named_tuple_of_hooks_is_used_like_that_of_typing():
    point = Point(1, y=2)
    assert point == (1, 2) == Point._make([1, 2])
    assert (point.x, point.y, point[1], [*point]) == (1, 2, 2, [1, 2])
    assert repr(point) == "Point(x=1, y=2)"
    assert point._asdict() == {"x": 1, "y": 2}
    assert point._replace(y=3) == (1, 3)
    assert Point._fields == ("x", "y")
    assert Point.__doc__ == "A place."


def test_fields_that_are_missing_or_unknown_are_refused():
    for values, named in (((1,), {}), ((1, 2, 3), {}), ((1, 2), {"z": 3}), ((1, 2), {"y": 3})):
        with pytest.raises((TypeError, KeyError)):
            Point(*values, **named)
    with pytest.raises(AttributeError):
        Point(1, 2).x = 3

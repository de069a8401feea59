"""A memory and its exported record: the same both ways, on every engine."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni_core.exceptions import ValidationError
from zapomni_core.shared.records import (
    check_record,
    dump_record,
    from_record,
    memory_path,
    parse_record,
    to_record,
)
from zapomni_db.copy_models import MemoryCopy, VersionCopy

NOW = datetime(2026, 11, 16, 15, 22, 0, 1, tzinfo=UTC)


def copy_of(**fields) -> MemoryCopy:
    given_fields = {
        "memory_id": "0" * 8,
        "text": "a\u2028b",
        "chunks": [],
        "timestamp": NOW,
        "updated_at": NOW + timedelta(days=1),
        "occurred_at": NOW,
    }
    return MemoryCopy(**{**given_fields, **fields})


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TIMES = st.integers(-62_000_000_000_000_000, 253_000_000_000_000_000).map(
    lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)


@given(
    TEXTS, st.lists(TEXTS), TIMES, st.dictionaries(TEXTS, st.none() | TEXTS | st.integers()), TEXTS
)
def test_any_memory_comes_back_from_its_record_byte_for_byte(text, tags, time, metadata, old):
    memory = copy_of(
        text=text,
        tags=tags,
        timestamp=time,
        updated_at=time,
        occurred_at=time,
        expires_at=time,
        metadata=metadata,
        supersedes="b1",
        also_supersedes=["a1"],
        history=[VersionCopy(replaced_at=time, fields={"text": old}, text=old)],
    )
    data = dump_record(to_record(memory, citations=[]))
    again = from_record(parse_record(data), trusted=True)
    assert dump_record(to_record(again, citations=[])) == data
    assert data.endswith(b"}\n")
    assert b"trusted" not in data


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "../../etc/passwd"}, "id"),
        ({"id": None}, "id"),
        ({"text": 7}, "text"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"created_at": "2026-01-01T00:00:00"}, "created_at"),
        ({"position": 1 << 70}, "position"),
        ({"supersedes": ["x/y"]}, "supersedes"),
        ({"history": [{"fields": {}}]}, "history"),
    ],
)
def test_a_record_with_a_wrong_field_is_refused_by_the_name_of_the_field(change, field):
    record = {**to_record(copy_of()), **change}
    with pytest.raises(ValidationError, match=f"the field {field} "):
        check_record(record)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"id": NaN}',
        b"<<<<<<< HEAD\n{}",
        b"[" * 100_000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
        json.dumps({**to_record(copy_of()), "text": "\0"}).encode(),
        json.dumps({**to_record(copy_of()), "text": "\ud800"}).encode(),
        json.dumps({**to_record(copy_of()), "metadata": {"a": 0}}).replace("0}", "1e999}").encode(),
    ],
)
def test_bytes_that_are_no_record_are_refused(data):
    with pytest.raises(ValidationError):
        parse_record(data)


def test_keys_of_a_later_version_are_passed_over():
    assert "later" not in check_record({**to_record(copy_of()), "later": 1})


def test_an_id_that_is_no_file_name_has_no_path():
    assert memory_path("ABcd") == "memories/ab/ABcd.json"
    with pytest.raises(ValidationError):
        memory_path("../x")

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest

from reach.session.record import RecordError, encode_record, jsonable, load_json, parse_record


@dataclass(frozen=True, kw_only=True)
class Thing:
    schema_version: Literal[1] = 1
    name: str
    size: int
    made: datetime
    note: str | None = None
    is_open: bool = False
    kind: Literal["a", "b"] = "a"
    texts: dict[str, str] = field(default_factory=dict)


WHOLE: dict[str, Any] = {"name": "n", "size": 3, "made": "2026-01-02T03:04:05Z"}


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7}, {"name": None}, {"size": "3"}, {"size": 3.0}, {"size": True}, {"made": 7}, {"made": "yesterday"},
        {"note": 0}, {"is_open": 1}, {"is_open": "false"}, {"kind": "c"}, {"kind": ["a"]}, {"schema_version": 2},
        {"schema_version": True}, {"schema_version": "1"}, {"texts": {"a": 1}}, {"texts": ["a"]}, {"texts": None},
        {"unknown": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_field_that_is_wrong_or_unknown_is_named_and_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match=next(iter(change))):
        parse_record(Thing, {**WHOLE, **change}, is_closed=True)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(RecordError, match="missing required field `name`"):
        parse_record(Thing, {})


@pytest.mark.parametrize("raw", [None, [], "text", 1], ids=str)
def test_what_is_no_object_is_no_record(raw: object) -> None:
    with pytest.raises(RecordError, match="Expected `object`"):
        parse_record(Thing, raw)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe{", "[" * 200_000], ids=["empty", "cut", "bytes", "deep"])
def test_what_is_no_json_is_one_kind_of_error(text: str | bytes) -> None:
    with pytest.raises(RecordError, match="not JSON"):
        load_json(text)


def test_a_record_of_a_later_version_is_read_where_it_may_hold_more() -> None:
    assert parse_record(Thing, {**WHOLE, "unknown": 1}).size == 3


def test_what_was_written_is_read_back_the_same() -> None:
    made = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=2)))
    thing = Thing(name="\udcff ü \x00 \u2028", size=1 << 70, made=made, note="", kind="b", texts={"\udc80": "x"})
    for indent in (None, 2):
        assert parse_record(Thing, load_json(encode_record(thing, indent=indent)), is_closed=True) == thing
    assert encode_record(thing).isascii()
    assert b"\n" not in encode_record(thing)


def test_times_are_spelled_in_utc_as_they_always_were() -> None:
    thing = parse_record(Thing, WHOLE)
    assert thing.made == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert json.loads(encode_record(thing))["made"] == jsonable(thing)["made"] == WHOLE["made"]

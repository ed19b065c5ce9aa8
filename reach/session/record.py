"""Records: frozen dataclasses kept as JSON objects, and read strictly by msgspec. Everything that starts reads one, and
pydantic would take half of the time that importing takes, and a quarter of a broker's memory."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")


class RecordError(ValueError):
    """What keeps a text from being a record."""


def encode_record(record: Any, *, indent: int | None = None) -> bytes:
    """RECORD, a dataclass, as a JSON object in ASCII: nothing in it ends a line for some reader (U+2028), or steers the
    terminal that it is shown on."""
    separators = (",", ":") if indent is None else None
    return json.dumps(jsonable(record), indent=indent, separators=separators).encode("ascii")


def jsonable(record: Any) -> dict[str, Any]:
    """RECORD as what JSON would make of it."""
    return {name: _spell_time(value) if isinstance(value, datetime) else value for name, value in vars(record).items()}


def load_json(text: str | bytes) -> Any:
    """Raises: RecordError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RecordError("not JSON") from None


def parse_record(kind: type[_T], raw: Any, *, is_closed: bool = False) -> _T:
    """The record of KIND that RAW, a value of JSON's, describes; IS_CLOSED refuses fields that KIND does not have.

    Nothing is converted but a time: a number in a text's place is wrong. Raises: RecordError.
    """
    try:
        record = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise RecordError(str(error)) from None
    unknown = raw.keys() - {field.name for field in dataclasses.fields(kind)} if is_closed else ()  # type: ignore[arg-type]
    if unknown:
        raise RecordError(f"unknown fields: {', '.join(map(repr, sorted(unknown)))}")
    return record


def _spell_time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")

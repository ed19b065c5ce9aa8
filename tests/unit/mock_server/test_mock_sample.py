"""Made-up answers to side questions."""

from __future__ import annotations

from typing import Any

import pytest

from mock_server.dialects.sample import sample

LOOP: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "STRING"}, "mock"),
        ({"type": "string", "enum": ["user", "model"]}, "user"),
        ({"type": "INTEGER", "minimum": 5}, 5),
        ({"type": "integer"}, 1),
        ({"type": "number"}, 0),
        ({"type": "BOOLEAN"}, False),
        ({"const": "x", "type": "string"}, "x"),
        ({"type": ["string", "null"]}, "mock"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "array", "items": {"type": "integer"}}, []),
        ({"$defs": {"a": {"enum": [7]}}, "properties": {"x": {"$ref": "#/$defs/a"}}}, {"x": 7}),
        ({"$ref": "https://example.invalid/"}, None),
        ("no schema", None),
    ],
)
def test_a_sample_fits_its_schema(schema: Any, value: Any) -> None:
    assert (sample(schema), type(sample(schema))) == (value, type(value))


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    assert isinstance(sample(LOOP), dict)

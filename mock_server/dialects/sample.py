"""A value that fits a JSON schema, for questions whose answer nobody scripted."""

from __future__ import annotations

from typing import Any

from mock_server.api import JsonObject

MAX_DEPTH = 12
"""A schema may refer to itself."""


def sample(schema: Any) -> Any:
    """The plainest value that fits SCHEMA: defaults, first choices, smallest numbers, short lists."""
    return _sample(schema, schema, MAX_DEPTH)


def _sample(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth == 0:
        return None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    if isinstance(schema.get("$ref"), str):
        return _sample(_resolve(schema["$ref"], root), root, depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _sample(schema[key][0], root, depth - 1)
    return _sample_type(schema, root, depth)


def _sample_type(schema: JsonObject, root: Any, depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "null")
    # Gemini's own schemas write the types in capitals.
    kind = str(kind[0] if isinstance(kind, list) and kind else kind).lower()
    if kind == "object":
        properties = schema.get("properties")
        names = properties if isinstance(properties, dict) else {}
        return {name: _sample(inner, root, depth - 1) for name, inner in names.items()}
    if kind == "array":
        count = schema.get("minItems", 0)
        return [_sample(schema.get("items"), root, depth - 1)] * (count if isinstance(count, int) else 0)
    if kind in ("integer", "number"):
        # Scores commonly run from 1, probabilities from 0.
        return schema.get("minimum", 1 if kind == "integer" else 0)
    return {"string": "mock", "boolean": False}.get(kind)


def _resolve(reference: str, root: Any) -> Any:
    found = root
    for part in reference.removeprefix("#/").split("/") if reference.startswith("#/") else ["#"]:
        found = found.get(part) if isinstance(found, dict) else None
    return found

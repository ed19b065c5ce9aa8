"""What a recorded request says, in words that all dialects share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mock_server.api import JsonObject


@dataclass(frozen=True)
class FunctionResponse:
    """What the harness sends back for one function call."""

    name: str
    id: str | None
    response: JsonObject

    @property
    def text(self) -> str:
        """The tool's output, or its error; the whole response as JSON where it has neither as a string."""
        for key in ("output", "error", "result", "content"):
            if isinstance(self.response.get(key), str):
                return str(self.response[key])
        return json.dumps(self.response, ensure_ascii=False)


@dataclass(frozen=True)
class Reading:
    """A request's body, read by its dialect. A body of another shape reads as an empty one."""

    tool_names: tuple[str, ...] = ()
    """The tools on offer to the model, in the order of the request."""
    function_responses: tuple[FunctionResponse, ...] = ()
    """Of the whole conversation, oldest first."""
    new_function_responses: tuple[FunctionResponse, ...] = ()
    """Those that follow the model's last message."""
    system_text: str = ""
    user_text: str = ""
    """Every text the user's side sent, one after the other with a newline between."""
    model_text: str = ""
    """Every text that the conversation attributes to the model."""


def objects_in(value: Any) -> Iterator[JsonObject]:
    """The objects in VALUE where it is a list (or VALUE itself where it is one); nothing else."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            yield item


def string_at(value: JsonObject, key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None

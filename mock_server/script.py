"""The script: the turns that the mock model takes, as pydantic models."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from mock_server.expectation import Expectation
from mock_server.fault import Fault, TrickleFault

SCHEMA_ID = "urn:mock-server:script:1"


def _without_nan(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("JSON has no NaN or infinity")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _without_nan(item)
    return value


StrictJson = Annotated[JsonValue, AfterValidator(_without_nan)]


def _as_list(value: str | list[str] | None) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else value


class ScriptModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Call(ScriptModel):
    """One function call that the model makes."""

    name: str = Field(min_length=1)
    """The tool's name, as the harness advertises it."""
    args: dict[str, StrictJson] = {}
    """The call's arguments."""
    id: str | None = None
    """The call's id. Without one the dialect leaves it out or, where it must have one, makes it up."""


class Usage(ScriptModel):
    """Token counts of one turn."""

    prompt_tokens: int | None = Field(None, ge=0)
    output_tokens: int | None = Field(None, ge=0)
    thought_tokens: int | None = Field(None, ge=0)
    cached_tokens: int | None = Field(None, ge=0)


class Turn(ScriptModel):
    """One answer of the model: thoughts, then text, then function calls."""

    thought: str | list[str] | None = None
    """Thought parts; a list makes several."""
    text: str | list[str] | None = None
    """Text; a list is streamed as so many events."""
    calls: list[Call] = []
    """Function calls, all in this one turn: more than one are parallel calls."""
    finish_reason: str | None = None
    """In the dialect's own words; without it, the one that fits what the turn holds."""
    usage: Usage | None = None
    """Token counts to report; those not given are estimated."""
    expect: Expectation | None = None
    """What the request that this turn answers must hold: turn 2 checks the results of turn 1's calls."""
    fault: Fault | None = None
    """What goes wrong before, or while, this turn is served."""

    @model_validator(mode="after")
    def _has_something(self) -> Turn:
        if not self.has_content and self.finish_reason is None and self.fault is None:
            raise ValueError("a turn needs text, thought, calls, finish_reason or fault")
        if isinstance(self.fault, TrickleFault) and not self.has_content:
            raise ValueError("trickle needs something to send: give the turn text, thought or calls")
        return self

    @property
    def has_content(self) -> bool:
        return bool(self.thoughts or self.texts or self.calls)

    @property
    def thoughts(self) -> list[str]:
        return _as_list(self.thought)

    @property
    def texts(self) -> list[str]:
        return _as_list(self.text)


class Script(ScriptModel):
    """Everything the mock answers in one run."""

    dialect: str | None = None
    """The API this script is for; where neither it nor --dialect says so, Gemini's."""
    turns: list[Turn] = []
    """Served in order, one for each request of the conversation."""
    closing: Turn = Turn(text="Nothing more to do.")
    """Answers every request that comes when no turn is left."""
    turns_for: Literal["auto", "all", "with_tools"] = "auto"
    """Which requests take a turn. auto: all but those that ask for a JSON answer and offer no tools, as side
    questions of the harness are; all: side questions too; with_tools: only those that advertise tools."""
    side_answer: StrictJson = None
    """The answer to every side question (an object or list is sent as JSON text). Without it, one is made up
    that fits the schema in the question."""

    @model_validator(mode="after")
    def _closing_is_whole(self) -> Script:
        if self.closing.fault is not None:
            raise ValueError("closing can't have a fault: put it on a turn")
        return self


def script_schema() -> dict[str, Any]:
    """The JSON schema of a script file."""
    schema = Script.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}

"""The faults that a turn can order, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Times = Annotated[int, Field(ge=1)] | Literal["always"]


class _Fault(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class _SpoilsTries(_Fault):
    times: Times = 1
    """How many requests get the fault before one gets the turn; `always`: the turn never comes."""


class StatusFault(_SpoilsTries):
    """An HTTP error in place of the turn."""

    kind: Literal["status"]
    status: int = Field(ge=400, le=599)
    """The HTTP status."""
    retry_after_s: float | None = Field(None, ge=0)
    """Seconds, sent as Retry-After (rounded up) and in the dialect's own error details where it has some."""
    message: str | None = None
    """The error's text; without it, one that names the status."""
    details: list[dict[str, JsonValue]] = []
    """More objects for the error's details, where the dialect's errors have details."""


class StallFault(_SpoilsTries):
    """The stream stops and stays open until the client goes."""

    kind: Literal["stall"]
    after_events: int = Field(0, ge=0)
    """So many whole events are sent first; 0: the headers alone."""


class CutFault(_SpoilsTries):
    """The connection is closed in the middle of an event."""

    kind: Literal["cut"]
    after_events: int = Field(0, ge=0)
    """So many whole events are sent first. At most all but one are: there must be one to cut."""


class MalformedFault(_SpoilsTries):
    """The answer's first event is JSON with its end missing."""

    kind: Literal["malformed"]


class EmptyFault(_SpoilsTries):
    """A candidate with nothing in it."""

    kind: Literal["empty"]


class TrickleFault(_Fault):
    """The turn arrives byte by byte, whole in the end."""

    kind: Literal["trickle"]


Fault = Annotated[
    StatusFault | StallFault | CutFault | MalformedFault | EmptyFault | TrickleFault,
    Field(discriminator="kind"),
]

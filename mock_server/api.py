"""What passes between the server and a dialect: a request understood, a reply not yet encoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

JsonObject = dict[str, Any]


class RequestKind(StrEnum):
    """What a request is for. Only a TURN takes a turn from the script."""

    TURN = "turn"
    SIDE = "side"
    """A question that the harness asks on its own account, such as which model to use."""
    COUNT = "count"
    MODELS = "models"


@dataclass(frozen=True)
class ApiRequest:
    """A request as its dialect understands it."""

    kind: RequestKind
    model: str
    framing: Framing
    """How the client expects the answer."""
    body: JsonObject
    has_tools: bool = False


class Framing(StrEnum):
    """How the events of a reply become bytes."""

    JSON = "json"
    """One JSON document: exactly one event."""
    JSON_ARRAY = "json-array"
    """One JSON array, an element for each event."""
    SSE = "sse"
    """Server-sent events."""


class Event(BaseModel):
    """One piece of a reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    """JSON, unless it was spoilt on purpose."""
    name: str | None = None
    """The `event:` field, for dialects that name their events."""


class Reply(BaseModel):
    """An HTTP answer before it is encoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: int = 200
    headers: dict[str, str] = {}
    """Besides Content-Type, which follows from the framing."""
    framing: Framing = Framing.JSON
    events: tuple[Event, ...]

    @property
    def content_type(self) -> str:
        return "text/event-stream" if self.framing is Framing.SSE else "application/json"

    def chunks(self) -> Iterator[bytes]:
        """The body's bytes, one chunk for each event."""
        last = len(self.events) - 1
        for index, event in enumerate(self.events):
            if self.framing is Framing.SSE:
                yield _encode_sse(event)
            elif self.framing is Framing.JSON_ARRAY:
                yield f"{'[' if index == 0 else ','}{event.data}{']' if index == last else ''}\r\n".encode()
            else:
                yield event.data.encode()


class DeliveryMode(StrEnum):
    """How a reply's bytes go out."""

    WHOLE = "whole"
    TRICKLE = "trickle"
    """Byte by byte."""
    STALL = "stall"
    """Some events, then silence until the client goes."""
    CUT = "cut"
    """Some events, half of the next one, then the connection is closed."""


class Delivery(BaseModel):
    """How, and for a spoilt delivery where, a reply goes out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: DeliveryMode = DeliveryMode.WHOLE
    after_events: int = 0
    """For stall and cut: so many events go out whole first."""


def _encode_sse(event: Event) -> bytes:
    head = f"event: {event.name}\r\n" if event.name else ""
    # splitlines() would also split at U+2028, which JSON may hold unescaped.
    data = "".join(f"data: {line}\r\n" for line in event.data.split("\n"))
    return f"{head}{data}\r\n".encode()

"""The record of the requests that came in, readable from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, ConfigDict, Field

from mock_server.api import Delivery, Reply, RequestKind
from mock_server.reading import Reading

REMOVED = "(removed)"
_SECRET_WORDS = ("key", "token", "auth", "secret", "cookie", "credential")
_SECRET_QUERY_NAMES = frozenset({"key", "access_token", "api_key", "token"})


class AnswerSource(StrEnum):
    """Where the answer to a request came from."""

    TURN = "turn"
    FAULT = "fault"
    """A fault of a turn that is still to come, or of one that is only a fault."""
    CLOSING = "closing"
    """No turn was left."""
    SIDE = "side"
    SERVICE = "service"
    """Token counts and lists of models."""
    REFUSED = "refused"
    """No such endpoint, or a body that is no JSON object."""


class RecordedRequest(BaseModel):
    """One request and what became of it."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    number: int
    """Counted from 1, in the order of arrival."""
    at: datetime
    """When it had been read, in UTC."""
    method: str
    path: str
    """With the query; values of secret parameters are removed."""
    headers: dict[str, str]
    """Names as sent; values of headers that carry keys are removed."""
    body: Any = None
    """The JSON value, or the text where it is no JSON."""
    kind: RequestKind | None = None
    """None where the dialect has no such endpoint."""
    model: str = ""
    answer: AnswerSource
    turn_number: int | None = None
    """The turn that answered, or whose fault did; counted from 1."""
    note: str = ""
    """More about the answer, for people."""
    status: int
    """The HTTP status of the answer."""
    failures: tuple[str, ...] = ()
    """What the turn expected and did not find."""
    reading: Reading = Field(Reading(), exclude=True)
    """The body in the dialect's reading."""


Sink = Callable[[RecordedRequest, Reply, Delivery], None]
"""Called in the server's thread for every request, before its answer goes out."""


class Recorder:
    """Collects requests; the server's thread adds, any thread reads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[RecordedRequest] = []
        self._sinks: list[Sink] = []

    def add_sink(self, sink: Sink) -> None:
        """Only before the server starts."""
        self._sinks.append(sink)

    def add(self, request: RecordedRequest, reply: Reply, delivery: Delivery) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
        for sink in self._sinks:
            sink(request, reply, delivery)

    @property
    def requests(self) -> list[RecordedRequest]:
        """A copy, in the order of arrival."""
        with self._changed:
            return list(self._requests)

    def wait_for(
        self, predicate: Callable[[RecordedRequest], bool], timeout_s: float
    ) -> RecordedRequest | None:
        """The first request, past or to come, that PREDICATE accepts; None when there is none in time."""
        deadline = monotonic() + timeout_s
        seen = 0
        while True:
            with self._changed:
                remaining_s = deadline - monotonic()
                if len(self._requests) == seen and remaining_s > 0:
                    self._changed.wait(remaining_s)
                fresh = self._requests[seen:]
            # Outside the lock: the predicate may itself read `requests`.
            for request in fresh:
                if predicate(request):
                    return request
            seen += len(fresh)
            if not fresh and monotonic() >= deadline:
                return None


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """HEADERS with the value of each that may carry a key removed."""
    return {
        name: REMOVED if any(word in name.lower() for word in _SECRET_WORDS) else value
        for name, value in headers.items()
    }


def without_secret_query(path: str) -> str:
    """PATH as sent, with the values of secret query parameters removed."""
    stem, mark, query = path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    if not any(name.lower() in _SECRET_QUERY_NAMES for name, _ in pairs):
        return path
    shown = [(name, REMOVED if name.lower() in _SECRET_QUERY_NAMES else value) for name, value in pairs]
    return f"{stem}{mark}{urlencode(shown, safe='()')}"

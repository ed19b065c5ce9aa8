"""Which answer a request gets: turns in order, their faults first, the closing turn at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from mock_server.api import ApiRequest, Delivery, DeliveryMode, Framing, Reply, RequestKind
from mock_server.dialects import Dialect
from mock_server.dialects.base import encode_json
from mock_server.fault import (
    CutFault,
    EmptyFault,
    Fault,
    MalformedFault,
    StallFault,
    StatusFault,
    TrickleFault,
)
from mock_server.reading import Reading
from mock_server.recorder import AnswerSource
from mock_server.script import Script, Turn


@dataclass(frozen=True)
class Answer:
    """What to send, how, and why."""

    reply: Reply
    source: AnswerSource
    delivery: Delivery = Delivery()
    turn_number: int | None = None
    note: str = ""
    failures: tuple[str, ...] = ()


class Player(Protocol):
    """Decides on answers. Called from one thread only."""

    def answer(self, request: ApiRequest, reading: Reading) -> Answer: ...

    @property
    def turns_left(self) -> int:
        """How many turns no request has taken yet."""

    def unmet(self) -> list[str]:
        """The expectations that no request has been held against yet."""


class ScriptPlayer:
    """Plays a script once."""

    def __init__(self, script: Script, dialect: Dialect) -> None:
        self._script = script
        self._dialect = dialect
        self._next = 0
        self._tries = 0
        """Requests that the next turn's fault has spoilt so far."""

    def answer(self, request: ApiRequest, reading: Reading) -> Answer:
        if request.kind in (RequestKind.COUNT, RequestKind.MODELS):
            return Answer(self._dialect.reply_service(request), AnswerSource.SERVICE)
        if self._is_aside(request):
            return Answer(self._dialect.reply_side(request, self._side_text()), AnswerSource.SIDE)
        if self._next >= len(self._script.turns):
            closing = self._script.closing
            failures = tuple(closing.expect.problems(reading)) if closing.expect else ()
            reply = self._dialect.reply(closing, request)
            return Answer(reply, AnswerSource.CLOSING, note="no turn left", failures=failures)
        turn = self._script.turns[self._next]
        number = self._next + 1
        failures = tuple(turn.expect.problems(reading)) if turn.expect and self._tries == 0 else ()
        answer = self._play(turn, request)
        return replace(answer, turn_number=number, failures=failures)

    @property
    def turns_left(self) -> int:
        return len(self._script.turns) - self._next

    def unmet(self) -> list[str]:
        reached = self._next + (1 if self._tries else 0)
        return [
            f"turn {number}: no request came to hold its expect against"
            for number, turn in enumerate(self._script.turns, start=1)
            if number > reached and turn.expect is not None
        ]

    def _is_aside(self, request: ApiRequest) -> bool:
        if self._script.turns_for == "all":
            return False
        if self._script.turns_for == "with_tools":
            return not request.has_tools
        return request.kind is RequestKind.SIDE

    def _side_text(self) -> str | None:
        value = self._script.side_answer
        return value if value is None or isinstance(value, str) else encode_json(value)

    def _play(self, turn: Turn, request: ApiRequest) -> Answer:
        fault = turn.fault
        if fault is None or isinstance(fault, TrickleFault) or self._is_over(fault):
            self._advance()
            if fault is None or not isinstance(fault, TrickleFault):
                return Answer(self._dialect.reply(turn, request), AnswerSource.TURN)
            delivery = Delivery(mode=DeliveryMode.TRICKLE)
            return Answer(
                self._dialect.reply(turn, request), AnswerSource.TURN, delivery, note="byte by byte"
            )
        self._tries += 1
        answer = self._spoil(fault, turn, request)
        note = f"{answer.note}, try {self._tries} of {fault.times}"
        if self._is_over(fault) and not turn.has_content and turn.finish_reason is None:
            self._advance()
        return replace(answer, note=note)

    def _is_over(self, fault: Fault) -> bool:
        if isinstance(fault, TrickleFault):
            return True
        return fault.times != "always" and self._tries >= fault.times

    def _advance(self) -> None:
        self._next += 1
        self._tries = 0

    def _spoil(self, fault: Fault, turn: Turn, request: ApiRequest) -> Answer:
        source = AnswerSource.FAULT
        if isinstance(fault, StatusFault):
            message = fault.message or f"the script orders status {fault.status}"
            return Answer(self._error(fault, message, request.framing), source, note=f"status {fault.status}")
        if isinstance(fault, EmptyFault):
            return Answer(self._dialect.reply_empty(request), source, note="empty")
        reply = self._dialect.reply(turn if turn.has_content else self._script.closing, request)
        if isinstance(fault, MalformedFault):
            return Answer(_malformed(reply), source, note="malformed")
        if isinstance(fault, StallFault):
            delivery = Delivery(mode=DeliveryMode.STALL, after_events=fault.after_events)
            return Answer(reply, source, delivery, note="stalled")
        assert isinstance(fault, CutFault)  # the only kind left
        whole = min(fault.after_events, len(reply.events) - 1)
        return Answer(reply, source, Delivery(mode=DeliveryMode.CUT, after_events=whole), note="cut")

    def _error(self, fault: StatusFault, message: str, framing: Framing) -> Reply:
        reply = self._dialect.reply_error(
            fault.status,
            message,
            framing=framing,
            retry_after_s=fault.retry_after_s,
            details=fault.details,
        )
        if fault.retry_after_s is None:
            return reply
        # RFC 9110 10.2.3: whole seconds.
        seconds = -int(-fault.retry_after_s // 1)
        return reply.model_copy(update={"headers": {**reply.headers, "Retry-After": str(seconds)}})


def _malformed(reply: Reply) -> Reply:
    first = reply.events[0]
    spoilt = first.model_copy(update={"data": first.data[: len(first.data) * 2 // 3]})
    return reply.model_copy(update={"events": (spoilt, *reply.events[1:])})

from __future__ import annotations

from typing import Any

import pytest

from mock_server import Call, FunctionResponse, Reading
from mock_server.api import ApiRequest, Framing, RequestKind
from mock_server.dialects import DIALECTS
from reach.probe import conversation as module
from reach.probe.conversation import MAX_TRIES, Conversation, Step

STEPS = [Step(name, Call(name="shell", args={"command": name})) for name in ("one", "two", "three")]


def ask(talk: Conversation, *texts: str, kind: RequestKind = RequestKind.TURN) -> str | None:
    """The command of the call that answers a request in which TEXTS came back."""
    responses = tuple(FunctionResponse("shell", None, {"output": text}) for text in texts)
    request = ApiRequest(kind, "model", Framing.JSON, {"contents": []})
    reply: Any = talk.answer(request, Reading(function_responses=responses)).reply
    found = [name for name in ("one", "two", "three") if f'"command":"{name}"' in reply.events[0].data.replace(" ", "")]
    return found[0] if found else None


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Conversation:
    monkeypatch.setattr(module, "RETRY_DELAY_S", 0)
    made = Conversation(DIALECTS["gemini"])
    made.plan(STEPS, is_last=lambda step, text: text == "stop", is_passing=lambda text: text == "busy")
    return made


def test_the_steps_come_in_order_and_then_no_more(talk: Conversation) -> None:
    assert [ask(talk), ask(talk, "a"), ask(talk, "a", "b"), ask(talk, "a", "b", "c")] == ["one", "two", "three", None]
    assert talk.results == {"one": "a", "two": "b", "three": "c"}
    assert talk.turns_left == 0


def test_a_request_sent_again_gets_the_same_answer(talk: Conversation) -> None:
    assert [ask(talk, "a"), ask(talk, "a"), ask(talk, "a")] == ["two"] * 3


def test_the_last_step_ends_it(talk: Conversation) -> None:
    assert ask(talk, "stop") is None
    assert talk.results == {"one": "stop"}


def test_a_passing_refusal_is_tried_again_but_not_for_ever(talk: Conversation) -> None:
    assert [ask(talk, *["busy"] * tries) for tries in range(MAX_TRIES)] == ["one"] * MAX_TRIES
    assert ask(talk, *["busy"] * MAX_TRIES) == "two"
    assert ask(talk, "busy", "a") == "two"
    assert talk.results["one"] == "a"


@pytest.mark.parametrize("kind", [RequestKind.SIDE, RequestKind.COUNT, RequestKind.MODELS])
def test_other_requests_take_no_step(talk: Conversation, kind: RequestKind) -> None:
    assert ask(talk, kind=kind) is None
    assert ask(talk) == "one"

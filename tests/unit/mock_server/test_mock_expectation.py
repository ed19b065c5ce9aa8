"""What a turn expects of the request it answers: when it is met, and what is said when it is not."""

from __future__ import annotations

from typing import Any

import pytest
from mock_client import STREAM, answer_calls, ask, send

from mock_server import Expectation, MockServer, Script

ANSWERED = answer_calls(
    ("run_shell_command", {"output": "host-a\nExit Code: 7"}),
    ("run_shell_command", {"error": "no such file"}),
    ("glob", {"files": ["x"]}),
    ids=("call-1", "call-2"),
)
ANSWERED["systemInstruction"] = {"parts": [{"text": "you are brief"}]}
SHELL = {"tool": "run_shell_command"}


def failures_for(expect: dict[str, Any], body: dict[str, Any] = ANSWERED) -> list[str]:
    with MockServer(Script.model_validate({"turns": [{"text": "x", "expect": expect}]})) as mock:
        send(mock.url, STREAM, body)
    return mock.failures


@pytest.mark.parametrize(
    "expect",
    [
        {"responses": [SHELL]},
        {"responses": [{**SHELL, "contains": "host-a"}, {**SHELL, "contains": "no such file"}]},
        {"responses": [{**SHELL, "contains": ["host", "Exit Code: 7"], "excludes": "host-b"}]},
        {"responses": [{**SHELL, "matches": r"host-\w.*Code: 7$"}]},
        {"responses": [{**SHELL, "id": "call-2", "equals": "no such file"}]},
        {"responses": [{"tool": "glob", "equals": {"files": ["x"]}}]},
        {"response_count": 3},
        {"tools": {"equals": ["run_shell_command"]}},
        {
            "tools": {
                "within": ["run_shell_command", "glob"],
                "include": ["run_shell_command"],
                "exclude": ["x"],
            }
        },
        {"text": {"contains": "go"}, "system": {"matches": "^you", "excludes": ["loud"]}},
    ],
)
def test_an_expectation_that_is_met_says_nothing(expect: dict[str, Any]) -> None:
    assert failures_for(expect) == []


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"responses": [{"tool": "read_file"}]}, "no response of read_file came back"),
        (
            {"responses": [{**SHELL, "id": "call-9"}]},
            "no response of run_shell_command (id call-9) came back",
        ),
        (
            {"responses": [{**SHELL, "id": "call-1", "contains": "host-b"}]},
            "does not contain 'host-b': 'host-a",
        ),
        ({"responses": [{**SHELL, "id": "call-1", "excludes": "host-a"}]}, "contains 'host-a'"),
        ({"responses": [{**SHELL, "id": "call-2", "matches": "^such"}]}, "does not match /^such/"),
        ({"responses": [{**SHELL, "id": "call-2", "equals": "no such"}]}, "does not equal 'no such'"),
        ({"responses": [{"tool": "glob", "equals": {"files": []}}]}, "does not equal {'files': []}"),
        ({"response_count": 1}, "3 new function responses, not 1"),
        ({"tools": {"equals": ["glob"]}}, "tools not advertised: glob"),
        ({"tools": {"equals": ["glob"]}}, "tools advertised that should not be: run_shell_command"),
        ({"tools": {"equals": []}}, "tools advertised that should not be: run_shell_command"),
        ({"tools": {"within": ["glob"]}}, "tools advertised that should not be: run_shell_command"),
        ({"tools": {"include": ["glob"]}}, "tools not advertised: glob"),
        (
            {"tools": {"exclude": ["run_shell_command"]}},
            "tools advertised that should not be: run_shell_command",
        ),
        ({"text": {"contains": "stop"}}, "the user's text does not contain 'stop': 'go'"),
        ({"system": {"contains": "verbose"}}, "the system instruction does not contain 'verbose'"),
    ],
)
def test_an_expectation_that_is_not_met_says_which_turn_wanted_what(
    expect: dict[str, Any], said: str
) -> None:
    found = failures_for(expect)
    assert any(said in failure for failure in found)
    assert all(failure.startswith("turn 1, request 1: ") for failure in found)


def test_two_checks_of_one_entry_must_hold_for_the_same_response() -> None:
    assert failures_for({"responses": [{**SHELL, "contains": ["host-a", "no such file"]}]})


def test_responses_of_an_earlier_round_do_not_count() -> None:
    body = answer_calls(("glob", {"output": "old"}))
    body["contents"] += [
        {"role": "model", "parts": [{"text": "hm"}]},
        {"role": "user", "parts": [{"text": "so?"}]},
    ]
    assert failures_for({"responses": [{"tool": "glob"}]}, body)


def test_the_closing_turn_can_expect_too() -> None:
    closing = {"text": "end", "expect": {"responses": [{**SHELL, "contains": "host-z"}]}}
    with MockServer(Script.model_validate({"closing": closing})) as mock:
        send(mock.url, STREAM, ANSWERED)
    assert mock.failures[0].startswith("closing, request 1: ")


def test_an_expectation_that_no_request_reached_is_a_failure_once_the_run_is_over() -> None:
    script = Script.model_validate({"turns": [{"text": "a"}, {"text": "b", "expect": {"response_count": 1}}]})
    with MockServer(script) as mock:
        send(mock.url, STREAM, ask("go"))
        assert mock.failures == []
    assert mock.failures == ["turn 2: no request came to hold its expect against"]


def test_tries_that_a_fault_spoils_are_checked_once() -> None:
    turn = {
        "text": "x",
        "expect": {"response_count": 9},
        "fault": {"kind": "status", "status": 500, "times": 2},
    }
    with MockServer(Script.model_validate({"turns": [turn]})) as mock:
        for _ in range(3):
            send(mock.url, STREAM, ask("go"))
    assert mock.failures == ["turn 1, request 1: 0 new function responses, not 9"]


def test_a_long_text_is_quoted_in_part() -> None:
    failure = failures_for({"text": {"contains": "needle"}}, ask("hay" * 10_000))[0]
    assert len(failure) < 400


@pytest.mark.parametrize("expect", [{}, {"text": {"matches": "("}}, {"response_count": -1}, {"speed": 1}])
def test_an_expectation_that_makes_no_sense_is_refused(expect: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expectation"):
        Expectation.model_validate(expect)

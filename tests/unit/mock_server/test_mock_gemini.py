"""The Gemini dialect over real HTTP: what a script becomes on the wire, and what a request is read as."""

from __future__ import annotations

import json

import pytest
from mock_client import ARRAY, COUNT, PLAIN, STREAM, answer_calls, ask, send

from mock_server import DIALECTS, AnswerSource, Call, MockServer, Script, Turn, Usage

ROUTER = {
    "responseMimeType": "application/json",
    "responseJsonSchema": {
        "type": "OBJECT",
        "properties": {"complexity_reasoning": {"type": "STRING"}, "complexity_score": {"type": "INTEGER"}},
        "required": ["complexity_reasoning", "complexity_score"],
    },
}
"""What Gemini CLI 0.61.0 asks a small model before the first turn when no model was chosen."""

TWO_CALLS = Turn(
    thought="I look first.",
    text="Two things.",
    calls=[Call(name="run_shell_command", args={"command": "true"}, id="a"), Call(name="glob", args={})],
)


def test_a_streamed_turn_has_thought_text_and_parallel_calls_in_this_order() -> None:
    with MockServer(Script(turns=[TWO_CALLS])) as mock:
        answer = send(mock.url, STREAM, ask("go"))
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.parts == [
        {"text": "I look first.", "thought": True},
        {"text": "Two things."},
        {"functionCall": {"id": "a", "name": "run_shell_command", "args": {"command": "true"}}},
        {"functionCall": {"name": "glob", "args": {}}},
    ]
    reasons = [event["candidates"][0].get("finishReason") for event in answer.events]
    assert reasons == [None, None, "STOP"]
    assert ["usageMetadata" in event for event in answer.events] == [False, False, True]


def test_without_alt_sse_a_stream_is_one_json_array() -> None:
    with MockServer(Script(turns=[Turn(text=["one", "two"])])) as mock:
        answer = send(mock.url, ARRAY, ask("go"))
    assert answer.headers["content-type"] == "application/json"
    texts = [event["candidates"][0]["content"]["parts"][0]["text"] for event in answer.json]
    assert texts == ["one", "two"]


def test_generate_content_answers_with_the_whole_turn_in_one_object() -> None:
    with MockServer(Script(turns=[TWO_CALLS])) as mock:
        answer = send(mock.url, PLAIN, ask("go"))
    assert len(answer.parts) == 4
    assert answer.json["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("reason", sorted(DIALECTS["gemini"].finish_reasons))
def test_every_finish_reason_reaches_the_client_with_or_without_content(reason: str) -> None:
    turns = [Turn(text="x", finish_reason=reason), Turn(finish_reason=reason)]
    with MockServer(Script(turns=turns)) as mock:
        full, bare = (send(mock.url, STREAM, ask("go")).events[-1]["candidates"][0] for _ in turns)
    assert (full["finishReason"], bare["finishReason"]) == (reason, reason)
    assert "parts" not in bare["content"]


def test_usage_is_reported_as_ordered_and_adds_up() -> None:
    usage = Usage(prompt_tokens=100, output_tokens=20, thought_tokens=3, cached_tokens=50)
    with MockServer(Script(turns=[Turn(text="x", usage=usage)])) as mock:
        answer = send(mock.url, PLAIN, ask("go"))
    assert answer.json["usageMetadata"] == {
        "promptTokenCount": 100,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 3,
        "cachedContentTokenCount": 50,
        "totalTokenCount": 123,
    }


def test_a_side_question_gets_json_that_fits_and_takes_no_turn() -> None:
    with MockServer(Script(turns=[Turn(text="the turn")])) as mock:
        side = send(mock.url, PLAIN, ask("which model?", tools=(), generationConfig=ROUTER))
        turn = send(mock.url, STREAM, ask("go"))
        recorded = mock.requests
    assert json.loads(side.parts[0]["text"]) == {"complexity_reasoning": "mock", "complexity_score": 1}
    assert turn.parts == [{"text": "the turn"}]
    assert [request.answer for request in recorded] == [AnswerSource.SIDE, AnswerSource.TURN]


def test_a_side_answer_of_the_script_is_sent_as_it_stands() -> None:
    with MockServer(Script(side_answer={"complexity_score": 99})) as mock:
        side = send(mock.url, PLAIN, ask("which?", tools=(), generationConfig=ROUTER))
    assert json.loads(side.parts[0]["text"]) == {"complexity_score": 99}


@pytest.mark.parametrize(
    ("turns_for", "texts"),
    [
        ("auto", ["{}", "first", "second"]),
        ("all", ["first", "second", "end"]),
        ("with_tools", ["{}", "mock", "first"]),
    ],
)
def test_turns_for_decides_which_requests_take_a_turn(turns_for: str, texts: list[str]) -> None:
    script = Script.model_validate(
        {"turns": [{"text": "first"}, {"text": "second"}], "closing": {"text": "end"}, "turns_for": turns_for}
    )
    bodies = [
        ask("json please", tools=(), generationConfig={"responseMimeType": "application/json"}),
        ask("no tools", tools=()),
        ask("tools"),
    ]
    with MockServer(script) as mock:
        assert [send(mock.url, PLAIN, body).parts[0]["text"] for body in bodies] == texts


def test_count_tokens_and_the_list_of_models_answer_and_take_no_turn() -> None:
    with MockServer(Script(turns=[Turn(text="x")])) as mock:
        count = send(mock.url, COUNT, ask("a" * 400))
        models = send(mock.url, "/v1beta/models", method="GET")
        one = send(mock.url, "/v1beta/models/gemini-2.5-pro", method="GET")
        assert [request.answer for request in mock.requests] == [AnswerSource.SERVICE] * 3
    assert count.json["totalTokens"] >= 100
    assert "models/gemini-2.5-pro" in [model["name"] for model in models.json["models"]]
    assert one.json["name"] == "models/gemini-2.5-pro"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1beta/models/m:embedContent", {}, 404),
        ("GET", STREAM, None, 404),
        ("POST", "/", {}, 404),
        ("POST", STREAM, b"{", 400),
        ("POST", STREAM, [1], 400),
        ("POST", STREAM, None, 400),
    ],
    ids=["unknown-method", "get", "root", "no-json", "no-object", "no-body"],
)
def test_what_the_api_does_not_have_is_refused_recorded_and_takes_no_turn(
    method: str, path: str, body: object, status: int
) -> None:
    with MockServer(Script(turns=[Turn(text="x")])) as mock:
        refused = send(mock.url, path, body, method=method)
        assert send(mock.url, STREAM, ask("go")).parts == [{"text": "x"}]
        assert mock.requests[0].answer is AnswerSource.REFUSED
    assert (refused.status, refused.json["error"]["code"]) == (status, status)


def test_reading_tells_tools_responses_system_and_user_text() -> None:
    body = answer_calls(("glob", {"output": "a.txt"}), ("run_shell_command", {"error": "no"}), ids=("1", "2"))
    body["systemInstruction"] = {"parts": [{"text": "be"}, {"text": "brief"}]}
    with MockServer() as mock:
        send(mock.url, STREAM, body)
        reading = mock.requests[0].reading
    assert reading.tool_names == ("run_shell_command",)
    assert [(r.name, r.id, r.text) for r in reading.new_function_responses] == [
        ("glob", "1", "a.txt"),
        ("run_shell_command", "2", "no"),
    ]
    assert reading.system_text == "be\nbrief"
    assert reading.user_text == "go"


def test_responses_before_the_last_model_message_are_not_new() -> None:
    body = answer_calls(("glob", {"output": "old"}))
    body["contents"] += [
        {"role": "model", "parts": [{"text": "hm"}]},
        {"role": "user", "parts": [{"text": "so?"}]},
    ]
    reading = DIALECTS["gemini"].read(body)
    assert [response.text for response in reading.function_responses] == ["old"]
    assert reading.new_function_responses == ()
    assert reading.model_text == "hm"


@pytest.mark.parametrize(
    "body",
    [
        {"contents": None},
        {"contents": "text"},
        {"contents": [1, {"parts": "x"}, {"parts": [None, {"text": 1}, {"functionResponse": []}]}]},
        {
            "tools": {"functionDeclarations": [{"name": 3}, "x"]},
            "systemInstruction": [],
            "generationConfig": 1,
        },
    ],
)
def test_a_body_of_another_shape_is_answered_and_reads_as_empty(body: object) -> None:
    with MockServer(Script(turns=[Turn(text="x")])) as mock:
        assert send(mock.url, STREAM, body).status == 200
        assert mock.requests[0].reading.function_responses == ()
        assert mock.requests[0].reading.user_text == ""

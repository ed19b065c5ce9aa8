"""Every fault a turn can order, as a client sees it."""

from __future__ import annotations

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mock_client import PLAIN, STREAM, ask, connect, encode, send

from mock_server import AnswerSource, MockServer, Script


def script(fault: dict[str, Any], **turn: Any) -> Script:
    content = turn or {"text": ["first piece", "second piece"]}
    return Script.model_validate(
        {"turns": [{**content, "fault": fault}, {"text": "next"}], "closing": {"text": "end"}}
    )


def first_text(answer: Any) -> str:
    return str(answer.parts[0]["text"])


def test_a_status_fault_spoils_the_ordered_number_of_tries_and_then_the_turn_comes() -> None:
    fault = {"kind": "status", "status": 429, "retry_after_s": 1.5, "times": 2}
    with MockServer(script(fault)) as mock:
        answers = [send(mock.url, STREAM, ask("go")) for _ in range(4)]
        recorded = mock.requests
    assert [answer.status for answer in answers] == [429, 429, 200, 200]
    assert answers[0].headers["retry-after"] == "2"
    error = answers[0].json["error"]
    assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert error["details"][0]["retryDelay"] == "1.5s"
    assert [first_text(answer) for answer in answers[2:]] == ["first piece", "next"]
    assert [(r.answer, r.turn_number) for r in recorded[:3]] == [
        (AnswerSource.FAULT, 1),
        (AnswerSource.FAULT, 1),
        (AnswerSource.TURN, 1),
    ]
    assert recorded[1].note == "status 429, try 2 of 2"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 500, 503, 599])
def test_any_error_status_comes_in_the_dialects_own_shape(status: int) -> None:
    with MockServer(script({"kind": "status", "status": status, "message": "so it is"})) as mock:
        answer = send(mock.url, STREAM, ask("go"))
    assert answer.status == answer.json["error"]["code"] == status
    assert answer.json["error"]["message"] == "so it is"
    assert "retry-after" not in answer.headers


def test_details_of_an_error_are_the_scripts_own_and_the_delay() -> None:
    quota = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}
    with MockServer(
        script({"kind": "status", "status": 429, "retry_after_s": 3, "details": [quota]})
    ) as mock:
        details = send(mock.url, STREAM, ask("go")).json["error"]["details"]
    assert details[0] == quota
    assert [detail.get("retryDelay") for detail in details] == [None, "3s"]


def test_a_turn_that_is_only_a_fault_gives_way_to_the_next_one() -> None:
    turns = [{"fault": {"kind": "status", "status": 500}}, {"text": "next"}]
    with MockServer(Script.model_validate({"turns": turns})) as mock:
        statuses = [send(mock.url, STREAM, ask("go")).status, send(mock.url, STREAM, ask("go")).status]
        assert mock.turns_left == 0
    assert statuses == [500, 200]


def test_a_fault_that_is_always_there_never_lets_the_turn_come() -> None:
    with MockServer(script({"kind": "status", "status": 503, "times": "always"})) as mock:
        assert {send(mock.url, STREAM, ask("go")).status for _ in range(5)} == {503}
        assert mock.turns_left == 2


def test_a_cut_stream_ends_in_the_middle_of_an_event() -> None:
    with MockServer(script({"kind": "cut", "after_events": 1})) as mock:
        with pytest.raises(http.client.IncompleteRead) as caught:
            send(mock.url, STREAM, ask("go"))
        assert first_text(send(mock.url, STREAM, ask("go"))) == "first piece"
    whole, broken = caught.value.partial.decode().split("\r\n\r\n")
    assert "first piece" in whole
    assert broken.startswith("data: {")
    with pytest.raises(ValueError, match="line 1"):
        json.loads(broken.removeprefix("data: "))


def test_a_plain_answer_can_be_cut_too() -> None:
    with MockServer(script({"kind": "cut"})) as mock, pytest.raises(http.client.IncompleteRead):
        send(mock.url, PLAIN, ask("go"))


def test_a_cut_after_more_events_than_there_are_cuts_the_last_one() -> None:
    with MockServer(script({"kind": "cut", "after_events": 9})) as mock:
        with pytest.raises(http.client.IncompleteRead) as caught:
            send(mock.url, STREAM, ask("go"))
    assert b"first piece" in caught.value.partial


def test_a_stalled_stream_stays_open_until_the_client_goes() -> None:
    with MockServer(script({"kind": "stall", "after_events": 1})) as mock:
        connection = connect(mock.url)
        connection.request("POST", STREAM, encode(ask("go")))
        response = connection.getresponse()
        assert b"first piece" in response.readline()
        assert response.readline() == b"\r\n"
        connection.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            response.readline()
        response.close()
        connection.close()
        assert first_text(send(mock.url, STREAM, ask("go"))) == "first piece"


def test_the_end_of_the_block_lets_go_of_a_stalled_client() -> None:
    with ThreadPoolExecutor(1) as pool:
        with MockServer(script({"kind": "stall"})) as mock:
            stalled = pool.submit(send, mock.url, STREAM, ask("go"))
            assert mock.wait_for(lambda request: request.note.startswith("stalled"), 20)
        assert isinstance(stalled.exception(20), http.client.IncompleteRead | ConnectionError)


def test_a_trickled_turn_arrives_byte_by_byte_and_whole() -> None:
    with MockServer(script({"kind": "trickle"}, text="dribs 🙂 drabs")) as mock:
        with socket.create_connection(("127.0.0.1", int(mock.url.rpartition(":")[2]))) as client:
            body = encode(ask("go")) or b""
            lines = [
                f"POST {STREAM} HTTP/1.1",
                "Host: x",
                "Connection: close",
                f"Content-Length: {len(body)}",
            ]
            client.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            received = b"".join(iter(lambda: client.recv(65536), b""))
        assert mock.requests[0].turn_number == 1
        assert mock.turns_left == 1
    chunks = received.partition(b"\r\n\r\n")[2].split(b"\r\n1\r\n")
    assert len(chunks) > 50
    assert "dribs" in b"".join(chunk[-1:] for chunk in chunks).decode("utf-8", "ignore")


@pytest.mark.parametrize("path", [STREAM, PLAIN])
def test_malformed_json_is_a_whole_answer_that_does_not_parse(path: str) -> None:
    with MockServer(script({"kind": "malformed"})) as mock:
        answer = send(mock.url, path, ask("go"))
        assert first_text(send(mock.url, path, ask("go"))) == "first piece"
    first = answer.raw.decode().split("\r\n\r\n")[0].removeprefix("data: ")
    with pytest.raises(ValueError, match="line 1"):
        json.loads(first)


def test_an_empty_candidate_has_no_parts() -> None:
    with MockServer(script({"kind": "empty"})) as mock:
        assert send(mock.url, STREAM, ask("go")).parts == []
        assert first_text(send(mock.url, STREAM, ask("go"))) == "first piece"


def test_side_questions_are_spared_from_faults() -> None:
    side = ask("which?", tools=(), generationConfig={"responseMimeType": "application/json"})
    with MockServer(script({"kind": "status", "status": 500})) as mock:
        assert send(mock.url, PLAIN, side).status == 200
        assert send(mock.url, PLAIN, ask("go")).status == 500

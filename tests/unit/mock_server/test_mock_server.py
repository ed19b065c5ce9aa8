"""The server as synchronous code uses it: start, record, wait, end."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from mock_client import STREAM, ask, send

from mock_server import AnswerSource, MockServer, MockServerError, Script, ScriptError, Turn, parse_script


def test_turns_are_served_in_order_and_then_the_closing_turn_says_so_in_the_record() -> None:
    script = Script(turns=[Turn(text="one"), Turn(text="two")], closing=Turn(text="over"))
    with MockServer(script) as mock:
        texts = [send(mock.url, STREAM, ask("go")).parts[0]["text"] for _ in range(4)]
        recorded = mock.requests
    assert texts == ["one", "two", "over", "over"]
    assert [(r.answer, r.turn_number) for r in recorded] == [
        (AnswerSource.TURN, 1),
        (AnswerSource.TURN, 2),
        (AnswerSource.CLOSING, None),
        (AnswerSource.CLOSING, None),
    ]
    assert recorded[2].note == "no turn left"


def test_a_request_is_recorded_whole_but_for_its_keys() -> None:
    headers = {"x-goog-api-key": "sesame", "Authorization": "Bearer sesame", "X-Other": "kept"}
    with MockServer() as mock:
        send(mock.url, STREAM + "&key=sesame", ask("hello"), headers=headers)
        request = mock.requests[0]
    assert "sesame" not in request.model_dump_json()
    assert request.headers["x-goog-api-key"] == request.headers["Authorization"] == "(removed)"
    assert request.headers["X-Other"] == "kept"
    assert (request.method, request.path) == ("POST", STREAM + "&key=(removed)")
    assert request.body == ask("hello")
    assert request.at.utcoffset() is not None


def test_wait_for_sees_a_request_that_comes_later_and_one_that_came_before() -> None:
    with MockServer() as mock, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mock.wait_for, lambda request: "second" in request.reading.user_text, 20)
        send(mock.url, STREAM, ask("first"))
        send(mock.url, STREAM, ask("second"))
        found = waiting.result()
        assert found is not None
        assert found.number == 2
        assert mock.wait_for(lambda request: request.number == 1, 0) == mock.requests[0]


def test_wait_for_gives_none_when_nothing_comes_and_its_predicate_may_read_the_requests() -> None:
    with MockServer() as mock:
        send(mock.url, STREAM, ask("x"))
        assert mock.wait_for(lambda _: len(mock.requests) > 1, 0.01) is None


def test_concurrent_requests_each_get_a_turn_of_their_own() -> None:
    script = Script(turns=[Turn(text=str(number)) for number in range(20)])
    with MockServer(script) as mock, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: send(mock.url, STREAM, ask("go")), range(20)))
        assert [request.number for request in mock.requests] == list(range(1, 21))
    assert sorted(int(answer.parts[0]["text"]) for answer in answers) == list(range(20))


def test_leaving_the_block_ends_the_thread_and_frees_the_port() -> None:
    before = set(threading.enumerate())
    with MockServer() as mock:
        send(mock.url, STREAM, ask("x"))
        port = int(mock.url.rpartition(":")[2])
    assert set(threading.enumerate()) == before
    with MockServer(port=port):
        pass
    assert mock.requests[0].number == 1


def test_an_error_in_the_block_ends_the_server_and_goes_on() -> None:
    before = set(threading.enumerate())
    with pytest.raises(KeyError), MockServer():
        raise KeyError
    assert set(threading.enumerate()) == before


def test_an_idle_keep_alive_connection_does_not_hold_the_end_up() -> None:
    with MockServer() as mock:
        idle = socket.create_connection(("127.0.0.1", int(mock.url.rpartition(":")[2])))
        send(mock.url, STREAM, ask("x"))
    with idle:
        assert idle.recv(1) == b""


def test_a_port_in_use_is_one_clear_error() -> None:
    with MockServer() as mock:
        port = int(mock.url.rpartition(":")[2])
        with pytest.raises(MockServerError, match=f"127.0.0.1:{port}"), MockServer(port=port):
            pass


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70_000), ("no-such-host.invalid", 0), ("192.0.2.1", 0)]
)
def test_an_address_that_can_not_be_listened_on_is_one_clear_error(host: str, port: int) -> None:
    said = f"^can't listen on {host}:{port}: [^\n]+$"
    with pytest.raises(MockServerError, match=said), MockServer(host=host, port=port):
        pass


def test_an_ipv6_address_stands_in_brackets() -> None:
    with MockServer(host="::1") as mock:
        assert mock.url.startswith("http://[::1]:")
        assert send(mock.url, STREAM, ask("x")).status == 200


def test_an_empty_host_is_not_taken_for_every_address() -> None:
    with pytest.raises(ValueError, match="host"):
        MockServer(host="")


def test_an_unknown_dialect_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="gemini"):
        MockServer(dialect="cobol")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("turns: [{text: x, finish_reason: DONE}]", r"turns\[0\].finish_reason: 'DONE' is none of gemini's"),
        ("dialect: openai", "dialect: the script is for 'openai'"),
    ],
)
def test_a_script_that_does_not_fit_the_dialect_is_refused_before_anything_starts(
    text: str, reason: str
) -> None:
    with pytest.raises(ScriptError, match=reason):
        MockServer(parse_script(text))

"""A run as a file, and its replay."""

from __future__ import annotations

import http.client
import json
import stat
from pathlib import Path

import pytest
from mock_client import PLAIN, STREAM, Answer, ask, send

from mock_server import (
    AnswerSource,
    MockServer,
    MockServerError,
    RecordingError,
    RecordingWriter,
    ReplayPlayer,
    Script,
    load_recording,
)

SIDE = ask("which?", tools=(), generationConfig={"responseMimeType": "application/json"})
SCRIPT = Script.model_validate(
    {
        "turns": [
            {
                "calls": [{"name": "run_shell_command", "args": {"command": "true"}}],
                "thought": "\u2028 🙂",
            },
            {"text": "late", "fault": {"kind": "status", "status": 429, "retry_after_s": 1}},
            {"text": ["cut", "short"], "fault": {"kind": "cut", "after_events": 1}},
        ],
        "closing": {"text": "over"},
    }
)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A run of SCRIPT: a side question, five requests, one of them for a stream that is cut."""
    path = tmp_path / "run.jsonl"
    mock = MockServer(SCRIPT)
    with RecordingWriter(path, "gemini") as writer:
        mock.add_sink(writer)
        with mock:
            run(mock.url)
    return path


def run(url: str) -> list[Answer]:
    answers = [send(url, PLAIN, SIDE), *(send(url, STREAM, ask("go"), headers=KEY) for _ in range(3))]
    with pytest.raises(http.client.IncompleteRead) as caught:
        send(url, STREAM, ask("go"))
    return [*answers, Answer(0, {}, caught.value.partial), send(url, STREAM, ask("go"))]


KEY = {"x-goog-api-key": "sesame"}


def replaying(path: Path) -> MockServer:
    dialect, exchanges = load_recording(path)
    return MockServer(player=ReplayPlayer(exchanges, dialect), dialect=dialect.name)


def test_a_replay_sends_the_same_bytes_in_the_same_order(recording: Path) -> None:
    with MockServer(SCRIPT) as mock:
        first = run(mock.url)
    with replaying(recording) as mock:
        again = run(mock.url)
        recorded = mock.requests
    assert [(a.status, a.raw) for a in again] == [(a.status, a.raw) for a in first]
    assert again[2].headers["retry-after"] == "1"
    assert (recorded[1].answer, recorded[1].turn_number) == (AnswerSource.TURN, 1)
    assert recorded[2].note == "replay of request 3: status 429, try 1 of 1"


def test_a_replay_gives_turns_to_a_client_that_skips_the_side_question(recording: Path) -> None:
    with replaying(recording) as mock:
        assert "functionCall" in send(mock.url, STREAM, ask("go")).parts[1]
        assert mock.turns_left == 4


def test_a_replay_that_has_nothing_left_closes_and_says_so(recording: Path) -> None:
    with replaying(recording) as mock:
        run(mock.url)
        answer = send(mock.url, STREAM, ask("go"))
        assert mock.requests[-1].answer is AnswerSource.CLOSING
        assert mock.requests[-1].note == "nothing left to replay"
    assert answer.status == 200


def test_a_recording_is_private_has_no_keys_and_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    mock = MockServer(SCRIPT)
    with RecordingWriter(path, "gemini") as writer:
        mock.add_sink(writer)
        with mock:
            send(mock.url, STREAM, ask("go"), headers=KEY)
            lines = path.read_text().splitlines()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [sorted(json.loads(line)) for line in lines] == [
        ["dialect", "format", "version"],
        ["delivery", "reply", "request"],
    ]
    assert "sesame" not in path.read_text()


def test_a_recording_is_kept_until_the_run_begins(recording: Path) -> None:
    before = recording.read_bytes()
    mock = MockServer(host="192.0.2.1")  # nobody's
    writer = RecordingWriter(recording, "gemini")
    mock.add_sink(writer)
    with pytest.raises(MockServerError), writer, mock:
        pass
    assert recording.read_bytes() == before
    with RecordingWriter(recording, "gemini"):
        pass
    assert load_recording(recording)[1] == []


@pytest.mark.parametrize(
    "body",
    [b'{"contents": "\\ud800"}', b"\xff\xfe no json", b'{"a": 1e999}', b"[" * 100_000],
    ids=["lone-surrogate", "no-utf-8", "beyond-a-float", "too-deep"],
)
def test_a_strange_body_is_recorded_and_the_recording_still_loads(body: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    mock = MockServer()
    with RecordingWriter(path, "gemini") as writer:
        mock.add_sink(writer)
        with mock:
            send(mock.url, STREAM, body)
            send(mock.url, STREAM, ask("go"))
    assert len(load_recording(path)[1]) == 2


HEADER = '{"format": "mock-server-recording", "version": 1, "dialect": "gemini"}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "run.jsonl: the file is empty"),
        ("turns: []\n", "run.jsonl:1: no recording of a mock run"),
        (HEADER.replace("1", "2"), "run.jsonl:1: no recording of a mock run: version"),
        (HEADER.replace("gemini", "cobol"), "run.jsonl:1: no dialect 'cobol'"),
        (HEADER + '{"request": {', "run.jsonl:2: no whole record of a request and its answer"),
    ],
)
def test_a_file_that_is_no_recording_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(text)
    with pytest.raises(RecordingError) as caught:
        load_recording(tmp_path / "run.jsonl")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="gone.jsonl: No such file"):
        load_recording(tmp_path / "gone.jsonl")

"""`reach mock` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mock_client import STREAM, answer_calls, ask, send

from mock_server import MockServer, load_recording

RUN = "from reach.cli import main; main()"
SCRIPT = """
dialect: gemini
turns:
- calls: [{name: run_shell_command, args: {command: hostname}}]
- text: done
  expect: {responses: [{tool: run_shell_command, contains: host-a}]}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.yaml"
    path.write_text(SCRIPT)
    return path


@contextmanager
def running(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, its output on one pipe, with the URL that its first line tells."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "mock", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        url = json.loads(first)["url"] if first.startswith("{") else first.split(" at ")[1].split(";")[0]
        yield process, url
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def output_after(process: subprocess.Popen[str], ending: signal.Signals) -> str:
    """All further output, to the end that the signal brings about."""
    process.send_signal(ending)
    assert process.stdout is not None
    output = process.stdout.read()
    process.wait()
    return output


def invoke(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command, to an end that it comes to by itself."""
    argv = [sys.executable, "-c", RUN, "mock", *map(str, arguments)]
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_run_is_reported_line_by_line_and_ended_by_a_signal(script: Path, ending: signal.Signals) -> None:
    with running("--script", script) as (process, url):
        send(url, STREAM, ask("go"))
        send(url, STREAM, answer_calls(("run_shell_command", {"output": "host-a"})))
        output = output_after(process, ending)
    assert process.returncode == 0
    assert f"export GOOGLE_GEMINI_BASE_URL={url}" in output
    assert "export GEMINI_API_KEY=" in output
    assert "  1 POST gemini-2.5-flash:streamGenerateContent → turn 1" in output
    assert "  2 POST gemini-2.5-flash:streamGenerateContent with 1 response → turn 2" in output
    assert output.endswith("2 requests, 0 turns left, 0 failures\n")


def test_an_expectation_that_fails_is_said_at_once_and_at_the_end_and_is_exit_code_1(
    script: Path,
) -> None:
    with running("--script", script) as (process, url):
        send(url, STREAM, ask("go"))
        send(url, STREAM, answer_calls(("run_shell_command", {"output": "host-b"})))
        output = output_after(process, signal.SIGINT)
    assert process.returncode == 1
    assert output.count("response of run_shell_command does not contain 'host-a': 'host-b'") == 2
    assert "2 requests, 0 turns left, 1 failure\n" in output


def test_a_run_that_never_reached_an_expectation_ends_with_exit_code_1(script: Path) -> None:
    with running("--script", script) as (process, _):
        output = output_after(process, signal.SIGINT)
    assert process.returncode == 1
    assert "turn 2: no request came to hold its expect against" in output


def test_a_run_is_recorded_and_replayed_with_reports_in_json(script: Path, tmp_path: Path) -> None:
    recording = tmp_path / "run.jsonl"
    answers = []
    for arguments in (["--script", script, "--record", recording], ["--replay", recording]):
        with running(*arguments, "--json") as (process, url):
            answers.append(send(url, STREAM, ask("go")).raw)
            output = output_after(process, signal.SIGINT)
    assert answers[0] == answers[1]
    request, summary = (json.loads(line) for line in output.splitlines())
    assert (request["event"], request["answer"], request["turn_number"]) == ("request", "turn", 1)
    assert summary == {"event": "summary", "requests": 1, "turns_left": 0, "failures": []}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("turns:\n- txt: hi\n", "bad.yaml:2: turns[0].txt: there is no such key"),
        ("dialect: cobol\n", "bad.yaml: dialect: there is no 'cobol'"),
        ("turns: [{text: a, finish_reason: X}]", "bad.yaml: turns[0].finish_reason: 'X' is none of gemini's"),
    ],
)
def test_a_bad_script_is_one_line_and_exit_code_2(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    result = invoke("--script", tmp_path / "bad.yaml")
    assert result.returncode == 2
    assert result.stdout.startswith("reach: ")
    assert said in result.stdout
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--script", "gone"], "gone: No such file"),
        (["--replay", "gone"], "gone: No such file"),
        ([], "give it --script FILE or --replay FILE"),
        (["--script", "x", "--replay", "x"], "give it --script FILE or --replay FILE"),
    ],
    ids=["no-script", "no-recording", "neither", "both"],
)
def test_a_run_with_nothing_or_too_much_to_serve_is_exit_code_2(arguments: list[str], said: str) -> None:
    result = invoke(*arguments)
    assert (result.returncode, said in result.stdout) == (2, True)


def test_a_script_without_a_dialect_is_served_as_gemini(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("turns: [{text: hello}]")
    with running("--script", tmp_path / "script.yaml", "--json") as (_, url):
        assert b"hello" in send(url, STREAM, ask("go")).raw


def test_a_port_in_use_is_exit_code_2(script: Path) -> None:
    with MockServer() as other:
        taken = invoke("--script", script, "--port", other.url.rpartition(":")[2])
    assert (taken.returncode, "can't listen on 127.0.0.1:" in taken.stdout) == (2, True)


def test_a_record_file_that_cannot_be_written_is_exit_code_2(script: Path, tmp_path: Path) -> None:
    unwritable = invoke("--script", script, "--record", tmp_path / "no" / "run.jsonl")
    assert (unwritable.returncode, "No such file" in unwritable.stdout) == (2, True)


def test_the_schema_is_printed_as_json() -> None:
    result = invoke("--schema")
    assert result.returncode == 0
    assert json.loads(result.stdout)["title"] == "Script"


@pytest.mark.parametrize("option", ["--script", "--replay"])
def test_a_record_never_overwrites_what_it_is_made_from(script: Path, tmp_path: Path, option: str) -> None:
    (tmp_path / "link").symlink_to(script)
    done = invoke(option, script, "--record", tmp_path / "link")
    assert done.returncode == 2
    assert "--record would overwrite what is served" in done.stdout
    assert script.read_text() == SCRIPT


@pytest.mark.parametrize("before", [SCRIPT, None], ids=["an-old-one", "none"])
def test_a_port_in_use_leaves_the_record_file_as_it_was(script: Path, tmp_path: Path, before: str | None) -> None:
    recording = tmp_path / "old.jsonl"
    if before is not None:
        recording.write_text(before)
    with MockServer() as other:
        taken = invoke("--script", script, "--record", recording, "--port", other.url.rpartition(":")[2])
    assert taken.returncode == 2
    assert taken.stdout.startswith("reach: can't listen on 127.0.0.1:")
    assert (recording.read_text() if recording.exists() else None) == before


def test_a_run_that_listens_replaces_an_old_recording_before_any_request(script: Path, tmp_path: Path) -> None:
    recording = tmp_path / "old.jsonl"
    recording.write_text("old\n" * 100)
    with running("--script", script, "--record", recording):
        assert load_recording(recording)[1] == []


def test_an_empty_host_is_refused(script: Path) -> None:
    refused = invoke("--script", script, "--host", "")
    assert refused.returncode == 2
    assert "--host is empty; give it an address: 127.0.0.1" in refused.stdout

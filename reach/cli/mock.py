"""`reach mock`: the mock model API alone, in the foreground."""

from __future__ import annotations

import json
import shlex
import signal
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import click

from mock_server import (
    DIALECTS,
    MockServer,
    MockServerError,
    RecordedRequest,
    RecordingError,
    RecordingWriter,
    ReplayPlayer,
    ScriptError,
    load_recording,
    load_script,
    script_schema,
)
from mock_server.api import Delivery, Reply
from mock_server.script_file import check_script
from reach.errors import ConfigError

DEFAULT_DIALECT = "gemini"
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Report:
    """What the operator sees of a run: text, or one JSON object a line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def listening(self, mock: MockServer) -> None:
        if self._as_json:
            self._emit("listening", dialect=mock.dialect.name, url=mock.url, environment=mock.environment)
            return
        click.echo(f"{mock.dialect.name} mock at {mock.url}; for the harness:")
        for name, value in mock.environment.items():
            click.echo(f"  export {name}={shlex.quote(value)}")
        click.echo(f"({mock.dialect.hint})\nCtrl-C ends it.")

    def request(self, request: RecordedRequest, reply: Reply, delivery: Delivery) -> None:
        """A sink: called in the server's thread, where nobody reading any more is no reason to fail a request."""
        with suppress(BrokenPipeError):
            self._request(request)

    def _request(self, request: RecordedRequest) -> None:
        if self._as_json:
            self._emit("request", **request.model_dump(mode="json", exclude={"body", "headers"}))
            return
        click.echo(request_line(request))
        for failure in request.failures:
            click.echo(f"    expected otherwise: {failure}")

    def summary(self, mock: MockServer) -> None:
        count, left, failures = len(mock.requests), mock.turns_left, mock.failures
        if self._as_json:
            self._emit("summary", requests=count, turns_left=left, failures=failures)
            return
        outcome = _counted(len(failures), "failure")
        click.echo(f"{_counted(count, 'request')}, {_counted(left, 'turn')} left, {outcome}")
        for failure in failures:
            click.echo(f"  {failure}")

    def _emit(self, event: str, **values: Any) -> None:
        click.echo(json.dumps({"event": event, **values}))


def request_line(request: RecordedRequest) -> str:
    """One short line: what came in and what answered it."""
    path = request.path.partition("?")[0]
    what = path.rpartition("/")[2] if request.model else path
    responses = len(request.reading.new_function_responses)
    brought = f" with {_counted(responses, 'response')}" if responses else ""
    turn = f" {request.turn_number}" if request.turn_number is not None else ""
    note = f" ({request.note})" if request.note else ""
    status = "" if request.status == 200 else f" [{request.status}]"
    return f"{request.number:>3} {request.method} {what}{brought} → {request.answer}{turn}{note}{status}"


@click.command("mock")
@click.option("--dialect", type=click.Choice(sorted(DIALECTS)), help="The API to speak, if not the script's or gemini.")
@click.option(
    "--script", "script_path", type=click.Path(path_type=Path), help="Turns to serve, YAML or JSON."
)
@click.option("--replay", "replay_path", type=click.Path(path_type=Path), help="A recording to serve again.")
@click.option("--record", "record_path", type=click.Path(path_type=Path), help="Write the run to this file.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 takes a free one."
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of a script and end.")
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON object a line.")
@click.pass_context
def mock(
    context: click.Context,
    dialect: str | None,
    script_path: Path | None,
    replay_path: Path | None,
    record_path: Path | None,
    host: str,
    port: int,
    schema: bool,
    as_json: bool,
) -> None:
    """Serve a scripted model API to a harness, and record what the harness sends.

    The exit code is 1 when a turn expected something else of the harness, 2 for a script that can't be used.
    """
    if schema:
        click.echo(json.dumps(script_schema(), indent=2))
        return
    if (script_path is None) == (replay_path is None):
        raise click.UsageError("give it --script FILE or --replay FILE", context)
    if not host:
        raise click.UsageError("--host is empty; give it an address: 127.0.0.1, or 0.0.0.0 for all of them", context)
    if record_path is not None and _is_same_file(record_path, script_path or replay_path):
        raise click.UsageError("--record would overwrite what is served; give it another file", context)
    report = Report(as_json=as_json)
    with ExitStack() as stack:
        server = _server(dialect, script_path, replay_path, host, port)
        recording = None
        if record_path is not None:
            recording = stack.enter_context(_recording(record_path, server.dialect.name))
            server.add_sink(recording)
        server.add_sink(report.request)
        _serve_until_signal(server, report, recording)
    report.summary(server)
    context.exit(1 if server.failures else 0)


def _server(
    dialect: str | None, script_path: Path | None, replay_path: Path | None, host: str, port: int
) -> MockServer:
    try:
        if script_path is not None:
            script = load_script(script_path)
            name = dialect or script.dialect or DEFAULT_DIALECT
            if name not in DIALECTS:
                raise ConfigError(f"{script_path}: dialect: there is no {name!r}")
            check_script(script, DIALECTS[name], source=str(script_path))
            return MockServer(script, dialect=name, host=host, port=port)
        assert replay_path is not None  # one of the two is given
        recorded, exchanges = load_recording(replay_path)
        if dialect not in (None, recorded.name):
            raise ConfigError(f"{replay_path}: a recording of {recorded.name}, not of {dialect}")
        return MockServer(
            player=ReplayPlayer(exchanges, recorded), dialect=recorded.name, host=host, port=port
        )
    except (ScriptError, RecordingError) as error:
        raise ConfigError(str(error)) from None


def _recording(path: Path, dialect: str) -> RecordingWriter:
    try:
        return RecordingWriter(path, dialect)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", fix="name a file for --record that can be written") from None


def _serve_until_signal(server: MockServer, report: Report, recording: RecordingWriter | None) -> None:
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    # Set even where SIGINT is ignored, as it is for a job that a script puts in the background.
    before = {number: signal.signal(number, end) for number in ENDING_SIGNALS}
    try:
        with server:
            if recording is not None:
                recording.begin()
            report.listening(server)
            ended.wait()
    except MockServerError as error:
        raise ConfigError(str(error), fix="name another --host or --port; without --port a free one is taken") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_same_file(one: Path, other: Path | None) -> bool:
    try:
        return other is not None and one.samefile(other)
    except OSError:
        return False


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

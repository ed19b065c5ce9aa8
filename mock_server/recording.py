"""A run as a file: one JSON line for the run, then one for each request and its answer; and its replay.

Keys were removed before anything got here, but prompts, file contents and tool output are in it.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mock_server.api import ApiRequest, Delivery, Reply, RequestKind
from mock_server.dialects import DIALECTS, Dialect
from mock_server.player import Answer, ScriptPlayer
from mock_server.reading import Reading
from mock_server.recorder import RecordedRequest
from mock_server.script import Script

Line = TypeVar("Line", bound=BaseModel)


class RecordingError(Exception):
    """A file that can't be replayed: file, line, what is wrong, in one line."""


class Header(BaseModel):
    """The first line of a recording."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["mock-server-recording"] = "mock-server-recording"
    version: Literal[1] = 1
    dialect: str


class Exchange(BaseModel):
    """A request, and what was sent back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: RecordedRequest
    reply: Reply
    delivery: Delivery


class RecordingWriter:
    """Writes a recording while the run goes on; a sink for the server, its block around the server's.

    What is in the file already stays until the run begins: a server that can't listen must not cost an old recording.
    """

    def __init__(self, path: Path, dialect: str) -> None:
        """Raises: OSError."""
        self._path = path
        self._dialect = dialect
        self._beginning = threading.Lock()
        self._has_begun = False
        try:
            handle, self._is_new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), True
        except FileExistsError:
            handle, self._is_new = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), False
        self._file = os.fdopen(handle, "w", encoding="utf-8")

    def begin(self) -> None:
        """Replace what is in the file, once; the first request does so too. Raises: OSError."""
        with self._beginning:
            if self._has_begun:
                return
            self._has_begun = True
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.truncate(0)
            self._write(Header(dialect=self._dialect))

    def __call__(self, request: RecordedRequest, reply: Reply, delivery: Delivery) -> None:
        self.begin()
        self._write(Exchange(request=request, reply=reply, delivery=delivery))

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self.begin()  # a run without a request is one, too
            elif self._is_new and not self._has_begun:
                self._path.unlink(missing_ok=True)

    def _write(self, line: BaseModel) -> None:
        # ASCII: bodies may hold lone surrogates, which UTF-8 has no bytes for.
        self._file.write(json.dumps(line.model_dump(mode="json")) + "\n")
        self._file.flush()


class ReplayPlayer:
    """Serves recorded answers again.

    Each kind of request has its answers in their order: a harness that asks one side question more or less
    still gets the turns that were recorded. When a kind has none left, the answer is that of an empty script.
    """

    def __init__(self, exchanges: list[Exchange], dialect: Dialect) -> None:
        self._left: dict[RequestKind, deque[Exchange]] = {kind: deque() for kind in RequestKind}
        for exchange in exchanges:
            if exchange.request.kind is not None:
                self._left[exchange.request.kind].append(exchange)
        self._fallback = ScriptPlayer(Script(), dialect)

    def answer(self, request: ApiRequest, reading: Reading) -> Answer:
        left = self._left[request.kind]
        if not left:
            return replace(self._fallback.answer(request, reading), note="nothing left to replay")
        exchange = left.popleft()
        recorded = exchange.request
        note = f"replay of request {recorded.number}" + (f": {recorded.note}" if recorded.note else "")
        return Answer(exchange.reply, recorded.answer, exchange.delivery, recorded.turn_number, note)

    @property
    def turns_left(self) -> int:
        return len(self._left[RequestKind.TURN])

    def unmet(self) -> list[str]:
        return []


def load_recording(path: Path) -> tuple[Dialect, list[Exchange]]:
    """Raises: RecordingError, also for a file that can't be read."""
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise RecordingError(f"{path}: the file is not UTF-8") from None
    if lines == [""]:
        raise RecordingError(f"{path}: the file is empty")
    header = _parse_line(Header, lines[0], f"{path}:1", "no recording of a mock run")
    if header.dialect not in DIALECTS:
        raise RecordingError(f"{path}:1: no dialect {header.dialect!r}")
    return DIALECTS[header.dialect], [
        _parse_line(Exchange, line, f"{path}:{number}", "no whole record of a request and its answer")
        for number, line in enumerate(lines[1:], start=2)
    ]


def _parse_line(model: type[Line], line: str, where: str, problem: str) -> Line:
    try:
        # Not model_validate_json: it refuses the lone surrogates that a body may hold.
        return model.model_validate(json.loads(line))
    except json.JSONDecodeError as error:
        raise RecordingError(f"{where}: {problem}: {error.msg}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordingError(f"{where}: {problem}: {place + ': ' if place else ''}{first['msg']}") from None

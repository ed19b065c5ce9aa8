"""The mock as an object of synchronous code: its event loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from types import TracebackType

from aiohttp import web

from mock_server.app import MockApp
from mock_server.dialects import DIALECTS, Dialect
from mock_server.player import Player, ScriptPlayer
from mock_server.recorder import RecordedRequest, Recorder, Sink
from mock_server.script import Script
from mock_server.script_file import check_script

SHUTDOWN_TIMEOUT_S = 1.0
"""For answers still on their way out when the server ends."""


class MockServerError(Exception):
    """The server can't listen where it was told to."""


class MockServer:
    """A mock of a model API that listens from `with` to the end of its block."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        dialect: str = "gemini",
        host: str = "127.0.0.1",
        port: int = 0,
        player: Player | None = None,
    ) -> None:
        """Serve SCRIPT, or what PLAYER answers in its place. PORT 0 takes a free one.

        Raises: ValueError for an unknown dialect or no host; ScriptError for a script that does not fit it.
        """
        if dialect not in DIALECTS:
            raise ValueError(f"no dialect {dialect!r}; there is {', '.join(sorted(DIALECTS))}")
        if not host:  # which would be every address of this machine
            raise ValueError("the host to listen on is empty")
        self.dialect: Dialect = DIALECTS[dialect]
        script = script or Script()
        check_script(script, self.dialect)
        self._player = player or ScriptPlayer(script, self.dialect)
        self._recorder = Recorder()
        self._host = host
        self._port = port
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._has_ended = False

    def add_sink(self, sink: Sink) -> None:
        """Have SINK called for every request; only before the server starts."""
        self._recorder.add_sink(sink)

    def __enter__(self) -> MockServer:
        """Raises: MockServerError when the address can't be listened on."""
        started = threading.Event()
        problems: list[OSError | OverflowError] = []
        self._thread = threading.Thread(
            target=self._run, args=(started, problems), name="mock-server", daemon=True
        )
        self._thread.start()
        started.wait()
        if problems:
            self._thread.join()
            raise MockServerError(f"can't listen on {self._host}:{self._port}: {_reason(problems[0])}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        self._has_ended = True

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point a harness here."""
        return self.dialect.environment(self.url)

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests so far, oldest first; a copy."""
        return self._recorder.requests

    @property
    def failures(self) -> list[str]:
        """What turns expected and did not find; after the block also what no request ever put to the test."""
        found = [
            f"{_turn_label(request)}, request {request.number}: {failure}"
            for request in self.requests
            for failure in request.failures
        ]
        return found + (self._player.unmet() if self._has_ended else [])

    @property
    def turns_left(self) -> int:
        """How many turns no request has taken yet."""
        return self._player.turns_left

    def wait_for(
        self, predicate: Callable[[RecordedRequest], bool], timeout_s: float
    ) -> RecordedRequest | None:
        """The first request, past or to come, that PREDICATE accepts; None when there is none in time."""
        return self._recorder.wait_for(predicate, timeout_s)

    def _run(self, started: threading.Event, problems: list[OSError | OverflowError]) -> None:
        try:
            asyncio.run(self._serve(started))
        except (OSError, OverflowError) as error:
            problems.append(error)
        finally:
            started.set()

    async def _serve(self, started: threading.Event) -> None:
        app = MockApp(self.dialect, self._player, self._recorder)
        runner = web.AppRunner(
            app.build(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT_S
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
            self._port = runner.addresses[0][1]
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            started.set()
            await self._stop.wait()
        finally:
            app.ending.set()
            await runner.cleanup()


def _reason(error: OSError | OverflowError) -> str:
    """Without the address, which asyncio puts into the text of a failed bind."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error)


def _turn_label(request: RecordedRequest) -> str:
    return "closing" if request.turn_number is None else f"turn {request.turn_number}"

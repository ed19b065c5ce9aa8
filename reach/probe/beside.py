"""A run of the harness beside another one: each of them leaves most of the machine idle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from dataclasses import replace
from types import TracebackType
from typing import Generic, Self, TypeVar

from reach.probe.observation import Subject

_POLL_S = 0.1
_T = TypeVar("_T")


class Beside(Generic[_T]):
    """A context manager, at whose end the run is over: given up where nobody waited for its result."""

    def __init__(self, run: Callable[[Subject], _T]) -> None:
        self._run = run
        self._stop = threading.Event()
        self._pool = futures.ThreadPoolExecutor(1)
        self._future: futures.Future[_T] = futures.Future()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._pool.shutdown()

    def start(self, subject: Subject) -> None:
        self._future = self._pool.submit(self._run, replace(subject, stop=self._stop))

    def wait(self, stop: threading.Event) -> _T:
        """Its result; setting STOP ends it early. It was started. Raises: what the run raised."""
        while not futures.wait([self._future], _POLL_S).done:
            if stop.is_set():
                self._stop.set()
        return self._future.result()

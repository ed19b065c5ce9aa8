"""Threads for requests: as many as there are requests, and kept for the next one for a while."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

IDLE_S = 20.0

log = logging.getLogger("reach.broker")


class Threads:
    """A request never waits for another one's end, as it would where the number of threads has a limit."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0
        """Threads that wait, less the work that is already meant for them."""

    def submit(self, work: Callable[[], object]) -> None:
        """Run WORK in a thread. Raises: RuntimeError when the system gives no more threads."""
        with self._lock:
            has_one = self._free > 0
            if has_one:
                self._free -= 1
        if has_one:
            self._work.put(work)
        else:
            threading.Thread(target=self._run, args=(work,), name="request", daemon=True).start()

    def _run(self, work: Callable[[], object] | None) -> None:
        while work is not None:
            try:
                work()
            except Exception:  # a request's boundary: the broker serves the others
                log.exception("a request failed")
            work = None  # what it holds is not kept while this thread waits
            work = self._next()

    def _next(self) -> Callable[[], object] | None:
        with self._lock:
            self._free += 1
        try:
            return self._work.get(timeout=IDLE_S)
        except queue.Empty:
            pass
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return None
        return self._work.get()  # work is on its way to this thread

"""Several probes, some at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed

from reach.probe.result import ProbeResult

Task = Callable[[threading.Event], ProbeResult]
"""A probe that ends soon after the event is set."""


def run_matrix(tasks: Iterable[Task], jobs: int, on_result: Callable[[ProbeResult], None]) -> list[ProbeResult]:
    """Run TASKS, JOBS at a time; their results in the order of TASKS. ON_RESULT is called as each comes in.

    Whatever ends this early (Ctrl-C, an error of one task) ends the harnesses of the others too.
    """
    stop = threading.Event()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="probe")
    futures = [pool.submit(task, stop) for task in tasks]
    try:
        for future in as_completed(futures):
            on_result(future.result())
        return [future.result() for future in futures]
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)

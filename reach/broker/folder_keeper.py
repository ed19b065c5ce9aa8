"""Keeps the empty folders of managed workspaces those of the target while commands make new ones there.

A harness looks for the folder that a call names on its own machine, before anything is run. So the target is asked
again once a command has ended, and now and then while one runs, beside the commands and never before one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reach.broker.skeleton import add_folders, parse_listing

FIRST_LOOK_S = 1.0
"""After the start of a command that still runs; the next look comes after twice as long, and so on."""
LONGEST_WAIT_S = 60.0
REST_FACTOR = 4
"""For so many times as long as a listing took the target is not asked for another."""

log = logging.getLogger("reach.broker")


@dataclass(eq=False)
class _Watch:
    """A command that runs."""

    workspace: str


class FolderKeeper:
    """Thread-safe. One listing at a time, for everybody who waits for one."""

    def __init__(self, ask: Callable[[], bytes | None]) -> None:
        """ASK gives what `listing_command` prints on the target; None where it can't be had now."""
        self._ask = ask
        self._changed = threading.Condition()
        self._watches: set[_Watch] = set()
        self._due: set[str] = set()
        """Workspaces in whose name a command has ended since the last listing."""
        self._wait_s = FIRST_LOOK_S
        self._look_at_s = 0.0
        """When to look after the commands that run."""
        self._rest_until_s = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def command_runs(self, workspace: str) -> Iterator[None]:
        """Until the end of this context a command that was called from WORKSPACE may make folders."""
        watch = _Watch(workspace)
        with self._changed:
            self._watches.add(watch)
            self._wait_s = FIRST_LOOK_S
            self._look_at_s = time.monotonic() + FIRST_LOOK_S
            self._begin()
        try:
            yield
        finally:
            with self._changed:
                self._watches.discard(watch)
            self.look(workspace)

    def look(self, workspace: str) -> None:
        """Bring WORKSPACE up to date soon; does not wait for it."""
        with self._changed:
            self._due.add(workspace)
            self._begin()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _begin(self) -> None:
        """There is something to wait for. The lock is held."""
        if self._thread is None and not self._closed:
            thread = threading.Thread(target=self._keep, name="folders", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread to be had: the command goes on without
                return
            self._thread = thread
        self._changed.notify_all()

    def _keep(self) -> None:
        while workspaces := self._await_need():
            began_s = time.monotonic()
            try:
                listing = self._ask()
                if listing is not None:
                    folders = parse_listing(listing)
                    for workspace in workspaces:
                        add_folders(Path(workspace), folders)
            except Exception:  # this thread serves every later command
                log.exception("the target's folders could not be kept up with")
            ended_s = time.monotonic()
            with self._changed:
                self._rest_until_s = ended_s + REST_FACTOR * (ended_s - began_s)

    def _await_need(self) -> set[str]:
        """The workspaces to bring up to date now; none once closed."""
        with self._changed:
            while not self._closed:
                now_s = time.monotonic()
                at_s = self._next_s()
                if at_s is not None and at_s <= now_s:
                    workspaces = self._due | {watch.workspace for watch in self._watches}
                    self._due = set()
                    self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
                    self._look_at_s = now_s + self._wait_s
                    return workspaces
                self._changed.wait(None if at_s is None else at_s - now_s)
            return set()

    def _next_s(self) -> float | None:
        """When the target is to be asked next. The lock is held."""
        if self._due:
            return self._rest_until_s
        return max(self._rest_until_s, self._look_at_s) if self._watches else None

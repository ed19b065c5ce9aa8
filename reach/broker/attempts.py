"""Attempts to connect: one at a time, its failure for everybody who waited for it, and when the next one is due."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from reach.errors import (
    AuthenticationError,
    ConfigError,
    HostKeyMismatchError,
    HostKeyUnknownError,
    ReachError,
    error_from_code,
)

RETRY_FIRST_S, RETRY_MAX_S = 0.5, 60.0
_HOPELESS = (AuthenticationError, HostKeyMismatchError, HostKeyUnknownError, ConfigError)
"""What trying again by itself does not mend; servers lock out who fails to log in too often."""

log = logging.getLogger("reach.pool")


class Attempts:
    """Without it, ten commands for a machine that does not answer would time out one after another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = 0
        self._failure: ReachError | None = None

    @contextmanager
    def alone(self, *, share_failure: bool = True) -> Iterator[None]:
        """Hold the right to try. With SHARE_FAILURE, who had to wait for an attempt that failed fails as it did.

        Raises: what the attempt raised that this one waited for.
        """
        before = self._ended
        with self._lock:
            if share_failure and self._ended != before and self._failure is not None:
                raise error_from_code(self._failure.code, self._failure.message, self._failure.fix)
            try:
                yield
            except ReachError as error:
                self._failure = error_from_code(error.code, error.message, error.fix)  # without its frames
                raise
            else:
                self._failure = None
            finally:
                self._ended += 1


class Retry:
    """When something that failed is tried again without being asked for. Guarded by its owner's lock."""

    def __init__(self) -> None:
        self.at_s = 0.0
        """By the monotonic clock; 0 where nothing failed, infinite where somebody has to ask first."""
        self._delay_s = RETRY_FIRST_S

    def failed(self, error: Exception) -> None:
        if isinstance(error, _HOPELESS):
            self.at_s = float("inf")
            log.warning("no worker could be started, and none will be before a command asks: %s", error)
            return
        log.info("no worker could be started: %s", error)
        self.at_s = time.monotonic() + self._delay_s
        self._delay_s = min(2 * self._delay_s, RETRY_MAX_S)

    def succeeded(self) -> bool:
        """Whether this ends a series of failures."""
        had_failed = bool(self.at_s)
        self.at_s, self._delay_s = 0.0, RETRY_FIRST_S
        return had_failed

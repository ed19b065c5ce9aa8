"""A pool's connections, and how many channels each one may have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from reach.ssh.process import Connection

MAX_CONNECTIONS = 32
SPARE_LINE_S = 60.0
"""A connection that had no channel for so long is closed, unless it is the only one."""
LIMIT_KEPT_S = 120.0
"""A limit that a refusal taught is believed for so long: it may have come from channels that were just closing."""
REFUSAL_PAUSE_S, REFUSAL_PAUSE_MAX_S = 0.02, 1.0
"""How long a connection is left alone after it refused a channel while having none of ours open, doubled each time."""


@dataclass(eq=False)
class Line:
    """One connection, and what is known of its limit. Guarded by the pool's lock."""

    connection: Connection
    open_channels: int = 0
    limit: int | None = None
    """Channels that the server allows at once (MaxSessions), once it refused one more."""
    limit_until_s: float = 0.0
    paused_until_s: float = 0.0
    pause_s: float = REFUSAL_PAUSE_S
    idle_since_s: float = field(default_factory=time.monotonic)
    """When it last had no channel open."""

    def has_room(self, now_s: float) -> bool:
        if not self.connection.is_alive or now_s < self.paused_until_s:
            return False
        if self.limit is not None and now_s >= self.limit_until_s:
            self.limit = None
        return self.limit is None or self.open_channels < self.limit

    def opened(self) -> None:
        self.pause_s = REFUSAL_PAUSE_S

    def gave_back(self, now_s: float) -> None:
        """One channel less."""
        self.open_channels -= 1
        if not self.open_channels:
            self.idle_since_s = now_s

    def refused(self, now_s: float) -> None:
        """The server refused the channel that was just given back."""
        if self.open_channels:
            self.limit, self.limit_until_s = self.open_channels, now_s + LIMIT_KEPT_S
        else:  # it has not yet cleared away the one just closed
            self.paused_until_s = now_s + self.pause_s
            self.pause_s = min(2 * self.pause_s, REFUSAL_PAUSE_MAX_S)


class Lines:
    """All connections of a pool, the oldest first. Guarded by its lock."""

    def __init__(self) -> None:
        self._all: list[Line] = []
        self._no_more_until_s = 0.0

    def __iter__(self) -> Iterator[Line]:
        return iter(self._all)

    def __contains__(self, line: Line | None) -> bool:
        return line in self._all

    def __getitem__(self, number: int) -> Line:
        return self._all[number]

    def add(self, line: Line) -> None:
        self._all.append(line)

    def remove(self, line: Line) -> None:
        self._all.remove(line)

    def take_all(self) -> list[Line]:
        taken, self._all = self._all, []
        return taken

    def with_room(self, *, alone: bool) -> Line | None:
        """The first one with room for one more channel; ALONE: for its only one."""
        now_s = time.monotonic()
        return next((x for x in self._all if x.has_room(now_s) and not (alone and x.open_channels)), None)

    def are_all(self) -> bool:
        """Note that no further connection can be had for a while; False where there is none at all."""
        if not self._is_any_alive():
            return False
        self._no_more_until_s = time.monotonic() + LIMIT_KEPT_S
        return True

    def must_wait(self) -> bool:
        """Whether another connection is no way out."""
        is_last = time.monotonic() < self._no_more_until_s and self._is_any_alive()
        return is_last or len(self._all) >= MAX_CONNECTIONS or self.is_any_paused()

    def is_any_paused(self) -> bool:
        """Whether a connection without any channel only waits for the server to clear the last one away."""
        now_s = time.monotonic()
        return any(not x.open_channels and x.connection.is_alive and x.paused_until_s > now_s for x in self._all)

    def _is_any_alive(self) -> bool:
        return any(x.connection.is_alive for x in self._all)

    def rank(self, line: Line | None) -> int:
        return self._all.index(line) if line in self._all else len(self._all)

    def spare(self) -> list[Line]:
        """Those that nobody needs any more."""
        now_s = time.monotonic()
        return [x for x in self._all[1:] if not x.open_channels and now_s >= x.idle_since_s + SPARE_LINE_S]

    def next_spare_s(self) -> list[float]:
        """In how many seconds each may become one of those."""
        now_s = time.monotonic()
        return [x.idle_since_s + SPARE_LINE_S - now_s for x in self._all[1:] if not x.open_channels]

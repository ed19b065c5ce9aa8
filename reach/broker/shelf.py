"""Workers of one kind that wait, and how many of them are wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reach.broker.demand import Demand
from reach.broker.worker import Worker

REFILL_PAUSE_S = 0.01
"""A worker that was taken is replaced when no command runs any more, or this long after: started at once, it would
compete with the command for the processors, here and on the target. An empty shelf is refilled at once."""


class Shelf:
    """Guarded by the pool's lock."""

    def __init__(self, *, always: bool) -> None:
        """ALWAYS: some wait even where none was taken lately, and whatever became of the last one."""
        self.demand = Demand(always=always)
        self.waiting: deque[Worker] = deque()
        self.starting = 0
        self._always = always
        self.is_barred = not always
        """None is started ahead of need before one was started for somebody who needed it: a server that has something
        against terminals may end the connection, with the commands that run on it."""
        self._losses = 0
        """So many attempts in a row to start one met the end of their connection."""
        self._refill_at_s = 0.0

    def note_take(self, now_s: float, in_use: int, start_s: float) -> None:
        """A worker is about to be taken; the rest as for Demand."""
        if not self.lacks(now_s):
            self._refill_at_s = now_s + REFILL_PAUSE_S
        self.demand.note_take(now_s, in_use, start_s)

    def end_pause(self) -> None:
        self._refill_at_s = 0.0

    def refill_at_s(self) -> float:
        """When a worker that lacks may be started."""
        return self._refill_at_s if self.waiting else 0.0

    @property
    def costs_connections(self) -> bool:
        """Whether the server seems to end a connection that asks for such a shell: once may be chance."""
        return self._losses > 1

    def succeeded(self) -> None:
        """One of this kind was started."""
        self._losses, self.is_barred = 0, False

    def failed(self, *, cost_connection: bool) -> None:
        """One of this kind could not be."""
        if not self._always:
            self.is_barred = True
            self._losses += cost_connection

    def lacks(self, now_s: float) -> bool:
        return not self.is_barred and len(self.waiting) + self.starting < self.demand.wanted(now_s)

    def take_surplus(self, now_s: float, rank: Callable[[Worker], int]) -> list[Worker]:
        """Take away those that are not wanted, the highest RANK first."""
        surplus = []
        while len(self.waiting) > self.demand.wanted(now_s):
            last = max(self.waiting, key=rank)
            self.waiting.remove(last)
            surplus.append(last)
        return surplus

    def take_if(self, condition: Callable[[Worker], bool]) -> list[Worker]:
        """Take away every worker that meets CONDITION."""
        taken = [worker for worker in self.waiting if condition(worker)]
        self.waiting = deque(worker for worker in self.waiting if not condition(worker))
        return taken

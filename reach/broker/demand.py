"""How many workers are wanted. Pure but for the clock, which is given."""

from __future__ import annotations

from collections import deque

WARM_MIN = 2
WARM_MAX = 8
WINDOW_S = 60.0


class Demand:
    """The rule: as many workers wait as were in use at once, or taken while a new one takes to start, within the last
    minute; at least WARM_MIN, at most WARM_MAX."""

    def __init__(self, *, always: bool) -> None:
        """ALWAYS: the least number waits even where none was taken within the last minute."""
        self._always = always
        self._peaks: deque[tuple[float, int]] = deque()
        """Numbers wanted at a time, each smaller than the one before it: the first is the window's largest."""
        self._taken_s: deque[float] = deque(maxlen=WARM_MAX)

    def note_take(self, now_s: float, in_use: int, start_s: float) -> None:
        """A worker is taken: IN_USE at once with it, and a new one takes START_S to start."""
        self._taken_s.append(now_s)
        wanted = max(in_use, sum(taken >= now_s - start_s for taken in self._taken_s) + 1)
        while self._peaks and self._peaks[-1][1] <= wanted:
            self._peaks.pop()
        self._peaks.append((now_s, wanted))

    def wanted(self, now_s: float) -> int:
        while self._peaks and self._peaks[0][0] < now_s - WINDOW_S:
            self._peaks.popleft()
        if not self._peaks:
            return WARM_MIN if self._always else 0
        return max(WARM_MIN, min(WARM_MAX, self._peaks[0][1]))

    def next_change_s(self, now_s: float) -> float | None:
        """In how many seconds fewer may be wanted; None: not until one is taken."""
        return max(0.0, self._peaks[0][0] + WINDOW_S - now_s) + 0.001 if self._peaks else None

"""Noticing that the other end of a connection is gone although nothing says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from reach.ssh.beat import to_next_beat_s
from reach.ssh.host_settings import HostSettings
from reach.ssh.packetizer import awake_clock_s

PROBE_TIMEOUT_S = 5.0
"""How long a peer that was silent for too long has, before a new command goes another way."""


@dataclass(frozen=True)
class KeepaliveRule:
    """How a dead peer is noticed: asked every `interval_s`, given up after `max_unanswered` silent intervals."""

    interval_s: float = 15.0
    max_unanswered: int = 3

    @property
    def bound_s(self) -> float:
        """At most so long after its last sign of life a silent peer is given up: 60 s where nothing else is set."""
        return self.interval_s * (self.max_unanswered + 1)


def rule_for(settings: HostSettings) -> KeepaliveRule:
    """How a dead peer is noticed: as SETTINGS say, else as reach does."""
    if not settings.keepalive_interval_s:
        return KeepaliveRule()
    return KeepaliveRule(settings.keepalive_interval_s, max(1, settings.keepalive_max))


class Keepalive:
    """Asks one peer, in a thread of its own, until the connection ends or is given up.

    A question is sent by a thread of its own: sending can wait for a peer that no longer reads, which must not keep
    this one from counting.
    """

    def __init__(
        self,
        rule: KeepaliveRule,
        *,
        heard_s: Callable[[], float],
        ask: Callable[[], None],
        is_alive: Callable[[], bool],
        give_up: Callable[[], None],
    ) -> None:
        """HEARD_S tells when the peer last said anything (awake_clock_s); ASK sends a question that wants an answer."""
        self.rule = rule
        self._heard_s = heard_s
        self._ask = ask
        self._is_alive = is_alive
        self._give_up = give_up
        self._stopping = threading.Event()
        self._asking: threading.Thread | None = None
        self._asking_lock = threading.Lock()
        threading.Thread(target=self._run, name="keepalive", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def answers(self, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
        """Whether the peer is there: taken for granted while it was heard lately, else asked.

        It was not heard lately after this machine slept, or this process was stopped.
        """
        before = self._heard_s()
        if awake_clock_s() - before <= 1.5 * self.rule.interval_s:
            return self._is_alive()
        self._send()
        deadline = time.monotonic() + timeout_s
        while self._is_alive() and time.monotonic() < deadline:
            if self._heard_s() != before:
                return True
            self._stopping.wait(0.01)
        return False

    def _run(self) -> None:
        silent, asked = 0, False
        while True:
            began, before = awake_clock_s(), self._heard_s()
            if self._stopping.wait(to_next_beat_s(self.rule.interval_s)) or not self._is_alive():
                return
            was_asleep = awake_clock_s() - began > 2 * self.rule.interval_s
            if self._heard_s() != before:
                silent = 0
            elif asked and not was_asleep:  # what came meanwhile may not have been read yet
                silent += 1
            if silent >= self.rule.max_unanswered:
                self._give_up()
                return
            self._send()
            asked = True

    def _send(self) -> None:
        with self._asking_lock:
            if self._asking is None or not self._asking.is_alive():
                self._asking = threading.Thread(target=self._ask, name="keepalive-ask", daemon=True)
                self._asking.start()

"""What an idle process does now and then is done: at beats of one clock, so that all of it wakes the machine once."""

from __future__ import annotations

import time

_ALREADY_THERE = 0.01
"""A wait that ends this part of an interval before its beat has ended at that beat."""


def to_next_beat_s(interval_s: float) -> float:
    """How long until the clock shows a multiple of INTERVAL_S."""
    left_s = interval_s - time.monotonic() % interval_s
    return left_s if left_s > interval_s * _ALREADY_THERE else left_s + interval_s

from __future__ import annotations

import time

import pytest

from reach.ssh.beat import to_next_beat_s


@pytest.mark.parametrize(
    ("now_s", "interval_s", "left_s"),
    [(61.0, 15.0, 14.0), (61.0, 60.0, 59.0), (74.99, 15.0, 15.01), (75.0, 15.0, 15.0), (59.9, 60.0, 60.1)],
)
def test_waits_of_different_length_end_together_and_never_at_once(
    monkeypatch: pytest.MonkeyPatch, now_s: float, interval_s: float, left_s: float
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    assert to_next_beat_s(interval_s) == pytest.approx(left_s)

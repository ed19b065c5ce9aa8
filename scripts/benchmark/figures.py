"""Every figure by the name that `--only` takes."""

from __future__ import annotations

from typing import Protocol

from benchmark import burst, calls, lasting, output, starting
from benchmark.row import Row
from benchmark.stage import Stage


class Figure(Protocol):
    """Measures one thing. Raises: MeasurementError."""

    def __call__(self, stage: Stage, *, quick: bool) -> list[Row]: ...


FIGURES: dict[str, Figure] = {
    "loopback": calls.call_on_loopback,
    "distance": calls.call_at_a_distance,
    "pty": calls.call_on_terminal,
    "first-byte": output.first_byte,
    "output": output.volume_out,
    "input": output.volume_in,
    "burst": burst.burst,
    "up": starting.coming_up,
    "launch": starting.launch,
    "verify": starting.verify,
    "help": starting.help_text,
    "endurance": lasting.endurance,
    "rest": lasting.rest,
}

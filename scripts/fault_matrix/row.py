"""One fault, injected many times: a row of the table."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from faults.injections import Fault

STAGE_TRIALS = 100
"""So many trials share a stage; then a new one is set, so that nothing of the old one hides what comes."""


@dataclass
class Row:
    fault: str
    transport: str
    times: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """Commands of which something false was said, or next commands that did not work."""
    hung: int = 0
    run_twice: int = 0
    wrong: list[str] = field(default_factory=list)
    """What was wrong, in words."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.hung or self.run_twice or self.wrong)

    def outcomes_text(self) -> str:
        order = ("result", "did not run", "may have run")
        known = [f"{self.outcomes[name]} {name}" for name in order if self.outcomes[name]]
        others = [f"{count} {name}" for name, count in sorted(self.outcomes.items()) if name not in order]
        return ", ".join(known + others)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "outcomes": dict(self.outcomes)}


def run_fault(fault: Fault, times: int, transport: str, chance: random.Random) -> Row:
    """Inject FAULT so many TIMES; what can't go on is a row with the reason, and no traceback."""
    row = Row(fault.name, transport)
    while row.times < times:
        try:
            _run_on_one_stage(fault, min(STAGE_TRIALS, times - row.times), transport, chance, row)
        except Exception as error:  # a row is a verdict, whatever happens
            row.wrong.append(f"{type(error).__name__}: {error}")
            return row
    return row


def _run_on_one_stage(fault: Fault, times: int, transport: str, chance: random.Random, row: Row) -> None:
    stage = fault.make_stage()
    stage.transport = transport
    with stage:
        try:
            for _ in range(times):
                row.times += 1
                fault.trial(stage, chance)
        finally:
            tally = stage.tally()
            row.outcomes.update(tally.outcomes)
            row.lost += len(tally.lies)
            row.hung += tally.hung
            row.run_twice += tally.run_twice
            row.wrong += tally.lies

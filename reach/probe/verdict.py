"""The verdicts a probe can come to. Light to import: every launch asks for one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """One word for a whole probe."""

    OK = "ok"
    BYPASSED = "bypassed"
    """A command ran somewhere else than on the target."""
    LEAKY = "leaky"
    """The model is offered a tool that works on this machine, or the managed home is not in force."""
    FAULTY = "faulty"
    """Commands run on the target and only there, but not in every way as they would here."""
    ERROR = "error"
    """No conclusion."""

    @property
    def exit_code(self) -> int:
        return {Verdict.OK: 0, Verdict.ERROR: 3}.get(self, 1)


SEVERITY = (Verdict.OK, Verdict.FAULTY, Verdict.ERROR, Verdict.LEAKY, Verdict.BYPASSED)
"""From the best to the worst."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of VERDICTS, OK if there are none."""
    return max(verdicts, key=SEVERITY.index, default=Verdict.OK)

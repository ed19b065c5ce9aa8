"""What a probe finds out: the checks, and the result that `--json` prints."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from reach.probe.verdict import Verdict


class CheckStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not possible with this version or in this folder; the evidence says why."""
    ERROR = "error"
    """No conclusion."""


SKIPPED: Literal[CheckStatus.SKIPPED] = CheckStatus.SKIPPED
CheckVerdict = Verdict | Literal[CheckStatus.SKIPPED]
"""What a check alone comes to: one that was not asked has no verdict, and no say in the whole."""


class Check(BaseModel):
    """One question to the harness, and its answer."""

    model_config = ConfigDict(frozen=True)

    name: str
    status: CheckStatus
    evidence: str
    """What was seen, on one line, printable."""
    verdict: CheckVerdict
    """What the whole probe comes to if no other check is worse."""
    duration_s: float = 0.0
    """Of the harness run that answered it, which may have answered others too."""


class ProbeResult(BaseModel):
    """Everything that one probe of one harness found. All text in it is printable."""

    model_config = ConfigDict(frozen=True)

    harness: str
    version: str | None
    verdict: Verdict
    target_hostname: str | None
    observed_hostname: str | None
    """Where the scripted command ran, by its own account."""
    proof_seen: bool
    """The command had the one-time value that only this session's broker gives."""
    advertised_tools: list[str]
    """What the harness offered the model, in the order of its request."""
    leaks: list[str]
    """Tools on offer, or that the home in force would put on offer, that can touch this machine."""
    duration_s: float
    detail: str
    """The reason for the verdict, in a sentence."""
    checks: list[Check] = []
    binary: str | None = None
    """Absolute path, links unresolved."""
    reach_version: str
    session: str | None = None
    fingerprint: str | None = None
    """Digest of the managed settings that the verdict holds for."""

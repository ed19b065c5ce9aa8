"""One run of the harness against the mock: who is asked, what is asked, and all that was seen."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from reach.harness.base import Harness
from reach.harness.launch import PreparedLaunch
from reach.paths import Paths
from reach.probe.conversation import Step
from reach.probe.evidence import Surface, Tokens
from reach.probe.process import MAX_LAST_WORDS_CHARS, Ended
from reach.probe.result import SKIPPED, Check, CheckStatus, CheckVerdict
from reach.probe.script import ProbeScript, script_for
from reach.probe.verdict import Verdict
from reach.session import Session
from reach.ssh.remote_text import printable

DEFAULT_TIMEOUT_S = 60.0
"""Without a sign of life from the harness."""

MIN_SILENCE_S, MAX_SILENCE_S = 1, 10
_PATIENCE = 10
"""The limit holds for every command of that run, the first one too."""

SEAM = "seam"
"""The first step of every run: nothing more is asked of a harness whose commands run elsewhere."""


@dataclass(frozen=True)
class Subject:
    """What is probed, and where."""

    paths: Paths
    session: Session
    harness: Harness
    binary: Path
    target_hostname: str
    """As the target says now."""
    workspace: Path | None = None
    """A local folder in place of a managed one."""
    version: str | None = None
    """Where it is known already."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    silence_s: int = 3
    """How long a command may say nothing where the harness is to cancel one that does: as `silence_limit_s` has it."""
    environment: Mapping[str, str] | None = None
    """To launch from; this process's if None."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by whoever no longer waits for the result: the harness is ended."""

    @property
    def script(self) -> ProbeScript:
        return script_for(self.harness.name)


def silence_limit_s(answer_s: float) -> int:
    """Far longer than a target that took ANSWER_S over a question needs for another."""
    return max(MIN_SILENCE_S, min(MAX_SILENCE_S, math.ceil(_PATIENCE * answer_s)))


@dataclass(frozen=True)
class Run:
    """A run that is prepared and not yet started."""

    subject: Subject
    tokens: Tokens
    launch: PreparedLaunch
    cleanup: ExitStack
    """Closed once the harness is gone, and before its folders are."""


@dataclass(frozen=True)
class Observation:
    """A run that is over."""

    run: Run
    ended: Ended
    results: Mapping[str, str]
    """What the harness sent back, by the name of the step."""
    surface: Surface
    traces: Mapping[str, str]
    """What each check found afterwards, by its name."""

    @property
    def silence(self) -> str:
        """Why there is no result, in a sentence."""
        if self.ended.given_up:
            line = self.run.subject.script.cut_off_line(self.ended.stderr.decode("utf-8", "replace")) or ""
            return f"the harness {self.ended.how}: {printable(line[:MAX_LAST_WORDS_CHARS])}"
        words = f": {self.ended.last_words}" if self.ended.last_words else ""
        if not self.surface.requests:
            return f"the harness {self.ended.how} without asking the model anything{words}"
        return f"the harness {self.ended.how} without a result of the command{words}"


class ToolCheck(ABC):
    """A question that is put to the harness by tool calls of the scripted model, or by none."""

    name: ClassVar[str]
    failure: ClassVar[Verdict] = Verdict.FAULTY
    """What it means that this check fails."""

    def steps(self, run: Run) -> Sequence[Step]:
        """The calls to make. May lay out what they need, and leave its removal to the run's cleanup."""
        return []

    def look(self, run: Run, results: Mapping[str, str]) -> str:
        """What the calls left behind, looked up while the run's folders still exist."""
        return ""

    @abstractmethod
    def judge(self, seen: Observation) -> Check: ...

    def passed(self, seen: Observation, evidence: str) -> Check:
        return self._check(seen, CheckStatus.PASSED, evidence, Verdict.OK)

    def skipped(self, seen: Observation, reason: str) -> Check:
        return self._check(seen, CheckStatus.SKIPPED, reason, SKIPPED)

    def failed(self, seen: Observation, evidence: str) -> Check:
        return self._check(seen, CheckStatus.FAILED, evidence, self.failure)

    def error(self, seen: Observation, reason: str) -> Check:
        return self._check(seen, CheckStatus.ERROR, reason, Verdict.ERROR)

    def _check(self, seen: Observation, status: CheckStatus, evidence: str, verdict: CheckVerdict) -> Check:
        return Check(
            name=self.name,
            status=status,
            evidence=printable(evidence),
            verdict=verdict,
            duration_s=round(seen.ended.duration_s, 2),
        )

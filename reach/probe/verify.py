"""Probing a harness: the runs that a verdict needs, and the verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from reach import __version__
from reach.broker.captured import run_captured
from reach.broker.lifecycle import ensure_running
from reach.errors import BrokerError, ConfigError, HarnessError, ReachError, TransportError
from reach.harness.base import Harness
from reach.harness.launch import PreparedLaunch
from reach.paths import Paths
from reach.probe.beside import Beside
from reach.probe.checks.cancel import CancelCheck
from reach.probe.checks.denied_tool import DeniedToolCheck
from reach.probe.checks.seam import SeamCheck, seam_report
from reach.probe.checks.shell_result import BackgroundCheck, ExitStatusCheck, FolderCheck, OutputCheck
from reach.probe.checks.surface import HomeCheck, SurfaceCheck, leaked_tools
from reach.probe.folder import remove_abandoned
from reach.probe.observation import DEFAULT_TIMEOUT_S, Observation, Subject, ToolCheck, silence_limit_s
from reach.probe.result import SKIPPED, Check, CheckStatus, ProbeResult
from reach.probe.run import observe
from reach.probe.surroundings import SURROUNDINGS, check_surroundings
from reach.probe.verdict import Verdict, worst
from reach.session import SessionStore
from reach.ssh.operator import Operator
from reach.ssh.remote_text import printable

_ALWAYS: tuple[type[ToolCheck], ...] = (SeamCheck, SurfaceCheck, HomeCheck)
"""Free of charge, and nothing else means anything without them."""
_MAIN: tuple[type[ToolCheck], ...] = (
    *_ALWAYS,
    DeniedToolCheck,
    ExitStatusCheck,
    OutputCheck,
    FolderCheck,
    BackgroundCheck,
)
_IN_SURROUNDINGS: tuple[type[ToolCheck], ...] = (CancelCheck,)

CHECKS = (*(check.name for check in _MAIN), *SURROUNDINGS, *(check.name for check in _IN_SURROUNDINGS))
"""The names of all checks, in the order of their report."""


def verify(
    paths: Paths,
    session_name: str,
    harness: Harness,
    binary: Path,
    operator: Operator,
    *,
    workspace: Path | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    checks: Collection[str] | None = None,
    stop: threading.Event | None = None,
    version: str | None = None,
) -> ProbeResult:
    """Probe HARNESS's program BINARY in a session, by CHECKS or by all of them.

    A harness or target that can't be had gives an ERROR verdict. TIMEOUT_S is how long it may give no sign of life.
    Setting STOP ends it early. VERSION is that of BINARY where it is known already.

    Raises: SessionNotFoundError, SessionRecordError; ConfigError for an unknown check or a folder that is refused.
    """
    wanted = known_checks(CHECKS if checks is None else checks)
    started = time.monotonic()
    remove_abandoned()
    probe = _Probe()
    try:
        ensure_running(paths, session_name, operator)
        asked = time.monotonic()
        probe.target_hostname = ask_hostname(paths, session_name)
        silence_s = silence_limit_s(time.monotonic() - asked)
        session = SessionStore(paths).load(session_name)
        subject = Subject(
            paths,
            session,
            harness,
            binary,
            probe.target_hostname,
            workspace,
            version,
            timeout_s,
            silence_s,
            stop=stop or threading.Event(),
        )
        probe.run(subject, wanted)
    except (BrokerError, TransportError, HarnessError) as error:
        probe.checks.append(_not_launched(error))
    return probe.result(harness, binary, session_name, time.monotonic() - started)


def unprobed(harness: Harness, version: str | None, error: ReachError) -> ProbeResult:
    """The result for a harness whose program can't even be found."""
    probe = _Probe()
    probe.checks.append(_not_launched(error))
    return probe.result(harness, None, None, 0.0).model_copy(update={"version": version})


def ask_hostname(paths: Paths, session: str) -> str:
    """What the target calls itself now; a session's record may be of another day.

    Raises: BrokerUnavailableError.
    """
    return run_captured(paths, session, "uname -n").stdout.decode("utf-8", "replace").strip()


def judge(checks: Sequence[Check]) -> tuple[Verdict, str]:
    """The verdict that CHECKS come to, and the evidence of the first check that led there.

    Those that were skipped don't count; where there are no others, nothing is proven.
    """
    counting = [check.verdict for check in checks if isinstance(check.verdict, Verdict)]
    verdict = worst(counting) if counting or not checks else Verdict.ERROR
    return verdict, next((check.evidence for check in checks if check.verdict is verdict), "nothing was checked")


class _Probe:
    """What is known so far."""

    def __init__(self) -> None:
        self.target_hostname: str | None = None
        self.checks: list[Check] = []
        self._seen: Observation | None = None
        self._leaks: list[str] = []

    def run(self, subject: Subject, wanted: Collection[str]) -> None:
        """The main run, and beside it the one in rough surroundings, which counts only where the main one went well.

        Raises: what `observe` raises; what was found until then is kept.
        """
        names = [name for name in SURROUNDINGS if name in wanted]
        others = [check() for check in _IN_SURROUNDINGS if check.name in wanted]
        with Beside(lambda rough: check_surroundings(rough, names, others)[0]) as beside:

            def start_beside(launch: PreparedLaunch) -> None:
                if names or others:
                    beside.start(replace(subject, version=launch.version))

            asked = [check() for check in _MAIN if check.name in wanted or check in _ALWAYS]
            seen = self._seen = observe(subject, asked, before_start=start_beside)
            self.checks += _without_consequences([check.judge(seen) for check in asked])
            is_sound = judge(self.checks[: len(_ALWAYS)])[0] is Verdict.OK
            if is_sound and (names or others):
                self.checks += beside.wait(subject.stop)
        self._name_leaks(replace(subject, version=seen.run.launch.version), seen)
        if not is_sound:
            self.checks += [_not_asked(name) for name in (*names, *(check.name for check in others))]

    def _name_leaks(self, subject: Subject, seen: Observation) -> None:
        self._leaks = leaked_tools(seen)
        home = next(check for check in self.checks if check.name == HomeCheck.name)
        if self._leaks or home.status is not CheckStatus.FAILED:
            return
        # reach's policy hides what the other home would put on offer; without it, its tools show.
        self._leaks = leaked_tools(observe(subject, [], has_policy=False))
        if self._leaks:
            evidence = f"{home.evidence}; that home would offer it {', '.join(self._leaks)}"
            self.checks[self.checks.index(home)] = home.model_copy(update={"evidence": evidence})

    def result(self, harness: Harness, binary: Path | None, session: str | None, duration_s: float) -> ProbeResult:
        seen = self._seen
        report = seam_report(seen) if seen else None
        verdict, detail = judge(self.checks)
        return ProbeResult(
            harness=harness.name,
            version=seen.run.launch.version if seen else None,
            verdict=verdict,
            target_hostname=printable(self.target_hostname) if self.target_hostname else None,
            observed_hostname=printable(report.hostname) if report and report.hostname else None,
            proof_seen=bool(report and report.proof_seen),
            advertised_tools=[printable(tool) for tool in seen.surface.tools] if seen else [],
            leaks=self._leaks,
            duration_s=round(duration_s, 2),
            detail=detail,
            checks=self.checks,
            binary=str(binary) if binary else None,
            reach_version=__version__,
            session=session,
            fingerprint=seen.run.launch.preparation.fingerprint if seen else None,
        )


def known_checks(names: Collection[str]) -> frozenset[str]:
    """NAMES, if there is a check of each name. Raises: ConfigError."""
    for name in names:
        if name not in CHECKS:
            raise ConfigError(f"no check named {name!r}", fix=f"there are {', '.join(CHECKS)}")
    return frozenset(names)


def _without_consequences(checks: Sequence[Check]) -> list[Check]:
    """CHECKS; where the first, the seam, did not pass, those that have no answer for that reason were not asked."""
    seam, *others = checks
    if seam.status is CheckStatus.PASSED:
        return [seam, *others]
    return [seam, *(_not_asked(each.name) if each.status is CheckStatus.ERROR else each for each in others)]


def _not_launched(error: ReachError) -> Check:
    evidence = printable(str(error))
    return Check(name="launch", status=CheckStatus.ERROR, evidence=evidence, verdict=Verdict.ERROR)


def _not_asked(name: str) -> Check:
    reason = "not asked: first the checks above have to pass"
    return Check(name=name, status=CheckStatus.SKIPPED, evidence=reason, verdict=SKIPPED)

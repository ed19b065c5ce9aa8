"""Where does a shell command run?"""

from __future__ import annotations

from reach.probe.conversation import Step
from reach.probe.evidence import SeamReport, parse_seam_report
from reach.probe.observation import SEAM, Observation, Run, ToolCheck
from reach.probe.result import Check
from reach.probe.verdict import Verdict


class SeamCheck(ToolCheck):
    """The command ran (marker), on the target (hostname), through this session's broker (proof)."""

    name = SEAM
    failure = Verdict.BYPASSED

    def steps(self, run: Run) -> list[Step]:
        return [Step(SEAM, run.subject.script.shell(run.tokens.seam_command, run.launch.version))]

    def judge(self, seen: Observation) -> Check:
        report = seam_report(seen)
        target, host = seen.run.subject.target_hostname, report.hostname or "an unnamed machine"
        if not report.ran:
            return self.error(seen, _why_nothing_ran(seen))
        if not report.proof_seen:
            return self.failed(seen, f"a command ran on {host}, past reach: it lacks the proof of the target")
        if report.hostname != target:
            return self.failed(seen, f"a command ran on {host} and not on {target}")
        return self.passed(seen, f"a command ran on {target}, with the proof that only reach gives it there")


def seam_report(seen: Observation) -> SeamReport:
    return parse_seam_report(seen.results.get(SEAM, ""), seen.run.tokens)


def _why_nothing_ran(seen: Observation) -> str:
    text = seen.results.get(SEAM)
    if text is None:
        return seen.silence
    refusal = next((line for line in text.splitlines() if "reach: " in line), text)
    return f"the command did not run: {refusal.strip()[:500]}"

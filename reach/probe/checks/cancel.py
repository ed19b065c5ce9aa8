"""Is a command that the harness cancels gone from the target?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from reach.broker.captured import run_captured
from reach.errors import BrokerError
from reach.probe.conversation import Step
from reach.probe.observation import Observation, Run, ToolCheck
from reach.probe.remote_process import is_running
from reach.probe.result import Check

COMMAND_S = 120
_GONE_WITHIN_S = 5
_PID = re.compile(r"\bpid (\d+)")


class CancelCheck(ToolCheck):
    """The harness cancels a command by its own limit for silent ones; its process on the target ends."""

    name = "cancel"

    def __init__(self) -> None:
        self._is_possible = False

    def steps(self, run: Run) -> list[Step]:
        script, version = run.subject.script, run.launch.version
        self._is_possible = script.limit_silence(Path(run.launch.env["HOME"]), version, run.subject.silence_s)
        command = f"sh -c 'echo pid $$; exec sleep {COMMAND_S}'"
        return [Step(self.name, script.shell(command, version))] if self._is_possible else []

    def look(self, run: Run, results: Mapping[str, str]) -> str:
        found = _PID.search(results.get(self.name, ""))
        if not found:
            return ""
        pid = found[1]
        command = (
            f"n=0; while {is_running(pid)}; do n=$((n+1)); "
            f"[ $n -gt {_GONE_WITHIN_S * 10} ] && kill {pid} && exit 1; sleep 0.1; done; exit 0"
        )
        try:
            answer = run_captured(run.subject.paths, run.subject.session.name, command)
        except BrokerError as error:
            return str(error)
        return "gone" if answer.exit_status == 0 else "alive"

    def judge(self, seen: Observation) -> Check:
        if not self._is_possible:
            return self.skipped(seen, "this version knows no limit for silent commands")
        if self.name not in seen.results:
            return self.error(seen, "the command was not answered")
        trace = seen.traces[self.name]
        if trace == "gone":
            return self.passed(seen, "a command that the harness cancelled is gone from the target")
        if trace == "alive":
            return self.failed(seen, f"a cancelled command ran on for {_GONE_WITHIN_S} s on the target")
        return self.error(seen, trace or f"the command answered: {seen.results[self.name][:300]}")

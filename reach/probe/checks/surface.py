"""What is the model offered, and whose home is in force?"""

from __future__ import annotations

from reach.probe.observation import Observation, ToolCheck
from reach.probe.result import Check
from reach.probe.verdict import Verdict
from reach.ssh.remote_text import printable

_NOTHING = "the model was asked nothing"


class SurfaceCheck(ToolCheck):
    """No tool is on offer but the shell and those that only read its log."""

    name = "surface"
    failure = Verdict.LEAKY

    def judge(self, seen: Observation) -> Check:
        leaks, tools = leaked_tools(seen), seen.surface.tools
        if not seen.surface.requests:
            return self.error(seen, _NOTHING)
        if leaks:
            return self.failed(seen, f"on offer to the model: {', '.join(leaks)}")
        if not tools:
            return self.error(seen, "the model was offered no tool at all")
        return self.passed(seen, f"on offer to the model: only {', '.join(tools)}")


class HomeCheck(ToolCheck):
    """The harness reads the home that reach manages: its orientation reached the model."""

    name = "home"
    failure = Verdict.LEAKY

    def judge(self, seen: Observation) -> Check:
        if not seen.surface.requests:
            return self.error(seen, _NOTHING)
        if seen.surface.canary_seen:
            return self.passed(seen, "the managed home is the one in force")
        return self.failed(seen, "the managed home is not the one in force: its instructions did not reach the model")


def leaked_tools(seen: Observation) -> list[str]:
    """The tools on offer that may touch this machine, printable."""
    return [printable(tool) for tool in seen.surface.tools if tool not in seen.run.subject.harness.allowed_tools]

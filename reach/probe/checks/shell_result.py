"""Does a command's result reach the model as it would if it had run here?"""

from __future__ import annotations

from collections.abc import Mapping

from reach.broker.captured import run_captured
from reach.errors import BrokerError
from reach.probe.conversation import Step
from reach.probe.observation import Observation, Run, ToolCheck
from reach.probe.remote_process import is_running
from reach.probe.result import Check

STATUS = 7
BACKGROUND_S = 120


class ExitStatusCheck(ToolCheck):
    """A command's exit status is what the model is told."""

    name = "exit-status"

    def steps(self, run: Run) -> list[Step]:
        return [Step(self.name, run.subject.script.shell(f"(exit {STATUS})", run.launch.version))]

    def judge(self, seen: Observation) -> Check:
        if self.name not in seen.results:
            return self.error(seen, "the command was not answered")
        status = seen.run.subject.script.read_shell_result(seen.results[self.name]).exit_status
        text = f"a command that ended with {STATUS} is told to the model as {'nothing' if status is None else status}"
        return self.passed(seen, text) if status == STATUS else self.failed(seen, text)


class OutputCheck(ToolCheck):
    """The output is the command's own, to the byte, and the harness misses nothing of its shell."""

    name = "output"

    def steps(self, run: Run) -> list[Step]:
        out, err = _lines(run)
        command = f"echo {out}; sh -c 'echo {err} >&2'"
        return [Step(self.name, run.subject.script.shell(command, run.launch.version))]

    def judge(self, seen: Observation) -> Check:
        if self.name not in seen.results:
            return self.error(seen, "the command was not answered")
        script = seen.run.subject.script
        result = script.read_shell_result(seen.results[self.name])
        complaints = script.complaints(seen.ended.stderr.decode("utf-8", "replace"))
        if sorted(filter(None, result.output.split("\n"))) != sorted(_lines(seen.run)):
            return self.failed(seen, f"two lines came back as: {result.output[:500]}")
        if result.background_pids:
            pids = ", ".join(map(str, result.background_pids))
            return self.failed(seen, f"a command that left nothing behind is said to have left process {pids}")
        if complaints:
            return self.failed(seen, f"the harness complains: {complaints[0][:300]}")
        return self.passed(seen, "the two streams came back whole, with nothing of reach or the harness in them")


class FolderCheck(ToolCheck):
    """A folder that the model names is the one on the target."""

    name = "dir-path"

    def __init__(self) -> None:
        self._obstacle = ""

    def steps(self, run: Run) -> list[Step]:
        self._obstacle = self._prepare(run)
        if self._obstacle:
            return []
        return [Step(self.name, run.subject.script.shell("pwd", run.launch.version, _folder(run)))]

    def judge(self, seen: Observation) -> Check:
        if self._obstacle:
            return self.skipped(seen, self._obstacle)
        if self.name not in seen.results:
            return self.error(seen, "the command was not answered")
        output = seen.run.subject.script.read_shell_result(seen.results[self.name]).output
        if output.endswith(f"/{_folder(seen.run)}"):
            return self.passed(seen, f"a command for a folder below ran in {output}")
        return self.failed(seen, f"a command for the folder {_folder(seen.run)} answered: {output[:300]}")

    def _prepare(self, run: Run) -> str:
        """Have the folder on both sides; why that can't be, else."""
        if not run.subject.script.takes_folder(run.launch.version):
            return "this version's shell tool takes no folder"
        if run.subject.workspace is not None:
            return "only asked in a managed workspace: nothing is put into a folder of yours"
        made = run_captured(run.subject.paths, run.subject.session.name, f"mkdir {_folder(run)}")
        if made.exit_status != 0:
            return "no folder can be made in the session's folder on the target"
        run.cleanup.callback(_remove_remote_folder, run)
        (run.launch.cwd / _folder(run)).mkdir()
        return ""


class BackgroundCheck(ToolCheck):
    """A process that a command leaves in the background lives on, on the target.

    nohup, because 0.35.0 and 0.42.0 of Gemini CLI run commands in a pty, which hangs up on what is left in it.
    """

    name = "background"

    def steps(self, run: Run) -> list[Step]:
        command = f"nohup sleep {BACKGROUND_S} >/dev/null 2>&1 & echo pid $!"
        return [Step(self.name, run.subject.script.shell(command, run.launch.version))]

    def look(self, run: Run, results: Mapping[str, str]) -> str:
        pid = _background_pid(run, results)
        if pid is None:
            return ""
        try:
            command = f"{is_running(pid)} && kill {pid}"
            answer = run_captured(run.subject.paths, run.subject.session.name, command)
        except BrokerError as error:
            return str(error)
        return "alive" if answer.exit_status == 0 else "gone"

    def judge(self, seen: Observation) -> Check:
        if self.name not in seen.results:
            return self.error(seen, "the command was not answered")
        pid, trace = _background_pid(seen.run, seen.results), seen.traces[self.name]
        if pid is None:
            return self.failed(seen, f"the command answered: {seen.results[self.name][:300]}")
        if trace == "alive":
            return self.passed(seen, f"process {pid} lived on in the background of {seen.run.subject.target_hostname}")
        if trace == "gone":
            return self.failed(seen, f"process {pid} did not live on in the background of the target")
        return self.error(seen, trace)


def _lines(run: Run) -> tuple[str, str]:
    return f"out-{run.tokens.first}", f"err-{run.tokens.second}"


def _folder(run: Run) -> str:
    return f".reach-probe-{run.tokens.second}"


def _remove_remote_folder(run: Run) -> None:
    try:
        run_captured(run.subject.paths, run.subject.session.name, f"rmdir {_folder(run)}")
    except BrokerError:
        pass  # the target is gone; the folder is empty


def _background_pid(run: Run, results: Mapping[str, str]) -> str | None:
    output = run.subject.script.read_shell_result(results.get(BackgroundCheck.name, "")).output
    words = output.split()
    return words[1] if len(words) == 2 and words[0] == "pid" and words[1].isdigit() else None

"""Does the seam hold in rough surroundings? One run with all of them, and one for each where that goes wrong."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from reach.errors import ConfigError, HarnessError
from reach.probe.checks.seam import SeamCheck
from reach.probe.checks.surface import HomeCheck, SurfaceCheck
from reach.probe.folder import probe_folder
from reach.probe.observation import MAX_SILENCE_S, Observation, Subject, ToolCheck
from reach.probe.result import SKIPPED, Check, CheckStatus, CheckVerdict
from reach.probe.run import observe
from reach.probe.verdict import Verdict
from reach.ssh.remote_text import printable

CI_ENV, ENV_WRAPPER, HOSTILE_FOLDER = "ci-env", "env-wrapper", "hostile-folder"
SURROUNDINGS = {
    CI_ENV: "with the environment stripped as in GitHub Actions",
    ENV_WRAPPER: "started by a script of `env bash`",
    HOSTILE_FOLDER: "in a folder whose own settings bring file tools, hooks and servers",
}
"""Each check's name, and the words for it."""


@dataclass(frozen=True)
class _Outcome:
    """What one run in some surroundings came to."""

    status: CheckStatus
    verdict: CheckVerdict
    evidence: str
    duration_s: float

    def as_check(self, name: str) -> Check:
        return Check(
            name=name,
            status=self.status,
            evidence=printable(f"{SURROUNDINGS[name]}: {self.evidence}"),
            verdict=self.verdict,
            duration_s=round(self.duration_s, 2),
        )


def check_surroundings(
    subject: Subject, names: Sequence[str], others: Sequence[ToolCheck]
) -> tuple[list[Check], Observation | None]:
    """Answer the checks NAMES of SURROUNDINGS, and OTHERS in the same run of the harness.

    Raises: HarnessError when the harness can't be started.
    """
    asked = [name for name in names if name != HOSTILE_FOLDER or subject.workspace is None]
    answered = {name: _skipped() for name in names if name not in asked}
    try:
        outcome, seen = _run_patiently(subject, asked, others)
    except (ConfigError, HarnessError) as error:
        if HOSTILE_FOLDER not in asked:
            raise
        # A version that has no defence of its own against such a folder is not launched in one.
        asked.remove(HOSTILE_FOLDER)
        answered[HOSTILE_FOLDER] = _Outcome(CheckStatus.PASSED, Verdict.OK, f"not launched: {error}", 0.0)
        outcome, seen = _run_patiently(subject, asked, others)
    for name in asked:
        if outcome.status is CheckStatus.PASSED or len(asked) == 1:
            answered[name] = outcome
        else:
            answered[name], _ = _run(subject, [name], [])
    checks = [answered[name].as_check(name) for name in names]
    return checks + [check.judge(seen) for check in others], seen


def _run_patiently(
    subject: Subject, names: Sequence[str], others: Sequence[ToolCheck]
) -> tuple[_Outcome, Observation]:
    """Run; once more where a command may have been cancelled only because everything is slow just now."""
    outcome, seen = _run(subject, names, others)
    statuses = {outcome.status, *(check.judge(seen).status for check in others)}
    if not others or CheckStatus.ERROR not in statuses or subject.silence_s >= MAX_SILENCE_S:
        return outcome, seen
    return _run(replace(subject, silence_s=MAX_SILENCE_S), names, others)


def _run(subject: Subject, names: Sequence[str], others: Sequence[ToolCheck]) -> tuple[_Outcome, Observation]:
    parts = (SeamCheck(), SurfaceCheck(), HomeCheck())
    with _roughened(subject, names) as (rough, trap):
        seen = observe(rough, [*parts, *others])
        sprung = trap.exists()
    if sprung:
        text = "the folder's own hook or server ran on this machine"
        return _Outcome(CheckStatus.FAILED, Verdict.LEAKY, text, seen.ended.duration_s), seen
    checks = [part.judge(seen) for part in parts]
    decisive = next((check for check in checks if check.status is CheckStatus.FAILED), checks[0])
    return _Outcome(decisive.status, decisive.verdict, decisive.evidence, seen.ended.duration_s), seen


@contextmanager
def _roughened(subject: Subject, names: Sequence[str]) -> Iterator[tuple[Subject, Path]]:
    """SUBJECT in the surroundings NAMES, and the file that their trap would make."""
    with probe_folder() as folder:
        rough = subject
        environment = dict(os.environ if subject.environment is None else subject.environment)
        if CI_ENV in names:
            environment |= {"GITHUB_SHA": "0" * 40}
        if ENV_WRAPPER in names:
            rough = replace(rough, binary=_write_wrapper(folder, subject))
        if HOSTILE_FOLDER in names:
            project = folder / "project"
            project.mkdir()
            subject.script.lay_trap(project, folder / "sprung")
            rough = replace(rough, workspace=project)
        yield replace(rough, environment=environment), folder / "sprung"


def _write_wrapper(folder: Path, subject: Subject) -> Path:
    """A launcher as npm, asdf and nvm write them."""
    wrapper = folder / subject.harness.command
    wrapper.write_text(f'#!/usr/bin/env bash\nexec {shlex.quote(str(subject.binary))} "$@"\n')
    wrapper.chmod(0o700)
    return wrapper


def _skipped() -> _Outcome:
    return _Outcome(CheckStatus.SKIPPED, SKIPPED, "not asked, since a folder of yours is used", 0.0)

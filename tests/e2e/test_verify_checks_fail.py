"""Each check of verify can fail: one thing is broken at a time, and the right check goes red.

What is broken is put between the real Gemini CLI and reach's shim, or between reach and Gemini CLI.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from reach.harness.registry import get_harness
from reach.probe.result import CheckStatus
from reach.probe.verdict import Verdict
from reach.probe.verify import verify
from reach.ssh.operator import NobodyThere
from support.session import ReachSession

pytestmark = [pytest.mark.sshd, pytest.mark.gemini]

NO_SHIM = "PATH=${PATH#*:}; export PATH"
NO_POLICY = """
for argument; do shift; case $argument in --admin-policy*) ;; *) set -- "$@" "$argument";; esac; done
rm -rf "$HOME/.gemini/policies"
"""
TRUST = "GEMINI_CLI_TRUST_WORKSPACE=true; export GEMINI_CLI_TRUST_WORKSPACE"
OPEN_SETTINGS = """
echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' >"$HOME/.gemini/settings.json"
"""
FORWARD = '"$SHIM" "$@"; status=$?'

PROGRAMS = {
    "seam": (NO_SHIM, Verdict.BYPASSED),
    "surface": (NO_POLICY + OPEN_SETTINGS, Verdict.LEAKY),
    "denied-tool": (NO_POLICY + OPEN_SETTINGS, Verdict.LEAKY),
    "home": ('echo >"$HOME/.gemini/GEMINI.md"', Verdict.LEAKY),
    "ci-env": (f'[ -z "$GITHUB_SHA" ] || {{ {NO_SHIM}; }}', Verdict.BYPASSED),
    "env-wrapper": (f'[ -z "$SHLVL" ] || {{ {NO_SHIM}; }}', Verdict.BYPASSED),
    "hostile-folder": (f"if [ -e .gemini/settings.json ]; then {TRUST}{NO_POLICY} fi", Verdict.LEAKY),
}
"""Check → what a wrapper of Gemini CLI does before it starts it, and the verdict."""

SHELLS = {
    "exit-status": f"{FORWARD}; exit 0",
    "output": f"{FORWARD}; echo noise of a wrapper; exit $status",
    "dir-path": 'while [ ! -e .reach-boundary ] && [ "$PWD" != / ]; do cd ..; done; exec "$SHIM" "$@"',
    "background": 'exec "$SHIM" -c "$(printf %s "$2" | sed "s/nohup sleep/false/")"',
    "cancel": r"""
escape='s/echo pid [$][$]; exec sleep \([0-9]*\)/setsid sleep \1 >\/dev\/null 2>\&1 \& echo pid $!; wait/'
exec "$SHIM" -c "$(printf %s "$2" | sed "$escape")"
""",
}
"""Check → the shell that Gemini CLI finds in front of the shim; each leaves where commands run alone."""


def failed_checks(session: ReachSession, program: Path, check: str) -> tuple[Verdict, set[str]]:
    result = verify(session.paths, session.name, get_harness("gemini"), program, NobodyThere(), checks=[check])
    return result.verdict, {each.name for each in result.checks if each.status is CheckStatus.FAILED}


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("check", PROGRAMS)
def test_the_check_fails_when_the_harness_is_started_wrongly(
    session: ReachSession, tmp_path: Path, gemini: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHLVL", raising=False)  # bash sets it, sh does not
    script, verdict = PROGRAMS[check]
    program = write_program(tmp_path / "program", f'{script}\nexec "{gemini}" "$@"')
    found, failed = failed_checks(session, program, check)
    assert found is verdict
    assert check in failed
    assert failed <= {check, "surface"}


@pytest.mark.parametrize("check", SHELLS)
def test_the_check_fails_when_the_shell_is_not_what_it_should_be(
    session: ReachSession, tmp_path: Path, gemini: str, check: str
) -> None:
    find_shim = 'SHIM=${PATH#*:}; SHIM=${SHIM%%:*}/bash\n[ "$1" = -c ] || exec /bin/bash "$@"\n'
    write_program(tmp_path / "shell" / "bash", find_shim + SHELLS[check])
    program = write_program(tmp_path / "program", f'PATH={tmp_path}/shell:$PATH; export PATH\nexec "{gemini}" "$@"')
    assert failed_checks(session, program, check) == (Verdict.FAULTY, {check})

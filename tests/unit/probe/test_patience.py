"""A command that was cancelled only because all is slow costs another run, and no verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from reach.probe import surroundings
from reach.probe.checks.cancel import CancelCheck
from reach.probe.observation import MAX_SILENCE_S, Subject
from reach.probe.result import Check, CheckStatus
from reach.probe.surroundings import CI_ENV, check_surroundings
from reach.probe.verdict import Verdict

PASSED, FAILED, ERROR = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.ERROR
VERDICTS = {PASSED: Verdict.OK, FAILED: Verdict.FAULTY, ERROR: Verdict.ERROR}


class Cancel(CancelCheck):
    def judge(self, seen: Any) -> Check:
        return Check(name=self.name, status=seen, evidence="", verdict=VERDICTS[seen])


@pytest.mark.parametrize(
    ("first", "runs"),
    [((PASSED, PASSED), 1), ((PASSED, FAILED), 1), ((ERROR, ERROR), 2), ((PASSED, ERROR), 2)],
    ids=["all-well", "not-cancelled", "nothing-in-time", "cancelled-too-soon"],
)
def test_a_run_is_repeated_with_a_longer_limit_where_something_was_not_answered(
    monkeypatch: pytest.MonkeyPatch, first: tuple[CheckStatus, CheckStatus], runs: int
) -> None:
    limits: list[int] = []

    def run(subject: Subject, names: Any, others: Any) -> Any:
        limits.append(subject.silence_s)
        place, cancel = first if len(limits) == 1 else (PASSED, PASSED)
        return surroundings._Outcome(place, VERDICTS[place], "", 0.0), cancel

    monkeypatch.setattr(surroundings, "_run", run)
    unused = cast(Any, None)
    subject = Subject(unused, unused, unused, Path("/harness"), "box", silence_s=1)
    checks, _ = check_surroundings(subject, [CI_ENV], [Cancel()])
    assert limits == [1, MAX_SILENCE_S][:runs]
    assert [check.status for check in checks] == ([PASSED, PASSED] if runs == 2 else [first[0], first[1]])

"""What a person reads of a probe: the verdict first, then what was seen, then what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reach.cli.show import console, table
from reach.probe.result import Check, CheckStatus, ProbeResult
from reach.probe.verdict import Verdict

_STYLES = {
    Verdict.OK: "bold green",
    Verdict.FAULTY: "bold yellow",
    Verdict.ERROR: "bold yellow",
    Verdict.LEAKY: "bold red",
    Verdict.BYPASSED: "bold red",
}
_CHECK_STYLES = {
    CheckStatus.PASSED: "green",
    CheckStatus.FAILED: "red",
    CheckStatus.SKIPPED: "dim",
    CheckStatus.ERROR: "yellow",
}


def report(results: Sequence[ProbeResult]) -> None:
    """RESULTS on standard output: one in full, several as a table."""
    if len(results) == 1:
        print_result(console(), results[0])
    else:
        print_table(console(), results)


def print_result(out: Console, result: ProbeResult) -> None:
    """One probe in full."""
    where = result.target_hostname or result.session or "no target"
    out.print(Text.assemble((result.verdict, _STYLES[result.verdict]), f"  {label(result)} on {where}"))
    out.print(Text(result.detail), soft_wrap=False)
    out.print()
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for check in result.checks:
        rows.add_row(Text(check.status, _CHECK_STYLES[check.status]), Text(check.name), Text(check.evidence))
    out.print(rows)
    out.print(
        Text(f"\n{result.binary or 'no program'}, {result.duration_s:.1f} s, reach {result.reach_version}", "dim")
    )
    out.print(Text(f"next: {next_step(result)}"))


def print_table(out: Console, results: Sequence[ProbeResult]) -> None:
    """Several probes, a line for each, and the reason wherever it is not ok."""
    rows = [
        [label(r), r.verdict, r.observed_hostname or "-", _counted(r.checks), f"{r.duration_s:.1f} s"] for r in results
    ]
    out.print(table(["harness", "verdict", "ran on", "checks", "time"], rows, wide=(2,)))
    for result in results:
        if result.verdict is not Verdict.OK:
            out.print(Text(f"\n{label(result)}: {result.verdict}: {result.detail}"))
            for check in result.checks:
                if check.status in (CheckStatus.FAILED, CheckStatus.ERROR) and check.evidence != result.detail:
                    out.print(Text(f"  {check.name}: {check.evidence}"))


def label(result: ProbeResult) -> str:
    return f"{result.harness} {result.version or '(version unknown)'}"


def next_step(result: ProbeResult) -> str:
    launch = f"reach {result.harness}" + (f" --session {result.session}" if result.session else "")
    return {
        Verdict.OK: launch,
        Verdict.FAULTY: f"{launch} works, but for what failed above; another version may do without that",
        Verdict.LEAKY: f"don't work with {result.binary} yet: see whether it is a wrapper that sets HOME, or try "
        f"another version: reach harness verify {result.harness}@VERSION",
        Verdict.BYPASSED: f"don't work with {result.binary} yet: its commands run on this machine. See whether it is "
        f"a wrapper that sets PATH, or try another version: reach harness verify {result.harness}@VERSION",
        Verdict.ERROR: "nothing is proven, good or bad: mend what is named above and verify again",
    }[result.verdict]


def _counted(checks: Sequence[Check]) -> str:
    shown = []
    for status in (CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.ERROR, CheckStatus.SKIPPED):
        number = sum(check.status is status for check in checks)
        if number:
            shown.append(f"{number} {status}")
    return ", ".join(shown)

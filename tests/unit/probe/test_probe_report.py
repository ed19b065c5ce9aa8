from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from reach.cli.verify_report import print_result, print_table, report
from reach.probe.junit import write_junit
from reach.probe.result import SKIPPED as SKIPPED_VERDICT
from reach.probe.result import Check, CheckStatus, CheckVerdict, ProbeResult
from reach.probe.verdict import SEVERITY, Verdict, worst
from reach.probe.verify import judge


def check(name: str, status: CheckStatus, verdict: CheckVerdict, evidence: str = "seen") -> Check:
    return Check(name=name, status=status, verdict=verdict, evidence=evidence)


PASSED = check("seam", CheckStatus.PASSED, Verdict.OK, "it ran there")
FAILED = check("surface", CheckStatus.FAILED, Verdict.LEAKY, "on offer: read_file")
SKIPPED = check("cancel", CheckStatus.SKIPPED, SKIPPED_VERDICT, "this version can't")
UNKNOWN = check("home", CheckStatus.ERROR, Verdict.ERROR, "nobody knows")


def result(*checks: Check) -> ProbeResult:
    verdict, detail = judge(checks)
    return ProbeResult(
        harness="gemini",
        version="1.0.0",
        verdict=verdict,
        target_hostname="far",
        observed_hostname="far",
        proof_seen=True,
        advertised_tools=["run_shell_command"],
        leaks=[],
        duration_s=1.5,
        detail=detail,
        checks=list(checks),
        binary="/opt/gemini",
        reach_version="0.1.0",
        session="far",
    )


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ([], Verdict.OK),
        ([Verdict.OK, Verdict.FAULTY], Verdict.FAULTY),
        ([Verdict.ERROR, Verdict.FAULTY], Verdict.ERROR),
        ([Verdict.ERROR, Verdict.LEAKY], Verdict.LEAKY),
        ([Verdict.BYPASSED, Verdict.LEAKY, Verdict.ERROR], Verdict.BYPASSED),
    ],
)
def test_the_worst_verdict_counts(verdicts: list[Verdict], outcome: Verdict) -> None:
    assert worst(verdicts) is outcome


def test_every_verdict_has_its_exit_code() -> None:
    assert {verdict: verdict.exit_code for verdict in SEVERITY} == {
        Verdict.OK: 0,
        Verdict.FAULTY: 1,
        Verdict.ERROR: 3,
        Verdict.LEAKY: 1,
        Verdict.BYPASSED: 1,
    }
    assert set(SEVERITY) == set(Verdict)


def test_the_detail_is_the_evidence_that_decided() -> None:
    assert judge([PASSED, UNKNOWN, FAILED]) == (Verdict.LEAKY, "on offer: read_file")
    assert judge([PASSED, SKIPPED]) == (Verdict.OK, "it ran there")


def test_nothing_but_skipped_checks_is_no_conclusion() -> None:
    assert judge([SKIPPED])[0] is Verdict.ERROR


def shown(*results: ProbeResult) -> str:
    out = Console(file=io.StringIO(), width=80, markup=False, highlight=False, emoji=False)
    if len(results) == 1:
        print_result(out, results[0])
    else:
        print_table(out, results)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "\x1b" not in text
    return str(text)


@pytest.mark.parametrize(
    ("checks", "verdict", "advice"),
    [
        ([PASSED], "ok", "next: reach gemini --session far"),
        ([PASSED, FAILED], "leaky", "don't work with /opt/gemini"),
        ([PASSED, UNKNOWN], "error", "nothing is proven"),
    ],
)
def test_the_report_begins_with_the_verdict_and_ends_with_what_to_do(
    checks: list[Check], verdict: str, advice: str
) -> None:
    text = shown(result(*checks))
    assert text.startswith(f"{verdict}  gemini 1.0.0 on far\n")
    assert advice in text.splitlines()[-3] + text.splitlines()[-2] + text.splitlines()[-1]
    assert all(each.evidence.split()[0] in text for each in checks)


def test_the_table_says_why_wherever_it_is_not_ok() -> None:
    text = shown(result(PASSED, SKIPPED), result(PASSED, FAILED))
    assert "1 passed, 1 skipped" in text
    assert "gemini 1.0.0: leaky: on offer: read_file" in text


@pytest.mark.parametrize(
    ("variables", "has_escapes"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
    ids=["neither", "force", "both"],
)
def test_a_pipe_gets_escapes_only_where_they_are_asked_for(
    variables: dict[str, str], has_escapes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    report([result(PASSED)])
    assert ("\x1b" in capsys.readouterr().out) is has_escapes


def test_junit_has_a_case_for_each_check(tmp_path: Path) -> None:
    path = tmp_path / "j.xml"
    write_junit(path, [result(PASSED, FAILED, SKIPPED, UNKNOWN)])
    suite = ElementTree.parse(path).getroot()[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    cases = {case.get("name"): [child.tag for child in case] for case in suite.findall("testcase")}
    assert cases == {"seam": ["system-out"], "surface": ["failure"], "cancel": ["skipped"], "home": ["error"]}
    assert suite.find("testcase/skipped").attrib == {"message": "this version can't"}  # type: ignore[union-attr]


def test_the_json_has_what_it_promises() -> None:
    printed = json.loads(result(PASSED, SKIPPED).model_dump_json())
    assert printed["verdict"] == "ok"
    assert [(each["status"], each["verdict"]) for each in printed["checks"]] == [
        ("passed", "ok"),
        ("skipped", "skipped"),
    ]
    assert set(printed) >= {
        "harness",
        "version",
        "verdict",
        "target_hostname",
        "observed_hostname",
        "proof_seen",
        "advertised_tools",
        "leaks",
        "duration_s",
        "detail",
    }

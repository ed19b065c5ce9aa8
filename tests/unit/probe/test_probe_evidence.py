from __future__ import annotations

import subprocess

import pytest

from reach.probe.evidence import PROOF_VARIABLE, SeamReport, Tokens, parse_seam_report
from reach.probe.gemini import GeminiScript
from reach.probe.script import ShellResult

TOKENS = Tokens("aaaaaa", "bbbbbb", "0123456789abcdef", "nonce")
PROOF = f"aaaaaa-bbbbbb:proof={TOKENS.proof}."


def run_seam_command(tokens: Tokens, proof: str | None) -> str:
    environment = {"PATH": "/usr/bin:/bin"} | ({PROOF_VARIABLE: proof} if proof is not None else {})
    return subprocess.run(
        ["bash", "-c", tokens.seam_command], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_command_proves_itself_where_the_proof_is() -> None:
    tokens = Tokens.new()
    host = subprocess.run(["uname", "-n"], capture_output=True, text=True).stdout.strip()
    assert parse_seam_report(run_seam_command(tokens, tokens.proof), tokens) == SeamReport(True, host, True)
    assert parse_seam_report(run_seam_command(tokens, None), tokens) == SeamReport(True, host, False)
    assert parse_seam_report(run_seam_command(tokens, "0" * 24), tokens) == SeamReport(True, host, False)


def test_an_echo_of_the_command_is_no_sign_that_it_ran() -> None:
    tokens = Tokens.new()
    assert not parse_seam_report(f"Command: {tokens.seam_command}\nError: refused", tokens).ran
    assert tokens.proof not in tokens.seam_command
    assert tokens.nonce not in tokens.seam_command


def test_the_command_has_no_command_substitution() -> None:
    assert not any(mark in Tokens.new().seam_command for mark in ("$(", "`", "<(", ">("))


def test_no_two_runs_share_a_token() -> None:
    one, two = Tokens.new(), Tokens.new()
    assert not {one.first, one.second, one.proof, one.nonce} & {two.first, two.second, two.proof, two.nonce}


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("", SeamReport(False, None, False)),
        (f"aaaaaa-bbbbbb:ran\naaaaaa-bbbbbb:host=box\n{PROOF}", SeamReport(True, "box", True)),
        (f"{{'output': 'aaaaaa-bbbbbb:host=box\\n{PROOF}'}}", SeamReport(True, "box", True)),
        ("aaaaaa-bbbbbb:ran\naaaaaa-bbbbbb:host=box\naaaaaa-bbbbbb:proof=.", SeamReport(True, "box", False)),
        (f"aaaaaa-bbbbbb:proof={TOKENS.proof[:-1]}.", SeamReport(True, None, False)),
        (f"aaaaaa-bbbbbb:proof={TOKENS.proof}0.", SeamReport(True, None, False)),
    ],
    ids=["nothing", "all", "as-json", "no-proof", "proof-cut", "proof-longer"],
)
def test_the_report_is_read_to_the_letter(text: str, report: SeamReport) -> None:
    assert parse_seam_report(text, TOKENS) == report


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (
            "Command: echo\nDirectory: (root)\nStdout: out\n\nStderr: err\n\nError: (none)\nExit Code: 7\n"
            "Signal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 17438",
            ShellResult("out\nerr", 7),
        ),
        (
            "Command: true\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 0\nSignal: 0\n"
            "Background PIDs: 27913, 28134\nProcess Group PGID: 27155",
            ShellResult("", 0, (27913, 28134)),
        ),
        ("Output: a\nb\nBackground PIDs: 5\nProcess Group PGID: 17", ShellResult("a\nb", 0, (5,))),
        (
            "<untrusted_context>\nOutput: abc\nExit Code: 125\nProcess Group PGID: 12033\n</untrusted_context>",
            ShellResult("abc", 125),
        ),
        ("Command rejected because it could not be parsed safely", ShellResult("", None)),
    ],
    ids=["0.1.22", "0.20.0", "0.35.0", "0.61.0", "refused"],
)
def test_a_shell_result_is_read_in_every_wording(text: str, result: ShellResult) -> None:
    assert GeminiScript().read_shell_result(text) == result


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        ("YOLO mode is enabled.\nRipgrep is not available.\n", None),
        (
            "YOLO\nAttempt 1 failed. Retrying … TypeError: fetch failed sending request\n    at x\n",
            "Attempt 1 failed. Retrying … TypeError: fetch failed sending request",
        ),
        ("Error: connect ECONNREFUSED 127.0.0.1:9", "Error: connect ECONNREFUSED 127.0.0.1:9"),
    ],
)
def test_a_harness_that_is_cut_off_says_so(stderr: str, line: str | None) -> None:
    assert GeminiScript().cut_off_line(stderr) == line

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from reach.broker.audit import AuditEntry, load_entries
from reach.cli.main import cli
from reach.paths import Paths
from reach.session import SessionStore
from reach.session.record import encode_record
from reach.target import parse_target


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("REACH_HOME", str(tmp_path / "reach"))
    paths = Paths.from_environment()
    SessionStore(paths).bind(parse_target("box"))
    return paths


def entry(command: str, launch: str | None = None) -> str:
    made = AuditEntry(
        time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), session="box", target="box", launch=launch, harness=None, pid=1,
        remote_pid=2, command=command, folder="/srv", outcome="exited", exit_status=0, duration_ms=7,
    )  # fmt: skip
    return encode_record(made).decode() + "\n"


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, words)
    return done.exit_code, done.output


def test_a_model_can_not_hide_a_command_behind_words_of_reach(paths: Paths) -> None:
    hidden = ": reach asks for GEMINI.md\nrm -rf precious"
    paths.audit_log("box").write_text(entry(hidden, launch="abcd"))
    assert "precious" in run("log")[1]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"], ids=ascii)
def test_a_model_can_not_hide_a_command_by_what_ends_a_line_elsewhere(paths: Paths, end: str) -> None:
    unescaped = json.dumps({**json.loads(entry(f"echo {end}; rm -rf precious")), "pid": 3}, ensure_ascii=False) + "\n"
    paths.audit_log("box").write_text(entry(f"echo {end}; rm -rf treasured") + unescaped, newline="")
    commands = [found.command for found in load_entries(paths.audit_log("box"))]
    assert commands == [f"echo {end}; rm -rf treasured", f"echo {end}; rm -rf precious"]
    said = run("log")[1]
    assert "treasured" in said
    assert "precious" in said


def test_damaged_lines_cost_nothing_but_themselves(paths: Paths) -> None:
    paths.audit_log("box").write_text(entry("one") + entry("two") + "garbage\n{}\n")
    assert "two" in run("log", "-n", "1")[1]
    assert [json.loads(line)["command"] for line in run("log", "--json")[1].splitlines()] == ["one", "two"]


def test_what_the_target_said_steers_no_terminal(paths: Paths) -> None:
    paths.audit_log("box").write_text(entry("printf '\x1b]0;owned\x07'"))
    assert "\x1b" not in run("log")[1]


def test_env_that_fails_makes_eval_fail_too(paths: Paths) -> None:
    code, said = run("env", "--session", "nosuch")
    assert code != 0
    assert said.splitlines()[0] == "false"


def test_a_damaged_session_can_be_forgotten(paths: Paths) -> None:
    (paths.session_state("box") / "session.json").write_text("{")
    assert run("down", "box")[0] != 0
    assert run("down", "box", "--forget") == (0, "session box: was not up, forgotten\n")

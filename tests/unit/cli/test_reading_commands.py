from __future__ import annotations

import json
import os
import subprocess
import sys
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


def _reach(home: bytes, *words: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-c", "from reach.cli.main import main; main()", *words]
    environment = {**os.environb, b"REACH_HOME": home, b"PYTHONIOENCODING": encoding.encode()}
    return subprocess.run(argv, env=environment, capture_output=True)


def test_env_names_the_shims_folder_by_its_own_bytes(tmp_path: Path) -> None:
    """Another name would be passed over on PATH, and the next `bash` be this machine's."""
    home = os.fsencode(tmp_path) + b"/not utf-8 \xff"
    SessionStore(Paths.below(Path(os.fsdecode(home)))).bind(parse_target("box"))
    done = _reach(home, "env")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"PATH='" + home + b"/state/sessions/box/bin':$PATH; export PATH\n")


def test_what_a_locale_lacks_is_written_out(tmp_path: Path) -> None:
    done = _reach(os.fsencode(tmp_path), "--help", encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2026" in done.stdout


def test_a_damaged_session_can_be_forgotten(paths: Paths) -> None:
    (paths.session_state("box") / "session.json").write_text("{")
    assert run("down", "box")[0] != 0
    assert run("down", "box", "--forget") == (0, "session box: was not up, forgotten\n")

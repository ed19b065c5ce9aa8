"""The guard in front of `reach gemini`, with real probes."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.session import ReachSession

pytestmark = [pytest.mark.sshd, pytest.mark.gemini]

REACH = [sys.executable, "-c", "from reach.cli import main; main()"]
TITLE = b"UNSAFE: launched with reach --force"
BYPASS = """case "$*" in *started*) echo the harness was started; exit 0;; esac
PATH=${PATH#*:}; export PATH; exec "%s" "$@"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.touch(mode=0o755)
    return path


def launch(session: ReachSession, program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REACH, "gemini", "--session", session.name, "--binary", str(program), *options, "-p", "started"],
        env={**os.environ, "REACH_HOME": str(session.home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=True,
    )


def test_a_bypassing_harness_is_found_out_refused_and_remembered(
    session: ReachSession, program: Path, gemini: str
) -> None:
    program.write_text("#!/bin/sh\n" + BYPASS % gemini)
    first, second, forced = launch(session, program), launch(session, program), launch(session, program, "--force")
    assert (first.returncode, first.stdout) == (1, "")
    assert "verifying Gemini CLI" in first.stderr
    assert "it is bypassed: a command ran on" in first.stderr
    assert second.returncode == 1
    assert "verifying" not in second.stderr
    assert "it is bypassed" in second.stderr
    assert (forced.returncode, forced.stdout) == (0, "the harness was started\n")
    assert "WARNING" in forced.stderr
    assert "THIS machine" in forced.stderr


def test_without_a_conclusion_nothing_is_launched_and_nothing_remembered(session: ReachSession, program: Path) -> None:
    program.write_text("#!/bin/sh\necho out of order >&2; exit 9\n")
    for _ in range(2):
        done = launch(session, program)
        assert done.returncode == 125
        assert "verifying" in done.stderr
        assert "nothing is proven about it" in done.stderr
        assert "out of order" in done.stderr


def test_a_harness_that_changed_is_verified_again(session: ReachSession, program: Path) -> None:
    for reason in ("for the first time", "for the first time"):
        program.write_text("#!/bin/sh\nexit 9\n")
        assert reason in launch(session, program).stderr


def test_the_warning_of_a_forced_launch_stays_in_view(
    session: ReachSession, program: Path, gemini: str, tmp_path: Path
) -> None:
    """Gemini CLI clears the screen when it starts."""
    settings = tmp_path / "home" / ".gemini" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    program.write_text("#!/bin/sh\n" + BYPASS % gemini)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CI"},  # in which Gemini CLI has no screen
        "REACH_HOME": str(session.home),
        "GEMINI_CLI_HOME": str(tmp_path / "home"),
        "GEMINI_API_KEY": "no-secret",
        "TMPDIR": str(tmp_path),
        "TERM": "xterm-256color",
    }
    argv = [*REACH, "gemini", "--session", session.name, "--binary", str(program), "--force"]
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (45, 140))
        os.execve(argv[0], argv, environment)
    try:
        shown = read_until(terminal, lambda seen: b"THIS machine" in plain(seen.partition(TITLE)[2]))
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    assert TITLE in shown, "Gemini CLI is what shows it"


def plain(text: bytes) -> bytes:
    """TEXT without what sets colours and moves the cursor."""
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", text)


def read_until(terminal: int, is_enough: Callable[[bytes], bool]) -> bytes:
    """What a program shows on its TERMINAL, until IS_ENOUGH says so. Raises: TimeoutError."""
    seen, deadline = b"", time.monotonic() + 120
    while not is_enough(seen):
        if time.monotonic() > deadline:
            raise TimeoutError(seen.decode(errors="replace"))
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 65536)
    return seen

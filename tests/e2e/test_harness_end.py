"""The harness is killed, or its terminal is closed, while a command runs: nothing stays behind on either machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mock_server import Call, MockServer, Script, Turn
from support.processes import is_dead
from support.screen import Screen
from support.session import ReachSession, wait_for
from support.sshd import Sshd

pytestmark = [
    pytest.mark.sshd,
    pytest.mark.gemini,
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is missing: install Debian's tmux"),
]

COMMAND = "sleep 4731 & sleep 4732; sleep 4733"
REACH = [sys.executable, "-c", "from reach.cli import main; main()"]


@pytest.fixture
def operator(tmp_path: Path) -> Path:
    home = tmp_path / "operator"
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    return home


def environment_of(operator: Path, session: ReachSession, gemini: str) -> dict[str, str]:
    return {
        "PATH": f"{Path(gemini).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(operator),
        "GEMINI_CLI_HOME": str(operator),
        "REACH_HOME": str(session.home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
    }


def processes_of_the_launch(session: ReachSession) -> list[int]:
    """Those that have the launch's shim folder in their environment: the harness, and what it started."""
    mark, found = f"{session.home}/state/sessions/".encode(), []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        path = next((entry for entry in environment if entry.startswith(b"PATH=")), b"")
        if mark in path and int(name) != os.getpid() and not is_dead(int(name)):
            found.append(int(name))
    return found


def nothing_is_left(session: ReachSession) -> None:
    for seconds in ("4731", "4732", "4733"):
        wait_for(lambda seconds=seconds: not session.remote_pids("sleep", seconds), f"the end of sleep {seconds}")
    wait_for(lambda: not processes_of_the_launch(session), "the end of what the launch started here")
    wait_for(lambda: not session.status()["commands_running"], "the broker to know")


@pytest.mark.parametrize("who", ["launch", "all"])
def test_a_killed_harness_leaves_nothing(session: ReachSession, operator: Path, gemini: str, who: str) -> None:
    script = Script(turns=[Turn(calls=[Call(name="run_shell_command", args={"command": COMMAND})])])
    with MockServer(script) as mock:
        harness = subprocess.Popen(
            [*REACH, "gemini", "--session", session.name, "--", "--yolo", "-m", "gemini-2.5-pro", "-p", "go"],
            env=environment_of(operator, session, gemini) | mock.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_for(lambda: session.remote_pids("sleep", "4732"), "the command", 90)
        finally:
            if who == "all":
                os.killpg(harness.pid, signal.SIGKILL)
            harness.kill()
            harness.wait()
        nothing_is_left(session)


def test_a_harness_whose_terminal_is_closed_leaves_nothing(
    make_target: Callable[..., Sshd],
    make_session: Callable[..., ReachSession],
    operator: Path,
    gemini: str,
    tmp_path: Path,
) -> None:
    session, screen = make_session(make_target()), Screen(tmp_path)
    script = Script(turns=[Turn(calls=[Call(name="run_shell_command", args={"command": COMMAND})])])
    with MockServer(script) as mock:
        try:
            argv = [*REACH, "gemini", "--session", session.name, "--", "--yolo", "-m", "gemini-2.5-pro", "-i", "go"]
            screen.start(argv, environment_of(operator, session, gemini) | mock.environment)
            wait_for(lambda: session.remote_pids("sleep", "4732"), "the command", 90)
        finally:
            screen.end()
        nothing_is_left(session)

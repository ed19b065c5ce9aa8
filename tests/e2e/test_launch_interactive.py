"""`reach gemini` on a terminal: the operator is still asked before a command runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mock_server import Call, MockServer, Script, Turn
from support.screen import Screen
from support.session import ReachSession
from support.sshd import Sshd

pytestmark = [
    pytest.mark.sshd,
    pytest.mark.gemini,
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is missing: install Debian's tmux"),
]

@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Screen]:
    made = Screen(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_command_waits_for_the_operators_word(
    make_target: Callable[..., Sshd],
    make_session: Callable[..., ReachSession],
    terminal: Screen,
    gemini: str,
    tmp_path: Path,
) -> None:
    commands = [f"touch {tmp_path}/first", f"touch {tmp_path}/second", f"ls {tmp_path}"]
    script = Script(turns=[Turn(calls=[Call(name="run_shell_command", args={"command": text})]) for text in commands])
    operator = tmp_path / "operator"
    (operator / ".gemini").mkdir(parents=True)
    (operator / ".gemini" / "settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    with MockServer(script) as mock:
        session = make_session(make_target())
        environment = {
            "PATH": f"{Path(gemini).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(operator),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            "REACH_HOME": str(session.home),
            "GEMINI_CLI_HOME": str(operator),
            **mock.environment,
        }
        reach = [sys.executable, "-c", "from reach.cli import main; main()", "gemini", "--session", session.name]
        terminal.start([*reach, "--", "-m", "gemini-2.5-pro", "-i", "go"], environment)
        terminal.wait_for("Allow execution")
        assert not (tmp_path / "first").exists()
        terminal.type("2")  # allow for this session
        assert "ls " in terminal.wait_for(f"? Shell  ls {tmp_path}"), "another command is asked about again"
        assert (tmp_path / "first").exists()
        assert (tmp_path / "second").exists()
        terminal.type("1")
        terminal.wait_for("Nothing more to do.")
        assert [entry.exit_status for entry in session.audit()][-3:] == [0, 0, 0]
        terminal.type("C-c")
        terminal.type("C-c")
        terminal.wait_for("ended with")

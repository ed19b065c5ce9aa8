"""The real Gemini CLI on a terminal: its interactive shell, and what a person types after `!`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mock_server import Call, MockServer, Script, Turn
from support.screen import Screen
from support.session import ReachSession, quiet_sshd, wait_for

pytestmark = [
    pytest.mark.sshd,
    pytest.mark.gemini,
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is missing: install Debian's tmux"),
]


@dataclass(frozen=True)
class Stage:
    """The CLI on a screen, its mocked model about to call COMMANDS one after the other."""

    screen: Screen
    session: ReachSession
    host: str

    def focus(self) -> None:
        """Have the keys go to the shell."""
        self.screen.wait_for("(Tab to focus)")
        self.screen.type("Tab")
        wait_for(lambda: "(Tab to focus)" not in self.screen.screen(), "the shell to take the keys", 60)

    def file(self, name: str) -> Path:
        """A file of the target's."""
        return Path(self.session.facts["folder"]) / name


@pytest.fixture
def perform(gemini: str, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    with ExitStack() as held:

        def begin(commands: list[str], **arguments: bool) -> Stage:
            operator = tmp_path / "operator"
            (operator / ".gemini").mkdir(parents=True)
            settings = {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "tools": {"shell": {"enableInteractiveShell": True}},
            }
            (operator / ".gemini" / "settings.json").write_text(json.dumps(settings))
            calls = [Call(name="run_shell_command", args={"command": command, **arguments}) for command in commands]
            server = held.enter_context(quiet_sshd())
            session = held.enter_context(ReachSession(server))
            mock = held.enter_context(MockServer(Script(turns=[Turn(calls=[call]) for call in calls])))
            screen = Screen(tmp_path)
            held.enter_context(ending(screen, session))
            environment = {
                "PATH": f"{Path(gemini).parent}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(operator),
                "GEMINI_CLI_HOME": str(operator),
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
                "REACH_HOME": str(session.home),
                **mock.environment,
            }
            reach = [sys.executable, "-c", "from reach.cli import main; main()", "gemini", "--session", session.name]
            screen.start([*reach, "--", "--yolo", "-m", "gemini-2.5-pro", "-i", "go"], environment)
            return Stage(screen, session, server.hostname)

        yield begin


@contextmanager
def ending(screen: Screen, session: ReachSession) -> Iterator[None]:
    """The CLI ends before its session and its mock."""
    try:
        yield
    finally:
        screen.end()
        wait_for(lambda: session.local_pids() == [session.broker_pid], "the CLI's end", 60)


def test_the_interactive_shell_works_on_the_target(perform: Callable[..., Stage]) -> None:
    stage = perform(
        [
            "[ -t 0 ] && [ -t 1 ] && echo on a terminal; stty size; hostname",
            "read -p 'your name? ' x; echo \"hello, $x\"",
            "sleep 4921; echo never",
        ]
    )
    screen, session = stage.screen, stage.session
    assert "on a terminal" in screen.wait_for(stage.host)
    stage.focus()
    screen.type("anna", "Enter")
    screen.wait_for("hello, anna")
    wait_for(lambda: session.remote_pids("sleep", "4921"), "the sleep", 60)
    screen.type("Escape")
    wait_for(lambda: not session.remote_pids("sleep", "4921"), "the end of the cancelled command", 60)
    screen.wait_for("Request cancelled")
    wait_for(lambda: "esc to cancel" not in screen.screen(), "the CLI to be idle", 60)
    screen.type("C-u")  # it may have put the cancelled prompt back
    screen.type("!")
    screen.wait_for("shell mode")
    text = "cd /etc && hostname && pwd"
    screen.type("-l", text)
    screen.wait_for(text)
    screen.type("Enter")
    typed = wait_for(lambda: [entry for entry in session.audit() if text in entry.command], "it to run", 60)
    assert [(entry.outcome, entry.exit_status) for entry in typed] == [("exited", 0)]
    screen.wait_for("│ /etc ")


@pytest.mark.skipif(not shutil.which("less"), reason="less is missing: install Debian's less")
@pytest.mark.skipif(not shutil.which("vim"), reason="vim is missing: install Debian's vim-tiny")
def test_programs_that_fill_the_screen_take_keys_and_sizes(perform: Callable[..., Stage]) -> None:
    stage = perform(
        [
            "seq 1 300 > list; less list",
            "vim -u NONE note",
            "bash --norc --noprofile -i",
            "while sleep 0.2; do stty size > size; done",
        ]
    )
    screen, session = stage.screen, stage.session
    screen.wait_for("│ 9 ")
    stage.focus()
    screen.type("/250", "Enter")
    screen.wait_for("│ 255 ")
    screen.type("q")
    screen.wait_for("Shell vim")
    stage.focus()
    screen.type("i")
    screen.type("-l", "written")
    screen.wait_for("│ written")
    screen.type("Escape")
    screen.type(":wq", "Enter")
    wait_for(lambda: stage.file("note").exists() and stage.file("note").read_text() == "written\n", "the file", 60)
    screen.wait_for("Shell bash")
    stage.focus()
    screen.type("sleep 4922", "Enter")
    wait_for(lambda: session.remote_pids("sleep", "4922"), "the sleep", 60)
    screen.type("C-z")
    screen.wait_for("Stopped")
    screen.type("kill -9 %1; exec true", "Enter")
    wait_for(lambda: not session.remote_pids("sleep", "4922"), "the end of the stopped job", 60)
    before = wait_for(lambda: stage.file("size").exists() and stage.file("size").read_text(), "a size", 60)
    screen.resize(100, 40)
    wait_for(lambda: stage.file("size").read_text() not in ("", before), "another size", 60)


def test_a_background_process_is_seen_listed_and_ended_by_keys(perform: Callable[..., Stage]) -> None:
    stage = perform(["hostname; while :; do sleep 4.923; done"], is_background=True)
    screen, session = stage.screen, stage.session
    screen.wait_for("1 Background process")
    screen.type("C-b")
    screen.wait_for("Kill (Ctrl+K)")
    screen.wait_for(f"│ {stage.host}")
    screen.type("C-l")
    screen.wait_for("Select Process")
    wait_for(lambda: session.remote_pids("sleep", "4.923"), "one of its sleeps")
    screen.type("C-k")
    wait_for(lambda: not session.remote_pids("sleep", "4.923"), "the end of the background process", 60)
    wait_for(lambda: "Background process" not in screen.screen(), "the CLI to know", 60)

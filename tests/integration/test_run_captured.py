"""reach's own questions to the target."""

from __future__ import annotations

import select
import socket
from typing import Any

import pytest

from reach.broker.captured import Captured, run_captured
from reach.errors import BrokerUnavailableError
from support.session import ReachSession, wait_for

pytestmark = pytest.mark.sshd


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("echo out; echo err >&2; exit 7", Captured(b"out\n", b"err\n", 7)),
        ("kill -9 $$", Captured(b"", b"", None)),
    ],
    ids=["exits", "killed"],
)
def test_answer_holds_both_streams_and_how_it_ended(session: ReachSession, command: str, answer: Captured) -> None:
    assert run_captured(session.paths, session.name, command) == answer


def test_a_question_that_takes_too_long_is_ended_on_the_target_too(session: ReachSession) -> None:
    with pytest.raises(BrokerUnavailableError, match="did not answer within 0.5 s"):
        run_captured(session.paths, session.name, "exec sleep 54321", timeout_s=0.5)
    wait_for(lambda: not session.remote_pids("sleep", "54321"), "its end on the target")


def test_a_question_is_asked_once_however_soon_its_answer_comes(
    session: ReachSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_fds = socket.send_fds

    def send_and_be_overtaken(connection: socket.socket, *arguments: Any) -> int:
        sent = send_fds(connection, *arguments)
        hung_up = select.poll()
        hung_up.register(connection, 0)
        assert hung_up.poll(20_000)
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_be_overtaken)
    assert run_captured(session.paths, session.name, "echo once") == Captured(b"once\n", b"", 0)
    assert [entry.command for entry in session.audit()].count("echo once") == 1

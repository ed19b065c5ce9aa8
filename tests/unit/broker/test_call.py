from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reach.broker.audit import AuditLog, load_entries
from reach.broker.call import ServedCall
from reach.session import Session
from reach.wire.frames import Answer, RunRequest, read_frame


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), OSError(24, "Too many open files")])
def test_what_nobody_foresaw_is_answered_and_recorded(tmp_path: Path, error: Exception) -> None:
    def take(**_: object) -> None:
        raise error

    broker: Any = SimpleNamespace(
        session=Session(name="t", target="box", created=datetime.now(UTC)),
        audit=AuditLog(tmp_path / "audit.jsonl"),
        check_session=lambda: None,
        connect_facts=lambda: None,
        folder="/srv",
        pool=SimpleNamespace(take=take),
    )
    request = RunRequest(
        session="t", launch="", cwd=b"/", pid=1, process_group=1, command_index=1, argv=[b"-c", b"ls"], environment={}
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ServedCall(broker, theirs, request, [os.open("/dev/null", os.O_RDWR) for _ in range(3)]).run()
        answer = read_frame(ours) or b""
    assert answer[:1] == Answer.FAILURE
    assert answer.endswith(b"; it did not run")
    [entry] = load_entries(tmp_path / "audit.jsonl")
    assert (entry.command, entry.outcome) == ("ls", "refused")
    assert str(error.args[-1]) in (entry.reason or "")

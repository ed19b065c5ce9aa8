"""Workers that were taken are replaced, also while their commands go on."""

from __future__ import annotations

import subprocess

import pytest

from support.session import ReachSession, wait_for

pytestmark = pytest.mark.sshd


def _warm(session: ReachSession) -> int:
    count: int = session.status()["warm_workers"]
    return count


def test_a_worker_is_replaced_while_its_command_runs(session: ReachSession) -> None:
    wait_for(lambda: _warm(session) >= 2, "two waiting workers")
    running: list[subprocess.Popen[bytes]] = [session.start("sleep 4321") for _ in range(3)]
    try:
        wait_for(lambda: session.status()["commands_running"] == 3 and _warm(session) >= 2, "replacements")
    finally:
        for process in running:
            process.kill()
            process.communicate()

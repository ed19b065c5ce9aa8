from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from reach.ssh.openssh_login import Master
from reach.ssh.openssh_mux import ProxySocket


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no pidfd here")
def test_who_ends_a_master_second_waits_for_who_came_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    reader, writer = os.pipe()
    os.close(writer)
    kill, begun, go_on = signal.pidfd_send_signal, threading.Event(), threading.Event()

    def late_kill(handle: int, number: int) -> None:
        begun.set()
        assert go_on.wait(20)
        kill(handle, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", late_kill)
    process = subprocess.Popen(["sleep", "4801"], start_new_session=True)
    with process, open(reader, "rb") as said, ours, theirs:
        master = Master(tmp_path / "ssh-x", process.pid, said, ProxySocket(ours, process.pid), True)
        first, second = (threading.Thread(target=master.end) for _ in range(2))
        first.start()
        assert begun.wait(20)
        second.start()
        second.join(0.2)
        is_waiting = second.is_alive()
        go_on.set()
        assert process.wait(20) == -signal.SIGKILL
    first.join(20)
    second.join(20)
    assert is_waiting, "a broker would end now, and ssh live on"

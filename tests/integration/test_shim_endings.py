"""The shim when something is not there: the target, the broker, the caller itself. Nothing ever runs here instead."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import is_dead
from support.session import ReachSession, wait_for
from support.sshd import Sshd

pytestmark = [pytest.mark.sshd, pytest.mark.transports("paramiko", "openssh")]


def test_shim_refuses_to_run_anything_here_when_the_target_is_gone(
    make_target: Callable[..., Sshd], make_session: Callable[..., ReachSession], tmp_path: Path
) -> None:
    server = make_target()
    session = make_session(server)
    witness = tmp_path / "witness"
    assert session.run(f"touch {witness}").returncode == 0
    witness.unlink()
    server.stop()
    for _ in range(2):
        done = session.run(f"touch {witness}")
        assert done.returncode == 125
        [line] = done.stderr.decode().splitlines()
        assert line.startswith(f"reach: session t ({session.target}): ")
        assert "did not run" in line
        assert done.stdout == b""
        assert not witness.exists()
    server.start()
    done = session.run(f"touch {witness}; hostname")
    assert (done.returncode, done.stdout.decode().strip(), done.stderr) == (0, server.hostname, b"")
    assert witness.exists()


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_remote_process_is_gone_once_the_shim_is(session: ReachSession, signal_number: int) -> None:
    seconds = str(4000 + signal_number)
    process = session.start(f"sleep {seconds}")
    wait_for(lambda: session.remote_pids("sleep", seconds), "the remote sleep")
    process.send_signal(signal_number)
    process.communicate()
    wait_for(lambda: not session.remote_pids("sleep", seconds), "the end of the remote sleep")
    assert process.returncode == -signal_number


def test_sigkill_of_the_shim_ends_a_remote_group_that_ignores_term(session: ReachSession) -> None:
    process = session.start("trap '' TERM; sleep 4321 & sleep 4322; sleep 4323")
    wait_for(lambda: session.remote_pids("sleep", "4322"), "the remote sleeps")
    process.kill()
    process.communicate()
    for seconds in ("4321", "4322"):
        wait_for(lambda seconds=seconds: not session.remote_pids("sleep", seconds), f"the end of sleep {seconds}")


def test_shim_starts_a_broker_that_is_not_there(
    make_session: Callable[..., ReachSession], target: Sshd
) -> None:
    session = make_session(target)
    first = session.broker_pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: is_dead(first), "the broker's end")
    done = session.run("hostname")
    assert (done.returncode, done.stdout.decode().strip()) == (0, target.hostname)
    assert session.broker_pid != first


def test_many_shims_at_once_start_one_broker(make_session: Callable[..., ReachSession], target: Sshd) -> None:
    session = make_session(target)
    session.down()
    processes = [session.start(f"echo {n}") for n in range(8)]
    results = [(p.communicate()[0], p.returncode) for p in processes]
    assert results == [(f"{n}\n".encode(), 0) for n in range(8)]
    brokers = [
        pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
        if b"start import serve" in _command_line(pid) and str(session.home).encode() in _command_line(pid)
    ]  # fmt: skip
    assert len(brokers) == 1


def test_a_command_whose_broker_is_killed_is_unknown_and_not_run_again(
    make_session: Callable[..., ReachSession], target: Sshd, tmp_path: Path
) -> None:
    session = make_session(target)
    runs = tmp_path / "runs"
    process = session.start(f"echo x >>{runs}; sleep 4331")
    wait_for(lambda: session.remote_pids("sleep", "4331"), "the remote sleep")
    os.kill(session.broker_pid, signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode == 125
    assert b"may have run" in stderr
    assert b"not run again" in stderr
    assert session.run("true").returncode == 0
    assert runs.read_text() == "x\n"
    wait_for(lambda: not session.remote_pids("sleep", "4331"), "the end of what nobody waits for")


def test_a_session_that_was_removed_refuses(make_session: Callable[..., ReachSession], target: Sshd) -> None:
    session = make_session(target)
    session.down()
    (session.paths.session_state("t") / "session.json").unlink()
    done = session.run("hostname")
    assert done.returncode == 125
    assert done.stdout == b""
    assert len(done.stderr.splitlines()) == 1


def test_a_local_folder_that_is_gone_refuses(session: ReachSession, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    argv = ["/bin/bash", "-c", f"cd {folder} && rmdir {folder} && exec {session.bash} -c hostname"]
    done = subprocess.run(argv, capture_output=True)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"no longer exists; it did not run" in done.stderr


def test_a_caller_that_closed_its_standard_descriptors_is_served(session: ReachSession, tmp_path: Path) -> None:
    made = tmp_path / "made"
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        argv = ["/bin/sh", "-c", f"exec {session.bash} -c 'echo out; echo err >&2; cat; touch {made}' {closed}"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True)
        assert (done.returncode, made.exists()) == (0, True), closed
        made.unlink()


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

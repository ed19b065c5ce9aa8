"""The shell text is run by real shells here: this machine's processes stand for the target's."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.broker.remote_group import END, PS_START, RemoteGroup, Step, parse_group, signal_script

SHELLS = [shell for shell in ("bash", "dash", "sh") if shutil.which(shell)]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A leader of its own session with a child, both asleep."""
    process = subprocess.Popen(["sh", "-c", "sleep 4700 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def _group(pid: int) -> RemoteGroup:
    tail = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2]
    found = parse_group(b"%d %b %b" % (pid, tail, Path("/proc/sys/kernel/random/boot_id").read_bytes()))
    assert found
    return found


def _run(shell: str, script: bytes) -> bytes:
    done = subprocess.run([shell], input=script.removesuffix(b"\0"), capture_output=True, check=True, timeout=20)
    assert done.stderr == b""
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_group_that_is_meant_is_ended(shell: str, victim: subprocess.Popen[bytes]) -> None:
    group = _group(victim.pid)
    assert group.is_certain
    assert _run(shell, signal_script([group], END, "DONE")) == b"DONE"
    assert victim.wait(20) == -signal.SIGTERM


@pytest.mark.parametrize("shell", SHELLS)
def test_a_later_process_of_the_same_number_is_left_alone(shell: str, victim: subprocess.Popen[bytes]) -> None:
    group = _group(victim.pid)
    for other in (
        RemoteGroup(group.pid, str(int(group.started) + 1), group.boot),
        RemoteGroup(group.pid, group.started, "0" * 36),
        RemoteGroup(victim.pid + 1_000_000, group.started, group.boot),
    ):
        assert _run(shell, signal_script([other], END, "DONE")) == b"DONE"
    assert victim.poll() is None


@pytest.mark.parametrize("shell", SHELLS)
def test_one_of_several_is_told_from_the_others(shell: str, victim: subprocess.Popen[bytes]) -> None:
    group = _group(victim.pid)
    stranger = RemoteGroup(group.pid, "1", group.boot)
    assert _run(shell, signal_script([stranger, group], [Step("USR1")], "DONE")) == b"DONE"
    assert victim.wait(20) == -signal.SIGUSR1


def _group_by_ps(pid: int) -> RemoteGroup:
    told = subprocess.run(["sh", "-c", f"{PS_START} {pid}"], capture_output=True, check=True).stdout
    found = parse_group(b"%d ps %b " % (pid, told))
    assert found
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_where_only_ps_tells_a_start_the_group_that_is_meant_is_ended(
    shell: str, victim: subprocess.Popen[bytes]
) -> None:
    group = _group_by_ps(victim.pid)
    assert group.is_certain
    for other in (
        RemoteGroup(group.pid, group.started[:-1] + "0", "ps"),
        RemoteGroup(victim.pid + 1_000_000, group.started, "ps"),
    ):
        assert _run(shell, signal_script([other], END, "DONE")) == b"DONE"
    assert victim.poll() is None
    assert _run(shell, signal_script([group], END, "DONE")) == b"DONE"
    assert victim.wait(20) == -signal.SIGTERM


@pytest.mark.parametrize("shell", SHELLS)
def test_where_the_target_tells_nothing_its_number_is_gone_by(shell: str, victim: subprocess.Popen[bytes]) -> None:
    assert _run(shell, signal_script([RemoteGroup(victim.pid)], [Step("TERM")], "DONE")) == b"DONE"
    assert victim.wait(20) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("announced", "group"),
    [
        (b"", None),
        (b"x", None),
        (b"-5", None),
        (b"0", None),
        (b"1", None),
        (b"4242", RemoteGroup(4242)),
        (b"4242 S 1 2 3", RemoteGroup(4242)),
        (b"4242 ps Mon Nov 30 20:20:03 2026 ", RemoteGroup(4242, "Mon-Nov-30-20:20:03-2026", "ps")),
        (b"4242 ps Mon Nov  2 20:20:03 2026\n ", RemoteGroup(4242, "Mon-Nov-2-20:20:03-2026", "ps")),
        (b"4242 ps  ", RemoteGroup(4242)),
        (b"4242 ps", RemoteGroup(4242)),
        (b"4242 ps $(touch) Nov 30 20:20:03 2026", RemoteGroup(4242)),
        (b"4242 ps Mon Nov 30 20:20:03 2026 x", RemoteGroup(4242)),
        (b"4242 " + b"7 " * 22 + b"no-boot-id", RemoteGroup(4242)),
        (b"4242 " + b"x " * 22 + b"01234567-89ab-cdef-0123-456789abcdef", RemoteGroup(4242)),
        (b"4242 $(reboot) " + b"1 " * 30, RemoteGroup(4242)),
    ],
)
def test_an_announcement_is_taken_for_what_it_is_worth(announced: bytes, group: RemoteGroup | None) -> None:
    assert parse_group(announced) == group


@given(st.binary(max_size=400))
def test_nothing_of_an_announcement_reaches_the_shell_but_numbers(announced: bytes) -> None:
    group = parse_group(announced)
    if group is not None:
        assert group.pid > 1
        assert set(group.started) <= set("0123456789")
        assert set(group.boot) <= set("0123456789abcdef-")

"""Many calls and hostile peers: everything is right, and nothing is left over."""

from __future__ import annotations

import array
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.session import ReachSession, descriptors_of, wait_for
from support.sshd import Sshd

pytestmark = pytest.mark.sshd


@pytest.mark.transports("paramiko", "openssh")
def test_a_thousand_calls_and_32_at_once_leave_nothing_over(
    make_target: Callable[..., Sshd], make_session: Callable[..., ReachSession]
) -> None:
    server = make_target({"MaxSessions": 10})
    session = make_session(server)

    def run(number: int) -> tuple[int, bytes, bytes]:
        done = session.run(f"echo out-{number}; echo err-{number} >&2; exit {number % 256}")
        return done.returncode, done.stdout, done.stderr

    def expected(number: int) -> tuple[int, bytes, bytes]:
        return number % 256, f"out-{number}\n".encode(), f"err-{number}\n".encode()

    for number in range(50):
        assert run(number) == expected(number)
    pid = session.broker_pid
    before = _kinds(descriptors_of(pid))
    for number in range(1000):
        assert run(number) == expected(number)
    with ThreadPoolExecutor(32) as pool:
        for _ in range(3):
            assert list(pool.map(run, range(32))) == [expected(number) for number in range(32)]
    assert session.broker_pid == pid

    def is_rid_of_the_calls() -> bool:
        """An inbox for each worker that waits, a socket and what ssh says for each connection, and no more."""
        status, after = _idle(session), _kinds(descriptors_of(pid))
        return (
            status is not None
            and after["anon_inode:[eventfd]"] == status["warm_workers"]
            and all(after[kind] <= before[kind] + status["connections"] for kind in ("pipe:", "socket:"))
        )

    wait_for(is_rid_of_the_calls, "an idle broker that holds nothing of the calls")
    assert len(session.audit()) == 50 + 1000 + 96


def _idle(session: ReachSession) -> dict[str, int] | None:
    """The broker's status, once nothing runs and the refilling has come to rest."""
    status = session.status()
    shells = len(_shells(session.server))
    again = session.status()
    if status["commands_running"] or status["warm_workers"] != again["warm_workers"]:
        return None
    return again if shells == again["warm_workers"] else None


def _shells(server: Sshd) -> list[int]:
    own = set(server.connection_pids()) | {server.pid}
    return [pid for pid in server.pids() if pid not in own]


def _kinds(links: list[str]) -> dict[str, int]:
    kinds = dict.fromkeys(("pipe:", "socket:", "anon_inode:[eventfd]"), 0)
    for link in links:
        for kind in kinds:
            kinds[kind] += link.startswith(kind)
    return kinds


GARBAGE = {
    "nothing": b"",
    "random": os.urandom(4096),
    "half-a-head": b"\0\0",
    "half-a-frame": (1000).to_bytes(4, "big") + b"1\0run",
    "too-long": (1 << 31).to_bytes(4, "big"),
    "empty-frame": bytes(4),
    "two-frames": ((2).to_bytes(4, "big") + b"1\0") * 2,
    "other-version": b"\0\0\0\x05" + b"9\0run",
    "no-fields": b"\0\0\0\x06" + b"1\0run\0",
    "text": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("descriptors", [0, 1, 3, 4, 40])
def test_a_broken_peer_changes_nothing_for_others(session: ReachSession, data: bytes, descriptors: int) -> None:
    neighbour = session.start("read x; echo got $x", stdin=subprocess.PIPE)
    _send_and_close(session, data, descriptors)
    assert neighbour.communicate(b"this\n") == (b"got this\n", b"")
    assert session.run("echo fine").stdout == b"fine\n"
    pid = session.broker_pid
    wait_for(lambda: not any("/dev/zero" in link for link in descriptors_of(pid)), "the descriptors' end")


def test_a_request_without_its_descriptors_is_refused(session: ReachSession) -> None:
    for count in (0, 1, 2, 4):
        fields = [b"1", b"run", b"t", b"", b"/", b"1", b"1", b"1", b"2", b"-c", b"touch /tmp/reach-no-descriptors"]
        payload = b"\0".join(fields)
        answer = _send_and_close(session, len(payload).to_bytes(4, "big") + payload, count, wait=True)
        assert answer[4:5] == b"F", (count, answer)
        assert not os.path.exists("/tmp/reach-no-descriptors")


@pytest.mark.parametrize(
    "fields",
    [
        [b"t", b"", b"/", b"1", b"1", b"5", b"2", b"-c", b"true"],
        [b"t", b"", b"/", b"1", b"1", b"-9", b"2", b"-c", b"true"],
        [b"t", b"", b"/", b"1", b"1", b"1", b"200", b"-c", b"true"],
        [b"t", b"", b"/", b"1", b"1", b"1", b"-2", b"-c", b"true"],
        [b"t", b"", b"relative", b"1", b"1", b"1", b"2", b"-c", b"true"],
        [b"t", b"", b"/", b"x", b"1", b"1", b"2", b"-c", b"true"],
        [b"\xff", b"", b"/", b"1", b"1", b"1", b"2", b"-c", b"true"],
        [b"other", b"", b"/", b"1", b"1", b"1", b"2", b"-c", b"true"],
        [b"t", b"../../x", b"/", b"1", b"1", b"1", b"2", b"-c", b"true"],
    ],
    ids=["index-over", "index-under", "count-over", "count-under", "folder", "pid", "name", "session", "launch"],
)
def test_a_request_that_makes_no_sense_is_refused(session: ReachSession, fields: list[bytes]) -> None:
    payload = b"\0".join([b"1", b"run", *fields])
    answer = _send_and_close(session, len(payload).to_bytes(4, "big") + payload, 3, wait=True)
    assert answer[4:5] == b"F"
    assert session.run("echo fine").stdout == b"fine\n"


def _send_and_close(session: ReachSession, data: bytes, descriptors: int, *, wait: bool = False) -> bytes:
    zero = os.open("/dev/zero", os.O_RDONLY)
    numbers = array.array("i", [zero] * descriptors)
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(str(session.paths.socket("t")))
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if descriptors else []
        try:
            if data:
                peer.sendmsg([data], ancillary)
            peer.shutdown(socket.SHUT_WR) if not wait else None
            peer.settimeout(20)
            while chunk := peer.recv(65536):
                answer += chunk
        except ConnectionError:
            pass
    os.close(zero)
    return answer

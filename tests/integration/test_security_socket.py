"""Whatever is said on the broker's socket concerns the one who says it. The corpus is kept in tests/captures."""

from __future__ import annotations

import array
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reach.errors import BrokerError
from reach.wire.frames import parse_request, read_request
from support.session import ReachSession, descriptors_of, quiet_sshd, wait_for

_FOLDER = Path(__file__).parents[1] / "captures/broker-socket"
CORPUS = {path.stem: path.read_bytes() for path in sorted(_FOLDER.iterdir())}
"""Shape of an entry: one byte, how many descriptors go along, then what is sent."""


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """An entry of the corpus, cut, spliced, repeated or with other bytes in it."""
    entry = bytearray(draw(st.sampled_from(list(CORPUS.values()))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(entry)))
        match draw(st.integers(0, 4)):
            case 0:
                del entry[at : at + draw(st.integers(1, 40))]
            case 1:
                entry[at:at] = draw(st.binary(min_size=1, max_size=20))
            case 2:
                other = draw(st.sampled_from(list(CORPUS.values())))
                entry[at:] = other[draw(st.integers(0, len(other))) :]
            case 3:
                entry[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case _:
                entry += entry[at:]
    return bytes(entry[: 1 << 20]) or b"\0"


@given(data=mutated())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_read_is_a_request_or_refused_and_no_descriptor_stays(data: bytes) -> None:
    before = set(os.listdir("/proc/self/fd"))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        theirs.setblocking(False)  # what does not fit into the socket is cut off
        _send(theirs, data)
        theirs.shutdown(socket.SHUT_WR)
        try:
            received = read_request(ours)
            if received is not None:
                for number in received[1]:
                    os.close(number)
                parse_request(received[0])
        except BrokerError:
            pass
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.fixture(scope="module")
def session() -> Iterator[ReachSession]:
    with quiet_sshd() as server, ReachSession(server) as up:
        yield up


@pytest.mark.sshd
@pytest.mark.parametrize("entry", CORPUS.values(), ids=CORPUS.keys())
def test_an_entry_of_the_corpus_disturbs_nobody(session: ReachSession, entry: bytes) -> None:
    neighbour = session.start("read x; echo got $x", stdin=subprocess.PIPE)
    _speak(session, entry)
    assert neighbour.communicate(b"this\n", timeout=60) == (b"got this\n", b"")


@pytest.mark.sshd
@given(data=mutated())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutations_of_the_corpus_disturb_nobody(session: ReachSession, data: bytes) -> None:
    _speak(session, data)


@pytest.mark.sshd
def test_after_all_that_the_broker_is_the_same_and_holds_nothing(session: ReachSession) -> None:
    pid = session.broker_pid
    threads = len(os.listdir(f"/proc/{pid}/task"))
    peers = [_connect(session) for _ in range(50)]
    for peer in peers:
        peer.close()
    assert session.run("echo fine").stdout == b"fine\n"
    assert session.broker_pid == pid
    wait_for(lambda: not any("/dev/zero" in link for link in descriptors_of(pid)), "the descriptors' end")
    assert len(os.listdir(f"/proc/{pid}/task")) <= threads + 5
    assert "Traceback" not in session.broker_log()


def _connect(session: ReachSession) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.connect(str(session.paths.socket("t")))
    return peer


def _send(peer: socket.socket, data: bytes) -> None:
    zero = os.open("/dev/zero", os.O_RDONLY)
    numbers = array.array("i", [zero] * min(data[0], 60))
    with suppress(OSError):
        if data[1:]:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if numbers else []
            sent = peer.sendmsg([data[1:]], ancillary)
            peer.sendall(data[1 + sent :])
    os.close(zero)


def _speak(session: ReachSession, data: bytes) -> None:
    """Say DATA to the broker, and wait until it hangs up. A request to end is the one thing that is not said."""
    if b"\0down" in data:
        return
    with _connect(session) as peer, suppress(ConnectionError):
        peer.settimeout(60)
        _send(peer, data)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass

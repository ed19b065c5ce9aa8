"""The shim and the broker speak the same: each holds the list for itself, so that neither imports the other."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.errors import BrokerProtocolError, BrokerVersionError
from reach.wire import frames
from reach.wire.frames import Answer, ControlRequest, Note, Operation, RunRequest, encode_control, parse_request
from shim import client

_BYTES = st.binary(max_size=30).filter(lambda data: b"\0" not in data)
_NAME = _BYTES.filter(lambda data: bool(data) and b"=" not in data)


def test_shim_and_broker_hold_the_same_list() -> None:
    assert frames.PROTOCOL == client.PROTOCOL
    assert frames.MAX_FRAME_BYTES == client.MAX_REQUEST_BYTES
    answers = {name: value for name, value in vars(Answer).items() if name.isupper() and name != "JSON"}
    assert answers == {n.removeprefix("ANSWER_"): v for n, v in vars(client).items() if n.startswith("ANSWER_")}
    notes = {name: value for name, value in vars(Note).items() if name.isupper()}
    assert notes == {n.removeprefix("NOTE_"): v for n, v in vars(client).items() if n.startswith("NOTE_")}
    every = [*answers.values(), Answer.JSON]
    assert len(set(every)) == len(every)
    assert all(len(value) == 1 for value in [*every, *notes.values()])


@given(
    launch=st.sampled_from(["", "1f2e3d4c"]),
    cwd=_BYTES,
    argv=st.lists(_BYTES, max_size=6),
    environment=st.dictionaries(_NAME, _BYTES, max_size=6),
    index=st.integers(-1, 5),
)
def test_the_broker_reads_what_the_shim_writes(
    launch: str, cwd: bytes, argv: list[bytes], environment: dict[bytes, bytes], index: int
) -> None:
    index = min(index, len(argv) - 1)
    entries = [name + b"=" + value for name, value in environment.items()]
    payload = client.encode_run(b"box", launch.encode(), b"/" + cwd, index, argv, entries)
    request = parse_request(payload)
    assert isinstance(request, RunRequest)
    assert (request.session, request.launch, request.cwd) == ("box", launch, b"/" + cwd)
    assert (request.argv, request.command_index) == (argv, index)
    assert request.environment == environment
    assert request.command == (argv[index] if index >= 0 else None)
    assert (request.pid, request.process_group) == (os.getpid(), os.getpgrp())


def test_odd_entries_of_an_environment_are_left_out() -> None:
    payload = client.encode_run(b"box", b"", b"/", -1, [], [b"=x", b"=a=b", b"plain", b"A=1=2", b"B="])
    request = parse_request(payload)
    assert isinstance(request, RunRequest)
    assert request.environment == {b"A": b"1=2", b"B": b""}


@pytest.mark.parametrize("operation", list(Operation))
def test_control_requests_come_through(operation: Operation) -> None:
    if operation is not Operation.RUN:
        assert parse_request(encode_control(operation, b"{}")) == ControlRequest(operation, b"{}")


@given(payload=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(payload: bytes) -> None:
    for data in (payload, b"1\0" + payload, b"1\0run\0" + payload):
        try:
            parse_request(data)
        except (BrokerProtocolError, BrokerVersionError):
            continue


def test_another_version_is_refused_with_what_to_type() -> None:
    with pytest.raises(BrokerVersionError) as caught:
        parse_request(b"2\0run\0")
    assert caught.value.fix


@pytest.fixture
def peers() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    with ours, theirs:
        yield ours, theirs


def test_a_request_in_small_pieces_keeps_its_descriptors(peers: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = peers
    payload = b"1\0status\0{}" * 50
    data = client.frame(payload)
    theirs.sendmsg([data[:1]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    for n in range(1, len(data), 7):
        theirs.sendall(data[n : n + 7])
    received = frames.read_request(ours)
    assert received is not None
    assert received[0] == payload
    assert len(received[1]) == 3
    for number in received[1]:
        assert not os.get_inheritable(number)
        os.close(number)


@pytest.mark.parametrize(
    "data", [b"\0", b"\0\0\0\x05abc", b"\xff\xff\xff\xff", b"\0\0\0\x01ab"], ids=["head", "body", "size", "more"]
)
def test_half_a_request_is_refused_and_its_descriptors_are_closed(
    peers: tuple[socket.socket, socket.socket], data: bytes
) -> None:
    ours, theirs = peers
    before = set(os.listdir("/proc/self/fd"))
    theirs.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(BrokerProtocolError):
        frames.read_request(ours)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_peer_that_says_nothing_is_no_request(peers: tuple[socket.socket, socket.socket]) -> None:
    peers[1].close()
    assert frames.read_request(peers[0]) is None


@given(payload=st.binary(max_size=300))
def test_a_frame_comes_back_as_it_was(payload: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames.write_frame(ours, payload)
        assert frames.read_frame(theirs) == payload
        ours.close()
        assert frames.read_frame(theirs) is None

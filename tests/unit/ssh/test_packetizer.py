"""Reading ahead, which must neither lose a byte nor wait for more than was asked for; and building packets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import paramiko
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from paramiko.common import MSG_CHANNEL_DATA
from paramiko.packet import Packetizer

from reach.ssh.packetizer import READ_AHEAD_BYTES, BoundedPacketizer, ChannelData, ReadAhead


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_is_read_in_pieces_is_what_was_sent(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    sent = bytes(range(256)) * 300
    theirs.sendall(sent)
    theirs.close()
    reader, received, size = ReadAhead(ours), b"", 1
    while piece := reader.recv(size):
        assert len(piece) <= size
        received, size = received + piece, size % 1000 + 7
    assert received == sent


def test_a_piece_is_given_before_all_of_it_has_come(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"abc")
    reader = ReadAhead(ours)
    assert [reader.recv(2), reader.recv(READ_AHEAD_BYTES)] == [b"ab", b"c"]


def test_a_time_out_loses_nothing(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    ours.settimeout(0.01)
    reader = ReadAhead(ours)
    theirs.sendall(b"abc")
    assert reader.recv(2) == b"ab"
    assert reader.recv(2) == b"c"
    with pytest.raises(TimeoutError):
        reader.recv(2)
    theirs.sendall(b"d")
    assert reader.recv(2) == b"d"


@pytest.mark.parametrize("is_aead", [True, False], ids=["aes-gcm", "before-encryption"])
def test_a_packet_is_padded_as_paramiko_pads_it(ends: tuple[socket.socket, socket.socket], is_aead: bool) -> None:
    ours, _ = ends
    own, theirs = BoundedPacketizer(ours), Packetizer(ours)
    for packetizer in (own, theirs):
        vars(packetizer)["_Packetizer__aead_out"] = is_aead
        vars(packetizer)["_Packetizer__block_size_out"] = 16
    for size in range(1, 70):
        built, expected = own._build_packet(bytes(size)), theirs._build_packet(bytes(size))  # type: ignore[attr-defined]
        assert (len(built), built[: 5 + size]) == (len(expected), expected[: 5 + size])


@pytest.mark.parametrize("size", [1, 15, 16, 4096, 32768])
def test_channel_data_is_sealed_counted_and_numbered_as_paramiko_does(size: int) -> None:
    packets, states = [], []
    for send in (BoundedPacketizer.send_message, Packetizer.send_message):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            packetizer = BoundedPacketizer(ours)
            packetizer.REKEY_PACKETS = 3
            packetizer.set_outbound_cipher(AESGCM(bytes(16)), 16, None, 0, b"", iv_out=bytes(12), aead=True)
            packetizer._initial_kex_done = True
            received = b""
            for _ in range(4):
                send(packetizer, ChannelData(7, memoryview(bytes(size))))
                received += theirs.recv(1 << 20)
            packets.append(received)
            own = vars(packetizer)
            names = ("iv_out", "sequence_number_out", "sent_bytes", "sent_packets", "need_rekey")
            states.append([own[f"_Packetizer__{name}"] for name in names])
    assert packets[0] == packets[1]
    assert states[0] == states[1]
    assert states[0][-1]  # exchanging keys anew is due


def test_channel_data_is_the_message_that_paramiko_would_build() -> None:
    message = paramiko.Message()
    message.add_byte(bytes([MSG_CHANNEL_DATA]))
    message.add_int(5)
    message.add_string(b"input")
    data = ChannelData(5, memoryview(b"input"))
    assert (data.asbytes(), len(data)) == (message.asbytes(), len(message.asbytes()))

"""paramiko's packets within limits, and when the last one came: a server may claim a packet of 4 GiB."""

from __future__ import annotations

import socket
import time
from typing import Any

import paramiko
from paramiko.common import MSG_CHANNEL_DATA
from paramiko.packet import Packetizer

MAX_PACKET_BYTES = 1 << 18
"""RFC 4253 section 6.1 asks for 35,000; OpenSSH takes packets up to this."""
READ_AHEAD_BYTES = 1 << 17
MAX_BANNER_BYTES = 1 << 16
"""Everything that the server may say before its version; RFC 4253 section 4.2 sets no limit."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake_clock_s() -> float:
    """Seconds on a clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(_CLOCK)


class ReadAhead:
    """A connection read in large pieces: paramiko asks for each packet in two or three small ones."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ahead = b""
        self._at = 0
        self.send, self.close = connection.send, connection.close

    def recv(self, size: int) -> bytes:
        if not self._ahead:
            data = self._connection.recv(READ_AHEAD_BYTES)
            if len(data) <= size:
                return data
            self._ahead = data
        end = self._at + size
        data = self._ahead[self._at : end]
        self._at = end
        if end >= len(self._ahead):
            self._ahead, self._at = b"", 0
        return data


class ChannelData:
    """A message of a channel's data that is copied once only, into its packet."""

    def __init__(self, channel: int, data: memoryview) -> None:
        self._head = b"".join((bytes([MSG_CHANNEL_DATA]), channel.to_bytes(4, "big"), len(data).to_bytes(4, "big")))
        self._data = data

    def __len__(self) -> int:
        return len(self._head) + len(self._data)

    def parts(self) -> tuple[bytes, memoryview]:
        return self._head, self._data

    def asbytes(self) -> bytes:
        return b"".join(self.parts())


class BoundedPacketizer(Packetizer):
    """Refuses what no honest server sends, and notes the time of every packet."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(ReadAhead(connection))  # type: ignore[arg-type]
        self.heard_s = awake_clock_s()
        """By awake_clock_s, when the server's last packet came."""
        self._banner_bytes = 0

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MAX_PACKET_BYTES:
            raise paramiko.SSHException(f"the server announced a packet of {n} bytes")
        data: bytes = super().read_all(n, check_rekey)
        self.heard_s = awake_clock_s()
        return data

    def _build_packet(self, payload: bytes) -> bytes:
        """As paramiko's, but with fewer copies, and for AES-GCM too without random bytes that nobody will see."""
        own = vars(self)
        if not own["_Packetizer__aead_out"]:
            plain: bytes = super()._build_packet(payload)  # type: ignore[misc]
            return plain
        block = own["_Packetizer__block_size_out"]
        padding = 3 + block - (len(payload) + 4) % block
        head = (len(payload) + padding + 1).to_bytes(4, "big") + bytes([padding])
        return b"".join((head, payload, bytes(padding)))

    def send_message(self, data: Any) -> None:
        """As paramiko's, with fewer copies for what there may be much of. Source: RFC 5647 section 7.2."""
        own = vars(self)
        compresses = own["_Packetizer__compress_engine_out"] is not None
        if not isinstance(data, ChannelData) or not own["_Packetizer__aead_out"] or compresses:
            super().send_message(data)
            return
        block = own["_Packetizer__block_size_out"]
        padding = 3 + block - (len(data) + 4) % block
        size = (len(data) + padding + 1).to_bytes(4, "big")
        with own["_Packetizer__write_lock"]:
            plain = b"".join((bytes([padding]), *data.parts(), bytes(padding)))
            sealed = own["_Packetizer__block_engine_out"].encrypt(own["_Packetizer__iv_out"], plain, size)
            own["_Packetizer__iv_out"] = self._inc_iv_counter(own["_Packetizer__iv_out"])  # type: ignore[attr-defined]
            own["_Packetizer__sequence_number_out"] = (own["_Packetizer__sequence_number_out"] + 1) & 0xFFFFFFFF
            self.write_all(size + sealed)
            self._count_sent(len(size) + len(sealed))

    def _count_sent(self, size: int) -> None:
        """Have keys exchanged anew after so many packets or bytes."""
        own: dict[str, Any] = vars(self)
        own["_Packetizer__sent_bytes"] += size
        own["_Packetizer__sent_packets"] += 1
        is_due = (
            own["_Packetizer__sent_packets"] >= self.REKEY_PACKETS or own["_Packetizer__sent_bytes"] >= self.REKEY_BYTES
        )
        if is_due and not own["_Packetizer__need_rekey"]:
            own["_Packetizer__received_bytes_overflow"] = own["_Packetizer__received_packets_overflow"] = 0
            self._trigger_rekey()  # type: ignore[attr-defined]

    def _read_timeout(self, timeout: float) -> bytes:
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._banner_bytes += len(data)
        if self._banner_bytes > MAX_BANNER_BYTES:
            raise paramiko.SSHException("the server talks without end before its version")
        return data

"""The transport over the system's ssh: a master that has logged in, and its connection's channels as ours.

The master is trusted as ssh is; what the server sends through it is not: it is kept to the window that it was given,
and to packets of a sensible size.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
import threading
from collections.abc import Callable

from reach.errors import ConnectionLostError, TransportError
from reach.ssh.keepalive import Keepalive, KeepaliveRule
from reach.ssh.openssh_channel import Message, OpensshProcess
from reach.ssh.openssh_shared import SharedMaster
from reach.ssh.packetizer import MAX_PACKET_BYTES, awake_clock_s
from reach.ssh.process import PTY_MODES, PtySize
from reach.ssh.wire_format import Reader, WireFormatError, string, uint32

READ_BYTES = 1 << 17
_PADDING_AND_TYPE = 2
LEAVE_TIMEOUT_S = 2.0

log = logging.getLogger("reach.openssh")


class OpensshConnection:
    """An authenticated connection through the system's ssh."""

    label = "openssh"

    def __init__(
        self,
        proxy: socket.socket,
        rule: KeepaliveRule | None = None,
        *,
        end_master: Callable[[], None] = lambda: None,
        knows_eow: bool = False,
        shared: SharedMaster | None = None,
    ) -> None:
        """PROXY carries the connection protocol; END_MASTER is called, perhaps twice, when it no longer does.
        KNOWS_EOW: the server is an OpenSSH, whose processes can be told that nobody reads. SHARED: the master is the
        operator's."""
        self.knows_eow = knows_eow
        self._shared = shared
        self._socket = proxy
        self._end_master = end_master
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._channels: dict[int, OpensshProcess] = {}
        self._watchers: list[Callable[[], None]] = []
        self._has_ended = False
        self._is_closing = False
        self._heard_s = awake_clock_s()
        self._keepalive = Keepalive(
            rule or KeepaliveRule(),
            heard_s=lambda: self._heard_s,
            ask=self._ask,
            is_alive=lambda: self.is_alive,
            give_up=self.close,
        )
        self._reader = threading.Thread(target=self._run, name="openssh", daemon=True)
        self._reader.start()

    @property
    def is_alive(self) -> bool:
        return not (self._has_ended or self._is_closing)

    def answers(self) -> bool:
        if self._shared and self._open_channel() is None:
            return self.is_alive  # there is no question that would do no harm
        return self._keepalive.answers()

    def on_end(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if not self._has_ended:
                self._watchers.append(callback)
                return
        callback()

    def start(self, command: str, *, pty: PtySize | None = None) -> OpensshProcess:
        process = self._new_channel()
        try:
            self._open(process)
            self._request_shell(process, command, pty)
        except BaseException:
            process.close()
            raise
        return process

    def _open(self, process: OpensshProcess) -> None:
        if self._shared is None:
            process.open()
            return
        with self._shared.room(self._count_open, self._hears_within):
            process.open()

    def _count_open(self) -> int:
        with self._lock:
            return sum(each.is_open for each in self._channels.values())

    def _hears_within(self, timeout_s: float) -> bool:
        """Whether the server answered a question, if there is a channel to ask it on."""
        process = self._open_channel()
        return process is not None and process.gets_a_sign(timeout_s)

    def _request_shell(self, process: OpensshProcess, command: str, pty: PtySize | None) -> None:
        """Ask for everything at once: one round trip."""
        if pty:
            size = uint32(pty.columns) + uint32(pty.rows) + uint32(0) + uint32(0)
            process.request("pty-req", string(pty.term) + size + string(PTY_MODES))
        process.request("exec", string(command.encode("utf-8", "surrogateescape")))
        if not process.await_answers(2 if pty else 1):
            what = "a terminal, or to run a shell in it" if pty else "to run a shell"
            raise TransportError(f"the server refused {what}; its PermitTTY or ForceCommand may say why")

    def _new_channel(self) -> OpensshProcess:
        with self._lock:
            if self._has_ended:
                raise ConnectionLostError("the connection ended while a channel was opened")
            process = OpensshProcess(self, next(self._numbers))
            self._channels[process.number] = process
        return process

    def _ask(self) -> None:
        """Have the server say something: by a request on a channel, or by asking for a kind of channel that it can't
        know. ssh passes no other question through."""
        process = self._open_channel()
        with contextlib.suppress(ConnectionLostError):
            if process:
                process.ask_for_a_sign()
            elif not self._shared:
                number = next(self._numbers)
                self.send(Message.OPEN, string("keepalive@reach") + uint32(number) + uint32(0) + uint32(0))

    def _open_channel(self) -> OpensshProcess | None:
        with self._lock:
            return next((each for each in self._channels.values() if each.is_open), None)

    def close(self) -> None:
        if self._shared and self.is_alive:
            self._shared.settle()
        self._is_closing = True
        self._keepalive.stop()
        self._take_leave()
        self._hang_up()
        self._end_master()

    def _take_leave(self) -> None:
        """Have the operator's master end this proxy while it can still write to it. One that can't goes on to use what
        it freed for it, and breaks (OpenSSH 9.2)."""
        if not self._shared:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            if threading.current_thread() is not self._reader:
                self._reader.join(LEAVE_TIMEOUT_S)
                return
            self._socket.settimeout(LEAVE_TIMEOUT_S)
            while self._socket.recv(READ_BYTES):
                pass

    def _hang_up(self) -> None:
        """Wake whoever reads from the socket, or waits to write to it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    # --- messages

    def send(self, message: Message, body: bytes) -> None:
        packet = string(bytes([0, message]) + body)
        try:
            with self._sending:
                self._socket.sendall(packet)
        except OSError:
            raise ConnectionLostError("the connection ended") from None

    def send_or_drop(self, message: Message, body: bytes) -> None:
        with contextlib.suppress(ConnectionLostError):
            self.send(message, body)

    def forget(self, channel: OpensshProcess) -> None:
        with self._lock:
            self._channels.pop(channel.number, None)

    def _run(self) -> None:
        try:
            self._read_all()
        except WireFormatError as error:
            log.warning("the connection is given up: %s", error)
            self._take_leave()
        except OSError:
            pass
        finally:
            self._end()

    def _read_all(self) -> None:
        """Take every packet until the end. Raises: WireFormatError when the server breaks the protocol; OSError."""
        buffer = bytearray()
        while chunk := self._socket.recv(READ_BYTES):
            self._heard_s = awake_clock_s()
            buffer += chunk
            start = 0
            while len(buffer) - start >= 4:
                size = int.from_bytes(buffer[start : start + 4], "big")
                if not _PADDING_AND_TYPE <= size <= MAX_PACKET_BYTES:
                    raise WireFormatError(f"a packet of {size} bytes was announced")
                end = start + 4 + size
                if len(buffer) < end:
                    break
                self._take(buffer[start + 5], bytes(buffer[start + 6 : end]))
                start = end
            del buffer[:start]

    def _take(self, kind: int, payload: bytes) -> None:
        try:
            message = Message(kind)
        except ValueError:
            return
        body = Reader(payload)
        with self._lock:
            channel = self._channels.get(body.uint32())
        if channel:
            channel.take(message, body)

    def _end(self) -> None:
        with self._lock:
            self._has_ended = True
            watchers, self._watchers = self._watchers, []
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.lose()
        self._keepalive.stop()
        self._hang_up()
        with self._sending:
            self._socket.close()
        self._end_master()
        for watcher in watchers:
            watcher()

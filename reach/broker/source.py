"""Reading from a descriptor that belongs to the harness, without waiting and without changing it (see sink)."""

from __future__ import annotations

import os
import socket
import stat

CHUNK_BYTES = 1 << 17


class Source:
    """The harness's standard input."""

    def __init__(self, descriptor: int) -> None:
        """Owns DESCRIPTOR from now on, and closes it also when this fails."""
        self._descriptor = descriptor
        self._reader = descriptor
        """Where reading never waits; the same where nothing better could be had."""
        self._socket: socket.socket | None = None
        self.is_null = False
        """/dev/null: at its end before anything is read."""
        self.never_waits = False
        """Whether it can be read without asking first whether something is there."""
        try:
            self._inspect()
        except BaseException:
            self.close()
            raise

    def _inspect(self) -> None:
        status = os.fstat(self._descriptor)
        self.is_null = is_null_device(status)
        if stat.S_ISSOCK(status.st_mode):
            self._socket = socket.socket(fileno=self._descriptor)
            self.never_waits = True
        elif (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)) and not self.is_null:
            try:
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
                self._reader = os.open(f"/proc/self/fd/{self._descriptor}", flags)
                self.never_waits = True
            except OSError:
                pass  # then a second reader of the same pipe can make us wait
        else:
            self.never_waits = stat.S_ISREG(status.st_mode)

    def fileno(self) -> int:
        """The harness's own: a named pipe that is opened when its writers are gone never polls as ended."""
        return self._descriptor

    def read(self, size: int) -> bytes | None:
        """What is there, up to SIZE bytes; b"" at the end, None when nothing is there yet."""
        size = min(size, CHUNK_BYTES)
        try:
            if self._socket:
                return self._socket.recv(size, socket.MSG_DONTWAIT)
            return os.read(self._reader, size)
        except BlockingIOError:
            return None
        except OSError:  # a terminal that hung up, a descriptor open for writing only
            return b""

    def close(self) -> None:
        """May be called twice."""
        descriptor, reader, owner = self._descriptor, self._reader, self._socket
        self._descriptor, self._reader, self._socket = -1, -1, None
        if owner:
            owner.close()
        elif descriptor >= 0:
            os.close(descriptor)
        if reader not in (descriptor, -1):
            os.close(reader)


def is_null_device(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)

"""Writing to a descriptor that belongs to the harness, without waiting and without changing it.

O_NONBLOCK is a flag of the open file, which the harness shares: it is never set. A pipe or a terminal is opened anew
through /proc, a socket is written with MSG_DONTWAIT, and a file never makes its writer wait.
"""

from __future__ import annotations

import errno
import os
import socket
import stat

PIPE_BUF = 4096
"""A blocking pipe that polls writable takes this much without waiting (POSIX's least is 512, Linux's a page)."""
TERMINAL_BYTES = 256
"""The same of a terminal: the kernel says writable while there is room for so many."""

_NOBODY_READS = (errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.EBADF)


class Sink:
    """A descriptor of the harness's for output."""

    def __init__(self, descriptor: int, *, may_lose: bool = False) -> None:
        """Owns DESCRIPTOR from now on, and closes it also when this fails.

        MAY_LOSE: a full disk takes nothing, and the writer goes on, as programs do about their messages. Without it,
        what a full disk did not take is not to be followed by what it takes later, and the writer is to be told.
        """
        self._descriptor = descriptor
        self._may_lose = may_lose
        self._socket: socket.socket | None = None
        self._limit = 1 << 20
        self.is_broken = False
        """Nobody reads the other end, or what lies there takes no more."""
        self.failure = ""
        """Why output was not taken, where somebody may still look for it: the error's name."""
        try:
            self._inspect()
        except BaseException:
            self.close()
            raise

    def _inspect(self) -> None:
        kind = os.fstat(self._descriptor).st_mode
        if stat.S_ISSOCK(kind):
            self._socket = socket.socket(fileno=self._descriptor)
        elif stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
            try:
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
                fresh = os.open(f"/proc/self/fd/{self._descriptor}", flags)
            except OSError:
                self._limit = PIPE_BUF if stat.S_ISFIFO(kind) else TERMINAL_BYTES
                return
            os.close(self._descriptor)
            self._descriptor = fresh

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: memoryview) -> int:
        """Write what fits now; return how many bytes, 0 when none. Broken: everything counts as written."""
        if self.is_broken:
            return len(data)
        try:
            if self._socket:
                return self._socket.send(data, socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0))
            return os.write(self._descriptor, data[: self._limit])
        except BlockingIOError:
            return 0
        except OSError as error:
            nobody_reads = error.errno in _NOBODY_READS
            self.is_broken = nobody_reads or not self._may_lose
            if self.is_broken and not nobody_reads:
                self.failure = error.strerror or str(error)
            return len(data)

    def close(self) -> None:
        """May be called twice."""
        descriptor, owner = self._descriptor, self._socket
        self._descriptor, self._socket = -1, None
        self.is_broken = True
        if owner:
            owner.close()
        elif descriptor >= 0:
            os.close(descriptor)

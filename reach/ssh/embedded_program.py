"""One program that the demo target runs for a channel, and the bytes between the two.

It behaves as sshd does (OpenSSH 9.2): the exit status goes out as soon as the program has ended, the channel
ends once nobody holds the program's pipes any more, and a channel that ends earlier takes the pipes away from
the program (or the pty, which means a SIGHUP) and leaves it running otherwise.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

import paramiko

_CHUNK_BYTES = 32 << 10
_GONE = (OSError, EOFError, paramiko.SSHException)
"""What paramiko raises for a channel that is closed meanwhile, with its connection or without."""
_Sender = Callable[[bytes], None]
_TAKE_TTY = 'exec <>"$0" >&0 2>&0; exec "$@"'
"""A session's leader gets the terminal that it opens first as its controlling one."""


@dataclass
class Pty:
    """A pseudo-terminal as the client asked for it."""

    term: str
    columns: int
    rows: int


@dataclass(frozen=True)
class Command:
    """What a channel is to run."""

    argv: Sequence[str | bytes]
    environment: dict[str, str]
    folder: str


class Program:
    """A command running for CHANNEL, in a session and process group of its own."""

    def __init__(
        self,
        channel: paramiko.Channel,
        command: Command,
        pty: Pty | None,
        send_exit_signal: Callable[[signal.Signals, bool], None],
    ) -> None:
        self._channel = channel
        self._command = command
        self._pty = pty
        self._send_exit_signal = send_exit_signal
        self._master: int | None = None
        self._master_lock = threading.Lock()
        self._closed_r, self._closed_w = os.pipe()

    def start(self) -> None:
        """Run it, and everything that belongs to it, in threads of its own."""
        threading.Thread(target=self._run, name="program", daemon=True).start()

    def resize(self, columns: int, rows: int) -> None:
        with self._master_lock:
            if self._master is not None:
                _set_size(self._master, columns, rows)

    def _run(self) -> None:
        watcher = threading.Thread(target=self._await_close, daemon=True)
        watcher.start()
        try:
            self._serve(*(self._launch_on_pty(self._pty) if self._pty else self._launch_on_pipes()))
        except OSError as error:
            self._report(f"{error.filename or self._command.argv[0]!r}: {error.strerror}\n")
        finally:
            self._channel.close()
            watcher.join()
            os.close(self._closed_r)

    def _serve(self, process: subprocess.Popen[bytes], stdin: int, outputs: dict[int, _Sender]) -> None:
        writer = threading.Thread(target=self._pump_in, args=(stdin,), daemon=True)
        reader = threading.Thread(target=self._pump_out, args=(outputs,), daemon=True)
        writer.start()
        reader.start()
        self._send_end_of(process)
        reader.join()
        self._channel.close()
        writer.join()

    def _launch_on_pipes(self) -> tuple[subprocess.Popen[bytes], int, dict[int, _Sender]]:
        pipe = subprocess.PIPE
        process = self._popen(self._command.argv, pipe, pipe, pipe)
        stdin, stdout, stderr = (os.dup(stream.fileno()) for stream in _streams(process))
        for stream in _streams(process):
            stream.close()
        return process, stdin, {stdout: self._channel.sendall, stderr: self._channel.sendall_stderr}

    def _launch_on_pty(self, pty: Pty) -> tuple[subprocess.Popen[bytes], int, dict[int, _Sender]]:
        master, slave = os.openpty()
        with contextlib.closing(_Descriptor(slave)):
            _set_size(master, pty.columns, pty.rows)
            name = os.ttyname(slave)
            self._command.environment.update(TERM=pty.term, SSH_TTY=name)
            argv = ["/bin/sh", "-c", _TAKE_TTY, name, *self._command.argv]
            # Its stdout is a pipe until it has opened the terminal, which is how we know that it has. Till
            # then the slave must be held open here; after that it must not, since the kernel throws away what
            # is unread when the session's leader ends and somebody else still has the terminal.
            try:
                process = self._popen(argv, subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
            except OSError:
                os.close(master)
                raise
            assert process.stdout
            with process.stdout:
                process.stdout.read()
        with self._master_lock:
            self._master = master
        return process, os.dup(master), {master: self._channel.sendall}

    def _popen(
        self, argv: Sequence[str | bytes], stdin: int, stdout: int, stderr: int
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            cwd=self._command.folder,
            env=self._command.environment,
            start_new_session=True,
        )

    def _await_close(self) -> None:
        # On the server's side of a channel this returns when it closes: no client sends an exit status.
        self._channel.recv_exit_status()
        os.close(self._closed_w)

    def _pump_in(self, stdin: int) -> None:
        """Client to program; what comes after the program has closed its end is thrown away, as sshd does."""
        os.set_blocking(stdin, False)
        with contextlib.closing(_Descriptor(stdin)) as sink:
            while chunk := self._channel.recv(_CHUNK_BYTES):
                if sink.is_open and not self._write_all(stdin, chunk):
                    sink.close()
            if self._pty:
                # A terminal has no end of file of its own, and giving this descriptor up might hang it up.
                _poll([self._closed_r], None)

    def _write_all(self, stdin: int, chunk: bytes) -> bool:
        view = memoryview(chunk)
        while view:
            if self._closed_r in _poll([self._closed_r], stdin):
                return False
            try:
                view = view[os.write(stdin, view) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True

    def _pump_out(self, outputs: dict[int, _Sender]) -> None:
        """Program to client, until every holder of the pipes is gone or the channel is closed."""
        try:
            while outputs:
                ready = _poll([self._closed_r, *outputs], None)
                if self._closed_r in ready:
                    return
                for source in ready:
                    if chunk := _read(source):
                        outputs[source](chunk)
                    elif chunk is not None:
                        self._close_output(outputs, source)
            self._channel.shutdown_write()
        except _GONE:
            return  # the channel was closed under it
        finally:
            for source in list(outputs):
                self._close_output(outputs, source)

    def _close_output(self, outputs: dict[int, _Sender], source: int) -> None:
        with self._master_lock:
            del outputs[source]
            self._master = None
            os.close(source)

    def _send_end_of(self, process: subprocess.Popen[bytes]) -> None:
        # Looked at before it is waited for: Popen does not say whether there was a core dump.
        end = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        process.wait()
        if self._channel.closed or end is None:
            return
        with contextlib.suppress(*_GONE):
            if end.si_code == os.CLD_EXITED:
                self._channel.send_exit_status(end.si_status)
            else:
                self._send_exit_signal(signal.Signals(end.si_status), end.si_code == os.CLD_DUMPED)

    def _report(self, text: str) -> None:
        """Say why there is no program, with the exit status that sshd gives in that case."""
        with contextlib.suppress(*_GONE):
            self._channel.sendall_stderr(text.encode())
            self._channel.send_exit_status(1)


class _Descriptor:
    """A file descriptor that is closed once."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self._number)


def _streams(process: subprocess.Popen[bytes]) -> list[IO[bytes]]:
    return [stream for stream in (process.stdin, process.stdout, process.stderr) if stream]


def _poll(sources: Sequence[int], sink: int | None) -> list[int]:
    """Wait until one of SOURCES can be read (or has ended) or SINK be written (or is broken); which."""
    poller = select.poll()
    for source in sources:
        poller.register(source, select.POLLIN)
    if sink is not None:
        poller.register(sink, select.POLLOUT)
    return [descriptor for descriptor, _ in poller.poll()]


def _read(source: int) -> bytes | None:
    """The next bytes; empty at the end, None when there is nothing after all."""
    try:
        return os.read(source, _CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""  # EIO: nobody has the terminal open any more


def _set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

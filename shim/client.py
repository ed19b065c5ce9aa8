"""The shim's side of the broker's socket: one request with the caller's descriptors, one answer.

Not a boundary of trust: the socket lies in a folder that only this user can enter, and the broker checks who calls.
"""

import _signal  # type: ignore[import-not-found,unused-ignore]
import _socket
import posix
import sys

PROTOCOL = b"1"
MAX_REQUEST_BYTES = 16 << 20
"""A request over this is not sent: command, arguments and environment together."""

# The answers' first byte; reach/wire/frames.py holds the same list.
ANSWER_ACCEPTED = b"A"
ANSWER_STATUS = b"E"
ANSWER_SIGNAL = b"S"
ANSWER_FAILURE = b"F"
ANSWER_LOCAL = b"L"
NOTE_SIGNAL = b"s"
NOTE_RESIZE = b"w"

# Forwarded as themselves; WINCH tells of a new size. Named by number: importing `signal` costs 2 ms for its enums.
_FORWARDED = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGTERM,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
)


class Unreachable(Exception):
    """Nobody answers at the broker's socket; nothing was sent."""


def frame(payload: bytes) -> bytes:
    """Shape: four bytes of length, big-endian, then the payload."""
    return len(payload).to_bytes(4, "big") + payload


def encode_run(
    session: bytes,
    launch: bytes,
    cwd: bytes,
    command_index: int,
    argv: list[bytes],
    environment: list[bytes],
) -> bytes:
    """Shape: NUL-joined fields; none of them can hold a NUL, since all came through execve.

    Version, `run`, session, launch, working folder, process id, process group, index of the command string in argv
    (-1: standard input), number of arguments, the arguments, the environment as NAME=VALUE.
    """
    head = [
        PROTOCOL, b"run", session, launch, cwd, b"%d" % posix.getpid(), b"%d" % posix.getpgrp(),
        b"%d" % command_index, b"%d" % len(argv),
    ]  # fmt: skip
    return b"\0".join(head + argv + environment)


def connect(path: str) -> _socket.socket:
    """Raises: Unreachable when nobody listens there."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise Unreachable(posix.strerror(error.errno or 0)) from None
    return connection


def call(connection: _socket.socket, request: bytes) -> tuple[bytes, bytes]:
    """Send REQUEST with descriptors 0, 1 and 2, forward signals meanwhile, and return the answer's type and body.

    An answer of type b"" means that the broker went away: before anything was sent to the target, or with the body
    ANSWER_ACCEPTED after that, when what became of the command is not known.
    """
    descriptors = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
    data = frame(request)
    accepted = b""
    notes = _Notes(connection)  # before the command can begin: from then on a signal is the command's
    try:
        sent = connection.sendmsg([data[:65536]], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
        if sent < len(data):
            connection.sendall(data[sent:])
    except OSError:
        pass  # the broker closed: it may have answered before, and what it said can still be read
    notes.open()
    try:
        body = _receive_frame(connection)
        if body == ANSWER_ACCEPTED:
            accepted = body
            body = _receive_frame(connection)
    except OSError:
        body = b""
    return (body[:1], body[1:]) if body else (b"", accepted)


def open_standard_descriptors() -> None:
    """Put /dev/null where the caller closed 0, 1 or 2, before anything else can take the number."""
    for number in (0, 1, 2):
        try:
            posix.fstat(number)
        except OSError:
            posix.open("/dev/null", posix.O_RDWR)


def _receive_frame(connection: _socket.socket) -> bytes:
    """The next frame's payload; b"" when the broker went away."""
    head = _receive(connection, 4)
    return _receive(connection, int.from_bytes(head, "big")) if head else b""


def _receive(connection: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return b""
        data += chunk
    return data


class _Notes:
    """Signals that this process gets, told to the broker; those that come before the request is sent wait for that."""

    def __init__(self, connection: _socket.socket) -> None:
        self._connection = connection
        self._waiting: list[bytes] | None = []
        for number in _FORWARDED:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._note)
        _signal.signal(_signal.SIGWINCH, self._note)

    def _note(self, number: int, _frame: object) -> None:
        note = frame(NOTE_RESIZE if number == _signal.SIGWINCH else NOTE_SIGNAL + bytes([number]))
        if self._waiting is not None:
            self._waiting.append(note)
        else:
            self._send(note)

    def open(self) -> None:
        """The request is sent: what follows it are notes."""
        waiting, self._waiting = self._waiting or [], None
        for note in waiting:
            self._send(note)

    def _send(self, note: bytes) -> None:
        try:
            self._connection.sendall(note)
        except OSError:
            pass  # the broker is gone; the receive says so


def die_by_signal(number: int) -> None:
    """End this process by signal NUMBER, or with 128 + NUMBER where that signal doesn't end it."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the core would be the shim's, of no use to anybody
        _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [number])
    except (OSError, ValueError):
        pass
    posix.kill(posix.getpid(), number)
    posix._exit(128 + number)

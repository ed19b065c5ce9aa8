"""The harness's descriptors: read and written without waiting, never changed, closed exactly once."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from reach.broker.sink import Sink
from reach.broker.source import Source
from reach.broker.terminal import raw_mode, terminal_size


def _is_blocking(descriptor: int) -> bool:
    return not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_NONBLOCK


@pytest.fixture
def count() -> Iterator[None]:
    """Every descriptor opened in a test is closed at its end."""
    before = sorted(os.listdir("/proc/self/fd"))
    yield
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("count")
def test_a_full_pipe_takes_nothing_and_stays_blocking() -> None:
    reader, writer = os.pipe()
    kept = os.dup(writer)
    sink = Sink(writer)
    written = 0
    while step := sink.write(memoryview(b"x" * 50_000)):
        written += step
    size = fcntl.fcntl(reader, 1032)  # F_GETPIPE_SZ
    assert size - 4096 < written <= size
    assert _is_blocking(kept)
    os.read(reader, 4096)
    assert select.select([], [sink], [], 0)[1] == [sink]
    assert sink.write(memoryview(b"y" * 5000)) > 0
    sink.close()
    sink.close()
    os.close(kept)
    os.close(reader)


@pytest.mark.usefixtures("count")
def test_a_full_socket_takes_nothing_and_stays_blocking() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sink = Sink(os.dup(ours.fileno()))
        while sink.write(memoryview(b"x" * 50_000)):
            pass
        assert _is_blocking(ours.fileno())
        assert not sink.is_broken
        sink.close()


@pytest.mark.parametrize("kind", ["pipe", "socket", "closed"])
@pytest.mark.usefixtures("count")
def test_a_sink_that_nobody_reads_is_broken_and_swallows_the_rest(kind: str) -> None:
    if kind == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
    elif kind == "socket":
        ours, theirs = socket.socketpair()
        theirs.close()
        writer = ours.detach()
    else:
        writer = os.open("/dev/null", os.O_RDONLY)
    sink = Sink(writer)
    if kind == "closed":
        sink.close()
    assert sink.write(memoryview(b"abc")) == 3
    assert sink.is_broken
    sink.close()


@pytest.mark.usefixtures("count")
def test_a_file_is_written_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before ")
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    sink = Sink(handle)
    assert sink.write(memoryview(b"after")) == 5
    sink.close()
    assert path.read_bytes() == b"before after"


@pytest.mark.usefixtures("count")
def test_a_pipe_is_read_to_its_end_without_waiting() -> None:
    reader, writer = os.pipe()
    kept = os.dup(reader)
    source = Source(reader)
    assert source.read(10) is None
    os.write(writer, b"abc")
    assert source.read(2) == b"ab"
    assert source.read(10) == b"c"
    assert _is_blocking(kept)
    os.close(writer)
    assert source.read(10) == b""
    source.close()
    source.close()
    os.close(kept)


@pytest.mark.usefixtures("count")
def test_a_named_pipe_whose_writer_is_gone_polls_as_ended(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR)
    reader = os.open(path, os.O_RDONLY)
    os.write(both, b"last words")
    os.close(both)
    source = Source(reader)
    assert select.select([source], [], [], 5)[0]
    assert source.read(100) == b"last words"
    assert select.select([source], [], [], 5)[0]
    assert source.read(100) == b""
    source.close()


@pytest.mark.usefixtures("count")
def test_a_socket_is_read_to_its_end_and_stays_blocking() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        source = Source(os.dup(ours.fileno()))
        assert source.read(10) is None
        theirs.sendall(b"abc")
        theirs.shutdown(socket.SHUT_WR)
        assert source.read(10) == b"abc"
        assert source.read(10) == b""
        assert _is_blocking(ours.fileno())
        source.close()


@pytest.mark.usefixtures("count")
def test_the_null_device_is_known_and_at_its_end() -> None:
    source = Source(os.open("/dev/null", os.O_RDWR))
    assert source.is_null
    assert source.read(10) == b""
    source.close()
    zero = Source(os.open("/dev/zero", os.O_RDONLY))
    assert not zero.is_null
    zero.close()


@pytest.mark.usefixtures("count")
def test_a_bad_descriptor_is_refused_and_no_other_is_closed() -> None:
    number = os.dup(0)
    os.close(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Source(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Sink(number)


@pytest.fixture
def terminal() -> Iterator[int]:
    master, slave = pty.openpty()
    yield slave
    os.close(master)
    os.close(slave)


def test_a_terminal_is_raw_until_the_last_command_on_it_has_ended(terminal: int) -> None:
    import termios

    before = termios.tcgetattr(terminal)
    first, second = raw_mode(terminal), raw_mode(terminal)
    first.__enter__()
    assert not termios.tcgetattr(terminal)[3] & termios.ICANON
    second.__enter__()
    first.__exit__(None, None, None)
    assert not termios.tcgetattr(terminal)[3] & termios.ICANON
    second.__exit__(None, None, None)
    assert termios.tcgetattr(terminal) == before


def test_a_size_is_columns_and_rows(terminal: int) -> None:
    import struct
    import termios

    assert terminal_size(terminal) == (80, 24)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 10, 112, 0, 0))
    assert terminal_size(terminal) == (112, 10)


@pytest.mark.usefixtures("count")
def test_what_is_read_several_times_in_a_row_never_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    reader, writer = os.pipe()
    ours, theirs = socket.socketpair()
    empty = [reader, ours.detach(), os.open(tmp_path / "file", os.O_RDONLY)]
    for descriptor, answer in zip(empty, (None, None, b""), strict=True):
        source = Source(descriptor)
        assert source.never_waits
        assert source.read(100) == answer
        source.close()
    os.close(writer)
    theirs.close()

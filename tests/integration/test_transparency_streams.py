"""Output and input, byte for byte, as they are written, in bounded memory."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from support.session import ReachSession, wait_for

pytestmark = [pytest.mark.sshd, pytest.mark.transports("paramiko", "openssh")]


def _resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def test_output_appears_when_it_is_written(session: ReachSession) -> None:
    process = session.start("echo first; read x; echo second $x >&2; read y; printf third", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"first\n"
    process.stdin.write(b"a\n")
    process.stdin.flush()
    assert process.stderr.readline() == b"second a\n"
    assert process.communicate(b"b\n") == (b"third", b"")


def test_both_streams_in_one_pipe_keep_their_order(session: ReachSession) -> None:
    process = session.start(
        "for i in {1..2000}; do echo o$i; echo e$i >&2; done", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = process.communicate()
    assert out.split() == [f"{k}{n}".encode() for n in range(1, 2001) for k in "oe"]


def test_a_missing_folder_is_told_also_where_both_streams_are_one(session: ReachSession) -> None:
    shim = session.launch()
    (shim.workspace / "not there").mkdir()
    process = session.start("echo ran", shim=shim, cwd=shim.workspace / "not there", stderr=subprocess.STDOUT)
    out, _ = process.communicate()
    assert process.returncode == 125
    assert out.startswith(b"reach: ")
    assert b"not there' is not there on the target" in out
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("2", "1")], ids=["stdout-floods", "stderr-floods"])
def test_a_flood_on_one_stream_while_the_other_waits_is_no_deadlock(
    session: ReachSession, first: str, second: str
) -> None:
    command = f"echo few >&{second}; head -c 6000000 /dev/zero >&{first}; echo more >&{second}"
    done = session.run(command)
    streams = {"1": done.stdout, "2": done.stderr}
    assert streams[first] == bytes(6_000_000)
    assert streams[second] == b"few\nmore\n"


def test_a_reader_that_stops_stalls_only_its_own_command(session: ReachSession) -> None:
    pid = session.broker_pid
    before = _resident_kib(pid)
    process = session.start("yes | head -c 200000000")
    head = os.read(process.stdout.fileno(), 1000)
    for number in range(20):
        assert session.run(f"echo {number}").stdout == f"{number}\n".encode()
    assert _resident_kib(pid) - before < 30_000
    with process.stdout as stream:
        size = len(head)
        while chunk := stream.read(1 << 20):
            size += len(chunk)
    process.stderr.close()
    assert (process.wait(), size) == (0, 200_000_000)
    assert _resident_kib(pid) - before < 60_000


def test_half_a_gigabyte_comes_through_in_flat_memory(session: ReachSession) -> None:
    pid = session.broker_pid
    session.run("true")
    before = _resident_kib(pid)
    highest = before
    process = session.start("yes 0123456789abcde | head -c 500000000")
    digest, size = hashlib.sha256(), 0
    while chunk := process.stdout.read(4 << 20):
        digest.update(chunk)
        size += len(chunk)
        highest = max(highest, _resident_kib(pid))
    process.stdout.close()
    process.stderr.close()
    assert (process.wait(), size) == (0, 500_000_000)
    assert digest.hexdigest() == hashlib.sha256(b"0123456789abcde\n" * 31_250_000).hexdigest()
    assert highest - before < 60_000


def test_characters_of_three_bytes_are_never_cut(session: ReachSession) -> None:
    program = "import os; [os.write(1, bytes([b])) for b in '日本語'.encode() * 17_000]"
    done = session.run(f'python3 -c "{program}"')
    assert done.stdout.decode() == "日本語" * 17_000


def test_a_line_without_end_comes_through(session: ReachSession) -> None:
    assert session.run("head -c 10000000 /dev/zero | tr '\\0' x").stdout == b"x" * 10_000_000


def test_bytes_are_not_changed(session: ReachSession) -> None:
    done = session.run("printf '\\000\\377\\r\\n\\200'; python3 -c 'import os; os.write(2, bytes(range(256)) * 500)'")
    assert done.stdout == b"\0\xff\r\n\x80"
    assert done.stderr == bytes(range(256)) * 500


def test_a_reader_that_goes_away_ends_the_writer_as_a_pipe_does(session: ReachSession, tmp_path: Path) -> None:
    process = session.start(f"yes; echo $? >{tmp_path}/status; exit 5")
    process.stdout.read(10)
    process.stdout.close()
    process.stderr.close()
    assert process.wait(20) == 5
    assert (tmp_path / "status").read_text() == "141\n"


def test_a_program_alone_dies_by_the_broken_pipe(session: ReachSession) -> None:
    process = session.start("yes")
    process.stdout.read(10)
    process.stdout.close()
    process.stderr.close()
    assert process.wait(20) == -signal.SIGPIPE


def test_a_command_that_does_not_write_goes_on_without_a_reader(session: ReachSession, tmp_path: Path) -> None:
    made = tmp_path / "made"
    process = session.start(f"read x; touch {made}", stdin=subprocess.PIPE)
    process.stdout.close()
    process.stderr.close()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait() == 0
    assert made.exists()


def test_the_end_of_input_is_passed_on_and_not_before(session: ReachSession) -> None:
    process = session.start("cat; echo ended", stdin=subprocess.PIPE)
    process.stdin.write(b"part\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"part\n"
    process.stdin.close()
    assert process.stdout.read() == b"ended\n"
    process.stdout.close()
    process.stderr.close()
    assert process.wait() == 0


def test_input_that_nobody_reads_or_ends_does_not_hold_the_command(session: ReachSession) -> None:
    reader, writer = os.pipe()
    process = session.start("echo done", stdin=reader)
    os.close(reader)
    assert process.communicate(timeout=20) == (b"done\n", b"")
    os.close(writer)


def test_the_command_reads_its_own_input_and_never_the_script(session: ReachSession) -> None:
    assert session.run("cat\necho after").stdout == b"after\n"
    assert session.run("cat\necho after", input=b"given\n").stdout == b"given\nafter\n"
    assert session.run("read -r x; echo $x; cat", input=b"a\nb\nc").stdout == b"a\nb\nc"


@pytest.mark.parametrize("kind", ["file", "fifo", "socket", "zero"])
def test_every_kind_of_input_is_read(session: ReachSession, tmp_path: Path, kind: str) -> None:
    import socket

    data = b"line\n" * 100_000
    if kind == "file":
        (tmp_path / "file").write_bytes(data)
        with open(tmp_path / "file", "rb") as stream:
            assert session.run("md5sum", stdin=stream).stdout[:32].decode() == hashlib.md5(data).hexdigest()
    elif kind == "fifo":
        os.mkfifo(tmp_path / "fifo")
        argv = ["/bin/sh", "-c", f"cat /etc/passwd >{tmp_path}/fifo & exec {session.bash} -c cat <{tmp_path}/fifo"]
        done = subprocess.run(argv, capture_output=True, timeout=30)
        assert done.stdout == Path("/etc/passwd").read_bytes()
    elif kind == "socket":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = session.start("md5sum", stdin=theirs.fileno())
            theirs.close()
            ours.sendall(data)
            ours.shutdown(socket.SHUT_WR)
            assert process.communicate()[0][:32].decode() == hashlib.md5(data).hexdigest()
    else:
        with open("/dev/zero", "rb") as stream:
            assert session.run("head -c 1000000 | md5sum", stdin=stream).stdout[:32] == (
                hashlib.md5(bytes(1_000_000)).hexdigest().encode()
            )


@pytest.mark.parametrize("kind", ["file", "append", "fifo", "socket", "null"])
def test_every_kind_of_output_is_written(session: ReachSession, tmp_path: Path, kind: str) -> None:
    import socket

    path = tmp_path / "out"
    if kind in ("file", "append"):
        path.write_bytes(b"before\n")
        with open(path, "ab" if kind == "append" else "wb") as stream:
            session.start("echo out; echo err >&2", stdout=stream, stderr=stream).wait()
        assert path.read_bytes() == (b"before\n" if kind == "append" else b"") + b"out\nerr\n"
    elif kind == "fifo":
        os.mkfifo(path)
        argv = ["/bin/sh", "-c", f"cat {path} & {session.bash} -c 'seq 100000' >{path}; wait"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        assert done.stdout.count(b"\n") == 100_000
    elif kind == "socket":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = session.start("seq 100000", stdout=theirs.fileno(), stderr=subprocess.DEVNULL)
            theirs.close()
            size = 0
            while chunk := ours.recv(65536):
                size += chunk.count(b"\n")
            assert (process.wait(), size) == (0, 100_000)
    else:
        with open("/dev/null", "wb") as stream:
            process = session.start("echo out", stdout=stream)
            process.stderr.close()
            assert process.wait() == 0


def test_output_that_a_full_disk_does_not_take_ends_the_writer(session: ReachSession) -> None:
    """Taken for delivered, it would be lost behind an exit status of success."""
    with open("/dev/full", "wb") as full:
        process = session.start("yes | head -c 64M; echo ${PIPESTATUS[1]} >&2; exit 6", stdout=full)
        said = process.stderr.read()
        process.stderr.close()
        assert process.wait(30) != 0
    assert b"0\n" not in said.splitlines(keepends=True)


def test_success_is_not_claimed_for_output_that_a_full_disk_did_not_take(session: ReachSession) -> None:
    with open("/dev/full", "wb") as full:
        short = session.start("echo out", stdout=full)
        assert short.wait(30) == 125
        assert b"it ran, but not all of its output could be written here: No space left" in short.stderr.read()
        failed = session.start("echo out; exit 3", stdout=full)
        assert (failed.wait(30), failed.stderr.read()) == (3, b"")
        short.stderr.close()
        failed.stderr.close()


def test_messages_that_a_full_disk_does_not_take_end_nobody(session: ReachSession) -> None:
    with open("/dev/full", "wb") as full:
        process = session.start("seq 100000 >&2; echo done", stderr=full)
        said = process.stdout.read()
        process.stdout.close()
        assert (process.wait(30), said) == (0, b"done\n")


def test_no_flag_of_the_caller_s_descriptors_is_changed(session: ReachSession) -> None:
    import fcntl

    reader, writer = os.pipe()
    other, given = os.pipe()
    before = [fcntl.fcntl(n, fcntl.F_GETFL) for n in (reader, writer, other, given)]
    process = session.start("cat; seq 100000", stdin=other, stdout=writer, stderr=writer)
    os.write(given, b"x")
    os.close(given)
    read = 0
    while read < 100_000:
        read += len(os.read(reader, 65536))
    assert [fcntl.fcntl(n, fcntl.F_GETFL) for n in (reader, writer, other)] == before[:3]
    os.close(writer)
    while os.read(reader, 65536):
        pass
    assert process.wait() == 0
    os.close(reader)
    os.close(other)


def test_a_job_in_the_background_holds_the_streams_and_not_the_shell(session: ReachSession) -> None:
    reader, writer = os.pipe()
    go, going = os.pipe()
    process = session.start("(read x <&0; echo late $x) & echo started", stdin=go, stdout=writer, stderr=writer)
    os.close(writer)
    os.close(go)
    assert process.wait(20) == 0
    with os.fdopen(reader, "rb") as stream:
        assert stream.readline() == b"started\n"
        os.close(going)
        assert stream.read() == b"late\n"


def test_a_job_that_lets_go_of_its_streams_holds_nothing(session: ReachSession) -> None:
    done = session.run("nohup sleep 4601 >/dev/null 2>&1 & setsid sleep 4602 >/dev/null 2>&1 </dev/null & echo started")
    assert (done.stdout, done.returncode) == (b"started\n", 0)
    for seconds in ("4601", "4602"):
        [pid] = wait_for(lambda seconds=seconds: session.remote_pids("sleep", seconds), "the job")
        os.kill(pid, signal.SIGKILL)

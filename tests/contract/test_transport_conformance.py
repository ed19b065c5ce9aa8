"""What both transports promise, held by each of them against a real sshd."""

from __future__ import annotations

import hashlib
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reach.errors import ChannelOpenError, ConnectError, ConnectionLostError, TransportError
from reach.ssh.process import Closed, Connection, Exited, PtySize
from support.accounts import Account
from support.login import make_key, running_agent
from support.processes import eventually
from support.proxy import Proxy
from support.session import quiet_sshd
from support.sshd import Sshd
from support.transports import TRANSPORTS, Course, connected_by, run_on

pytestmark = pytest.mark.sshd

WINDOW_BYTES = 2 << 20
MEBIBYTE = 1 << 20
NAMED_SIGNALS = ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")
"""Those that RFC 4254 section 6.10 has a name for."""


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def connection(transport: str) -> Iterator[Connection]:
    """A connection that the tests of this module share: they leave it as it was."""
    with quiet_sshd({"MaxSessions": 64}) as server, connected_by(transport, server) as made:
        yield made


@pytest.fixture
def connect(transport: str) -> Iterator[Callable[..., Connection]]:
    """Make a connection of the test's own to a server."""
    with ExitStack() as stack:

        def make(server: Sshd, **keywords: Any) -> Connection:
            return stack.enter_context(connected_by(transport, server, **keywords))

        yield make


def through(proxy: Proxy, server: Sshd, **options: object) -> Sshd:
    """SERVER, whose ssh_config now leads through PROXY."""
    server.ssh_options = {"Port": proxy.port, "HostKeyAlias": f"[127.0.0.1]:{server.port}", **options}
    server._write_ssh_config()
    return server


def test_it_says_which_transport_it_is(connection: Connection, transport: str) -> None:
    assert connection.label == transport
    assert connection.is_alive
    assert connection.answers()


# --- how a process ends


def test_every_exit_status_arrives_as_itself(connection: Connection) -> None:
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda n: run_on(connection, f"exit {n}").exited, range(256)))
    assert ends == [Exited(n) for n in range(256)]


@pytest.mark.parametrize("name", NAMED_SIGNALS)
def test_a_death_by_signal_is_told_by_its_name(connection: Connection, name: str) -> None:
    course = run_on(connection, f"ulimit -c 0; exec sh -c 'kill -{name} $$'")
    assert course.exited == Exited(None, name)
    assert course.closed == Closed(lost=False)
    assert course.process.has_ended


def test_an_exit_status_of_255_is_no_lost_connection(connection: Connection) -> None:
    course = run_on(connection, "exit 255")
    assert (course.exited, course.closed) == (Exited(255), Closed(lost=False))
    assert connection.is_alive


def test_what_crosses_the_end_of_a_process_costs_no_connection(connection: Connection) -> None:
    """sshd hangs up on who speaks of a channel that is gone."""

    def run(number: int) -> Exited | None:
        process = connection.start(f"exit {number % 256}", pty=PtySize(80, 24) if number % 2 else None)
        course = Course(process)
        while course.closed is None:
            process.resize(90 + number % 10, 24)
            process.send_eof()
            process.acknowledge(WINDOW_BYTES // 4)
            course.step(0.001)
        process.close()
        return course.exited

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(200))) == [Exited(n % 256) for n in range(200)]
    assert connection.answers()


# --- its streams


def test_the_streams_stay_separate(connection: Connection) -> None:
    course = run_on(connection, "printf out; printf err >&2")
    assert (bytes(course.out), bytes(course.err)) == (b"out", b"err")
    assert course.output_ended


def test_input_and_output_are_binary_clean(connection: Connection) -> None:
    data = bytes(range(256)) * 4096 + b"\r\n\0\xff"
    assert bytes(run_on(connection, "cat", data).out) == data
    assert bytes(run_on(connection, "cat >&2", data).err) == data


def test_fifty_megabytes_come_through_both_ways(connection: Connection) -> None:
    data = os.urandom(MEBIBYTE) * 50
    course = run_on(connection, "cat", data)
    assert hashlib.sha256(course.out).digest() == hashlib.sha256(data).digest()


def test_the_end_of_input_is_seen_and_output_goes_on(connection: Connection) -> None:
    course = run_on(connection, "wc -c; echo after", b"12345")
    assert course.out.split() == [b"5", b"after"]


def test_input_that_nobody_reads_is_not_taken_without_end(connection: Connection) -> None:
    process = connection.start("sleep 4501")
    try:
        taken = 0
        while room := process.sendable():
            process.send(bytes(room))
            taken += room
            assert taken <= 2 * WINDOW_BYTES
    finally:
        process.close()
    assert bytes(run_on(connection, "echo other").out) == b"other\n"


def test_both_streams_full_do_not_block_each_other(connection: Connection) -> None:
    course = run_on(connection, "head -c 6000000 /dev/zero >&2; echo done")
    assert (len(course.err), bytes(course.out)) == (6_000_000, b"done\n")


def test_output_that_is_not_acknowledged_stops_the_process_and_nothing_else(connection: Connection) -> None:
    process = connection.start("head -c 16777216 /dev/zero")
    course = Course(process, acknowledges=False, keeps=False)
    try:
        course.until(lambda c: c.received > WINDOW_BYTES - 2 * 32768, "a full window")
        for _ in range(5):
            assert run_on(connection, "head -c 1000000 /dev/zero").received == 1_000_000
        course.step(0)
        assert course.received <= WINDOW_BYTES
        assert course.exited is None
        course.acknowledges = True
        process.acknowledge(course.received)
        assert course.to_end().received == 16 * MEBIBYTE
    finally:
        process.close()


def test_much_output_costs_no_memory(connection: Connection) -> None:
    def stream(count: int) -> int:
        course = Course(connection.start(f"head -c {count} /dev/zero"), keeps=False)
        try:
            return course.to_end().received
        finally:
            course.process.close()

    stream(20 * MEBIBYTE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert stream(200 * MEBIBYTE) == 200 * MEBIBYTE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10


def test_a_process_learns_that_nobody_reads_its_output(connection: Connection) -> None:
    process = connection.start("exec yes")
    course = Course(process, keeps=False)
    try:
        course.until(lambda c: c.received, "output")
        assert process.stop_output()
        assert course.to_end().exited == Exited(None, "PIPE")
    finally:
        process.close()


# --- a terminal


def test_without_a_terminal_there_is_none(connection: Connection) -> None:
    assert run_on(connection, "test -t 0 || test -t 1 || test -t 2").exited == Exited(1)


def test_a_terminal_has_the_size_and_the_type_that_were_asked_for(connection: Connection) -> None:
    course = run_on(connection, "stty size; echo $TERM; test -t 0 -a -t 1 -a -t 2", pty=PtySize(123, 45, "vt220"))
    assert course.out.split() == [b"45", b"123", b"vt220"]
    assert course.exited == Exited(0)


def test_a_terminal_is_resized_while_the_process_runs(connection: Connection) -> None:
    command = "trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.05; done"
    process = connection.start(command, pty=PtySize(80, 24))
    try:
        course = Course(process).until(lambda c: b"ready" in c.out, "the process")
        process.resize(101, 33)
        course.to_end()
    finally:
        process.close()
    assert course.out.split()[-2:] == [b"33", b"101"]
    assert course.exited == Exited(7)


def test_control_c_interrupts(connection: Connection) -> None:
    process = connection.start("echo ready; exec sleep 4502", pty=PtySize(80, 24))
    try:
        course = Course(process).until(lambda c: b"ready" in c.out, "the process")
        process.send(b"\x03")
        assert course.to_end().exited == Exited(None, "INT")
    finally:
        process.close()


# --- several at once


def test_thirty_two_channels_work_side_by_side(connection: Connection) -> None:
    processes = [connection.start("cat; exit $(wc -c </dev/null)") for _ in range(32)]
    courses = [Course(process) for process in processes]
    try:
        for number, process in enumerate(processes):
            process.send(b"%d\n" % number * 1000)
            process.send_eof()
        for number, course in enumerate(courses):
            assert bytes(course.to_end().out) == b"%d\n" % number * 1000
            assert course.exited == Exited(0)
    finally:
        for process in processes:
            process.close()


def test_one_channel_too_many_is_refused_and_the_others_go_on(connect: Callable[..., Connection]) -> None:
    with quiet_sshd({"MaxSessions": 2}) as server:
        connection = connect(server)
        first, second = (Course(connection.start("cat")) for _ in range(2))
        for _ in range(3):
            with pytest.raises(ChannelOpenError, match="MaxSessions"):
                connection.start("true")
        first.process.send(b"still here\n")
        first.until(lambda c: c.out == b"still here\n", "the first one's answer")
        second.process.send_eof()
        second.to_end()
        second.process.close()
        assert eventually(lambda: _starts(connection))
        first.process.close()


def _starts(connection: Connection) -> bool:
    try:
        connection.start("true").close()
    except ChannelOpenError:
        return False
    return True


def test_a_refused_terminal_is_told_and_costs_no_connection(connect: Callable[..., Connection]) -> None:
    with quiet_sshd({"PermitTTY": "no"}) as server:
        connection = connect(server)
        with pytest.raises(TransportError, match="PermitTTY"):
            connection.start("true", pty=PtySize(80, 24))
        assert run_on(connection, "echo fine").out == b"fine\n"


# --- the connection's end


def _assert_lost(connection: Connection, courses: list[Course]) -> None:
    for course in courses:
        assert course.to_end().closed == Closed(lost=True)
        assert course.exited is None
        assert not course.process.has_ended
        course.process.close()
    assert eventually(lambda: not connection.is_alive)
    told: list[int] = []
    connection.on_end(lambda: told.append(1))
    assert told == [1]
    with pytest.raises(ConnectionLostError):
        connection.start("true")


def test_a_killed_connection_is_lost_for_every_process(connect: Callable[..., Connection]) -> None:
    with quiet_sshd() as server:
        connection = connect(server)
        told: list[int] = []
        connection.on_end(lambda: told.append(1))
        courses = [Course(connection.start("exec sleep 4503")) for _ in range(3)]
        server.kill_connections()
        _assert_lost(connection, courses)
        assert eventually(lambda: told == [1])
        with pytest.raises(ConnectionLostError):
            courses[0].process.send(b"x")


def test_a_cut_network_is_a_lost_connection(connect: Callable[..., Connection]) -> None:
    with quiet_sshd() as server, Proxy(("127.0.0.1", server.port)) as proxy:
        connection = connect(through(proxy, server))
        course = Course(connection.start("exec sleep 4504"))
        proxy.cut("rst")
        _assert_lost(connection, [course])


def test_a_silent_network_is_a_lost_connection_within_the_bound(connect: Callable[..., Connection]) -> None:
    with quiet_sshd() as server, Proxy(("127.0.0.1", server.port)) as proxy:
        connection = connect(through(proxy, server, ServerAliveInterval=1, ServerAliveCountMax=2))
        course = Course(connection.start("exec sleep 4505"))
        proxy.freeze()
        began_s = time.monotonic()
        _assert_lost(connection, [course])
        assert time.monotonic() - began_s < 30
        proxy.unfreeze()


def test_a_target_that_is_not_there_is_told_at_once(connect: Callable[..., Connection]) -> None:
    with quiet_sshd() as server:
        server.stop()
        with pytest.raises(ConnectError, match="connection refused") as raised:
            connect(server)
        assert str(server.port) in str(raised.value)


def test_closing_leaves_no_process_on_either_side(connect: Callable[..., Connection], transport: str) -> None:
    with quiet_sshd() as server:
        connection = connect(server)
        assert bool(_ssh_pids(server)) == (transport == "openssh")
        courses = [Course(connection.start("cat", pty=pty)) for pty in (None, PtySize(80, 24))]
        connection.close()
        connection.close()
        for course in courses:
            course.to_end()
            course.process.close()
        assert eventually(lambda: server.pids() == [server.pid])
        assert eventually(lambda: not _ssh_pids(server))


def _ssh_pids(server: Sshd) -> list[int]:
    """The processes here that were told of SERVER's ssh_config: others on this machine use ssh as well."""
    told = os.fsencode(server.config) + b"\0"
    return [int(name) for name in filter(str.isdecimal, os.listdir("/proc")) if told in _command(name)]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# --- what the operator's settings must not do


def test_nothing_of_the_operators_goes_along(
    connect: Callable[..., Connection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "secret")
    monkeypatch.setenv("LC_MINE", "secret")
    dangerous = {
        "SendEnv": "*",
        "SetEnv": "ALSO=secret",
        "ForwardAgent": "yes",
        "ForwardX11": "yes",
        "RemoteCommand": "echo not this",
        "RequestTTY": "force",
        "LocalForward": f"{tmp_path}/forwarded 127.0.0.1:1",
        "PermitLocalCommand": "yes",
        "LocalCommand": f"touch {tmp_path}/local",
    }
    with (
        quiet_sshd({"AcceptEnv": "*"}, ssh_options=dangerous) as server,
        running_agent(tmp_path, make_key(tmp_path / "key")) as agent,
    ):
        connection = connect(server, agent=agent)
        course = run_on(connection, "env; test -t 0 && echo has a terminal")
        for unwanted in (b"secret", b"SSH_AUTH_SOCK", b"DISPLAY", b"terminal", b"not this"):
            assert unwanted not in course.out
        assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.sock", "key", "key.pub"]


def test_connection_sharing_in_ssh_config_holds_nothing_up(connect: Callable[..., Connection], tmp_path: Path) -> None:
    sharing = {"ControlMaster": "auto", "ControlPath": f"{tmp_path}/c", "ControlPersist": "600"}
    with quiet_sshd(ssh_options=sharing) as server:
        connection = connect(server)
        assert run_on(connection, "echo fine").out == b"fine\n"
        connection.close()
        assert eventually(lambda: server.connection_count() == 0)
        assert not list(tmp_path.iterdir())


# --- odd accounts


@pytest.mark.root
def test_slow_and_noisy_start_up_files_delay_a_process_and_no_other(connect: Callable[..., Connection]) -> None:
    files = {".bashrc": "test -e ~/slow || return 0\necho noise\nsleep 2\n"}
    with Account(files=files) as account, quiet_sshd({"SetEnv": "A=b"}, user=account.name) as server:
        connection = connect(server)
        account.write("slow", "")
        slow = Course(connection.start("echo arrived")).until(lambda c: b"noise" in c.out, "its start-up files")
        (account.home / "slow").unlink()
        assert run_on(connection, "echo quick").out == b"quick\n"
        assert bytes(slow.to_end().out).endswith(b"arrived\n")
        slow.process.close()

"""A master that the operator runs (ControlPath): used where it helps, and left unharmed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from reach.errors import ChannelOpenError
from reach.ssh.openssh import OpensshConnection
from reach.ssh.openssh_mux import is_master, open_proxy
from reach.ssh.openssh_shared import MAX_CHANNELS
from reach.ssh.process import Closed, Connection, Exited
from support.login import settings_for
from support.processes import eventually
from support.session import ReachSession, quiet_sshd
from support.sshd import Sshd
from support.transports import Course, connected_by, run_on

pytestmark = pytest.mark.sshd


@contextmanager
def operators_master(server: Sshd, folder: Path, *options: str, **more: object) -> Iterator[Path]:
    """The operator has logged in, and can't again: what a second factor would make of it."""
    path = folder / "master"
    server.ssh_options = {"ControlPath": path, **more}
    server._write_ssh_config()
    argv = server.ssh_argv("-M", "-N", "-f", *options, server.alias)
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)
    server.remove_authorized_key()
    try:
        yield path
    finally:
        subprocess.run(server.ssh_argv("-O", "exit", server.alias), capture_output=True)


def starts(connection: Connection) -> bool:
    try:
        connection.start("true").close()
    except ChannelOpenError:
        return False
    return True


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[Sshd, Path]]]:
    """A server with sshd's OPTIONS, the operator already logged in on it by ARGUMENTS."""
    with ExitStack() as stack:

        def make(*arguments: str, **options: object) -> tuple[Sshd, Path]:
            server = stack.enter_context(quiet_sshd(options))
            return server, stack.enter_context(operators_master(server, tmp_path, *arguments))

        yield make


def test_it_is_used_where_nothing_else_lets_in(serve: Callable[..., tuple[Sshd, Path]]) -> None:
    server, path = serve()
    with connected_by("auto", server) as connection:
        assert connection.label == "openssh"
        assert run_on(connection, "echo in; kill -TERM $$").exited == Exited(None, "TERM")
        assert server.connection_count() == 1
    assert is_master(path)


def test_it_outlives_us_though_processes_run(serve: Callable[..., tuple[Sshd, Path]]) -> None:
    server, path = serve()
    with connected_by("auto", server) as connection:
        for _ in range(2):
            connection.start("cat")
    assert server.run("echo still there").stdout == b"still there\n"
    assert is_master(path)


def test_it_outlives_us_though_the_server_still_talks(serve: Callable[..., tuple[Sshd, Path]]) -> None:
    """A master that can't write to a proxy which has gone uses that proxy's memory afterwards (OpenSSH 9.2)."""
    server, path = serve()
    for _ in range(3):
        with connected_by("auto", server) as connection:
            assert isinstance(connection, OpensshConnection)
            process = connection.start("cat")
            for _ in range(2000):
                process.ask_for_a_sign()
        assert server.run("echo still there").stdout == b"still there\n"
    assert is_master(path)


@pytest.mark.parametrize("sessions", [1, 2, 3])
def test_a_refusal_by_the_server_leaves_it_alive(serve: Callable[..., tuple[Sshd, Path]], sessions: int) -> None:
    server, path = serve(MaxSessions=sessions)
    with connected_by("auto", server) as connection:
        courses = [Course(connection.start("cat")) for _ in range(sessions)]
        for _ in range(3):
            with pytest.raises(ChannelOpenError):
                connection.start("true")
        for course in courses:
            course.process.send_eof()
            course.to_end()
            course.process.close()
        assert eventually(lambda: starts(connection))
    assert is_master(path)
    assert server.run("echo still there").stdout == b"still there\n"


def test_a_proxied_channel_that_is_refused_would_end_it(serve: Callable[..., tuple[Sshd, Path]]) -> None:
    """Why nothing is asked for that may be refused. Should this fail, a newer ssh no longer needs the care."""
    server, path = serve(MaxSessions=1)
    with connected_by("auto", server) as connection:
        course = Course(connection.start("cat"))
        proxy = open_proxy(path)
        body = b"\0\x5a\0\0\0\x07session" + bytes(4) + (1 << 20).to_bytes(4, "big") * 2
        proxy.socket.sendall(len(body).to_bytes(4, "big") + body)
        assert proxy.socket.recv(64)[5] == 92
        proxy.socket.close()
        assert course.to_end().closed == Closed(lost=True)
    assert not is_master(path)


def test_some_of_its_sessions_are_left_to_the_operator(serve: Callable[..., tuple[Sshd, Path]]) -> None:
    server, _ = serve()
    with connected_by("auto", server) as connection:
        for _ in range(MAX_CHANNELS):
            connection.start("cat")
        with pytest.raises(ChannelOpenError, match="connection of yours"):
            connection.start("true")
        assert server.run("echo mine").stdout == b"mine\n"


def test_commands_wait_for_each_other_where_nobody_can_log_in_again(serve: Callable[..., tuple[Sshd, Path]]) -> None:
    server, path = serve(MaxSessions=3)
    with ReachSession(server) as session:
        assert session.status()["transport"] == "openssh"
        assert "ControlPath" in session.status()["transport_why"]
        processes = [session.start(f"sleep 0.3; echo {n}") for n in range(6)]
        results = [(process.communicate(), process.returncode) for process in processes]
        assert results == [((f"{n}\n".encode(), b""), 0) for n in range(6)]
    assert is_master(path)


def test_one_that_forwards_an_agent_is_not_used(tmp_path: Path) -> None:
    with quiet_sshd() as server, operators_master(server, tmp_path, ForwardAgent="yes"):
        assert settings_for(server.config, server.alias).shared_master is None
        assert settings_for(server.config, server.alias).unsupported == ()


def test_a_socket_that_nobody_listens_on_is_no_master(tmp_path: Path) -> None:
    with quiet_sshd() as server:
        with operators_master(server, tmp_path) as path:
            server.restore_authorized_key()
            assert settings_for(server.config, server.alias).shared_master == path
        settings = settings_for(server.config, server.alias)
        assert (settings.shared_master, settings.unsupported) == (None, ())
        with connected_by("openssh", server) as connection:
            assert run_on(connection, "echo own").out == b"own\n"

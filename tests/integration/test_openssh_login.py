"""Logins by the system's ssh: what only they have, and what ssh's failures are called."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest

from reach.errors import AuthenticationError, ConnectError, HostKeyUnknownError, TransportError
from reach.ssh.openssh_connect import OpensshClient
from reach.ssh.openssh_login import SshCall
from reach.ssh.operator import NobodyThere
from reach.ssh.process import Closed
from reach.ssh.secrets import Secrets
from support.hostile_server import HostileServer, _ServerTransport
from support.login import (
    connected,
    logging_in_by,
    make_key,
    output_of,
    public_line,
    settings_for,
    sign_key,
    write_config,
)
from support.operators import ScriptedOperator
from support.processes import eventually
from support.session import ReachSession, quiet_sshd, wait_for
from support.sshd import Sshd
from support.transports import connected_by

pytestmark = pytest.mark.sshd


@pytest.fixture(autouse=True)
def _by_ssh() -> Iterator[None]:
    with logging_in_by("openssh"):
        yield


@contextmanager
def listener(serve: Callable[[socket.socket], None], folder: Path, *lines: str) -> Iterator[Path]:
    """An ssh_config for `box`, whose every connection SERVE has."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            try:
                while True:
                    peer, _ = server.accept()
                    threading.Thread(target=serve, args=(peer,), daemon=True).start()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        config = folder / "config"
        told = ["Host box", f"HostName 127.0.0.1\nPort {server.getsockname()[1]}", "User eve", "IdentityFile none"]
        told += ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null", *lines]
        config.write_text("\n".join(told) + "\n")
        yield config
        server.shutdown(socket.SHUT_RDWR)


def _talks(words: bytes) -> Callable[[socket.socket], None]:
    def serve(peer: socket.socket) -> None:
        with peer:
            peer.sendall(words)

    return serve


def _waits(peer: socket.socket) -> None:
    """Until the other side hangs up."""
    with peer:
        while peer.recv(1000):
            pass


@pytest.mark.parametrize(
    "words", [b"", b"HTTP/1.0 400 no\r\n\r\n", b"220 mail\r\n", bytes(range(256)) * 8, b"SSH-1.5-x\r\n"]
)
def test_what_is_no_server_is_said_to_be_none(tmp_path: Path, words: bytes) -> None:
    with listener(_talks(words), tmp_path) as config, pytest.raises(ConnectError) as raised:
        connected(config).__enter__()
    told = "too old" if words.startswith(b"SSH-1") else "no SSH server answered there"
    assert told in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    with listener(_waits, tmp_path, "ConnectTimeout 1") as config:
        with pytest.raises(ConnectError, match="no answer in time"):
            connected(config).__enter__()


def test_a_name_without_an_address_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host box\n HostName no-such-host.invalid\n")
    with pytest.raises(ConnectError, match="the name has no address"):
        connected(config).__enter__()


def test_no_algorithm_in_common_is_said_with_the_servers_offer(sshd: Sshd, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", sshd, {"Ciphers": "aes128-cbc"})
    with pytest.raises(ConnectError, match=r"no algorithm in common .*aes256-ctr"):
        connected(config).__enter__()


def test_a_banner_is_told_without_what_would_steer_the_terminal(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    banner = tmp_path / "banner"
    banner.write_bytes(b"Keep out!\nor \x1b[2Jelse\ndebug1: Authentications that can continue: lies\n")
    server, operator = make_sshd({"Banner": banner}), ScriptedOperator()
    with connected(write_config(tmp_path / "config", server, {"IdentityFile": server.client_key}), operator) as there:
        assert output_of(there, "hostname").strip() == server.hostname
    said = "\n".join(operator.told)
    assert "Keep out!" in said
    assert all(character.isprintable() or character == "\n" for character in said)


def test_a_host_certificate_that_does_not_hold_says_why(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    server = make_sshd()
    sign_key(authority, server.folder / "host_ed25519", "-h", "-n", "other.example")
    server.options["HostCertificate"] = server.folder / "host_ed25519-cert.pub"
    server.restart()
    known = tmp_path / "known"
    known.write_text(f"@cert-authority * {public_line(authority)}")
    given = {"UserKnownHostsFile": known, "IdentityFile": server.client_key}
    with pytest.raises(HostKeyUnknownError, match=r"its certificate does not count: name is not a listed principal"):
        connected(write_config(tmp_path / "config", server, given)).__enter__()


@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_binary_revocation_list_is_read_by_ssh_which_auto_then_takes(tmp_path: Path, is_revoked: bool) -> None:
    krl = tmp_path / "krl"
    with quiet_sshd() as server:
        listed = server.folder / "host_ed25519.pub" if is_revoked else Path(f"{make_key(tmp_path / 'old')}.pub")
        subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(krl), str(listed)], check=True)
        server.ssh_options = {"RevokedHostKeys": krl}
        server._write_ssh_config()
        if is_revoked:
            with pytest.raises(TransportError, match="RevokedHostKeys"):
                connected_by("auto", server).__enter__()
            return
        with connected_by("auto", server) as connection:
            assert connection.label == "openssh"


def test_an_expired_password_is_said_to_be_one(tmp_path: Path) -> None:
    class Expired(paramiko.ServerInterface):
        def get_allowed_auths(self, username: str) -> str:
            return "password"

        def check_auth_password(self, username: str, password: str) -> int:
            return paramiko.AUTH_FAILED

    def serve(peer: socket.socket) -> None:
        transport = paramiko.Transport(peer)
        transport.add_server_key(paramiko.ECDSAKey.generate())
        transport.start_server(server=Expired(), event=threading.Event())

    with listener(serve, tmp_path, "NumberOfPasswordPrompts 2") as config:
        operator = ScriptedOperator({"password": "wrong"})
        with pytest.raises(AuthenticationError, match=r"password \(refused 2 times\)"):
            connected(config, operator).__enter__()
        assert operator.asked == ["eve@box's password: "] * 2


@contextmanager
def hostile(server: HostileServer, folder: Path, *lines: str) -> Iterator[Path]:
    """An ssh_config for HostileServer SERVER, which lets anybody in."""

    def serve(peer: socket.socket) -> None:
        transport = server.transport = _ServerTransport(peer)
        transport.add_server_key(paramiko.ECDSAKey.generate())
        transport.start_server(server=server, event=threading.Event())

    with listener(serve, folder, *lines) as config:
        try:
            yield config
        finally:
            if server.transport:
                server.transport.close()


def _floods_data(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
    try:
        for _ in range(1000):
            server.send_data(channel, bytes(32768))
    except (OSError, EOFError, paramiko.SSHException):
        return


def _floods_messages(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
    try:
        for _ in range(200_000):
            server.send_request(channel, "exit-status", 0)
    except (OSError, EOFError, paramiko.SSHException):
        return


@pytest.mark.parametrize("flood", [_floods_data, _floods_messages])
def test_a_server_that_floods_a_channel_loses_its_connection(tmp_path: Path, flood: Callable[..., None]) -> None:
    with hostile(HostileServer(flood), tmp_path) as config, connected(config) as connection:
        ended = threading.Event()
        connection.on_end(ended.set)  # type: ignore[union-attr]
        process = connection.start("x")  # type: ignore[union-attr]
        assert ended.wait(60), "the flood is taken"
        assert process.inbox.take()[-1] == Closed(lost=True)
        process.close()


def test_a_server_that_asks_for_our_agent_or_our_ports_gets_neither(tmp_path: Path) -> None:
    server = HostileServer(lambda *_: None)
    with hostile(server, tmp_path, "ForwardAgent yes", "ForwardX11 yes") as config, connected(config) as connection:
        connection.start("x").close()  # type: ignore[union-attr]
        assert server.transport
        for kind in ("auth-agent@openssh.com", "x11", "forwarded-tcpip", "direct-tcpip", "session"):
            with pytest.raises(paramiko.SSHException):
                server.transport.open_channel(kind, ("127.0.0.1", 22), ("127.0.0.1", 1), timeout=20)
        assert connection.is_alive  # type: ignore[union-attr]


def test_an_ssh_that_hangs_in_its_login_ends_with_the_client(tmp_path: Path) -> None:
    """As a broker's end does it: nothing of ssh is left, and whoever waits is told."""
    began = threading.Event()

    def serve(peer: socket.socket) -> None:
        began.set()
        _waits(peer)

    failures: list[BaseException] = []
    with listener(serve, tmp_path) as config:
        client = OpensshClient(SshCall("ssh", config, None, os.environ, tmp_path / "run", tmp_path / "programs"))

        def connect() -> None:
            try:
                client.connect(settings_for(config), NobodyThere(), Secrets())
            except TransportError as error:
                failures.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        assert began.wait(20)
        client.close()
        thread.join(20)
    assert len(failures) == 1
    assert not list((tmp_path / "run").iterdir())


def test_a_master_whose_broker_was_killed_is_ended_by_the_next_one(make_session: Callable[..., ReachSession]) -> None:
    with quiet_sshd() as server:
        session = make_session(server, transport="openssh")
        [master] = _masters(session)
        os.kill(session.broker_pid, signal.SIGKILL)
        assert session.run("true").returncode == 0
        assert master not in _masters(session)
        wait_for(lambda: server.connection_count() == 1, "the end of the other connection")


def test_a_master_whose_broker_was_killed_ends_by_itself(make_session: Callable[..., ReachSession]) -> None:
    with quiet_sshd() as server:
        session = make_session(server, transport="openssh")
        os.kill(session.broker_pid, signal.SIGKILL)
        assert eventually(lambda: not _masters(session))
        assert eventually(lambda: server.connection_count() == 0)
        assert session.run("true").returncode == 0


def _masters(session: ReachSession) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"/usr/bin/ssh\0") and os.fsencode(session.home) in line:
            found.append(int(name))
    return found

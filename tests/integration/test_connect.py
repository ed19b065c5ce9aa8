"""Reaching a server and what is said when that does not come about."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reach.errors import ConfigError, ConnectError
from reach.ssh.authentication import Secrets
from reach.ssh.connect import connect
from reach.ssh.operator import NobodyThere
from reach.ssh.settings import resolve_settings
from reach.ssh.transport import InboxTransport
from reach.target import Target
from support.login import authorize, connected, make_key, output_of, settings_for, write_config
from support.operators import ScriptedOperator
from support.sshd import Sshd

pytestmark = pytest.mark.sshd


def attempt(config: Path, alias: str = "box") -> None:
    with connected(config, alias=alias):
        pass


def test_command_runs_on_the_target(sshd: Sshd) -> None:
    with connected(sshd.config, alias=sshd.alias) as transport:
        assert output_of(transport, "hostname") == f"{sshd.hostname}\n"


def test_connection_sends_small_packets_at_once(sshd: Sshd) -> None:
    with connected(sshd.config, alias=sshd.alias) as transport:
        assert isinstance(transport.sock, socket.socket)
        assert transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_transport_is_of_the_class_asked_for(sshd: Sshd) -> None:
    transport = connect(settings_for(sshd.config, sshd.alias), NobodyThere(), Secrets(), transport_class=InboxTransport)
    with contextlib.closing(transport):
        assert isinstance(transport, InboxTransport)
        assert transport.is_authenticated()


def test_banner_is_told_to_the_operator_without_control_characters(
    make_sshd: Callable[..., Sshd], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "banner").write_bytes(b"Keep out!\nor \x1b[2Jelse\n")
    server = make_sshd({"Banner": tmp_path / "banner"})
    operator = ScriptedOperator()
    with connected(server.config, operator, alias=server.alias) as transport:
        assert output_of(transport, "echo out; echo err >&2") == "out\n"
    assert operator.told == ["Keep out!\nor \\x1b[2Jelse"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "options",
    [
        {"Ciphers": "aes256-gcm@openssh.com"},
        {"Ciphers": "aes128-ctr", "MACs": "hmac-sha2-512-etm@openssh.com"},
        {"KexAlgorithms": "curve25519-sha256"},
        {"KexAlgorithms": "diffie-hellman-group16-sha512"},
        {"HostKeyAlgorithms": "rsa-sha2-256"},
        {"HostKeyAlgorithms": "ecdsa-sha2-nistp256"},
        {"RekeyLimit": "1M"},
        {"BindAddress": "127.0.0.1", "AddressFamily": "inet"},
        {"ForwardAgent": "yes", "RemoteCommand": "false", "RequestTTY": "force", "LocalForward": "1 [::1]:1"},
        {"SetEnv": "LC_REACH=leaked", "SendEnv": "*"},
    ],
    ids=lambda options: "-".join(options),
)
def test_settings_are_kept_or_left_alone(sshd: Sshd, tmp_path: Path, options: dict[str, str]) -> None:
    config = write_config(tmp_path / "config", sshd, {**options, "IdentityFile": sshd.client_key})
    with connected(config) as transport:
        if "Ciphers" in options:
            assert transport.local_cipher == options["Ciphers"]
        if "HostKeyAlgorithms" in options:
            assert transport.host_key_type == options["HostKeyAlgorithms"]
        assert output_of(transport, 'test -t 0 || echo "$SSH_AUTH_SOCK$LC_REACH."') == ".\n"


def test_rekeying_in_mid_stream_loses_nothing(sshd: Sshd, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", sshd, {"RekeyLimit": "1M", "IdentityFile": sshd.client_key})
    with connected(config) as transport:
        assert len(output_of(transport, "head -c 4000000 /dev/zero | tr '\\0' x")) == 4000000


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("Ciphers", "chacha20-poly1305@openssh.com"),
        ("MACs", "umac-64@openssh.com"),
        ("KexAlgorithms", "sntrup761x25519-sha512@openssh.com"),
        ("HostKeyAlgorithms", "sk-ssh-ed25519@openssh.com"),
    ],
)
def test_algorithms_that_leave_nothing_are_a_configuration_error(
    sshd: Sshd, tmp_path: Path, keyword: str, value: str
) -> None:
    config = write_config(tmp_path / "config", sshd, {keyword: value})
    with pytest.raises(ConfigError, match=f"{keyword} for box allows only {value}") as error:
        attempt(config)
    assert error.value.fix


def test_server_with_no_algorithm_in_common_is_said_to_be_one(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    server = make_sshd({"Ciphers": "aes256-ctr"})
    config = write_config(tmp_path / "config", server, {"Ciphers": "aes128-ctr"})
    with pytest.raises(ConnectError, match=f"box .*port {server.port}: no algorithm in common.*ciphers") as raised:
        attempt(config)
    assert "--transport openssh" in raised.value.fix


def config_to(tmp_path: Path, port: int, *lines: str) -> Path:
    path = tmp_path / "config"
    body = "".join(f"    {line}\n" for line in [*lines, "HostName 127.0.0.1", f"Port {port}"])
    path.write_text(f"Host box\n{body}")
    return path


def test_refused_connection_names_host_and_port(tmp_path: Path) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        with pytest.raises(ConnectError, match=rf"box \(127.0.0.1\) port {port}: connection refused") as error:
            attempt(config_to(tmp_path, port))
    assert error.value.fix


def test_name_without_an_address_is_said_to_have_none(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("")
    with pytest.raises(ConnectError, match=r"nowhere.invalid port 22: the name has no address"):
        attempt(config, "nowhere.invalid")


@contextlib.contextmanager
def listener(greeting: bytes | None) -> Iterator[int]:
    """Something that listens and greets so, or (None) says nothing and keeps the connection; its port."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    if greeting is None:
                        kept.append(peer)
                        continue
                    with peer, contextlib.suppress(OSError):
                        peer.sendall(greeting)
                        peer.shutdown(socket.SHUT_WR)
                        while peer.recv(4096):
                            pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for peer in kept:
                peer.close()


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail ESMTP\r\n" * 200, b"\xff\xfe\x00garbage\n", b""],
    ids=["http", "smtp", "bytes", "silence"],
)
def test_garbage_is_no_ssh_server(tmp_path: Path, greeting: bytes) -> None:
    with listener(greeting) as port, pytest.raises(ConnectError, match="no SSH server answered") as error:
        attempt(config_to(tmp_path, port))
    assert f"port {port}" in str(error.value)


def test_server_that_never_speaks_is_given_up_after_the_connect_timeout(tmp_path: Path) -> None:
    with listener(None) as port, pytest.raises(ConnectError, match="no SSH server answered|no answer in time"):
        attempt(config_to(tmp_path, port, "ConnectTimeout 1"))


def test_version_that_is_too_old_is_refused(tmp_path: Path) -> None:
    with listener(b"SSH-1.5-ancient\r\n") as port, pytest.raises(ConnectError, match="1.5"):
        attempt(config_to(tmp_path, port))


def test_terminal_codes_in_a_servers_words_are_not_passed_on(tmp_path: Path) -> None:
    with listener(b"SSH-\x1b[2J-x\r\n") as port, pytest.raises(ConnectError) as error:
        attempt(config_to(tmp_path, port))
    assert "\x1b" not in str(error.value)


def test_settings_by_match_final_and_include_connect(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "included").write_text(
        f"Host box\n HostName 127.0.0.1\n IdentityFile {sshd.client_key}\n UserKnownHostsFile {sshd.known_hosts}\n"
    )
    config = tmp_path / "config"
    config.write_text(f"Include {tmp_path}/incl*\nMatch final host 127.0.0.1\n Port {sshd.port}\n User {sshd.user}\n")
    with connected(config) as transport:
        assert output_of(transport, "hostname") == f"{sshd.hostname}\n"


def test_target_with_user_and_port_needs_no_configuration(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    server = make_sshd()
    key = make_key(tmp_path / "key")
    authorize(server, key)
    config = tmp_path / "config"
    config.write_text(f"IdentityFile {key}\nUserKnownHostsFile {server.known_hosts}\n")
    target = Target("127.0.0.1", server.user, server.port)
    settings = resolve_settings(target, config_file=config, agent_socket=None)
    transport = connect(settings, NobodyThere(), Secrets())
    with contextlib.closing(transport):
        assert output_of(transport, "id -un") == f"{server.user}\n"

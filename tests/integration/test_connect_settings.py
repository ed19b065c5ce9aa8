"""What ssh_config says of a connection, as the server sees it, by each transport."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reach.errors import ConnectError
from reach.ssh.transport import PACKET_BYTES, WINDOW_BYTES
from support.login import connected, output_of, write_config
from support.sshd import KEYS_EXCHANGED, Options, Sshd
from support.transports import TRANSPORTS

pytestmark = [pytest.mark.sshd, pytest.mark.transports(*TRANSPORTS)]


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with Sshd({"LogLevel": "DEBUG1", "Ciphers": "+aes128-cbc"}) as server:
        yield server


@pytest.mark.parametrize(
    ("options", "logged"),
    [
        ({"Ciphers": "aes256-gcm@openssh.com"}, "kex: client->server cipher: aes256-gcm@openssh.com "),
        ({"Ciphers": "aes128-ctr", "MACs": "hmac-sha2-512"}, "cipher: aes128-ctr MAC: hmac-sha2-512 "),
        ({"KexAlgorithms": "diffie-hellman-group16-sha512"}, "kex: algorithm: diffie-hellman-group16-sha512"),
        ({"KexAlgorithms": "ecdh-sha2-nistp384"}, "kex: algorithm: ecdh-sha2-nistp384"),
        ({"HostKeyAlgorithms": "rsa-sha2-256"}, "kex: host key algorithm: rsa-sha2-256"),
        ({"BindAddress": "127.0.0.2"}, "Connection from 127.0.0.2 "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_the_server_meets_what_the_settings_say(server: Sshd, tmp_path: Path, options: Options, logged: str) -> None:
    before = server.log_text().count(logged)
    with connected(write_config(tmp_path / "config", server, {**options, "IdentityFile": server.client_key})) as link:
        assert output_of(link, "echo there") == "there\n"
    assert server.log_text().count(logged) > before


def test_the_address_family_decides_which_address_is_tried(server: Sshd, tmp_path: Path) -> None:
    """The server listens on IPv4's localhost alone."""
    options = {"HostName": "localhost", "HostKeyAlias": f"[127.0.0.1]:{server.port}", "IdentityFile": server.client_key}
    with connected(write_config(tmp_path / "four", server, {**options, "AddressFamily": "inet"})) as link:
        assert output_of(link, "echo there") == "there\n"
    with pytest.raises(ConnectError):
        with connected(write_config(tmp_path / "six", server, {**options, "AddressFamily": "inet6"})):
            pass


@pytest.mark.parametrize("whose", ["operator's", "server's"])
def test_new_keys_every_megabyte_cost_no_byte_of_two_hundred(
    make_sshd: Callable[..., Sshd], tmp_path: Path, whose: str
) -> None:
    """The server counts what it sends. When the operator's side asks, what its window allows may be on its way."""
    limit: Options = {"RekeyLimit": "1M"}
    server = make_sshd({"LogLevel": "DEBUG1", **(limit if whose == "server's" else {})})
    far = "seq 23000000"
    expected = hashlib.sha256(subprocess.run(far.split(), capture_output=True, check=True).stdout).hexdigest()
    own = limit if whose == "operator's" else {}
    with connected(write_config(tmp_path / "config", server, {**own, "IdentityFile": server.client_key})) as link:
        output = output_of(link, far)
    assert hashlib.sha256(output.encode()).hexdigest() == expected
    assert len(output) > 190_000_000
    beyond_the_limit = WINDOW_BYTES * 9 // 8 if whose == "operator's" else 2 * PACKET_BYTES
    assert server.log_text().count(KEYS_EXCHANGED) >= len(output) // ((1 << 20) + beyond_the_limit)

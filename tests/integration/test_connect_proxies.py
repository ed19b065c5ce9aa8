"""Hosts that are reached through another host or a command."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from reach.errors import AuthenticationError, ConfigError, ConnectError, HostKeyUnknownError
from support.login import authorize, connected, has_ended, make_key, output_of, settings_for
from support.operators import ScriptedOperator
from support.processes import eventually, is_dead
from support.sshd import Sshd
from support.transports import TRANSPORTS

pytestmark = [pytest.mark.sshd, pytest.mark.transports(*TRANSPORTS)]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(alias="gate") as server:
        authorize(server, make_key(tmp_path_factory.mktemp("gate") / "key"))
        yield server


@pytest.fixture(scope="module")
def far() -> Iterator[Sshd]:
    with Sshd(alias="far") as server:
        yield server


class Network:
    """An ssh_config with a host for each server, each with its own key and known_hosts file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config"
        self.config.write_text("")

    def add(self, server: Sshd, *lines: str, known: bool = True, allowed: bool = True, alias: str = "") -> None:
        alias = alias or server.alias
        key = make_key(self.folder / f"{alias}-key")
        authorize(server, *([key] if allowed else []))
        body = [
            *lines,
            "HostName 127.0.0.1",
            f"Port {server.port}",
            f"User {server.user}",
            f"IdentityFile {key}",
            f"UserKnownHostsFile {server.known_hosts if known else '/dev/null'}",
        ]
        with self.config.open("a") as file:
            file.write(f"Host {alias}\n" + "".join(f"    {line}\n" for line in body))


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return Network(tmp_path)


def test_host_behind_another_is_reached(network: Network, gate: Sshd, far: Sshd) -> None:
    network.add(gate)
    network.add(far, "ProxyJump gate")
    with connected(network.config, alias="far") as transport:
        assert output_of(transport, "hostname") == f"{far.hostname}\n"
        assert len(output_of(transport, "head -c 3000000 /dev/zero | tr '\\0' x")) == 3000000
    far.wait_for_log(f"Accepted publickey for {far.user}")


def _logins(server: Sshd) -> int:
    """How many there were, by its log: connections that are just ending make no number of those that are open."""
    return server.log_text().count("Accepted publickey")


def test_chain_of_hosts_is_gone_through_in_order(
    network: Network, gate: Sshd, far: Sshd, make_sshd: Callable[..., Sshd]
) -> None:
    middle = make_sshd(alias="middle")
    network.add(gate)
    network.add(middle)
    network.add(far, "ProxyJump gate,middle")
    before = _logins(gate)
    with connected(network.config, alias="far") as transport:
        assert output_of(transport, "hostname") == f"{far.hostname}\n"
        assert (_logins(gate), _logins(middle)) == (before + 1, 1)


def test_nested_jumps_of_the_hosts_themselves_are_followed(
    network: Network, gate: Sshd, far: Sshd, make_sshd: Callable[..., Sshd]
) -> None:
    middle = make_sshd(alias="middle")
    network.add(gate)
    network.add(middle, "ProxyJump gate")
    network.add(far, "ProxyJump middle")
    before = _logins(gate)
    with connected(network.config, alias="far") as transport:
        assert output_of(transport, "hostname") == f"{far.hostname}\n"
        assert _logins(gate) == before + 1


@pytest.mark.transports("paramiko")
def test_no_thread_of_a_jump_host_is_left(network: Network, gate: Sshd, far: Sshd) -> None:
    network.add(gate)
    network.add(far, "ProxyJump gate")
    with connected(network.config, alias="far"):
        hops = [thread for thread in threading.enumerate() if isinstance(thread, paramiko.Transport)]
        assert len(hops) == 2
    for hop in hops:
        hop.join(20)
        assert not hop.is_alive()
        assert not hop.is_active()


def test_host_key_of_the_jump_host_is_checked(network: Network, gate: Sshd, far: Sshd) -> None:
    network.add(gate, known=False)
    network.add(far, "ProxyJump gate")
    with pytest.raises(HostKeyUnknownError, match=rf"gate \(127.0.0.1\) port {gate.port}"):
        connected(network.config, alias="far").__enter__()


def test_host_key_behind_the_jump_host_is_checked(network: Network, gate: Sshd, far: Sshd) -> None:
    network.add(gate)
    network.add(far, "ProxyJump gate", known=False)
    with pytest.raises(HostKeyUnknownError, match=rf"far \(127.0.0.1\) port {far.port}"):
        connected(network.config, alias="far").__enter__()


def test_questions_about_either_host_go_to_the_operator(network: Network, gate: Sshd, far: Sshd) -> None:
    network.add(gate, known=False)
    network.add(far, "ProxyJump gate", known=False)
    operator = ScriptedOperator({"Is that the host's key": "yes"})
    with connected(network.config, operator, alias="far"):
        assert [question.split()[0] for question in operator.asked] == ["gate", "far"]


def test_refusal_names_the_host_that_refused(network: Network, gate: Sshd, far: Sshd) -> None:
    network.add(gate, allowed=False)
    network.add(far, "ProxyJump gate")
    with pytest.raises(AuthenticationError, match=r"on gate \(127.0.0.1\)"):
        connected(network.config, alias="far").__enter__()


def test_jump_host_that_forwards_nothing_is_named(network: Network, far: Sshd, make_sshd: Callable[..., Sshd]) -> None:
    network.add(make_sshd({"AllowTcpForwarding": "no"}, alias="closed"))
    network.add(far, "ProxyJump closed")
    with pytest.raises(ConnectError, match=r"far .* through closed .*does not allow it") as error:
        connected(network.config, alias="far").__enter__()
    assert "AllowTcpForwarding" in str(error.value.fix)


def test_host_that_the_jump_host_cannot_reach_is_named(network: Network, gate: Sshd) -> None:
    network.add(gate)
    with network.config.open("a") as file:
        file.write("Host far\n HostName 127.0.0.1\n Port 1\n ProxyJump gate\n")
    with pytest.raises(ConnectError, match=r"far \(127.0.0.1\) port 1 through gate .*could not connect there"):
        connected(network.config, alias="far").__enter__()


def test_killed_jump_host_ends_the_connection(network: Network, far: Sshd, make_sshd: Callable[..., Sshd]) -> None:
    gate = make_sshd(alias="frail")
    network.add(gate)
    network.add(far, "ProxyJump frail")
    with connected(network.config, alias="far") as transport:
        gate.kill_connections()
        assert eventually(lambda: has_ended(transport))


# ProxyCommand


def far_by(command: str, network: Network, far: Sshd) -> None:
    network.add(far, f"ProxyCommand {command}")


def test_proxy_command_carries_the_connection(network: Network, gate: Sshd, far: Sshd) -> None:
    network.add(gate)
    far_by(f"ssh -F {network.config} -W %h:%p gate", network, far)
    with connected(network.config, alias="far") as transport:
        assert output_of(transport, "hostname") == f"{far.hostname}\n"
        assert len(output_of(transport, "head -c 3000000 /dev/zero | tr '\\0' x")) == 3000000


def test_proxy_command_is_read_by_a_shell_and_ended_with_the_connection(
    network: Network, gate: Sshd, far: Sshd, tmp_path: Path
) -> None:
    network.add(gate)
    far_by(f"sh -c 'echo $$ >{tmp_path}/pid; exec ssh -F {network.config} -W %h:%p gate'", network, far)
    with connected(network.config, alias="far"):
        pid = int((tmp_path / "pid").read_text())
        assert not is_dead(pid)
    assert eventually(lambda: is_dead(pid))


def test_proxy_command_is_read_by_the_operators_shell(
    network: Network, gate: Sshd, far: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    network.add(gate)
    monkeypatch.setenv("SHELL", shutil.which("bash") or "")
    far_by(f"$'\\163\\163\\150' -F {network.config} -W %h:%p gate", network, far)
    with connected(network.config, alias="far") as transport:
        assert output_of(transport, "uname -n").strip() == far.hostname


def test_proxy_command_that_fails_is_quoted(network: Network, far: Sshd, login_transport: str) -> None:
    far_by("sh -c 'printf \"no way \\033[2J\" >&2; exit 3'", network, far)
    with pytest.raises(ConnectError, match=r"far .* by its ProxyCommand: no way ") as error:
        connected(network.config, alias="far").__enter__()
    if login_transport == "paramiko":  # ssh tells nobody
        assert "(exit code 3)" in str(error.value)
    assert str(error.value).isprintable()


def test_proxy_command_that_is_not_there_is_named(network: Network, far: Sshd) -> None:
    far_by("/no/such/command", network, far)
    with pytest.raises(ConnectError, match=r"by its ProxyCommand: .*/no/such/command"):
        connected(network.config, alias="far").__enter__()


def test_proxy_command_that_says_nothing_is_given_up_and_ended(network: Network, far: Sshd, tmp_path: Path) -> None:
    network.add(far, f"ProxyCommand sh -c 'echo $$ >{tmp_path}/pid; sleep 600; :'", "ConnectTimeout 1")
    with pytest.raises(ConnectError):
        connected(network.config, alias="far").__enter__()
    assert eventually(lambda: is_dead(int((tmp_path / "pid").read_text())))


def test_end_of_the_proxy_command_ends_the_connection(network: Network, gate: Sshd, far: Sshd, tmp_path: Path) -> None:
    network.add(gate)
    far_by(f"sh -c 'echo $$ >{tmp_path}/pid; exec ssh -F {network.config} -W %h:%p gate'", network, far)
    with connected(network.config, alias="far") as transport:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert eventually(lambda: has_ended(transport))


def test_proxy_command_with_an_unknown_token_is_a_configuration_error(network: Network, far: Sshd) -> None:
    far_by("nc %h %Z", network, far)
    with pytest.raises(ConfigError, match="%Z"):
        settings_for(network.config, "far")

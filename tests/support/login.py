"""Keys, agents and ssh_config files of a test's own, and a connection by reach made with them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko

from reach.ssh.authentication import Secrets
from reach.ssh.connect import connect
from reach.ssh.openssh import OpensshConnection
from reach.ssh.openssh_connect import OpensshClient
from reach.ssh.openssh_login import SshCall
from reach.ssh.operator import NobodyThere, Operator
from reach.ssh.settings import HostSettings, resolve_settings
from reach.target import Target
from support.sshd import Options, Sshd, _lines
from support.transports import run_on


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "", form: str | None = None) -> Path:
    """A new key pair at PATH; FORM is ssh-keygen's -m (PEM, PKCS8)."""
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)]
    argv += ["-b", "2048"] if kind == "rsa" else []
    argv += ["-m", form] if form else []
    subprocess.run(argv, check=True, capture_output=True)
    return path


def public_line(key: Path) -> str:
    return key.with_name(key.name + ".pub").read_text()


def sign_key(authority: Path, key: Path, *arguments: str) -> Path:
    """Have AUTHORITY certify KEY, with ssh-keygen's ARGUMENTS; the certificate's path."""
    argv = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", *arguments, f"{key}.pub"]
    subprocess.run(argv, check=True, capture_output=True)
    return key.with_name(key.name + "-cert.pub")


def authorize(server: Sshd, *keys: Path) -> None:
    """Let these keys and no others in."""
    server.authorized_keys.write_text("".join(public_line(key) for key in keys))


def write_config(path: Path, server: Sshd, options: Options | None = None, *, alias: str = "box") -> Path:
    """An ssh_config with an ALIAS for SERVER whose host keys it knows, and with OPTIONS ahead."""
    lines = [
        *_lines(options or {}),
        "HostName 127.0.0.1",
        f"Port {server.port}",
        f"User {server.user}",
        f"UserKnownHostsFile {server.known_hosts}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
    ]
    path.write_text(f"Host {alias}\n" + "".join(f"    {line}\n" for line in lines))
    return path


def settings_for(config: Path, alias: str = "box", *, agent: Path | None = None) -> HostSettings:
    return resolve_settings(Target(alias), config_file=config, agent_socket=str(agent) if agent else None)


@contextlib.contextmanager
def connected(
    config: Path,
    operator: Operator | None = None,
    secrets: Secrets | None = None,
    *,
    alias: str = "box",
    agent: Path | None = None,
) -> Iterator[paramiko.Transport | OpensshConnection]:
    """A connection by reach to ALIAS of CONFIG, by the transport that `logging_in_by` names."""
    settings = settings_for(config, alias, agent=agent)
    operator, secrets = operator or NobodyThere(), secrets or Secrets()
    if _transport == "openssh":
        with _by_openssh(settings, config, operator, secrets, agent) as connection:
            yield connection
        return
    transport = connect(settings, operator, secrets)
    try:
        yield transport
    finally:
        transport.close()
        transport.join()


_transport = "paramiko"


@contextlib.contextmanager
def logging_in_by(transport: str) -> Iterator[None]:
    """Have `connected` log in by TRANSPORT."""
    global _transport
    before, _transport = _transport, transport
    try:
        yield
    finally:
        _transport = before


@contextlib.contextmanager
def _by_openssh(
    settings: HostSettings, config: Path, operator: Operator, secrets: Secrets, agent: Path | None
) -> Iterator[OpensshConnection]:
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as folder:
        socket, home = str(agent) if agent else None, Path(folder)
        client = OpensshClient(SshCall("ssh", config, socket, os.environ, home / "run", home / "programs"))
        connection = client.connect(settings, operator, secrets)
        try:
            yield connection
        finally:
            connection.close()
            client.close()


def output_of(transport: paramiko.Transport | OpensshConnection, command: str) -> str:
    """What COMMAND writes on the target."""
    if isinstance(transport, OpensshConnection):
        return run_on(transport, command).out.decode()
    channel = transport.open_session(timeout=20)
    channel.exec_command(command)
    with channel.makefile("rb") as stream:
        return bytes(stream.read()).decode()


def has_ended(transport: paramiko.Transport | OpensshConnection) -> bool:
    return not (transport.is_alive if isinstance(transport, OpensshConnection) else transport.is_active())


@contextlib.contextmanager
def running_agent(folder: Path, *keys: Path) -> Iterator[Path]:
    """A real ssh-agent that holds KEYS; its socket's path."""
    path = folder / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not path.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("ssh-agent does not listen")
            time.sleep(0.01)
        if keys:
            environment = {"SSH_AUTH_SOCK": str(path), "PATH": "/usr/bin:/bin"}
            subprocess.run(["ssh-add", "-q", *map(str, keys)], env=environment, check=True, capture_output=True)
        yield path
    finally:
        process.terminate()
        process.wait()

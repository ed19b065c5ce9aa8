"""What a connection to one host needs to know."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class HostKeyPolicy(StrEnum):
    """StrictHostKeyChecking: what an unknown host key leads to."""

    ASK = "ask"
    REFUSE = "yes"
    ACCEPT_NEW = "accept-new"
    ACCEPT = "no"


@dataclass(frozen=True)
class HostSettings:
    """Everything a connection to one host needs to know."""

    host: str
    """As the operator wrote it: an alias or a name."""
    hostname: str
    port: int
    user: str
    host_key_alias: str | None
    address_family: socket.AddressFamily
    bind_address: str | None
    connect_timeout_s: int | None
    connection_attempts: int
    methods: tuple[str, ...]
    """Authentication methods in the order to try them."""
    identity_files: tuple[Path, ...]
    certificate_files: tuple[Path, ...]
    identities_only: bool
    agent_socket: Path | None
    agent_absence: str
    """Why there is no agent_socket; empty where there is one."""
    password_prompts: int
    is_batch: bool
    """BatchMode: nobody is to be asked anything."""
    host_key_policy: HostKeyPolicy
    hash_known_hosts: bool
    user_known_hosts: tuple[Path, ...]
    global_known_hosts: tuple[Path, ...]
    revoked_host_keys: Path | None
    host_key_algorithms: tuple[str, ...]
    pubkey_algorithms: tuple[str, ...]
    ca_signature_algorithms: tuple[str, ...]
    ciphers: tuple[str, ...]
    macs: tuple[str, ...]
    key_exchanges: tuple[str, ...]
    min_rsa_bits: int
    keepalive_interval_s: int
    """ServerAliveInterval; 0 where the configuration sets none."""
    keepalive_max: int
    """ServerAliveCountMax: so many keepalives without an answer end the connection."""
    rekey_bytes: int
    """RekeyLimit; 0 leaves it to the library."""
    proxy_command: str | None
    jump: HostSettings | None
    """The host to go through, with its own settings."""
    unsupported: tuple[str, ...]
    """Settings of this host or a jump host that this transport can't serve."""
    shared_master: Path | None
    """Where a master of the operator's own listens (ControlPath), if it may be used."""
    destination: tuple[str, ...]
    """The host on ssh's command line, with a user and a port only where the target or the jump names them."""
    ssh_command: str
    """What to type to log in with ssh alone."""
    up_command: str
    """What to type to connect with reach at a terminal."""

    @property
    def account(self) -> str:
        return f"{self.user}@{self.host}"

    @property
    def label(self) -> str:
        """The host for a message: `box (10.0.0.1) port 22`."""
        return f"{_named(self.host, self.hostname)} port {self.port}"

    @property
    def known_hosts_name(self) -> str:
        """The name that the host has in known_hosts files."""
        if self.host_key_alias:
            return self.host_key_alias
        hostname = self.hostname.lower()
        return hostname if self.port == 22 else f"[{hostname}]:{self.port}"

    @property
    def known_hosts_files(self) -> tuple[Path, ...]:
        return self.user_known_hosts + self.global_known_hosts


def _named(host: str, hostname: str) -> str:
    return host if host.lower() == hostname.lower() else f"{host} ({hostname})"

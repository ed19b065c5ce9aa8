"""From a session's target to an authenticated connection: over the network, or to an embedded target."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from reach.errors import ConnectError
from reach.paths import Paths, ensure_private_dir
from reach.session import Session
from reach.ssh.operator import Operator
from reach.ssh.process import Connection
from reach.ssh.secrets import Secrets
from reach.target import Target, parse_target

if TYPE_CHECKING:
    from reach.ssh.embedded import EmbeddedTarget
    from reach.ssh.host_settings import HostSettings
    from reach.ssh.openssh_connect import OpensshClient
    from reach.ssh.transport_choice import TransportChoice

BUSY_PAUSES_S = (0.1, 0.3, 0.6, 1.2, 2.4)


class Connector:
    """Makes the connections of one session. What the operator answered once is kept in memory for the next one."""

    def __init__(self, paths: Paths, session: Session) -> None:
        self.target = parse_target(session.target)
        self._session = session
        self._secrets = Secrets()
        self._demo_state = paths.session_state(session.name)
        self._embedded: EmbeddedTarget | None = None
        self._lock = threading.Lock()
        self._runtime = paths.session_runtime(session.name)
        self._openssh: OpensshClient | None = None
        self.choice: TransportChoice | None = None
        """Which transport the last connection was made by, or tried with, and why."""

    def connect(self, operator: Operator) -> Connection:
        """Connect, asking a server that is too busy to say who it is again a few times.

        Raises: TransportError's kinds, ConfigError.
        """
        for pause_s in BUSY_PAUSES_S:
            try:
                return self._connect(operator)
            except ConnectError as error:
                if not error.may_pass:
                    raise
            time.sleep(pause_s * (0.5 + random.random()))  # brokers that were refused together come back apart
        return self._connect(operator)

    def _connect(self, operator: Operator) -> Connection:
        from reach.ssh.settings import resolve_settings
        from reach.ssh.transport_choice import choose_transport

        session = self._session
        if self.target.is_demo:
            embedded = self._embedded_target()
            config: Path | None = embedded.write_ssh_config(self._demo_state)
            agent = None
            settings = resolve_settings(Target(embedded.alias), config_file=config, agent_socket=None)
        else:
            config = Path(session.ssh_config) if session.ssh_config else None
            agent = session.ssh_agent_socket
            settings = resolve_settings(self.target, config_file=config, agent_socket=agent)
        self.choice = choose_transport(session.transport, settings)
        if self.choice.name == "openssh":
            client = self._openssh_client(self.choice.ssh, config, agent)
            return client.connect(settings, operator, self._secrets)
        return self._connect_paramiko(settings, operator)

    def _connect_paramiko(self, settings: HostSettings, operator: Operator) -> Connection:
        from reach.ssh.connect import connect
        from reach.ssh.keepalive import rule_for
        from reach.ssh.transport import InboxTransport, ParamikoConnection

        transport = connect(settings, operator, self._secrets, transport_class=InboxTransport)
        assert isinstance(transport, InboxTransport)
        return ParamikoConnection(transport, rule_for(settings))

    def _openssh_client(self, ssh: str, config: Path | None, agent: str | None) -> OpensshClient:
        from reach.ssh.openssh_connect import OpensshClient
        from reach.ssh.openssh_login import SshCall

        with self._lock:
            if self._openssh is None:
                programs = self._demo_state / "ssh"
                self._openssh = OpensshClient(SshCall(ssh, config, agent, os.environ, self._runtime, programs))
            return self._openssh

    def _embedded_target(self) -> EmbeddedTarget:
        from reach.ssh.embedded import start_embedded

        with self._lock:
            if self._embedded is None or self._embedded.process.poll() is not None:
                self._embedded = start_embedded(ensure_private_dir(self._demo_state / "target"))
            return self._embedded

    def close(self) -> None:
        with self._lock:
            if self._openssh is not None:
                self._openssh.close()
            if self._embedded is not None:
                self._embedded.close()
                self._embedded = None

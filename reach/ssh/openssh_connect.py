"""From settings to connections through the system's ssh, for one session."""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

from reach.errors import BrokerUnavailableError, TransportError
from reach.ssh.host_settings import HostSettings
from reach.ssh.keepalive import rule_for
from reach.ssh.openssh import OpensshConnection
from reach.ssh.openssh_askpass import AskpassSocket
from reach.ssh.openssh_login import Login, Master, SshCall, end_stale_masters, make_folder
from reach.ssh.openssh_mux import open_proxy
from reach.ssh.openssh_shared import SharedMaster
from reach.ssh.operator import Operator
from reach.ssh.secrets import Secrets


class OpensshClient:
    """Starts the masters of one session, whose runtime folder nobody else uses. Thread-safe."""

    def __init__(self, call: SshCall) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._logins: set[Login] = set()
        self._is_closed = False
        self._joining = threading.Lock()
        self._joined: OpensshConnection | None = None
        """Through a master of the operator's."""
        end_stale_masters(call.runtime)

    def connect(self, settings: HostSettings, operator: Operator, secrets: Secrets) -> OpensshConnection:
        """Have ssh connect to the host of SETTINGS, through its jump hosts, and log in; or use a connection that the
        operator shares (ControlPath), as the first one.

        What ssh asks goes to OPERATOR unless SECRETS know the answer.
        Raises: ConnectError, HostKeyUnknownError, HostKeyMismatchError, AuthenticationError, TransportError.
        """
        if settings.shared_master and (shared := self._join(settings.shared_master, settings)):
            return shared
        folder = make_folder(self._call.runtime)
        try:
            with contextlib.closing(AskpassSocket(folder / "a")) as askpass:
                master = self._log_in(Login(self._call, settings, operator, secrets, folder, askpass))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return OpensshConnection(
            master.proxy.socket, rule_for(settings), end_master=master.end, knows_eow=master.is_openssh_there
        )

    def _join(self, path: Path, settings: HostSettings) -> OpensshConnection | None:
        """A connection through the operator's master on PATH; None where that can't be, or is in use already."""
        with self._joining:
            if self._joined and self._joined.is_alive:
                return None
            try:
                proxy = open_proxy(path)
            except TransportError:
                return None
            self._joined = OpensshConnection(
                proxy.socket, rule_for(settings), shared=SharedMaster(path)
            )
            return self._joined

    def _log_in(self, login: Login) -> Master:
        try:
            with self._lock:
                if self._is_closed:
                    raise BrokerUnavailableError("the session is being taken down")
                self._logins.add(login)
            return login.run()
        except BaseException:
            login.abandon()
            raise
        finally:
            with self._lock:
                self._logins.discard(login)

    def close(self) -> None:
        """End every login that is under way, and begin no other. Connections are closed one by one."""
        with self._lock:
            self._is_closed = True
            logins = list(self._logins)
        for login in logins:
            login.kill()

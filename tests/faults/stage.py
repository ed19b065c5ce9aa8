"""A target, a network that can fail, and a session over them; every command run counts itself on the target."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from support.accounts import Account
from support.processes import is_dead
from support.proxy import Proxy
from support.session import ReachSession, wait_for
from support.sshd import Options, Sshd

KEEPALIVE: Options = {"ServerAliveInterval": 1, "ServerAliveCountMax": 2}
BOUND_S = 3.0
"""What KEEPALIVE allows a silent peer."""
HUNG_S = 45.0
"""A call that has not ended by then hangs."""
STATUS = 7
"""What every command ends with by itself."""

BOTH_TRANSPORTS = pytest.mark.parametrize("transport", ["paramiko", "openssh"], indirect=True)

_DID_NOT_RUN = re.compile(rb"did not run")
_MAY_HAVE_RUN = re.compile(rb"may have run|while it ran|after the command ended")


@dataclass
class Call:
    """One command through the shim, and what became of it."""

    number: int
    process: subprocess.Popen[bytes]
    started_s: float = field(default_factory=time.monotonic)
    outcome: str = ""
    """`result`, `did not run`, `may have run`, `hung`, or what was wrong."""
    said: bytes = b""
    out: bytes = b""
    took_s: float = 0.0


class Stage:
    """Brought up as a context; `tally` at its end says what is wrong with what was told of the calls."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        ssh_options: Options | None = None,
        delay_s: float = 0.0,
        server: Sshd | None = None,
        transport: str | None = None,
    ) -> None:
        self._options = options
        self._ssh_options = dict(ssh_options or {})
        self._delay_s = delay_s
        self._given = server
        self.transport = transport
        self._stack = ExitStack()
        self._numbers = iter(range(1, 1 << 30))
        self.calls: list[Call] = []

    def __enter__(self) -> Self:
        try:
            if self._given:
                self.server = self._given
            else:
                self.server = self._stack.enter_context(a_server(self._options))
            self.proxy = self._stack.enter_context(Proxy(("127.0.0.1", self.server.port), delay_s=self._delay_s))
            self.server.ssh_options = {
                **self._ssh_options,
                "Port": self.proxy.port,
                "HostKeyAlias": f"[127.0.0.1]:{self.server.port}",
            }
            self.server._write_ssh_config()
            folder = tempfile.mkdtemp(prefix="reach-count-", dir="/tmp")
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            os.chmod(folder, 0o1777)
            self.counter = Path(folder) / "runs"
            self.counter.touch()
            self.counter.chmod(0o666)
            self.session = self._stack.enter_context(ReachSession(self.server, transport=self.transport))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for call in self.calls:
            if not call.outcome:  # nobody waited for it
                call.process.kill()
                call.process.communicate()
        self.proxy.unfreeze()
        self._stack.close()

    # --- calls

    def call(self, then: str = "", **keywords: Any) -> Call:
        """Start a command that counts itself, does THEN and exits with STATUS."""
        number = next(self._numbers)
        command = f"echo {number} >>{self.counter}; {then}\nexit {STATUS}"
        call = Call(number, self.session.start(command, **keywords))
        self.calls.append(call)
        return call

    def finish(self, call: Call, *, within_s: float = HUNG_S) -> Call:
        """Wait for the end of CALL and say what it was told."""
        try:
            call.out, call.said = call.process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            call.process.kill()
            call.out, call.said = call.process.communicate()
            call.outcome = "hung"
        call.took_s = time.monotonic() - call.started_s
        call.outcome = call.outcome or _outcome_of(call)
        return call

    def run(self, then: str = "", **keywords: Any) -> Call:
        return self.finish(self.call(then, **keywords))

    def runs(self) -> Counter[int]:
        """How often each call ran, by its number."""
        return Counter(int(line) for line in self.counter.read_text().split())

    def wait_for_run(self, call: Call) -> None:
        wait_for(lambda: self.runs()[call.number], f"call {call.number} to run")

    def tally(self) -> Tally:
        return judge(self.calls, self.runs())

    # --- faults

    def end_connections(self, how: Callable[[], object] | None = None) -> None:
        """Cut the network, or do HOW, while no command runs, and wait until the broker knows: a command that it sends
        to a connection before that is lost with it, and no later one can be."""
        before = self.proxy.connections_total
        (how or self.proxy.cut)()
        wait_for(
            lambda: self.proxy.connections_total > before or not self.session.status()["connections"],
            "the broker to notice that its connections ended",
        )

    def kill_broker(self) -> int:
        """SIGKILL, waited for."""
        pid = self.session.broker_pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: is_dead(pid), "the broker's end")
        return pid

    def remote(self, *words: str) -> list[int]:
        return self.session.remote_pids(*words)


def a_server(options: Options | None = None) -> ServerWithAccount:
    return ServerWithAccount(options)


class ServerWithAccount:
    """A real sshd whose account has no start-up files: as root an account of its own, else the user's."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options
        self._stack = ExitStack()

    def __enter__(self) -> Sshd:
        account = self._stack.enter_context(Account()) if os.geteuid() == 0 else None
        server = Sshd(self._options, user=account.name if account else None)
        try:
            self._stack.enter_context(server)
        except BaseException:
            self._stack.close()
            raise
        return server

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _outcome_of(call: Call) -> str:
    code, said = call.process.returncode, call.said
    if code == STATUS:
        return "result"
    if code == 125 and _DID_NOT_RUN.search(said):
        return "did not run"
    if code == 125 and _MAY_HAVE_RUN.search(said):
        return "may have run"
    if code < 0:
        return f"signal {-code}"
    return f"exit code {code}: {said.decode(errors='replace').strip()[-200:]}"


@dataclass
class Tally:
    """What the calls were told, held against what ran."""

    outcomes: Mapping[str, int]
    hung: int
    run_twice: int
    lies: list[str]
    """A result without a run, or a run that was said not to be."""

    @property
    def is_clean(self) -> bool:
        return not (self.hung or self.run_twice or self.lies)


def judge(calls: list[Call], runs: Mapping[int, int]) -> Tally:
    lies = []
    for call in calls:
        count = runs.get(call.number, 0)
        if call.outcome == "result" and count != 1:
            lies.append(f"call {call.number} has a result and ran {count} times")
        if call.outcome == "did not run" and count:
            lies.append(f"call {call.number} is said not to have run, and did: {call.said!r}")
        if call.outcome.startswith("exit code"):
            lies.append(f"call {call.number} ended by neither: {call.outcome}")
    return Tally(
        outcomes=Counter(call.outcome for call in calls),
        hung=sum(call.outcome == "hung" for call in calls),
        run_twice=sum(count > 1 for count in runs.values()),
        lies=lies,
    )

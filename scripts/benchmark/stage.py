"""What is measured: a real sshd, a proxy that makes it distant, and on each way to it a reach session and an ssh
ControlMaster. Everything lies in one temporary folder and is gone afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmark.spawn import MeasurementError, median
from reach.probe.process import kill_all_with
from support.sshd import HOST_KEY_TYPES, Sshd

DELAY_MS = 25
"""Added each way by the proxy."""
START_TIMEOUT_S = 20.0
_T = TypeVar("_T")


@dataclass(frozen=True)
class Site:
    """One way to the target, with a session of reach's and a ControlMaster connected by it."""

    alias: str
    shim: str
    ssh: tuple[str, ...]
    """What to put before a command to run it by the ControlMaster."""
    cold_ssh: tuple[str, ...]
    """The same without a ControlMaster."""
    session: str
    socket: str


class Stage:
    """Use as a context manager; sites are set up when they are first asked for."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._kept: dict[str, Any] = {}
        self.folder = Path()

    def __enter__(self) -> Self:
        try:
            self.folder = Path(self._stack.enter_context(_temporary_folder()))
            self._stack.callback(kill_all_with, str(self.folder))  # last, for what was interrupted
            keys = self.folder / "target"
            keys.mkdir()
            self.sshd = self._stack.enter_context(Sshd({"MaxSessions": 10}, folder=keys))
            self._stack.callback(self._down)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, argv: list[str], **keywords: Any) -> subprocess.Popen[bytes]:
        """Start a program that ends with this stage at the latest."""
        process = subprocess.Popen(argv, **keywords)
        self._stack.callback(_end, process)
        return process

    @cached_property
    def environment(self) -> dict[str, str]:
        """The operator's, with a state of its own for reach."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("REACH_", "PYTHON", "SSH_AUTH"))}
        return kept | {"REACH_HOME": str(self.folder / "reach"), "REACH_SSH_CONFIG": str(self.ssh_config)}

    @cached_property
    def distant_port(self) -> int:
        return self._distant(self.sshd.port)

    def _distant(self, port: int) -> int:
        """PORT by way of a proxy of its own."""
        argv = [sys.executable, "-m", "support.proxy", "--to", f"127.0.0.1:{port}", "--delay-ms", str(DELAY_MS)]
        proxy = self.start(argv, stdout=subprocess.PIPE)
        assert proxy.stdout is not None
        return int(json.loads(proxy.stdout.readline())["port"])

    @cached_property
    def round_trip_ms(self) -> float:
        """What a byte through such a proxy and back really takes, between two ends that do nothing else."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with socket.create_connection(("127.0.0.1", self._distant(listener.getsockname()[1]))) as near:
                far, _ = listener.accept()
                with far:
                    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    return median([_there_and_back_ms(near, far) for _ in range(15)])

    @cached_property
    def ssh_config(self) -> Path:
        """The target under two names: `near` and, through the proxy, `far`."""
        known_hosts = self.folder / "known_hosts"
        ports = {"near": self.sshd.port, "far": self.distant_port}
        keys = [self.sshd.host_key_line(kind).split(" ", 1)[1] for kind in HOST_KEY_TYPES]
        known_hosts.write_text("".join(f"[127.0.0.1]:{port} {key}\n" for port in ports.values() for key in keys))
        config = self.folder / "ssh_config"
        common = (
            f"  HostName 127.0.0.1\n  User {self.sshd.user}\n  IdentityFile {self.sshd.client_key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n"
        )
        config.write_text("".join(f"Host {name}\n  Port {port}\n{common}" for name, port in ports.items()))
        return config

    @cached_property
    def near(self) -> Site:
        return self._site("near")

    @cached_property
    def far(self) -> Site:
        return self._site("far")

    def _site(self, alias: str) -> Site:
        cold, control = (_program("ssh"), "-F", str(self.ssh_config)), self.folder / f"control-{alias}"
        # -q: it complains of every session that MaxSessions refuses
        master = self.start([*cold, "-qMN", "-S", str(control), alias], stdin=subprocess.DEVNULL)
        self.reach("up", alias)
        _wait_for(control, master)
        wiring = json.loads(self.reach("env", "--session", alias, "--json"))
        return Site(
            alias=alias,
            shim=f"{wiring['shim_dir']}/bash",
            ssh=(*cold, "-S", str(control), alias),
            cold_ssh=(*cold, "-o", "ControlPath=none", alias),
            session=alias,
            socket=wiring["socket"],
        )

    def another(self, alias: str, session: str) -> Site:
        """The site ALIAS with a new session of reach's."""
        self.reach("up", alias, "--name", session)
        wiring = json.loads(self.reach("env", "--session", session, "--json"))
        site = self.near if alias == "near" else self.far
        return replace(site, session=session, shim=f"{wiring['shim_dir']}/bash", socket=wiring["socket"])

    def kept(self, name: str, make: Callable[[Stage], _T]) -> _T:
        """What MAKE made of this stage when NAME was first asked for."""
        if name not in self._kept:
            self._kept[name] = make(self)
        found: _T = self._kept[name]
        return found

    @cached_property
    def reach_program(self) -> str:
        return str(Path(sys.executable).with_name("reach"))

    def reach(self, *arguments: str) -> str:
        """Run reach itself and return what it printed. Raises: MeasurementError."""
        done = subprocess.run(
            [self.reach_program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise MeasurementError(f"reach {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def _down(self) -> None:
        subprocess.run(
            [self.reach_program, "down", "--all"], env=self.environment, capture_output=True, stdin=subprocess.DEVNULL
        )

    def broker_pid(self, session: str) -> int:
        """The process that holds the session's connection."""
        (found,) = json.loads(self.reach("status", session, "--json"))
        return int(found["broker"]["pid"])


def _there_and_back_ms(near: socket.socket, far: socket.socket) -> float:
    began = time.perf_counter()
    near.sendall(b".")
    far.sendall(far.recv(1))
    near.recv(1)
    return (time.perf_counter() - began) * 1000


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="reach-bench-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str:
    path = shutil.which(name)
    if not path:
        raise MeasurementError(f"{name} is missing: install Debian's openssh-client")
    return path


def _wait_for(control: Path, master: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not control.exists():
        if master.poll() is not None or time.monotonic() > deadline:
            raise MeasurementError("ssh's ControlMaster did not come up")
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

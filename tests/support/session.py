"""A real reach session against a test's sshd: its broker, its shim, and the proof that nothing of it is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Self

from reach.broker.audit import AuditEntry, load_entries
from reach.broker.client import ask_broker
from reach.broker.lifecycle import ensure_running, is_running, stop_broker
from reach.broker.shim_folder import install_shim
from reach.paths import Paths
from reach.session import SessionStore
from reach.session.launch import Launch, create_launch, launch_folder, new_launch_id
from reach.ssh.operator import NobodyThere
from reach.target import parse_target
from reach.wire.frames import Operation
from support.sshd import Sshd

WAIT_S = 20.0
Done = subprocess.CompletedProcess[bytes]


def wait_for(is_so: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> Any:
    """Poll until IS_SO gives something true; return that. Raises: TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not (found := is_so()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(0.01)
    return found


@contextmanager
def quiet_sshd(options: Mapping[str, object] | None = None, **keywords: Any) -> Iterator[Sshd]:
    """An sshd whose accounts have an empty home of their own: no start-up file of this machine's runs there."""
    home = Path(tempfile.mkdtemp(prefix="reach-home-"))
    home.chmod(0o755)
    try:
        with Sshd({"SetEnv": f"HOME={home}", **(options or {})}, **keywords) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


class LaunchedShim:
    """The shim of one launch, and what a harness started by it would run with."""

    def __init__(self, launch: Launch, bash: Path, workspace: Path, environment: dict[str, str]) -> None:
        self.launch = launch
        self.bash = bash
        self.workspace = workspace
        self.environment = environment


class ReachSession:
    """Brought up with a REACH_HOME of its own; close() ends it and asserts that nothing is left."""

    def __init__(
        self, server: Sshd, *, folder: str | None = None, name: str = "t", transport: str | None = None
    ) -> None:
        """TRANSPORT as `reach up --transport` takes it; REACH_TEST_TRANSPORT where none is given."""
        self.server = server
        self.transport = transport or os.environ.get("REACH_TEST_TRANSPORT", "auto")
        self.home = Path(tempfile.mkdtemp(prefix="rs-", dir="/tmp"))
        self.paths = Paths(self.home / "state", self.home / "data", self.home / "cache", self.home / "run")
        self.name = name
        spelling = f"{server.alias}:{folder}" if folder else server.alias
        self.target = parse_target(spelling)
        self.shim_folder = self.home
        self.facts: dict[str, Any] = {}

    def up(self) -> Self:
        store = SessionStore(self.paths)
        session = store.bind(self.target, self.name)
        store.save(replace(session, ssh_config=str(self.server.config), transport=self.transport))
        self._start_broker()
        self.facts = ensure_running(self.paths, self.name, NobodyThere())
        self.shim_folder = install_shim(self.paths, self.name)
        return self

    def _start_broker(self) -> None:
        """As a shim does it: the broker must not be a child of this process, which would have to reap it."""
        paths = self.paths
        roots = [str(root) for root in (paths.state, paths.data, paths.cache, paths.runtime)]
        code = (
            f"import sys; sys.path[:] = {[entry for entry in sys.path if entry]!r}; "
            f"from reach.broker.start import main; main({self.name!r}, {roots!r})"
        )
        subprocess.run([sys.executable, "-I", "-c", code], check=True, stdin=subprocess.DEVNULL, capture_output=True)

    @property
    def bash(self) -> Path:
        """The session's own shim."""
        return self.shim_folder / "bash"

    @property
    def broker_pid(self) -> int:
        pid: int = self.status()["pid"]
        return pid

    def status(self) -> dict[str, Any]:
        return ask_broker(self.paths, self.name, Operation.STATUS)

    def launch(
        self,
        *,
        workspace: Path | None = None,
        environment: Mapping[str, str] | None = None,
        extra_env: Mapping[str, str] | None = None,
        keeps_folders: bool = False,
        local_hooks: bool = False,
    ) -> LaunchedShim:
        """Record a launch as `reach gemini` does, and install its shim. ENVIRONMENT is the harness's own."""
        folder = workspace or self.home / "workspace"
        folder.mkdir(exist_ok=True)
        launch_id = new_launch_id()
        bin_folder = launch_folder(self.paths, self.name, launch_id) / "bin"
        env = {"HOME": str(self.home), "LANG": "C.UTF-8", **(environment or {})}
        env["PATH"] = f"{bin_folder}:/usr/local/bin:/usr/bin:/bin"
        launch = create_launch(
            self.paths,
            self.name,
            harness="gemini",
            workspace=folder,
            environment={os.fsencode(k): os.fsencode(v) for k, v in env.items()},
            extra_env=extra_env,
            keeps_folders=keeps_folders,
            local_hooks=local_hooks,
            launch_id=launch_id,
        )
        return LaunchedShim(launch, install_shim(self.paths, self.name, launch_id) / "bash", folder, env)

    def argv(self, *arguments: str | bytes, shim: LaunchedShim | None = None) -> list[str | bytes]:
        return [str(shim.bash if shim else self.bash), *arguments]

    def run(
        self,
        command: str | bytes,
        *arguments: str | bytes,
        shim: LaunchedShim | None = None,
        input: bytes | None = None,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        env: Mapping[Any, Any] | None = None,
        cwd: Path | bytes | None = None,
        options: Sequence[str | bytes] = ("-c",),
        timeout_s: float = 60.0,
    ) -> Done:
        """Run `bash -c COMMAND ARGUMENTS` through the shim."""
        if env is None:
            env = shim.environment if shim else {"PATH": "/usr/bin:/bin", "HOME": "/"}
        return subprocess.run(
            self.argv(*options, command, *arguments, shim=shim),
            **({"input": input} if input is not None else {"stdin": stdin}),
            capture_output=True,
            env=env,
            cwd=cwd or (shim.workspace if shim else self.home),
            timeout=timeout_s,
        )

    def start(self, command: str | bytes, *, shim: LaunchedShim | None = None, **keywords: Any) -> Any:
        """The same without waiting: a Popen with pipes."""
        defaults: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": shim.environment if shim else {"PATH": "/usr/bin:/bin", "HOME": "/"},
            "cwd": shim.workspace if shim else self.home,
        }
        return subprocess.Popen(self.argv("-c", command, shim=shim), **(defaults | keywords))

    def audit(self) -> list[AuditEntry]:
        return load_entries(self.paths.audit_log(self.name))

    def broker_log(self) -> str:
        path = self.paths.session_state(self.name) / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def remote_pids(self, *words: str) -> list[int]:
        """Processes on the target whose command line holds WORDS as neighbouring arguments."""
        wanted = "\0".join(words).encode() + b"\0"
        return [pid for pid in self.server.pids() if (b"\0" + _command_line(pid)).find(b"\0" + wanted) >= 0]

    def local_pids(self) -> list[int]:
        """Processes of this machine whose command line names this session's files."""
        return [pid for pid in _all_pids() if os.fsencode(str(self.home)) in _command_line(pid)]

    def down(self) -> None:
        stop_broker(self.paths, self.name)

    def close(self) -> None:
        """End the session. Raises: AssertionError when a process or a socket of it is left."""
        try:
            self.down()
            assert not is_running(self.paths, self.name)
            assert not self.paths.socket(self.name).exists()
            left = self.local_pids()
            assert not left, [_command_line(pid) for pid in left]
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.up()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def descriptors_of(pid: int) -> list[str]:
    """What each descriptor of process PID is."""
    folder = Path(f"/proc/{pid}/fd")
    found = []
    for entry in folder.iterdir():
        try:
            found.append(os.readlink(entry))
        except OSError:
            continue
    return found


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

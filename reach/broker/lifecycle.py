"""Starting and ending a session's broker."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from reach.broker.client import ask_broker, connect_broker
from reach.broker.listener import LOCK_POLL_S, read_lock_holder
from reach.errors import BrokerUnavailableError
from reach.paths import Paths, ensure_private_dir, operator_home
from reach.session import SessionStore
from reach.ssh.operator import Operator
from reach.wire.frames import Operation
from shim.local_shell import is_shim

START_TIMEOUT_S = 15.0
END_TIMEOUT_S = 20.0
"""More than a broker takes on a busy machine where the target is silent: it gives its commands, its connections and
its children some seconds each."""
MAX_LOG_BYTES = 4 << 20


def is_running(paths: Paths, session: str) -> bool:
    try:
        connect_broker(paths, session).close()
    except BrokerUnavailableError:
        return False
    return True


def ensure_running(paths: Paths, session: str, operator: Operator) -> dict[str, Any]:
    """Have SESSION's broker up and connected; OPERATOR answers what that needs.

    Returns what the target said of itself: hostname, folder, login_shell, shell, login_shell_failed.
    Raises: BrokerUnavailableError, SessionNotFoundError, TransportError's kinds.
    """
    start_broker(paths, session)
    return ask_broker(paths, session, Operation.UP, operator)


def start_broker(paths: Paths, session: str) -> None:
    """Have a broker process serve SESSION, connected or not.

    Raises: BrokerUnavailableError when it does not come up, naming its log; SessionNotFoundError.
    """
    if is_running(paths, session):
        return
    SessionStore(paths).load(session)
    ensure_private_dir(paths.runtime)
    deadline = time.monotonic() + START_TIMEOUT_S
    with _starting_alone(ensure_private_dir(paths.session_runtime(session)) / "starting", deadline):
        if not is_running(paths, session):
            _launch(paths, session)


@contextlib.contextmanager
def _starting_alone(path: Path, deadline: float) -> Iterator[None]:
    """Let one caller at a time start a broker: thirty commands at once should not start thirty."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:  # whoever holds it hangs; a second broker would end at once
                    break
            time.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(lock)


def _launch(paths: Paths, session: str) -> None:
    log_path = paths.session_state(session) / "broker.log"
    reader, writer = os.pipe()
    roots = [str(root) for root in (paths.state, paths.data, paths.cache, paths.runtime)]
    # A child of a child: the broker outlives whoever starts it, and must not stay behind as its zombie.
    code = (
        "import os, sys\n"
        "if os.fork(): os._exit(0)\n"
        f"sys.path[:] = {[entry for entry in sys.path if entry]!r}\n"
        f"from reach.broker.start import serve; serve({session!r}, {roots!r}, {writer})"
    )
    try:
        with _open_log(log_path) as log:
            subprocess.run(
                [sys.executable, "-I", "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                start_new_session=True,
                cwd="/",
                env=_environment(),
                check=False,
            )
    finally:
        os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], START_TIMEOUT_S)
        said = os.read(reader, 1) if ready else b""
    finally:
        os.close(reader)
    if not said and not is_running(paths, session):  # another one may have been faster
        raise BrokerUnavailableError(f"the broker of session {session!r} did not come up", fix=f"see {log_path}")


def _open_log(path: Path) -> IO[bytes]:
    """The broker's log, begun anew where it grew long; no log at all where the folder can't be written."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return open(os.devnull, "wb")
    if os.fstat(handle).st_size > MAX_LOG_BYTES:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
    return open(handle, "wb")


def _environment() -> dict[str, str]:
    """The broker's own: nothing on PATH that would send the commands of ssh_config back to it."""
    environment = {k: v for k, v in os.environ.items() if k not in ("BASH_ENV", "ENV", "PYTHONPATH", "PYTHONHOME")}
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(f for f in folders if not is_shim(os.path.join(f or ".", "bash")))
    if is_shim(environment.get("SHELL", "")):
        del environment["SHELL"]  # ssh_config's commands are run by it
    environment["HOME"] = str(operator_home())
    return environment


def stop_broker(paths: Paths, session: str) -> bool:
    """End SESSION's broker and wait until it has let go; False when none was running.

    Raises: BrokerUnavailableError when it does not end.
    """
    try:
        pid = ask_broker(paths, session, Operation.DOWN)["pid"]
    except BrokerUnavailableError:
        if not is_running(paths, session):
            return False
        pid = read_lock_holder(paths, session)  # it takes connections, and answers none
    if pid is None or not _wait_for_end(pid, END_TIMEOUT_S):
        raise BrokerUnavailableError(
            f"the broker of session {session!r} (process {pid or 'unknown'}) does not end",
            fix=f"type: kill -9 {pid}" if pid else None,
        )
    return True


def _wait_for_end(pid: int, timeout_s: float) -> bool:
    """Whether the process ended in time. One that nobody has waited for yet counts as ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (OSError, AttributeError):
        return _poll_for_end(pid, timeout_s)
    try:
        return bool(select.select([handle], [], [], timeout_s)[0])
    finally:
        os.close(handle)


def _poll_for_end(pid: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False

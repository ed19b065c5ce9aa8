"""Starting an ssh master: from its settings to a process that is logged in and listens."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from reach.errors import AuthenticationError, ReachError, TransportError
from reach.paths import ensure_private_dir
from reach.ssh.host_settings import HostSettings
from reach.ssh.openssh_argv import DEFAULT_CONNECT_TIMEOUT_S, master_argv, ssh_environment
from reach.ssh.openssh_askpass import AskpassSocket, Question, install_askpass
from reach.ssh.openssh_attempts import Answers
from reach.ssh.openssh_failure import login_error
from reach.ssh.openssh_mux import ProxySocket, end_master, open_proxy
from reach.ssh.openssh_prompts import Prompts
from reach.ssh.openssh_transcript import Transcript
from reach.ssh.operator import Operator
from reach.ssh.secrets import Secrets

MAX_SOCKET_PATH_BYTES = 84
"""ssh listens under a longer name first: 17 bytes more, and AF_UNIX paths end at 104 or 108."""
_LONGEST_IN_FOLDER = len("/ssh-xxxxxxxx/m")
MARKS_QUESTIONS = (8, 5)
"""The version of OpenSSH since which a server's questions can be told from ssh's own."""
END_TIMEOUT_S = 2.0
PROXY_GRACE_S = 0.5


@dataclass(frozen=True)
class SshCall:
    """How ssh is called for one session."""

    ssh: str
    """The program."""
    config_file: Path | None
    """In place of the usual ones."""
    agent_socket: str | None
    """SSH_AUTH_SOCK."""
    environment: Mapping[str, str]
    runtime: Path
    """Where sockets may lie, each master's in a folder of its own."""
    programs: Path
    """A folder of ours from which programs can be run."""


class Master:
    """A master of our own: in the background, logged in, in a session and with a folder of its own."""

    def __init__(self, folder: Path, group: int, stderr: IO[bytes], proxy: ProxySocket, is_openssh_there: bool) -> None:
        self.proxy = proxy
        self.is_openssh_there = is_openssh_there
        self._folder = folder
        self._group = group
        """The process group that ssh was started in: what it started as proxies is still in it."""
        self._ending = threading.Lock()
        self._has_ended = False
        try:
            self._handle = os.pidfd_open(proxy.master_pid)
        except (OSError, AttributeError):
            self._handle = -1
        threading.Thread(target=_drain, args=(stderr,), name="openssh-stderr", daemon=True).start()

    def end(self) -> None:
        """Kill it, and its proxies, and remove its folder. May be called twice: whoever comes second waits too, since a
        broker that ends would take along the thread that came first."""
        with self._ending:
            if not self._has_ended:
                self._has_ended = True
                self._end()

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self.proxy.master_pid, signal.SIGKILL)
        if self._handle >= 0:
            select.select([self._handle], [], [], END_TIMEOUT_S)
            os.close(self._handle)
        _end_group(self._group)
        shutil.rmtree(self._folder, ignore_errors=True)


def _end_group(group: int) -> None:
    """End what ssh started as proxies: they see the end of their input, then a signal, then another."""
    deadline = time.monotonic() + PROXY_GRACE_S
    try:
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline:
            time.sleep(0.005)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _drain(stderr: IO[bytes]) -> None:
    """Read what ssh says until it ends: a full pipe would stop it."""
    with stderr, contextlib.suppress(OSError):
        while os.read(stderr.fileno(), 1 << 16):
            pass


def end_stale_masters(runtime: Path) -> None:
    """End the masters of a reach that was killed; for who alone uses RUNTIME."""
    for folder in runtime.glob("ssh-*") if runtime.is_dir() else ():
        end_master(folder / "m")
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(runtime: Path) -> Path:
    if len(os.fsencode(runtime)) + _LONGEST_IN_FOLDER > MAX_SOCKET_PATH_BYTES:
        return Path(tempfile.mkdtemp(prefix="reach-ssh-", dir="/tmp"))
    ensure_private_dir(runtime.parent)
    return Path(tempfile.mkdtemp(prefix="ssh-", dir=ensure_private_dir(runtime)))


class Login:
    """One ssh, from its start until it went into the background or ended."""

    def __init__(
        self,
        call: SshCall,
        settings: HostSettings,
        operator: Operator,
        secrets: Secrets,
        folder: Path,
        askpass: AskpassSocket,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._operator = operator
        self._prompts = Prompts(settings, operator, secrets)
        self.transcript = Transcript()
        self._askpass = askpass
        self._pending: list[Question] = []
        """Questions that ssh itself ends: a touch of a security key."""
        self._quiet_s = 60.0 + 2 * (settings.connect_timeout_s or DEFAULT_CONNECT_TIMEOUT_S)
        """So long ssh says nothing only when it hangs."""
        program = install_askpass(call.programs)
        self.process = subprocess.Popen(
            master_argv(call.ssh, settings, call.config_file, folder / "m"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ssh_environment(call.environment, call.agent_socket, program, folder / "a"),
            cwd="/",
            start_new_session=True,
        )
        assert self.process.stdout
        assert self.process.stderr
        self._stdout, self.stderr = self.process.stdout, self.process.stderr

    def run(self) -> Master:
        """Wait until ssh has logged in and gone into the background.

        Raises: ConnectError, HostKeyUnknownError, HostKeyMismatchError, AuthenticationError, TransportError.
        """
        given_up = self._watch()
        for question in self._pending:
            question.answer(None)
        if given_up is None and self.process.wait() == 0:
            self._stdout.close()
            self._prompts.keep()
            self._tell()
            proxy = open_proxy(self._folder / "m")
            return Master(self._folder, self.process.pid, self.stderr, proxy, self.transcript.is_openssh_there)
        if given_up is not None:
            raise given_up
        self._tell()
        raise self._failed(self.process.returncode)

    def _failed(self, exit_code: int | None) -> ReachError:
        prompts, settings = self._prompts, self._settings
        if prompts.expired:
            return AuthenticationError(
                f"the password of {prompts.expired} has expired", fix=f"change it with: {settings.ssh_command}"
            )
        answers = Answers(prompts.unanswered, prompts.tried_files)
        error = login_error(self.transcript.lines, settings, answers, exit_code)
        if isinstance(error, AuthenticationError):
            prompts.forget()
        return error

    def _watch(self) -> ReachError | None:
        """Serve ssh until its standard output ends; what there is to say where it was given up before."""
        poller = select.poll()
        streams = (self._stdout, self.stderr, self._askpass)
        for each in streams:
            poller.register(each.fileno(), select.POLLIN)
        deadline = time.monotonic() + self._quiet_s
        while (left_s := deadline - time.monotonic()) > 0:
            for ready, _ in poller.poll(left_s * 1000):
                deadline = time.monotonic() + self._quiet_s
                if ready == self._askpass.fileno():
                    if not self._serve_question():
                        return self._failed(None)
                    deadline = time.monotonic() + self._quiet_s
                elif ready == self.stderr.fileno():
                    if not self._read_stderr():
                        poller.unregister(ready)
                elif not os.read(ready, 4096):
                    self._read_what_is_left()
                    return None
        last = self.transcript.lines[-1] if self.transcript.lines else "its start"
        return TransportError(f"connecting to {self._settings.label}: no answer in time; ssh hung after {last!r}")

    def _serve_question(self) -> bool:
        question = self._askpass.read_question()
        if question is None:
            return True
        self._read_what_is_left()
        self._tell()
        self._prompts.tells_askers_apart = self.transcript.ssh_version >= MARKS_QUESTIONS
        if question.kind == "none":
            self._pending.append(question)
        return self._prompts.answer(question)

    def _read_stderr(self) -> bool:
        data = os.read(self.stderr.fileno(), 1 << 16)
        self.transcript.feed(data)
        return bool(data)

    def _read_what_is_left(self) -> None:
        """What ssh said before it asked, or ended: the background process keeps the pipe open."""
        poller = select.poll()
        poller.register(self.stderr.fileno(), select.POLLIN)
        while poller.poll(0) and self._read_stderr():
            pass

    def _tell(self) -> None:
        if news := self.transcript.news():
            self._operator.tell(news)

    def kill(self) -> None:
        """End ssh and its proxies, wherever they are with it; `run` then fails. For any thread."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def abandon(self) -> None:
        """Kill it and clear away what it had. For the thread that runs it."""
        self.kill()
        self.process.wait()
        end_master(self._folder / "m")
        self.stderr.close()
        self._stdout.close()

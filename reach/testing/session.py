"""A session for one test: commands, an environment to start things in, launches and verification."""

from __future__ import annotations

import functools
import os
import secrets
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from reach.broker.audit import AuditEntry, load_entries
from reach.broker.captured import run_captured
from reach.broker.lifecycle import ensure_running
from reach.broker.shim_folder import install_shim
from reach.errors import HarnessError, ReachError, SessionNotFoundError
from reach.harness.choice import choose_binary, parse_harness_name
from reach.paths import Paths
from reach.probe.process import HarnessProcess
from reach.session import SessionStore
from reach.ssh.operator import NobodyThere
from reach.target import parse_target
from reach.testing.home import end_session
from reach.testing.target import LiveTarget

if TYPE_CHECKING:
    from reach.probe.result import ProbeResult

LAUNCH_TIMEOUT_S = 300.0
"""A first launch verifies the harness before it starts it."""
_REACH = (sys.executable, "-P", "-c", "from reach.cli import main; main()")

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def _blaming_the_caller(method: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """METHOD, whose ReachErrors pytest shows at the line of the test that called it, and not where in reach they arose.

    They stay what they are, for tests that expect one.
    """

    @functools.wraps(method)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        __tracebackhide__ = True
        try:
            return method(*args, **kwargs)
        except ReachError as error:
            problem = error
        problem.__cause__ = problem.__context__ = None
        raise problem.with_traceback(None)

    return call


@dataclass(frozen=True)
class Result:
    """A finished command on the target."""

    stdout: str
    stderr: str
    exit_status: int | None
    """None when a signal ended it."""


@dataclass(frozen=True)
class Finished:
    """A finished harness on this machine."""

    stdout: str
    """Its end, where it was more than 64 KiB; likewise stderr."""
    stderr: str
    exit_code: int


class LiveSession:
    """A session that is up, below a REACH_HOME that nobody else uses."""

    def __init__(self, home: Path, target: LiveTarget, name: str) -> None:
        self.home = home
        """The REACH_HOME."""
        self.target = target
        self.name = name
        self.paths = Paths.below(home)
        self.hostname = ""
        """What the target calls itself."""
        self.folder = ""
        """Where commands run on the target."""
        self.shim_dir = home
        """The folder whose `bash` runs commands on the target."""

    def up(self) -> None:
        """Connect. Raises: TransportError's kinds: a question of the target's has nobody to answer it."""
        store = SessionStore(self.paths)
        session = store.bind(parse_target(self.target.spelling), self.name)
        current = replace(
            session,
            ssh_config=str(self.target.ssh_config) if self.target.ssh_config else None,
            ssh_agent_socket=None if self.target.is_embedded else os.environ.get("SSH_AUTH_SOCK") or None,
        )
        store.save(current)
        facts = ensure_running(self.paths, self.name, NobodyThere())
        self.hostname, self.folder = facts["hostname"], facts["folder"]
        self.shim_dir = install_shim(self.paths, self.name)

    def close(self) -> None:
        """End it, and every process that was started through its shims."""
        with suppress(SessionNotFoundError):
            end_session(self.paths, self.name)

    @_blaming_the_caller
    def run(self, command: str, *, timeout_s: float = 60.0) -> Result:
        """Run COMMAND on the target, in the session's folder, without input.

        Raises: BrokerUnavailableError when reach could not run it or it took longer than TIMEOUT_S.
        """
        captured = run_captured(self.paths, self.name, command, timeout_s)
        return Result(_text(captured.stdout), _text(captured.stderr), captured.exit_status)

    @property
    def environment(self) -> dict[str, str]:
        """This process's, changed so that the `bash` on PATH runs commands on the target and `reach` knows the session.

        Whatever is started with it ends with the session.
        """
        environment = {name: value for name, value in os.environ.items() if name not in ("BASH_ENV", "ENV")}
        environment["PATH"] = os.pathsep.join([str(self.shim_dir), environment.get("PATH", os.defpath)])
        environment["REACH_HOME"] = str(self.home)
        if self.target.ssh_config:
            environment["REACH_SSH_CONFIG"] = str(self.target.ssh_config)
        return environment

    @_blaming_the_caller
    def verify(
        self, harness: str = "gemini", *, binary: Path | None = None, checks: Collection[str] | None = None
    ) -> ProbeResult:
        """Verify HARNESS, a NAME or NAME@VERSION: BINARY, or the one that `reach harness verify` would take.

        Raises: HarnessNotFoundError; ConfigError for a name or check that there isn't.
        """
        from reach.probe.guard import remember
        from reach.probe.verify import verify

        kind, _ = parse_harness_name(harness)
        program = _program(harness, binary)
        result = verify(self.paths, self.name, kind, program, NobodyThere(), checks=checks)
        remember(self.paths, kind, program, result)
        return result

    @_blaming_the_caller
    def launch(
        self,
        harness: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        binary: Path | None = None,
        timeout_s: float = LAUNCH_TIMEOUT_S,
    ) -> Finished:
        """Do what `reach HARNESS -- ARGUMENTS` does in this session, guard included, and wait for its end.

        HARNESS and BINARY are as for `verify`. ENVIRONMENT is added to the session's.

        Raises: HarnessNotFoundError; HarnessError when it has not ended within TIMEOUT_S.
        """
        kind, _ = parse_harness_name(harness)
        options = ["--session", self.name, "--binary", str(_program(harness, binary))]
        argv = [*_REACH, kind.name, *options, "--", *arguments]
        token = secrets.token_hex(16)
        env = {**self.environment, **(environment or {}), "REACH_TEST_LAUNCH": token}
        with HarnessProcess(argv, env=env, cwd=self.home, token=token) as process:
            ended = process.wait(timeout_s)
        if ended.timed_out:
            raise HarnessError(f"{kind.title} {ended.how}: {ended.last_words}")
        return Finished(_text(ended.stdout), _text(ended.stderr), ended.exit_code)

    @property
    def audit_log(self) -> list[AuditEntry]:
        """What was run on the target in this session, oldest first."""
        return load_entries(self.paths.audit_log(self.name))


def _program(harness: str, binary: Path | None) -> Path:
    """Installed ones are looked for where the operator's own `reach` puts them."""
    kind, version = parse_harness_name(harness)
    return choose_binary(kind, Paths.from_environment(), os.environ, explicit=binary, version=version)


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")

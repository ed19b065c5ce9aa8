"""One agent turn with a scripted model: what a person sees of the main job without a key."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mock_server import MockServer, Script, Turn
from reach.broker.audit import AuditEntry, load_entries
from reach.errors import HarnessError
from reach.harness.base import Harness
from reach.harness.binary import read_version
from reach.paths import Paths
from reach.probe.script import ShellResult, script_for
from reach.probe.stage import Stage
from reach.session import Session
from reach.ssh.remote_text import printable

TURN_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Demonstration:
    """A finished turn."""

    answer: str
    """What the harness printed at its end; the scripted model's words."""
    results: list[ShellResult]
    """What each command's result was, as the harness reported it to the model."""
    entries: list[AuditEntry]
    """The audit log's lines of this turn."""


def demonstrate(
    paths: Paths,
    session: Session,
    harness: Harness,
    binary: Path,
    *,
    prompt: str,
    commands: Sequence[str],
    closing: str,
    environment: dict[str, str],
) -> Demonstration:
    """Launch HARNESS in SESSION with a model that runs COMMANDS one after another and then says CLOSING.

    Raises: HarnessError when the harness does not get to the end.
    """
    probe_script = script_for(harness.name)
    version = read_version(harness, binary, environment)
    turns = [Turn(calls=[probe_script.shell(command, version)]) for command in commands]
    before = len(load_entries(paths.audit_log(session.name)))
    with MockServer(Script(turns=turns, closing=Turn(text=closing)), dialect=probe_script.dialect) as mock:
        stage = Stage(
            paths,
            session,
            harness,
            binary=binary,
            mock_url=mock.url,
            prompt=prompt,
            nonce=secrets.token_hex(8),
            extra_env={},
            environment=environment,
        )
        with stage, stage.start() as process:
            ended = process.wait(TURN_TIMEOUT_S)
        results = [
            probe_script.read_shell_result(response.text)
            for request in mock.requests
            for response in request.reading.new_function_responses
        ]
    if ended.exit_code != 0 or len(results) < len(commands):
        raise HarnessError(f"{harness.title} {ended.how} before the turn was over: {ended.last_words}")
    answer = printable(ended.stdout, lines=True).strip()
    return Demonstration(answer, results, load_entries(paths.audit_log(session.name))[before:])

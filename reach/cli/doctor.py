"""`reach doctor`: what works, what degrades, and what to do about it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reach.paths import Paths
    from reach.session import Session

OK, DEGRADED, BAD = "ok", "degraded", "bad"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    about: str
    state: str
    found: str
    todo: str = ""


@click.command("doctor")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def doctor(name: str | None, as_json: bool) -> None:
    """Look at this machine, and at session NAME (or every session that is up): what works, what degrades, what to do.
    A session that is down is connected only where it is named.

    The exit code is 1 when something is bad.
    """
    from reach.cli.show import console, table
    from reach.paths import Paths
    from reach.session import SessionStore

    paths = Paths.from_environment()
    store = SessionStore(paths)
    findings = [*_this_machine(paths), *_harnesses(paths)]
    for session in [name] if name else store.names():
        findings += _session(paths, store.load(session)) if name else _guarded_session(paths, store, session)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        rows = [[f.about, f.state, f.found + (f"\n→ {f.todo}" if f.todo else "")] for f in findings]
        console().print(table(["about", "state", "what was found"], rows, wide=(2,)))
        if not store.names():
            click.echo("no sessions yet; type: reach up TARGET")
    if any(finding.state == BAD for finding in findings):
        raise click.exceptions.Exit(1)


def _this_machine(paths: Paths) -> Iterator[Finding]:
    from shim.local_shell import find_real_bash

    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", OK, f"{version}, {sys.executable}")
    ssh = shutil.which("ssh")
    if ssh:
        yield Finding("ssh client", OK, f"{ssh} reads ssh_config")
    else:
        yield Finding(
            "ssh client", DEGRADED, "none: ssh_config is read by paramiko, without Match final and the like",
            "install openssh-client",
        )  # fmt: skip
    real = find_real_bash(os.environ.get("PATH", os.defpath))
    if real:
        yield Finding("bash", OK, f"{real} runs the launchers of harnesses")
    else:
        yield Finding("bash", BAD, "none on PATH: launchers that begin with env bash can't start", "install bash")
    yield Finding("state", OK, f"{paths.state}; sockets in {paths.runtime}")


def _harnesses(paths: Paths) -> Iterator[Finding]:
    from reach.errors import HarnessError
    from reach.harness.binary import find_binary, read_version
    from reach.harness.registry import get_harness, harness_names

    for name in harness_names():
        harness = get_harness(name)
        try:
            binary = find_binary(harness, os.environ)
        except HarnessError as error:
            yield Finding(harness.title, DEGRADED, error.message, error.fix or "")
            continue
        version = read_version(harness, binary, os.environ)
        yield Finding(harness.title, OK, f"{version or 'of unknown version'}, {binary}")


def _guarded_session(paths: Paths, store: object, name: str) -> list[Finding]:
    from reach.broker.lifecycle import is_running
    from reach.errors import ReachError
    from reach.session import SessionStore

    assert isinstance(store, SessionStore)
    try:
        if not is_running(paths, store.load(name).name):
            return [Finding(f"session {name}", OK, "down", f"to connect it and look, type: reach doctor {name}")]
        return list(_session(paths, store.load(name)))
    except ReachError as error:
        return [Finding(f"session {name}", BAD, error.message, error.fix or "")]


def _session(paths: Paths, session: Session) -> Iterator[Finding]:
    from reach.broker.captured import run_captured
    from reach.broker.lifecycle import ensure_running
    from reach.cli.operator import TerminalOperator
    from reach.cli.show import plain
    from reach.errors import ReachError

    about = f"session {session.name}"
    try:
        facts = ensure_running(paths, session.name, TerminalOperator())
    except ReachError as error:
        yield Finding(about, BAD, plain(error.message), error.fix or f"type: ssh {session.target}")
        return
    yield Finding(about, OK, f"{plain(session.target)} is {plain(facts['hostname'])}, folder {plain(facts['folder'])}")
    yield _transport(paths, session.name)
    if facts["shell"].endswith("/bash"):
        yield Finding(
            f"{about}: shell", OK, f"{plain(facts['shell'])}; the login shell is {plain(facts['login_shell'])}"
        )
    else:
        yield Finding(f"{about}: shell", DEGRADED, "no bash there: commands run by sh", "install bash on the target")
    if facts["login_shell_failed"]:
        yield Finding(
            f"{about}: PATH", DEGRADED, "the login shell gave no environment; PATH is that of a plain channel",
            "look at the account's profile files: they must not wait or exit",
        )  # fmt: skip
    if facts["audit_problem"]:
        yield Finding(
            f"{about}: audit log", DEGRADED, f"what runs is not recorded: {facts['audit_problem']}",
            f"make room for {paths.audit_log(session.name)}",
        )  # fmt: skip
    tools = run_captured(paths, session.name, "command -v git; command -v rg; command -v python3")
    found = [plain(line) for line in tools.stdout.decode("utf-8", "replace").splitlines()]
    yield Finding(f"{about}: tools", OK, ", ".join(found) or "none of git, rg, python3 is on PATH there")


def _transport(paths: Paths, name: str) -> Finding:
    from reach.broker.client import ask_broker
    from reach.cli.show import plain
    from reach.wire.frames import Operation

    broker = ask_broker(paths, name, Operation.STATUS)
    found = f"{plain(broker['transport'])}: {plain(broker['transport_why'])}"
    if broker["transport"] == "paramiko" and broker["transport_lacks"]:
        return Finding(
            f"session {name}: transport", DEGRADED, found, "install openssh-client, or: reach up --transport auto"
        )
    return Finding(f"session {name}: transport", OK, found)

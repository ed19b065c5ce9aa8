"""`reach harness`: which harnesses there are, and whether they can be trusted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reach.cli.harness_install import install, list_harnesses, remove

if TYPE_CHECKING:
    import threading

    from reach.harness.base import Harness
    from reach.paths import Paths
    from reach.probe.matrix import Task
    from reach.probe.result import ProbeResult


@click.group("harness")
def harness() -> None:
    """List, install and verify harnesses."""


for command in (install, list_harnesses, remove):
    harness.add_command(command)


@harness.command("verify")
@click.argument("names", nargs=-1, required=True, metavar="NAME[@VERSION]…")
@click.option("--session", "session_name", help="The session; else the only one, or the one used last.")
@click.option("--binary", type=click.Path(path_type=Path), help="The program to probe, in place of the one on PATH.")
@click.option("--workspace", type=click.Path(path_type=Path), help="Launch in this local folder.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="So long without a sign of life, and the harness is killed.",
)
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Make this check only; may be repeated.")
@click.option("--jobs", type=click.IntRange(1, 16), default=1, show_default=True, help="So many harnesses at a time.")
@click.option("--install", "may_install", is_flag=True, help="Install the versions that are missing first.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, or a list of them for several.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write JUnit XML too.")
@click.pass_context
def verify(context: click.Context, /, names: tuple[str, ...], session_name: str | None, **options: Any) -> None:
    """Drive the real harness against a scripted model and see where its commands run.

    It needs a session, no key and no network but the target's. VERSION is one that reach installed, `latest` the newest
    of those; without one, the program on PATH comes first. The exit code is that of the worst verdict: 0 ok; 1
    bypassed, leaky or faulty; 3 no conclusion.
    """
    from reach.cli.binding import connect
    from reach.cli.verify_report import report
    from reach.errors import BrokerError, TransportError
    from reach.harness.choice import parse_harness_name
    from reach.paths import Paths
    from reach.probe.junit import check_junit_path, write_junit
    from reach.probe.matrix import run_matrix
    from reach.probe.verdict import worst
    from reach.session import SessionStore
    from reach.session.choice import choose_session

    if options["binary"] and len(names) > 1:
        raise click.UsageError("--binary is for one harness at a time")
    kinds = [parse_harness_name(name) for name in names]
    if options["junit"]:
        check_junit_path(options["junit"])
    _end_tidily_on_sigterm()
    paths = Paths.from_environment()
    session = choose_session(paths, session_name)
    try:
        connect(paths, SessionStore(paths).load(session))  # what it asks is asked once, and here
    except (BrokerError, TransportError):
        pass  # the probe will say so
    several = len(names) > 1
    tasks = [_task(paths, session, kind, version, options) for kind, version in kinds]
    results = run_matrix(tasks, options["jobs"], lambda r: _progress(r) if several else None)
    if options["junit"]:
        write_junit(options["junit"], results)
    if options["as_json"]:
        shown = [result.model_dump(mode="json") for result in results]
        click.echo(json.dumps(shown if several else shown[0], indent=2))
    else:
        report(results)
    context.exit(worst(result.verdict for result in results).exit_code)


def _task(paths: Paths, session: str, kind: Harness, version: str | None, options: dict[str, Any]) -> Task:
    """The probe of one harness. Raises: ConfigError for a check that there isn't."""
    from reach.errors import HarnessError
    from reach.harness.install import LATEST
    from reach.probe.guard import remember
    from reach.probe.verify import known_checks, unprobed
    from reach.probe.verify import verify as probe
    from reach.ssh.operator import NobodyThere

    checks = known_checks(options["checks"]) if options["checks"] else None

    def task(stop: threading.Event) -> ProbeResult:
        try:
            binary = _binary(paths, kind, version, options)
        except HarnessError as error:
            return unprobed(kind, version, error)
        result = probe(
            paths,
            session,
            kind,
            binary,
            NobodyThere(),
            workspace=options["workspace"],
            timeout_s=options["timeout_s"],
            checks=checks,
            stop=stop,
            version=None if version == LATEST else version,
        )
        if options["workspace"] is None:
            remember(paths, kind, binary, result)
        return result

    return task


def _binary(paths: Paths, kind: Harness, version: str | None, options: dict[str, Any]) -> Path:
    """Raises: HarnessError's kinds; ConfigError when both a program and a version are named."""
    from reach.harness.choice import choose_binary
    from reach.harness.install import install as install_from_npm
    from reach.harness.install import installed

    is_missing = version is not None and version not in [each.version for each in installed(kind, paths)]
    if options["may_install"] and is_missing:
        return install_from_npm(kind, version, paths, lambda line: click.echo(f"reach: {line}", err=True))
    return choose_binary(kind, paths, os.environ, explicit=options["binary"], version=version)


def _progress(result: ProbeResult) -> None:
    click.echo(f"reach: {result.harness} {result.version}: {result.verdict}", err=True)


def _end_tidily_on_sigterm() -> None:
    """As Ctrl-C does it: what a probe has started and laid out goes with it."""
    import signal

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)

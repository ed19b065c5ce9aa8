"""`reach gemini`: become Gemini CLI, its shell on the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from reach.harness.base import Harness
    from reach.paths import Paths
    from reach.session import Session


@click.command("gemini", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--session", "session_name", help="The session; else the only one, or the one used last.")
@click.option("--workspace", type=click.Path(path_type=Path), help="Work in this local folder, not in a managed one.")
@click.option("--force", is_flag=True, help="Launch even if Gemini CLI did not prove to be safe.")
@click.option("--binary", type=click.Path(path_type=Path), help="The program to start, in place of the one on PATH.")
@click.option("--harness-version", help="A version that `reach harness install` brought.")
@click.option("--local-hooks", is_flag=True, help="Run the harness's hook commands on this machine.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--] [ARGUMENTS]…")
def gemini(
    session_name: str | None,
    workspace: Path | None,
    force: bool,
    binary: Path | None,
    harness_version: str | None,
    local_hooks: bool,
    arguments: tuple[str, ...],
) -> None:
    """Launch Gemini CLI with its shell on the target and no other tool.

    ARGUMENTS are Gemini CLI's own; those that would take it past the target are refused.
    """
    import os

    from reach.cli.binding import connect
    from reach.harness.choice import choose_binary
    from reach.harness.registry import get_harness
    from reach.paths import Paths
    from reach.session import SessionStore
    from reach.session.choice import choose_session

    paths = Paths.from_environment()
    harness = get_harness("gemini")
    harness.check_arguments(arguments)
    name = choose_session(paths, session_name)
    program = choose_binary(harness, paths, os.environ, explicit=binary, version=harness_version)
    connect(paths, SessionStore(paths).load(name))
    session = SessionStore(paths).load(name)
    _become(paths, session, harness, program, arguments, workspace=workspace, force=force, local_hooks=local_hooks)


def _become(
    paths: Paths,
    session: Session,
    harness: Harness,
    program: Path,
    arguments: tuple[str, ...],
    *,
    workspace: Path | None,
    force: bool,
    local_hooks: bool,
) -> NoReturn:
    """Replace this process with the harness, if the guard lets it."""
    import os
    import sys

    from reach.cli.operator import TerminalOperator
    from reach.harness.launch import PreparedLaunch, launch
    from reach.probe.guard import ensure_verdict

    def echo(line: str) -> None:
        click.echo(f"reach: {line}", err=True)

    def guard(prepared: PreparedLaunch) -> None:
        version, fingerprint = prepared.version, prepared.preparation.fingerprint
        operator = TerminalOperator()
        warning = ensure_verdict(
            paths, session, harness, program, version, fingerprint, force=force, operator=operator, echo=echo
        )
        if warning and sys.stdin.isatty() and sys.stdout.isatty():
            prepared.env.update(harness.show_inside(warning, prepared.env))

    launch(
        paths,
        session,
        harness,
        workspace=workspace,
        arguments=arguments,
        environment=os.environ,
        binary=program,
        local_hooks=local_hooks,
        on_note=echo,
        guard=guard,
    )

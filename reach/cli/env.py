"""`reach env`: for wiring a harness by hand."""

from __future__ import annotations

import json
import os
import shlex

import click


@click.command("env")
@click.option("--session", "name", help="The session; else the only one, or the one used last.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def env(name: str | None, as_json: bool) -> None:
    """Show what a harness needs to run its shell on the target.

    Without --json, lines for a POSIX shell: eval "$(reach env)" puts the shim first on PATH. Outside `reach gemini`
    nothing of the environment goes to the target, and the harness keeps whatever other tools it has.
    """
    from reach.cli.show import plain
    from reach.errors import ReachError

    try:
        facts = _facts(name)
    except ReachError:
        if not as_json:  # eval must not pass as if the shim were on PATH now
            click.echo("false")
        raise
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    click.echo(os.fsencode(f"PATH={shlex.quote(facts['shim_dir'])}:$PATH; export PATH"))  # the path's own bytes
    for key, value in facts.items():
        click.echo(f"# {key}: {plain(value)}")


def _facts(name: str | None) -> dict[str, str]:
    from reach.broker.shim_folder import install_shim
    from reach.errors import ConfigError
    from reach.paths import Paths
    from reach.session import SessionStore
    from reach.session.choice import choose_session
    from shim.local_shell import find_real_bash

    paths = Paths.from_environment()
    session = SessionStore(paths).load(choose_session(paths, name))
    folder = install_shim(paths, session.name)
    path = os.environ.get("PATH", os.defpath)
    real = find_real_bash(path) or find_real_bash("/bin:/usr/bin:/usr/local/bin")
    if real is None:
        raise ConfigError("there is no bash on PATH", fix="install bash here: harnesses' launchers need it")
    return {
        "session": session.name,
        "target": session.target,
        "folder": session.folder or "",
        "shim_dir": str(folder),
        "shim": str(folder / "bash"),
        "real_shell": real,
        "socket": str(paths.socket(session.name)),
    }

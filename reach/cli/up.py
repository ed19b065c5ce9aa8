"""`reach up`."""

from __future__ import annotations

from typing import Literal

import click


@click.command("up")
@click.argument("target")
@click.option("--name", help="Name the session; else the target does.")
@click.option(
    "--transport",
    type=click.Choice(["auto", "paramiko", "openssh"]),
    help="Connect by paramiko or by the system's ssh; auto takes ssh where the settings need it. Kept in the session.",
)
def up(target: str, name: str | None, transport: Literal["auto", "paramiko", "openssh"] | None) -> None:
    """Bind a session to TARGET and connect it.

    What the connection needs is asked now: a password, a passphrase, whether to trust a new host key. A name held by
    another target gets a number.
    """
    from reach.cli.binding import bind_and_connect
    from reach.cli.show import plain
    from reach.paths import Paths

    session = bind_and_connect(Paths.from_environment(), target, name, transport)
    click.echo(
        f"session {session.name}: {plain(session.target)} is {plain(session.hostname)}, in {plain(session.folder)}"
    )
    if session.shell and not session.shell.endswith("/bash"):
        shell = plain(session.shell)
        click.echo(f"note: there is no bash on it; commands are run by {shell}, as far as that knows bash")
    click.echo(f"next: reach gemini --session {session.name}, or: reach exec --session {session.name} -- COMMAND")

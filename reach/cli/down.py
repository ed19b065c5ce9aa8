"""`reach down`."""

from __future__ import annotations

import click


@click.command("down")
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="End every session's broker.")
@click.option("--forget", is_flag=True, help="Remove the session too: its file, audit log, managed home.")
def down(name: str | None, every: bool, forget: bool) -> None:
    """End session NAME's broker, and with it its connections; the commands that still run there are cut off. Without
    NAME: of those that are up the one used last.

    Its file and its audit log stay, unless you say --forget. Even then a shell that was wired by `reach env` keeps the
    shim, which refuses: nothing of it runs here.
    """
    from reach.broker.lifecycle import is_running, stop_broker
    from reach.errors import ReachError, SessionError
    from reach.paths import Paths
    from reach.session import SessionStore
    from reach.session.choice import choose_session
    from reach.session.launch import live_launches

    if name and every:
        raise click.UsageError("give a NAME or --all, not both")
    paths = Paths.from_environment()
    store = SessionStore(paths)
    failures: list[str] = []
    damaged_too = name in store.names() if forget and name else False
    if every:
        chosen = store.names()
    elif name and damaged_too:
        chosen = [name]
    else:  # without a name: one that is up, where any is
        chosen = [choose_session(paths, name, rather=lambda each: is_running(paths, each))]
    for session in chosen:
        try:
            ended = stop_broker(paths, session)
            if forget:
                running = live_launches(paths, session)
                if running:
                    raise SessionError(
                        f"{running[0].harness} (process {running[0].pid}) still runs in session {session!r}",
                        fix="end it first: without its shim its commands would run here",
                    )
                store.remove(session)
            click.echo(f"session {session}: {'down' if ended else 'was not up'}{', forgotten' if forget else ''}")
        except ReachError as error:
            failures.append(str(error))
    if failures:
        raise SessionError("; ".join(failures))

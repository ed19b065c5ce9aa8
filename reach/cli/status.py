"""`reach status`."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command("status")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def status(name: str | None, as_json: bool) -> None:
    """Show every session, or session NAME: its target, its broker, its connections."""
    from reach.cli.show import console, plain, table
    from reach.errors import SessionRecordError
    from reach.paths import Paths
    from reach.session import SessionStore
    from reach.session.record import jsonable

    paths = Paths.from_environment()
    store = SessionStore(paths)
    found = [store.load(name)] if name else list(store.load_all())
    sessions = [s for s in found if not isinstance(s, SessionRecordError)]
    states = [{**jsonable(session), "broker": _broker(paths, session.name)} for session in sessions]
    damaged = [s for s in found if isinstance(s, SessionRecordError)]
    if as_json:
        click.echo(json.dumps(states, indent=2))
    elif states:
        rows = [
            [plain(s["name"]), plain(s["target"]), plain(s["hostname"]), plain(s["folder"]), _summary(s["broker"])]
            for s in states
        ]
        console().print(table(["session", "target", "hostname", "folder", "broker"], rows, wide=(1, 2, 3, 4)))
    elif not damaged:
        click.echo("no sessions; type: reach up TARGET")
    for error in damaged:
        click.echo(f"reach: {error}", err=True)
    if damaged and not states:
        raise click.exceptions.Exit(damaged[0].exit_code)


def _broker(paths: Any, name: str) -> dict[str, Any] | None:
    from reach.broker.client import ask_broker
    from reach.broker.lifecycle import is_running
    from reach.errors import BrokerError
    from reach.wire.frames import Operation

    try:
        return ask_broker(paths, name, Operation.STATUS)
    except BrokerError as error:
        return {"error": error.message} if is_running(paths, name) else None


def _summary(broker: dict[str, Any] | None) -> str:
    from reach.cli.show import plain

    if broker is None:
        return "down"
    if "error" in broker:
        return f"does not answer: {plain(broker['error'])}"
    connections, warm, running = broker["connections"], broker["warm_workers"], broker["commands_running"]
    state = f"up, {_counted(connections, 'connection')}" if connections else "up, not connected"
    summary = f"{state}, {_counted(warm, 'warm worker')}" + (f", {running} running" if running else "")
    if broker.get("audit_failing"):
        summary += ", but its audit log can't be written"
    if broker.get("audit_lost"):
        summary += f"; {_counted(broker['audit_lost'], 'command')} not recorded"
    transport = broker.get("transport")
    return summary + (f"\n{transport}: {plain(broker.get('transport_why'))}" if transport else "")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

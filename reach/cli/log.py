"""`reach log`: what was run on the target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reach.broker.audit import AuditEntry
    from reach.paths import Paths

POLL_S = 0.2
MAX_SHOWN = 400
"""Characters of a command; --json has all of it."""


@click.command("log")
@click.argument("name", required=False)
@click.option("--last", "-n", type=click.IntRange(0), default=None, help="Show only the last N commands.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON lines as they are kept.")
@click.option("--follow", "-f", is_flag=True, help="Go on showing commands as they end.")
def log(name: str | None, last: int | None, as_json: bool, follow: bool) -> None:
    """Show what was run in session NAME: when, how it ended, how long it took, and the command."""
    from reach.broker.audit import parse_entry
    from reach.cli.show import console
    from reach.paths import Paths
    from reach.session.choice import choose_session

    paths = Paths.from_environment()
    path = paths.audit_log(choose_session(paths, name))
    lines, offset = _read(path)
    lines = [line for line in lines if parse_entry(line)]
    lines = lines[len(lines) - last :] if last is not None and last < len(lines) else lines
    if as_json:
        for line in lines:
            click.echo(line)
        for line in filter(parse_entry, _following(path, offset) if follow else ()):
            click.echo(line)
        return
    _tell_what_is_missing(paths, path.parent.name)
    entries = [entry for entry in map(parse_entry, lines) if entry]
    if not entries and not follow:
        click.echo("nothing was run yet")
        return
    if entries:
        console().print(_table(entries))
    for line in _following(path, offset) if follow else ():
        entry = parse_entry(line)
        if entry:
            click.echo("  ".join(_cells(entry)))


def _tell_what_is_missing(paths: Paths, name: str) -> None:
    from reach.broker.client import ask_broker
    from reach.errors import ReachError
    from reach.wire.frames import Operation

    try:
        lost = ask_broker(paths, name, Operation.STATUS).get("audit_lost")
    except ReachError:  # it is down: then nobody knows
        return
    if lost:
        click.echo(f"reach: {lost} more could not be written to this log", err=True)


def _read(path: Path) -> tuple[list[bytes], int]:
    """The log's whole lines, and where they end."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    end = content.rfind(b"\n") + 1
    return content[:end].splitlines(), end


def _following(path: Path, offset: int) -> Iterator[bytes]:
    """Lines as they are appended, until the reader or the operator has enough."""
    rest = b""
    while True:
        try:
            with path.open("rb") as file:
                file.seek(offset)
                rest += file.read()
                offset = file.tell()
        except FileNotFoundError:
            pass
        *lines, rest = rest.split(b"\n")
        yield from lines
        time.sleep(POLL_S)


def _table(entries: list[AuditEntry]):  # type: ignore[no-untyped-def]
    from reach.cli.show import table

    return table(["time", "ended", "took", "folder", "command"], [_cells(e) for e in entries], wide=(3, 4))


def _cells(entry: AuditEntry) -> list[str]:
    from reach.cli.show import plain

    return [
        entry.time.astimezone().strftime("%m-%d %H:%M:%S"),
        _ending(entry),
        _duration(entry.duration_ms),
        plain(entry.folder),
        _shown_command(entry) + (f"  [{plain(entry.reason)}]" if entry.reason else ""),
    ]


def _shown_command(entry: AuditEntry) -> str:
    """What the model asked for, without the harness's wrapper, at most a few lines of the table."""
    from reach.broker.wrapper import model_command
    from reach.cli.show import plain

    shown = model_command(entry.command.encode("utf-8", "replace")).decode("utf-8", "replace")
    first, _, _ = shown.partition("\n")
    if entry.launch is None and first.startswith(": reach asks for "):  # no harness's, and not to be taken for one
        return plain(first.removeprefix(": "))
    return plain(shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + " …")


def _ending(entry: AuditEntry) -> str:
    if entry.outcome == "exited":
        return str(entry.exit_status)
    if entry.outcome == "signalled":
        from reach.cli.show import plain

        return f"SIG{plain(entry.signal)}"
    return entry.outcome


def _duration(duration_ms: int | None) -> str:
    if duration_ms is None:
        return "-"
    return f"{duration_ms} ms" if duration_ms < 10_000 else f"{duration_ms / 1000:.0f} s"

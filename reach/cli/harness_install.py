"""`reach harness install`, `list` and `remove`: the harnesses in reach's own folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from reach.harness.base import Harness
    from reach.paths import Paths


@click.command("install")
@click.argument("name", metavar="NAME[@VERSION]")
@click.option("--print-path", is_flag=True, help="Print nothing on standard output but the program's path.")
def install(name: str, print_path: bool) -> None:
    """Install a harness into a folder of reach's own: the newest version (also spelled `latest`), or VERSION.

    Versions lie side by side. Node.js is taken from PATH where it is new enough for that version, and from PyPI
    otherwise.
    """
    from reach.harness.choice import parse_harness_name
    from reach.harness.install import install as install_harness
    from reach.paths import Paths

    harness, version = parse_harness_name(name)
    program = install_harness(
        harness, version, Paths.from_environment(), lambda line: click.echo(f"reach: {line}", err=True)
    )
    if print_path:
        click.echo(program)
    else:
        found = program.parent.parent.name
        click.echo(f"launch it with: reach {harness.name} --harness-version {found}")


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_harnesses(as_json: bool) -> None:
    """Show the harnesses that reach knows: what is on PATH, and what reach installed."""
    import os

    from reach.cli.show import console, plain, table
    from reach.errors import HarnessNotFoundError
    from reach.harness.binary import find_binary, read_version
    from reach.harness.install import installed
    from reach.harness.registry import get_harness, harness_names
    from reach.paths import Paths

    paths = Paths.from_environment()
    rows: list[dict[str, Any]] = []
    for name in harness_names():
        harness = get_harness(name)
        try:
            found = find_binary(harness, os.environ)
            version = read_version(harness, found, os.environ)
            rows.append(_row(paths, harness, version, "PATH", found))
        except HarnessNotFoundError:
            pass
        for each in installed(harness, paths):
            rows.append(_row(paths, harness, each.version, "reach", each.binary))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif rows:
        columns = ("name", "version", "source", "verdict", "program")
        cells = [[plain(row[column]) for column in columns] for row in rows]
        console().print(table(["harness", "version", "from", "verdict", "program"], cells, wide=(4,)))
    else:
        click.echo(f"no harness is here; type: reach harness install {harness_names()[0]}")


def _row(paths: Paths, harness: Harness, version: str | None, source: str, program: Path) -> dict[str, Any]:
    """One harness of the list, with what the last probe of it said; no verdict if it changed since."""
    from reach.probe.guard import known_verdict

    known = known_verdict(paths, harness, program, version)
    return {
        "name": harness.name,
        "version": version,
        "source": source,
        "program": str(program),
        "verdict": known.verdict if known else None,
        "detail": known.detail if known else None,
        "leaks": known.leaks if known else [],
        "verified_at": known.checked_at if known else None,
    }


@click.command("remove")
@click.argument("name", metavar="NAME@VERSION")
def remove(name: str) -> None:
    """Remove a version that reach installed."""
    from reach.errors import ConfigError
    from reach.harness.choice import parse_harness_name
    from reach.harness.install import LATEST
    from reach.harness.install import remove as remove_harness
    from reach.paths import Paths

    harness, version = parse_harness_name(name)
    if version is None or version == LATEST:
        fix = f"see them with: reach harness list; then {harness.name}@VERSION"
        raise ConfigError(f"{name} names no version", fix=fix)
    remove_harness(harness, version, Paths.from_environment())
    click.echo(f"{harness.title} {version} is removed")

"""`reach demo`: the main job, with nothing but this machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import click

PROMPT = "Look around in the project and say why its check fails."
COMMANDS = ["uname -n; pwd; ls", "cat notes.txt", "./check.sh"]
PROOF = ("seam", "surface", "home")
"""The checks that one run of the harness answers; `reach harness verify` asks more."""
CLOSING = "check.sh fails on the target; what it printed is above. (These are a scripted model's words.)"


@click.command("demo")
@click.option("--binary", type=click.Path(path_type=Path), help="The Gemini CLI to use, else the one on PATH.")
@click.option("--keep", is_flag=True, help="Leave the demo's session up, to play with it.")
def demo(binary: Path | None, keep: bool) -> None:
    """Run Gemini CLI here and its commands on an embedded SSH target, without a key or another machine.

    First verify proves where commands run, then a scripted model makes one turn whose commands and audit log you see.
    """
    from reach.broker.lifecycle import stop_broker
    from reach.cli.binding import bind_and_connect
    from reach.cli.show import plain
    from reach.harness.binary import find_binary
    from reach.harness.registry import get_harness
    from reach.paths import Paths
    from reach.probe.demonstration import demonstrate
    from reach.probe.verdict import Verdict
    from reach.probe.verify import verify
    from reach.ssh.operator import NobodyThere

    paths = Paths.from_environment()
    harness = get_harness("gemini")
    program = find_binary(harness, os.environ, binary)
    click.echo("1. An embedded SSH target on this machine, with keys and a host name of its own")
    session = bind_and_connect(paths, "demo:", None)
    try:
        here, there = platform.node(), plain(session.hostname)
        click.echo(f"   this machine is {here}, the target calls itself {there}, its folder is {plain(session.folder)}")
        click.echo(f"\n2. Verify: where do the commands of {harness.title} run?")
        result = verify(paths, session.name, harness, program, NobodyThere(), checks=PROOF)
        click.echo(f"   {harness.title} {result.version}: {result.verdict}; {result.detail}")
        if result.verdict is not Verdict.OK:
            raise click.exceptions.Exit(result.verdict.exit_code)
        click.echo(f'\n3. One turn through the launcher; the prompt: "{PROMPT}"')
        turn = demonstrate(
            paths,
            session,
            harness,
            program,
            prompt=PROMPT,
            commands=COMMANDS,
            closing=CLOSING,
            environment=dict(os.environ),
        )
        for command, shown in zip(COMMANDS, turn.results, strict=False):
            click.echo(f"   $ {command}")
            click.echo("".join(f"     {plain(line)}\n" for line in shown.output.splitlines()), nl=False)
        click.echo(f"   {harness.title} says: {turn.answer}")
        click.echo("\n4. The audit log of that turn")
        for entry in turn.entries:
            ending = f"status {entry.exit_status}  {entry.duration_ms} ms"
            click.echo(f"   {entry.time:%H:%M:%S}  {ending}  in {plain(entry.folder)}")
        _conclude(harness.title, here, there, same=here == there)
    finally:
        if not keep:
            stop_broker(paths, session.name)


def _conclude(title: str, here: str, there: str, *, same: bool) -> None:
    how = (
        "both have one name here, so a one-time value that only the connection carries told them apart"
        if same
        else f"they answered with its name, {there}, and with a one-time value that only the connection carries"
    )
    click.echo(f"\nProven: {title} ran on this machine ({here}) and its commands on the target: {how}.")
    click.echo("Not proven: anything about a model or a sign-in; the model was a script.")
    click.echo("\nNext, with a machine that you can ssh into:")
    click.echo("  reach up HOST            connect, and see that it works")
    click.echo("  reach HOST gemini        launch Gemini CLI with its shell there (set GEMINI_API_KEY first)")

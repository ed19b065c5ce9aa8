"""`reach TARGET COMMAND …`: bind and run in one go."""

from __future__ import annotations

import click

from reach.cli.main import COMMANDS


@click.command(
    "TARGET", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}, hidden=True
)
@click.argument("target")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def shorthand(context: click.Context, target: str, words: tuple[str, ...]) -> None:
    """Bind a session to TARGET and run a command there; a harness's name launches that harness."""
    from reach.cli.binding import bind_and_connect
    from reach.harness.registry import harness_names
    from reach.paths import Paths

    is_command = words[:1] == ("--",)  # as ssh reads `ssh HOST -- COMMAND`
    words = words[is_command:]
    if not words:
        known = ", ".join(COMMANDS)
        raise click.UsageError(
            f"{target!r} is no command ({known}); for a target of that name type: reach up {target}", context.parent
        )
    paths = Paths.from_environment()
    if words[0] in harness_names() and not is_command:
        session = bind_and_connect(paths, target, None)
        command = context.find_root().command
        assert isinstance(command, click.Group)
        launch = command.get_command(context, words[0])
        assert launch is not None
        context.exit(
            launch.main(
                ["--session", session.name, *words[1:]], prog_name=f"reach {target} {words[0]}", standalone_mode=False
            )
            or 0
        )
    from reach.cli.exec import run_words

    session = bind_and_connect(paths, target, None)
    run_words(paths, session.name, words)

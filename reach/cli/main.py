"""The `reach` command: which module has which subcommand, and the one place where an error becomes an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from io import TextIOWrapper
from types import ModuleType
from typing import Any, NoReturn

import click

from reach import __version__
from reach.errors import ReachError

COMMANDS = {
    "up": ("reach.cli.up", "Bind a session to TARGET and connect it."),
    "exec": ("reach.cli.exec", "Run one command on the target."),
    "gemini": ("reach.cli.gemini", "Launch Gemini CLI with its shell on the target."),
    "status": ("reach.cli.status", "Show the sessions and their brokers."),
    "log": ("reach.cli.log", "Show what was run on the target."),
    "down": ("reach.cli.down", "End a session's broker and its connections."),
    "doctor": ("reach.cli.doctor", "Say what works, what degrades, and what to do about it."),
    "env": ("reach.cli.env", "Show what a harness needs, for wiring one by hand."),
    "harness": ("reach.cli.harness", "List, install and verify harnesses."),
    "mock": ("reach.cli.mock", "Serve a scripted model API."),
    "demo": ("reach.cli.demo", "Do the main job against an embedded target."),
}


class ReachGroup(click.Group):
    """Loads a subcommand's module when it is used, and takes `reach TARGET COMMAND …` for what it is."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name if cmd_name != "exec" else "exec_")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from reach.cli.shorthand import shorthand

            return "TARGET", shorthand, args
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])
        with formatter.section("Short form"):
            formatter.write_dl(
                [
                    ("TARGET gemini [ARGS]", "Bind a session to TARGET and launch Gemini CLI in it."),
                    ("TARGET COMMAND …", "Bind a session to TARGET and run COMMAND there."),
                ]
            )
        formatter.write_paragraph()
        formatter.write_text(
            "TARGET is HOST (an alias of ssh_config, a name or an address), [USER@]HOST:[FOLDER], "
            "ssh://[USER@]HOST[:PORT][/FOLDER] or demo:"
        )


@click.group(cls=ReachGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="reach %(version)s")
def cli() -> None:
    """Run a coding agent here while every shell command it runs executes on another machine, over SSH."""


def without_plugins() -> None:
    """Have pydantic look for no plugins of its own: it would read what every installed package says of itself, which
    takes a seventh of the time that a command needs to start."""
    stand_in: Any = ModuleType("pydantic.plugin._loader")
    stand_in.get_plugins = lambda: ()
    sys.modules.setdefault(stand_in.__name__, stand_in)


def main() -> NoReturn:
    """Run the command line and end the process."""
    without_plugins()
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # closed by the caller: nobody wants to see it
    elif isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # some locales lack what reach writes
    try:
        code: Any = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except ReachError as error:
        click.echo(f"reach: {error}", err=True)
        _end(error.exit_code)
    except click.exceptions.Exit as ending:
        _end(ending.exit_code)
    except click.Abort:
        click.echo("reach: given up", err=True)
        _end(130)
    except click.ClickException as error:
        error.show()
        _end(error.exit_code)
    except BrokenPipeError:
        # whoever read our output has enough; the interpreter must not complain when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _end(141)
    except KeyboardInterrupt:
        _end(130)
    except OSError as error:
        _complain(error)
    _end(code if isinstance(code, int) else 0)


def _complain(error: OSError) -> NoReturn:
    """The system's own no, in one line."""
    where = f"{error.filename}: " if error.filename else ""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what could not be written must not be tried again at the end
    click.echo(f"reach: {where}{error.strerror or error}", err=True)
    _end(125)


def _end(code: int) -> NoReturn:
    sys.exit(code)

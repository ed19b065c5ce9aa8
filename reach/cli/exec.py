"""`reach exec`: one command on the target, by the same path as a harness's."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from reach.paths import Paths

MAX_ARGUMENT_BYTES = 128 << 10
"""A single kernel argument ends here, its NUL included: a longer command can't be handed to another process."""


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--session", "name", help="The session; else the only one, or the one used last.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND…")
def exec_(name: str | None, words: tuple[str, ...]) -> None:
    """Run COMMAND on the target, in the session's folder.

    The words are joined by spaces and read by bash there, as ssh does it. The exit status is the command's own; 125
    means that reach could not run it.
    """
    from reach.cli.binding import connect
    from reach.paths import Paths
    from reach.session import SessionStore
    from reach.session.choice import choose_session

    paths = Paths.from_environment()
    session = SessionStore(paths).load(choose_session(paths, name))
    connect(paths, session)
    run_words(paths, session.name, words)


def run_words(paths: Paths, session: str, words: Sequence[str]) -> NoReturn:
    """Become the session's shim, with WORDS as its command."""
    shim = paths.session_state(session) / "bin" / "bash"
    command = " ".join(words)
    if len(os.fsencode(command)) < MAX_ARGUMENT_BYTES:
        os.execv(shim, ["bash", "-c", command])
    sys.argv = [str(shim), "-c", command]
    exec(compile(shim.read_bytes(), shim, "exec"), {"__name__": "__main__"})
    raise AssertionError("a shim returned")

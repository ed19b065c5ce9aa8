"""Showing things to a person: 80 columns, no colour where nobody looks, nothing that steers a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def plain(text: str | None) -> str:
    """TEXT that may come from the target, on one line and with control characters written out."""
    from reach.ssh.remote_text import printable

    return printable(os.fsencode(text)) if text else "-"


def console() -> Console:
    """Standard output; 80 columns where it is no terminal.

    A FORCE_COLOR that is set asks for escapes in a pipe too, unless NO_COLOR is: rich would still print bold then.
    """
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    is_plain = not is_terminal and bool(os.environ.get("NO_COLOR"))
    return Console(
        highlight=False,
        markup=False,
        emoji=False,
        width=None if is_terminal else 80,
        force_terminal=False if is_plain else None,
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, wide: Sequence[int] = ()) -> Table:
    """A table of texts; the columns whose numbers are in WIDE give way first and wrap."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(columns):
        made.add_column(name, no_wrap=number not in wide, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made

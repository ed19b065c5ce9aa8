"""The texts that Gemini CLI puts around the model's command, as recorded from its real versions."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SHOPT = b"shopt -u promptvars nullglob extglob nocaseglob dotglob; "


@dataclass(frozen=True)
class Wrapper:
    """One shape: what it is called, how it is written, and where its side file lies below the temporary folder."""

    name: str
    side: str | None
    write: Callable[[bytes, bytes], bytes]
    """From the command and the side file's path, as a word."""
    is_one_line: bool = False
    """The command shares its line with the wrapper, so that a syntax error in it quotes the wrapper."""

    def prepare(self, temporary: Path) -> Path | None:
        """Make the folder that the harness makes; the side file's path, which is new each time."""
        if self.side is None:
            return None
        path = temporary / re.sub("[A-Z]{6}", lambda _: secrets.token_hex(6), self.side)
        if path.parent != temporary:
            path.parent.mkdir(mode=0o700)
        return path

    def wrap(self, command: bytes, side: Path | None) -> bytes:
        return self.write(command, shlex.quote(str(side)).encode() if side else b"")


def _one_line(command: bytes, side: bytes) -> bytes:
    text = command.strip()
    if not text.endswith((b"&", b";")):
        text += b";"
    return b"{ " + text + b" }; __code=$?; pgrep -g 0 >" + side + b" 2>&1; exit $__code;"


WRAPPERS = [
    Wrapper("none", None, lambda command, _: command),
    Wrapper("0.1.22", "shell_pgrep_XXXXXX.tmp", _one_line, is_one_line=True),
    Wrapper("0.35.0", "shell_pgrep_XXXXXX.tmp", lambda c, s: SHOPT + _one_line(c, s), is_one_line=True),
    Wrapper(
        "0.42.0",
        "gemini-shell-XXXXXX/pgrep.tmp",
        lambda c, s: SHOPT + b"(\n" + c + b"\n)\n__code=$?; pgrep -g 0 >" + s + b" 2>&1; exit $__code;",
    ),
    Wrapper(
        "0.61.0",
        "gemini-shell-XXXXXX/bgpids.tmp",
        lambda c, s: (
            SHOPT + b"_bgpids_file=" + s + b"\n(\n  trap 'jobs -p > \"$_bgpids_file\"' EXIT\n" + c
            + b"\n)\n__code=$?\nexit $__code"
        ),
    ),
    Wrapper(
        "0.61.0-typed",
        "gemini-shell-XXXXXX/pwd.tmp",
        lambda c, s: SHOPT + b"{\n" + c + b"\n}\n__code=$?; pwd > " + s + b"; exit $__code",
    ),
]

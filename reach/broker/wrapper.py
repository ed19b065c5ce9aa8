"""The text that a harness puts around the model's command, recognised by its structure.

Gemini CLI ends its wrapper with the command's status and lets it write a side file: a local path that it reads back
and removes. On the target that path becomes /dev/fd/N of a pipe that the worker holds, and the wrapper's last step
has a script that the worker holds too print what is in it, between two marks that the broker takes out again. The
model's own text is never touched, and anything that is no wrapper goes along as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from dataclasses import dataclass

from reach.broker.folders import local_folder
from reach.broker.remote_script import BASH_DESCRIPTORS, POSIX_DESCRIPTORS

_WORD = rb"""(?:[^\s'"\\$`;&|<>()]|\\.|'[^']*'|"(?:[^"\\$`]|\\.)*")+"""
_SHOPT = rb"shopt -u [a-z_ ]+;[ \n]?"
_HEAD = re.compile(
    rb"\A(?P<shopt>" + _SHOPT + rb")?(?:[A-Za-z_]\w*=(?P<path>" + _WORD + rb")\n)?(?P<open>[({])(?=\s)",
    re.ASCII,
)
_TAIL = re.compile(
    rb"(?P<close>[)}])(?:;\s*|\n)(?P<code>[A-Za-z_]\w*)=\$\?(?:;\s*|\n)"
    rb"(?:(?P<writer>pgrep -g 0|pwd) ?> ?(?P<path>" + _WORD + rb")(?: 2>&1)?;\s*)?"
    rb"(?P<exit>exit \$(?P=code);?)\s*\Z",
    re.ASCII,
)
_TAIL_BYTES = 8192
_TRAP = re.compile(rb"\A\s*trap 'jobs -p > \"\$[A-Za-z_]\w*\"' EXIT\n")
_SIDE_FILE = re.compile(rb"(?:gemini-shell-[A-Za-z0-9_-]+/\w+\.tmp|shell_(?:pgrep|pwd)_[0-9a-f]+\.tmp)\Z", re.ASCII)
_TRACES = re.compile(rb"\bset\b|xtrace")
_REDIRECTS_ITSELF = re.compile(rb"\b(?:exec|eval|source)\b|(?:\A|[\s;&|({])\.\s")
_PIDS = re.compile(rb"[0-9\s]*")
MAX_SIDE_BYTES = 1 << 16


@dataclass(frozen=True)
class SideFile:
    """A local file that the harness reads after the command."""

    path: bytes
    holds_folder: bool
    """The command's last working folder, and not process ids."""


@dataclass(frozen=True)
class Unwrapped:
    """A command as it is to run on the target."""

    text: bytes
    side_file: SideFile | None


def adapt(command: bytes, *, posix: bool = False) -> Unwrapped:
    """Point the side file of a wrapped COMMAND at the worker's own. POSIX: for a shell that has no shopt."""
    head, tail = _HEAD.match(command), _TAIL.search(command, max(0, len(command) - _TAIL_BYTES))
    if not head or not tail or (head["open"] == b"(") != (tail["close"] == b")"):
        return Unwrapped(command, None)
    numbers = POSIX_DESCRIPTORS if posix else BASH_DESCRIPTORS
    start = head.end("shopt") if posix and head["shopt"] else 0
    which = head if head["path"] else tail
    path = _unquoted(which["path"] or b"")
    if path is None or not _is_the_harness_own(path):
        return Unwrapped(command[start:], None)
    edits = [(*which.span("path"), b"/dev/fd/%d" % numbers.side)]
    # Neither quotes nor braces: what the model's command left open would pair with them, and be told of another line.
    report = b". /dev/fd/%d" % numbers.script
    streams = b" %d>&2 >/dev/null 2>&1 || :; " % numbers.report
    if head["open"] == b"{":
        inner = command[head.end() : tail.start()]
        if _TRACES.search(inner):  # a trace of the report goes where the group's streams go
            report = b"{ " + report + b"; }"
        if _REDIRECTS_ITSELF.search(inner):
            # The command runs in this very shell and may send its own streams elsewhere for good: the report needs
            # the first one, kept on a descriptor that the command and its children do not have.
            edits.append((head.start("open"), head.start("open"), b"exec %d>&2; " % numbers.report))
            edits.append((tail.end("close"), tail.end("close"), b" %d>&-" % numbers.report))
            streams = b" >/dev/null 2>&1 || :; "
    report += streams
    edits.append((tail.start("exit"), tail.start("exit"), report))
    pieces = []
    for begin, end, replacement in sorted(edits):
        pieces += [command[start:begin], replacement]
        start = end
    return Unwrapped(b"".join([*pieces, command[start:]]), SideFile(path, tail["writer"] == b"pwd"))


def model_command(command: bytes) -> bytes:
    """The model's own text in a wrapped COMMAND; COMMAND itself where it is no wrapper."""
    head, tail = _HEAD.match(command), _TAIL.search(command, max(0, len(command) - _TAIL_BYTES))
    if not head or not tail:
        return command
    return _TRAP.sub(b"", command[head.end() : tail.start("close")]).strip().removesuffix(b";")


def _unquoted(word: bytes) -> bytes | None:
    """The one word that a shell makes of WORD; None for none."""
    try:
        words = shlex.split(word.decode("latin-1"))
    except ValueError:
        return None
    return words[0].encode("latin-1") if len(words) == 1 else None


def _is_the_harness_own(path: bytes) -> bool:
    """Whether PATH is where the harness makes its side files: in a folder of its own, which only this user can write,
    or, by a name that nobody guesses, in a folder where nobody can take another's files away."""
    if not path.startswith(b"/") or not _SIDE_FILE.search(path):
        return False
    try:
        status = os.lstat(os.path.dirname(path))
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return False
    is_ours = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return is_ours or (bool(status.st_mode & stat.S_ISVTX) and b"/gemini-shell-" not in path)


def write_side_file(
    side: SideFile, content: bytes, workspace: str | None, session_folder: str, pids: dict[bytes, bytes]
) -> list[int]:
    """Put the target's answer where the harness looks for it, PIDS' keys replaced by their values.

    What can't be an answer is dropped: nothing of the target's is trusted, and only a file of ours is written.
    Returns the target's process ids that the harness will now see.
    """
    numbers: list[int] = []
    if side.holds_folder:
        folder = content.removesuffix(b"\n")
        if not folder.startswith(b"/"):
            return []
        content = (local_folder(folder, workspace, session_folder) if workspace else folder) + b"\n"
    elif _PIDS.fullmatch(content):
        lines = content.split()
        numbers = [int(line) for line in lines if line not in pids and len(line) < 12]
        content = b"".join(pids.get(line, line) + b"\n" for line in lines)
    else:
        return []
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with os.fdopen(os.open(side.path, flags, 0o600), "wb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
                file.truncate(0)
                file.write(content[:MAX_SIDE_BYTES])
    except OSError:
        return []
    return numbers

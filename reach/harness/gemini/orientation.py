"""What the model is told about where it works: HOME's GEMINI.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from reach.harness.base import Place, canary_line

MAX_TEXT_CHARS = 300
"""Of a host name or a path that the target gave."""


def render_orientation(place: Place) -> str:
    host = one_line(place.hostname or place.target)
    folder = one_line(place.folder) if place.folder else "the login folder"
    lines = [
        "# Where you are",
        "",
        f"Every shell command you run executes on the remote machine `{host}`, in the folder `{folder}`.",
        "That machine and that folder are the project; there is no other.",
        "",
        "- `run_shell_command` is the only way to reach it. Read, search and change files with shell commands "
        "(`cat`, `sed -n`, `rg` or `grep -rn`, `find`, here-documents, `patch`).",
        f"- A relative path is meant from `{folder}`; `dir_path` takes a folder relative to it.",
        "- Any other path that this program names to you (its working folder, a temporary folder, a log or a memory "
        "file) is not on that machine: never use one in a command. For temporary files use `/tmp` there.",
        "- An output that was cut short can't be looked up in a file: run the command again with `head`, `tail` or "
        "`grep`.",
    ]
    if place.nonce is not None:
        lines += ["", canary_line(place.nonce)]
    lines += _folder_lines(place)
    if place.instructions is not None:
        lines += [
            "",
            f"# The project's own GEMINI.md, from `{folder}`",
            "",
            defuse_imports(place.instructions),
        ]
    return "\n".join(lines) + "\n"


def _folder_lines(place: Place) -> list[str]:
    """The first folders of the target, the shallow ones first."""
    names = [one_line(os.fsdecode(folder).encode(errors="replace").decode()) for folder in place.folders]
    if not names:
        return []
    shown = [f"- `{name}/`" for name in names[:MAX_FOLDERS_SHOWN]]
    if len(names) > len(shown):
        shown.append("- … and others")
    return ["", "# Folders of the project", "", *shown]


def one_line(text: str) -> str:
    """TEXT of the target's, made safe to stand in a line: no control character, backquote or import mark."""
    clean = "".join(c if c.isprintable() and c != "`" else "?" for c in text[:MAX_TEXT_CHARS])
    return defuse_imports(clean)


MAX_FOLDERS_SHOWN = 200
"""As many as Gemini CLI itself would show."""

_IMPORT = re.compile(r"(?<![^ \t\r\n])@(?P<path>[./A-Za-z][^ \t\r\n]*)")
_CODE = re.compile(r"(`+).*?\1", re.DOTALL)
_IMPORT_MARK = re.compile(r"(?<!\S)@(?=\S)")


def find_imports(text: str) -> Iterator[tuple[int, int, str]]:
    """Where 0.61.0 would put a file in place of `@path`: at the start or after white space, outside backquotes."""
    code = [match.span() for match in _CODE.finditer(text)]
    for match in _IMPORT.finditer(text):
        if not any(start <= match.start() < end for start, end in code):
            yield match.start(), match.end(), match["path"]


def defuse_imports(text: str) -> str:
    """Put a backslash before every `@` that Gemini CLI would take for the start of `@file`, code blocks included.

    It replaces such a mark by that file of this machine, or by a message with a path of this machine in it.
    """
    return _IMPORT_MARK.sub(r"\\@", text)

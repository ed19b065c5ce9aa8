"""A project's instructions for a model, read on the target: its own file, those above it, and what they import.

A harness would find and join them by itself, but on this machine. All of it is the target's text: untrusted.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAX_FILE_BYTES = 64 * 1024
MAX_TOTAL_CHARS = 256 * 1024
MAX_IMPORTS = 50
"""In one round; and so many rounds as MAX_DEPTH."""
MAX_DEPTH = 5

Run = Callable[[str], bytes]
"""Runs a shell command in the session's folder and gives its standard output."""
FindImports = Callable[[str], Iterator[tuple[int, int, str]]]
"""Where a text names a file to put in its place: start, end, the path as written."""


@dataclass(frozen=True)
class Instructions:
    text: str
    is_cut_short: bool = False


def fetch_instructions(run: Run, name: str, find_imports: FindImports) -> Instructions | None:
    """The text of every file NAME from the project's root (where .git is) down to the session's folder; None if none.

    Imports are put in place where the file is inside the project, each once.
    """
    root, files = _parse_found(run(_find_command(name)))
    if not any(text.strip() for text in files.values()):
        return None
    known = dict(files)
    _fetch_imports(run, root, known, find_imports)
    parts = []
    used = set(files)
    for path, text in files.items():
        joined = _put_in_place(text, path, root, known, used, find_imports, 0)
        parts.append(f"Of `{path}`:\n\n{joined.strip()}" if len(files) > 1 else joined.strip())
    whole = "\n\n".join(parts)
    is_cut = len(whole) > MAX_TOTAL_CHARS or any(len(text) >= MAX_FILE_BYTES for text in known.values())
    return Instructions(whole[:MAX_TOTAL_CHARS], is_cut)


def _find_command(name: str) -> str:
    """Shell text that prints the project's root, then path and content of each file, all ended by NUL."""
    return f"""\
: reach asks for {name}
here=$(pwd -P) top=$here up=$here
while [ -n "$up" ] && [ ! -e "$up/.git" ]; do up=${{up%/*}}; done
[ -e "$up/.git" ] && top=$up
one() {{ [ ! -f "$1" ] || {{ printf '%s\\0' "$1"; head -c {MAX_FILE_BYTES} "$1" | tr -d '\\000'; printf '\\0'; }}; }}
all() {{ [ "$1" = "$top" ] || [ -z "$1" ] || all "${{1%/*}}"; one "$1"/{name}; }}
printf '%s\\0' "$top"; all "$here" 2>/dev/null"""


def _files_command(paths: list[str]) -> str:
    words = " ".join(shlex.quote(path) for path in paths)
    return f"""\
: reach asks for what is imported
for f in {words}; do
[ ! -f "$f" ] || {{ printf '%s\\0' "$f"; head -c {MAX_FILE_BYTES} "$f" | tr -d '\\000'; printf '\\0'; }}
done 2>/dev/null"""


def _parse_found(output: bytes) -> tuple[str, dict[str, str]]:
    root, *rest = output.split(b"\0")
    return _text(root) or "/", _parse_files(rest)


def _parse_files(fields: list[bytes]) -> dict[str, str]:
    """**Shape**: path, content, path, content; what is not complete is left out."""
    return {_text(path): _text(content) for path, content in zip(fields[0:-1:2], fields[1:-1:2], strict=False)}


def _text(field: bytes) -> str:
    return field.decode(errors="replace")


def _fetch_imports(run: Run, root: str, known: dict[str, str], find_imports: FindImports) -> None:
    asked: set[str] = set(known)
    fresh = dict(known)
    for _ in range(MAX_DEPTH):
        wanted = {
            target
            for path, text in fresh.items()
            for _, _, reference in find_imports(text)
            if (target := _resolve(root, path, reference)) and target not in asked
        }
        paths = sorted(wanted)[:MAX_IMPORTS]
        if not paths:
            return
        asked.update(paths)
        fresh = {p: t for p, t in _parse_files(run(_files_command(paths)).split(b"\0")).items() if p in paths}
        known.update(fresh)


def _resolve(root: str, path: str, reference: str) -> str | None:
    """The file that REFERENCE in the file PATH means, if it lies below ROOT."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), reference))
    is_inside = target.startswith(root.rstrip("/") + "/")
    return target if is_inside and "\n" not in target and "\ufffd" not in target else None


def _put_in_place(
    text: str,
    path: str,
    root: str,
    known: dict[str, str],
    used: set[str],
    find_imports: FindImports,
    depth: int,
) -> str:
    pieces: list[str] = []
    last = 0
    for start, end, reference in find_imports(text):
        target = _resolve(root, path, reference)
        if target is None or target in used or target not in known or depth == MAX_DEPTH:
            continue
        used.add(target)
        inner = _put_in_place(known[target], target, root, known, used, find_imports, depth + 1)
        pieces += [text[last:start], f"(from `{reference}`:)\n{inner.strip()}\n(end of `{reference}`)"]
        last = end
    return "".join(pieces) + text[last:]

"""The target's folders, without their files, as empty folders here: a harness wants to see the folder it
names.

What the target says is not trusted: a listing can neither leave the workspace nor fill the disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

MAX_FOLDERS = 2000
MAX_DEPTH = 6
MAX_LISTING_BYTES = 512 * 1024
MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 3000
"""Well below PATH_MAX (4096), the workspace's own path included."""

_PRUNED = (
    ".git",
    ".hg",
    ".svn",
    ".gemini",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".cache",
    ".npm",
    ".cargo",
    ".gradle",
    ".terraform",
)
"""Folders that are full of folders nobody works in; and .gemini, which here would be Gemini CLI's own."""

_LINK_DEPTH = 2
"""To this depth a link to a folder is listed as one; each costs a process on the target."""


def listing_command() -> str:
    """POSIX shell text that lists the folders below the current one, each ended by NUL, the shallow ones
    first.

    Links are not followed, other file systems not entered, folders that can't be read passed over in silence.
    """
    names = " -o ".join(f"-name {name}" for name in _PRUNED)
    show = 'sh -c \'printf "%s\\0" "$@"\' sh {} +'
    return f"""\
: reach asks for the folders
set -- {names}
{{ p='./*'; n=1
while [ "$n" -le {MAX_DEPTH} ]; do
find . -xdev -name . -o \\( "$@" \\) -prune -o -type d -path "$p" -prune -exec {show}
[ "$n" -gt {_LINK_DEPTH} ] ||
find . -xdev -name . -o \\( "$@" \\) -prune -o -path "$p" -prune -type l -exec test -d '{{}}/.' \\; -exec {show}
p="$p/*"; n=$((n+1))
done; }} 2>/dev/null | head -c {MAX_LISTING_BYTES}"""


def parse_listing(output: bytes) -> list[bytes]:
    """The folders of a listing: relative paths, no `.`, `..` or empty part, bounded in number, depth and
    length.

    **Shape**: NUL after each entry; what follows the last NUL was cut off.
    """
    found: dict[bytes, None] = {}
    for entry in output.split(b"\0")[:-1]:
        parts = entry.removeprefix(b"./").split(b"/")
        if entry and _is_safe(parts):
            found[b"/".join(parts)] = None
        if len(found) >= MAX_FOLDERS:
            break
    return list(found)


def _is_safe(parts: list[bytes]) -> bool:
    return (
        len(parts) <= MAX_DEPTH
        and sum(len(part) + 1 for part in parts) <= _MAX_PATH_BYTES
        and all(part not in (b"", b".", b"..") and len(part) <= MAX_NAME_BYTES for part in parts)
        and not any(b"\0" in part or b"/" in part for part in parts)
    )


def build_skeleton(workspace: Path, listing: Iterable[bytes]) -> int:
    """Make WORKSPACE's folders those of LISTING. Returns how many there are now.

    Folders that are not in LISTING are removed where they are empty. A folder's name may be any bytes. Where
    something that is no folder is in the way, it and what is below it are left out.
    """
    root = os.fsencode(workspace)
    wanted: set[bytes] = set()
    for entry in listing:
        parts = entry.split(b"/")
        if len(wanted) < MAX_FOLDERS and _is_safe(parts) and _make_folders(root, parts):
            wanted.update(b"/".join(parts[:n]) for n in range(1, len(parts) + 1))
    _remove_empty_others(root, b"", wanted)
    return len(wanted)


def add_folders(workspace: Path, listing: Sequence[bytes]) -> None:
    """Make the folders of LISTING that WORKSPACE lacks.

    Those that are gone on the target stay: a harness that names one is to hear it from the target, whose error says
    which folder it is, and not from its own machine, which takes a missing folder for a missing shell. They go where
    there would be more than MAX_FOLDERS otherwise.
    """
    root = os.fsencode(workspace)
    missing = [entry for entry in listing if not os.path.isdir(os.path.join(root, entry))]
    if missing and _count_folders(root) + len(missing) > MAX_FOLDERS:
        build_skeleton(workspace, listing)
        return
    for entry in missing:
        parts = entry.split(b"/")
        if _is_safe(parts):
            _make_folders(root, parts)


def _count_folders(root: bytes) -> int:
    return sum(1 + _count_folders(os.path.join(root, name)) for name in _folders_in(root))


def _make_folders(root: bytes, parts: list[bytes]) -> bool:
    path = root
    for part in parts:
        path = os.path.join(path, part)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                return False
        except OSError:  # a name this file system can't hold
            return False
    return True


def _remove_empty_others(root: bytes, below: bytes, wanted: set[bytes]) -> None:
    for name in list(_folders_in(os.path.join(root, below) if below else root)):
        path = os.path.join(below, name) if below else name
        _remove_empty_others(root, path, wanted)
        if path not in wanted:
            try:
                os.rmdir(os.path.join(root, path))
            except OSError:  # not empty: somebody keeps something there
                continue


def _folders_in(folder: bytes) -> Iterator[bytes]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return

"""Installing into a folder of reach's, so that an interruption leaves nothing half done and two at once take turns."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reach.errors import HarnessError
from reach.paths import ensure_private_dir

_UNFINISHED = ".new-"
_REMOVED = ".old-"


@contextmanager
def installing(parent: Path) -> Iterator[tuple[Path, Callable[[Path, str], Path]]]:
    """Hold PARENT's lock; give a temporary folder in it, and a function that puts a folder in place under a name.

    What was in that place is removed. The temporary folder goes away whatever happens; one that a killed install left
    is removed by the next.

    Raises: HarnessError when PARENT can't be written to.
    """
    try:
        ensure_private_dir(parent)
        with open(os.open(parent / ".lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _remove_leftovers(parent)
            temporary = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=parent))
            try:
                yield temporary, lambda folder, name: _put_in_place(folder, parent / name)
            finally:
                _remove_leftovers(parent)
    except OSError as error:
        raise _cant_write(parent, error) from None


def remove_installed(folder: Path) -> None:
    """Remove FOLDER in a way that never leaves half of it in its place."""
    with installing(folder.parent):
        if folder.exists():
            os.rename(folder, tempfile.mkdtemp(prefix=_REMOVED, dir=folder.parent))


def _cant_write(parent: Path, error: OSError) -> HarnessError:
    message = f"{parent}: {error.strerror or error}"
    fix = f"see what keeps you from it, with: ls -ld {shlex.quote(str(parent))}"
    if error.errno == errno.EACCES:
        closed = _closed(parent, error)
        message = f"{str(closed)!r} is closed to you: {error.strerror}"
        fix = f"type: chmod {'u+rwx' if closed.is_dir() else 'u+rw'} {shlex.quote(str(closed))}"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = "make room there, and type it again"
    elif error.errno == errno.EROFS:
        fix = "set REACH_HOME to a folder that can be written to"
    return HarnessError(message, fix=fix)


def _closed(parent: Path, error: OSError) -> Path:
    """What denied the access: the file itself, or the folder that it is in or was to be made in."""
    tried = Path(os.fsdecode(error.filename)) if error.filename else parent
    if os.path.lexists(tried) and not os.access(tried, os.R_OK | os.W_OK):
        return tried
    return tried.parent if error.filename else parent


def _put_in_place(folder: Path, destination: Path) -> Path:
    if destination.exists():
        os.rename(destination, tempfile.mkdtemp(prefix=_REMOVED, dir=destination.parent))
    os.rename(folder, destination)
    return destination


def _remove_leftovers(parent: Path) -> None:
    for prefix in (_UNFINISHED, _REMOVED):
        for folder in parent.glob(f"{prefix}*"):
            shutil.rmtree(folder, ignore_errors=True)

"""The throw-away folder of a probe: held by the process it belongs to, so that what a killed one left can be told."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reach.probe.process import kill_all_with

PREFIX = "reach-probe-"
_LOCK = ".lock"
_REMOVAL_TRIES, _REMOVAL_PAUSE_S = 10, 0.05
"""A process that is dying may still have made a file in a folder that was just emptied."""


class ProbeFolder:
    """A new folder below the temporary one, held until it is removed or this process ends, however it does."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked before it has the name by which remove_abandoned looks for it: an unheld lock means a dead owner.
        unready = self.path / f"{_LOCK}.new"
        self._lock = os.open(unready, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(unready, self.path / _LOCK)

    def remove(self) -> None:
        """End what was started with a path of this folder in its environment, and remove it."""
        _end_and_remove(self.path)
        os.close(self._lock)


@contextmanager
def probe_folder() -> Iterator[Path]:
    """A ProbeFolder for a block."""
    folder = ProbeFolder()
    try:
        yield folder.path
    finally:
        folder.remove()


def remove_abandoned() -> None:
    """Remove the folders of this user's probes that were killed, and end what those have left running.

    A folder without a lock is left alone: it is no probe's, or one's that is just being made.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _take_over(folder)
        if lock is not None:
            _end_and_remove(folder)
            os.close(lock)


def _take_over(folder: Path) -> int | None:
    """The lock of FOLDER, taken; None where somebody has it, or where it isn't a probe's of this user."""
    with contextlib.ExitStack() as stack:
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, opened)
            if os.fstat(opened).st_uid != os.getuid():
                return None
            lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=opened)
        except OSError:
            return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _end_and_remove(folder: Path) -> None:
    kill_all_with(str(folder))
    remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove FOLDER, in which processes that are about to end may still write."""
    for _ in range(_REMOVAL_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(_REMOVAL_PAUSE_S)

"""The managed workspace: a harness's working folder that holds nothing of the operator's."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reach.broker.skeleton import build_skeleton
from reach.errors import HarnessError
from reach.paths import ensure_private_dir, write_private

BOUNDARY_MARKER = ".reach-boundary"
"""Where a harness that looks for files in the folders above stops looking, if it can be told to."""


@contextmanager
def taking_turns(root: Path) -> Iterator[None]:
    """Hold ROOT's lock: two launches at once must not prepare the same home and workspace."""
    with open(os.open(root / ".prepare.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def prepare_workspace(root: Path, folders: list[bytes] | None) -> tuple[Path, list[str]]:
    """Make the managed workspace ROOT/workspace. FOLDERS None leaves the folders that are there.

    Whatever is in it that is no folder is moved to ROOT/left-behind: the harness would show it to the model
    as the target's. Returns the workspace and lines for the operator.

    Raises: HarnessError, ConfigError.
    """
    ensure_private_dir(root)
    workspace = ensure_private_dir(root / "workspace")
    try:
        moved = _move_files_away(workspace, root / "left-behind")
        if folders is not None:
            build_skeleton(workspace, folders)
        write_private(workspace / BOUNDARY_MARKER, b"")
        _end_dotenv_search(root)
    except OSError as error:
        raise HarnessError(f"the workspace {workspace}: {error.strerror}", fix=f"remove {workspace}") from None
    return workspace, moved


MAX_NAMED = 3


def _move_files_away(workspace: Path, parent: Path) -> list[str]:
    found = list(_no_folders(workspace))
    if not found:
        return []
    destination = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=ensure_private_dir(parent)))
    for path in found:
        target = destination / path.relative_to(workspace)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.move(path, target)
    names = ", ".join(sorted(repr(str(path.relative_to(workspace))) for path in found)[:MAX_NAMED])
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return [f"what an earlier run left in the managed workspace ({names}{more}) is now in {destination}"]


def _no_folders(workspace: Path) -> Iterator[Path]:
    """What is in WORKSPACE that is no folder, and folders of settings whole."""
    for folder, names, files in os.walk(workspace):
        here = Path(folder)
        others = [name for name in names if name == ".gemini" or (here / name).is_symlink()]
        names[:] = [name for name in names if name not in others]
        yield from (here / name for name in (*files, *others) if here / name != workspace / BOUNDARY_MARKER)


def _end_dotenv_search(root: Path) -> None:
    """Put an empty `.env` above the workspace: the search for one goes up to `/`, through the operator's
    home."""
    write_private(ensure_private_dir(root / ".gemini") / ".env", b"")
    write_private(root / ".env", b"")

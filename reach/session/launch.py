"""A launch: one start of a harness in a session, with a shim folder of its own.

The shim tells its session and its launch from where it lies. The launch's record keeps keyed digests of the
environment that the harness was started with, never the values: the broker forwards what differs from it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from reach.paths import Paths, ensure_private_dir, write_private
from reach.session.record import encode_record, load_json, parse_record


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The record of one launch, kept in its folder."""

    id: str
    harness: str
    pid: int
    """The process that becomes the harness: its end makes the record stale."""
    workspace: str
    """Absolute local folder that stands for the session's folder on the target."""
    salt: str
    baseline: dict[str, str]
    """Name of each variable at the launch → keyed digest of its value."""
    extra_env: dict[str, str] = field(default_factory=dict)
    """Set in every remote command of this launch and nowhere on this machine."""
    keeps_folders: bool = False
    """The workspace holds the target's folders, empty, and is to have those that commands make there."""
    local_hooks: bool = False
    """Run the harness's hook commands here in place of refusing them."""

    def is_operators(self, name: bytes, value: bytes) -> bool:
        """Whether NAME=VALUE stood so in the launch environment: such a variable stays here."""
        return self.baseline.get(os.fsdecode(name)) == _digest(self.salt, value)


def _digest(salt: str, value: bytes) -> str:
    return hashlib.blake2b(value, key=bytes.fromhex(salt), digest_size=16).hexdigest()


def launch_folder(paths: Paths, session: str, launch_id: str) -> Path:
    return paths.session_launches(session) / launch_id


def create_launch(
    paths: Paths,
    session: str,
    *,
    harness: str,
    workspace: Path,
    environment: Mapping[bytes, bytes],
    extra_env: Mapping[str, str] | None = None,
    keeps_folders: bool = False,
    local_hooks: bool = False,
    pid: int | None = None,
    launch_id: str | None = None,
) -> Launch:
    """Record a launch. ENVIRONMENT is what the harness will be started with; the caller then installs the shim.

    The launch's own PATH contains the launch's folder, so a caller that needs it first may choose LAUNCH_ID.
    """
    salt = secrets.token_hex(16)
    launch = Launch(
        id=launch_id or new_launch_id(),
        harness=harness,
        pid=pid or os.getpid(),
        workspace=str(workspace),
        salt=salt,
        baseline={os.fsdecode(k): _digest(salt, v) for k, v in environment.items()},
        extra_env=dict(extra_env or {}),
        keeps_folders=keeps_folders,
        local_hooks=local_hooks,
    )
    folder = launch_folder(paths, session, launch.id)
    ensure_private_dir(folder.parent)
    ensure_private_dir(folder)
    write_private(folder / "launch.json", encode_record(launch))
    return launch


def new_launch_id() -> str:
    return secrets.token_hex(4)


def load_launch(paths: Paths, session: str, launch_id: str) -> Launch | None:
    """The record, or None where there is none that can be read."""
    path = os.path.join(launch_folder(paths, session, launch_id), "launch.json")
    try:
        status = os.stat(path)
        return _parse_launch(path, status.st_ino, status.st_mtime_ns)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _parse_launch(path: str, _inode: int, _mtime_ns: int) -> Launch:
    """A record is written once; every command of its launch asks for it."""
    return parse_record(Launch, load_json(Path(path).read_bytes()))


def live_launches(paths: Paths, session: str) -> list[Launch]:
    """The launches whose harness still runs."""
    parent = paths.session_launches(session)
    found = (load_launch(paths, session, folder.name) for folder in parent.iterdir()) if parent.is_dir() else ()
    return [launch for launch in found if launch and _is_alive(launch.pid)]


def retire_ended_launches(paths: Paths, session: str) -> None:
    """Remove the records of launches whose harness is gone.

    Their shims stay: a process that the harness left behind still has that folder first on its PATH, and without
    the shim its commands would run here. The broker refuses a launch that has no record.
    """
    parent = paths.session_launches(session)
    for folder in parent.iterdir() if parent.is_dir() else ():
        launch = load_launch(paths, session, folder.name)
        if launch and not _is_alive(launch.pid):
            (folder / "launch.json").unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""Local folders and the target's folders that they stand for."""

from __future__ import annotations

import os
import posixpath

from reach.errors import SessionError


def target_folder(cwd: bytes, workspace: str | None, session_folder: str) -> bytes:
    """The target's folder for a command started in CWD.

    WORKSPACE stands for the session's folder, its subfolders for those of the same name. Without a launch (None)
    every folder does.

    Raises: SessionError when CWD lies outside the workspace: there is no folder on the target to mean.
    """
    root = os.fsencode(session_folder)
    if workspace is None:
        return root
    for base in (os.fsencode(workspace), os.path.realpath(os.fsencode(workspace))):
        inside = _below(cwd, base)
        if inside is not None:
            return posixpath.join(root, inside) if inside else root
    raise SessionError(
        f"the folder {os.fsdecode(cwd)!r} lies outside the workspace {workspace!r}, which stands for "
        f"{session_folder!r} on the target; it did not run",
        fix="run it from the workspace, with cd in the command",
    )


def local_folder(folder: bytes, workspace: str, session_folder: str) -> bytes:
    """The local stand-in for a folder of the target; FOLDER itself where it has none."""
    inside = _below(folder, os.fsencode(session_folder))
    if inside is None:
        return folder
    return os.path.join(os.fsencode(workspace), inside) if inside else os.fsencode(workspace)


def _below(path: bytes, base: bytes) -> bytes | None:
    """PATH relative to BASE, b"" for BASE itself, None outside it."""
    if path == base:
        return b""
    prefix = base if base.endswith(b"/") else base + b"/"
    return path[len(prefix) :] if path.startswith(prefix) else None

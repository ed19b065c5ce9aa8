"""Credential files in a managed home: links to the operator's real ones, so that a refreshed token is kept.

Harnesses write these files in place, so that a link survives, one that dangles too. Something that replaces
the link by a plain file (an editor, a restore, another version of the harness) is noticed at the next launch:
the newer of the two files becomes the real one, the other is kept beside it as `.bak`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from reach.errors import HarnessError


def link_credentials(managed: Path, real: Path, names: Iterable[str]) -> list[str]:
    """Make every one of NAMES in folder MANAGED a link to the same name in folder REAL.

    Returns a line for each file that had to be moved back.

    Raises: HarnessError when a file can't be linked or moved.
    """
    moved: list[str] = []
    for name in names:
        try:
            if _move_back(managed / name, real / name):
                moved.append(
                    f"{managed / name} had become a plain file; the newer of it and {real / name} is kept there"
                )
            _link(managed / name, real / name)
        except OSError as error:
            raise HarnessError(f"the credential file {managed / name}: {error.strerror}") from None
    if any(not (real / name).exists() for name in names) and not real.exists():
        real.mkdir(parents=True, mode=0o700)
    return moved


def _link(link: Path, real: Path) -> None:
    if link.is_symlink() and os.readlink(link) == str(real):
        return
    temporary = link.with_name(f".{link.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(real)
    os.replace(temporary, link)


def _move_back(found: Path, real: Path) -> bool:
    """Move a plain file FOUND to REAL, unless REAL is newer. Whichever loses is kept as REAL.bak."""
    if found.is_symlink() or not found.is_file():
        return False
    if real.is_file():
        if found.read_bytes() == real.read_bytes():
            found.unlink()
            return True
        is_newer = found.stat().st_mtime_ns > real.stat().st_mtime_ns
        backup = real.with_name(f"{real.name}.bak")
        if not is_newer:
            _move(found, backup)
            return True
        _copy(real, backup)
    _move(found, real)
    return True


def _move(source: Path, destination: Path) -> None:
    """Move across file systems too; DESTINATION, where it is a link, is written through and stays one."""
    _copy(source, destination)
    source.unlink()


def _copy(source: Path, destination: Path) -> None:
    destination = destination.resolve()
    destination.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(source.read_bytes())
        os.replace(temporary, destination)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

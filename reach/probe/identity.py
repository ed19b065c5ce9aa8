"""Which harness program exactly: its place and its content, so that one that changed is noticed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from reach.harness.base import Harness

MAX_CONTENT_BYTES = 8 << 20
"""A program up to this size is read; of a larger one size, time and inode must do."""
MAX_FILES = 50_000


def content_digest(harness: Harness, binary: Path) -> str:
    """A digest of BINARY: of its bytes, and of the npm package behind it where there is one.

    Of a package's files it takes name, size, modification time and inode: reading them all would cost every launch a
    second. An update replaces files, and so changes at least the inode.
    """
    digest = hashlib.sha256()
    for part in _program(binary):
        digest.update(part + b"\0")
    root = package_root(harness, binary)
    if root is not None:
        digest.update(os.fsencode(root) + b"\0" + _bytes_of(root / "package.json") + b"\0")
        for line in sorted(_files_below(root)):
            digest.update(line)
    return digest.hexdigest()[:32]


def package_root(harness: Harness, binary: Path) -> Path | None:
    """The folder of the harness's npm package that BINARY starts; None where it can't be told."""
    resolved = Path(os.path.realpath(binary))
    private = binary.parent.parent / "node_modules" / harness.npm_package
    for folder in (*list(resolved.parents)[:6], private):
        try:
            described = json.loads((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(described, dict) and described.get("name") == harness.npm_package:
            return Path(os.path.realpath(folder))
    return None


def _program(binary: Path) -> Iterator[bytes]:
    yield os.fsencode(os.path.realpath(binary))
    try:
        status = binary.stat()
    except OSError:
        return
    if status.st_size <= MAX_CONTENT_BYTES:
        yield _bytes_of(binary)
    else:
        yield f"{status.st_size} {status.st_mtime_ns} {status.st_ino}".encode()


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _files_below(root: Path) -> Iterator[bytes]:
    """One line for each file, links not followed."""
    count = 0
    folders = [os.fsencode(root)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                continue
            count += 1
            if count > MAX_FILES:
                return
            status = entry.stat(follow_symlinks=False)
            yield b"%s\0%d %d %d\n" % (entry.path, status.st_size, status.st_mtime_ns, status.st_ino)

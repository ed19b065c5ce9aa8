"""Which commands run on the target, kept in a file so that a killed broker's are not forgotten.

A command that nobody waits for any more, because its broker was killed or its connection was lost, is an orphan: the
next connection ends its process group. Every broker writes a file of its own and holds a lock on it while it lives;
a file that can be locked is a dead broker's. With each command goes the note that a successor puts into the audit log.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reach.broker.remote_group import RemoteGroup
from reach.errors import ConfigError
from reach.paths import ensure_private_dir

MAX_FILE_BYTES = 1 << 20
"""A file that grew by so much is written anew, with what runs alone."""
MAX_READ_BYTES = 64 << 20

Note = Mapping[str, Any]
"""What is to be recorded of a command whose broker died."""

log = logging.getLogger("reach.broker")


class RunningCommands:
    """Thread-safe. Without a place to write, it holds what this broker itself ran."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[RemoteGroup, str] = {}
        self._orphans: set[RemoteGroup] = set()
        self._lock = threading.Lock()
        self._file = -1
        self._size = self._compact_size = 0
        try:
            self._create()
        except (OSError, ConfigError) as error:
            log.warning("what runs can't be recorded, so that a killed broker's commands are not ended: %s", error)

    def _create(self) -> None:
        ensure_private_dir(self._folder)
        name = os.urandom(8).hex()
        hidden = self._folder / f".{name}"
        self._path = self._folder / f"{name}.jsonl"
        self._file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # locked before it gets the name that others look for
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(hidden, self._path)

    def begin(self, group: RemoteGroup, note: str = "") -> None:
        """Note that a command is about to run as GROUP; NOTE, a JSON object, is for whoever finds that this broker died
        meanwhile."""
        with self._lock:
            self._running[group] = note
            self._write(_line("begin", group, note))

    def end(self, group: RemoteGroup, *, is_known: bool) -> None:
        """Note that nobody waits for GROUP's command any more; unless its end IS_KNOWN it becomes an orphan."""
        with self._lock:
            self._running.pop(group, None)
            if not is_known and group.is_certain:
                self._orphans.add(group)
                self._write(_line("begin", group))  # without the note: this broker records it
            else:
                self._write(_line("end", group))
            if not is_known and not group.is_certain:
                log.warning("process %d on the target can't be told from a later one; it is left alone", group.pid)
            self._shrink()

    def forget(self, groups: list[RemoteGroup]) -> None:
        """Note that these orphans were ended."""
        with self._lock:
            for group in groups:
                if group in self._orphans:
                    self._orphans.discard(group)
                    self._write(_line("end", group))
            self._shrink()

    def running(self) -> list[RemoteGroup]:
        with self._lock:
            return list(self._running)

    def orphans(self) -> list[RemoteGroup]:
        with self._lock:
            return list(self._orphans)

    def adopt(self, record: Callable[[Note], object] = lambda note: None) -> int:
        """Take over what dead brokers left; how many commands that were. RECORD is called with the note of each."""
        found = 0
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.glob("*.jsonl")):
                with contextlib.suppress(OSError):
                    found += self._adopt_file(path, record)
        return found

    def _adopt_file(self, path: Path, record: Callable[[Note], object]) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0  # its broker lives
            left = parse_unfinished(os.pread(handle, MAX_READ_BYTES, 0))
            for group, note in left.items():
                if note is not None:
                    record(note)
                if group.is_certain:
                    with self._lock:
                        self._orphans.add(group)
                        self._write(_line("begin", group))
            path.unlink()
            return len(left)
        finally:
            os.close(handle)

    def _write(self, lines: bytes) -> None:
        """The lock is held. A full disk costs the record, never the command."""
        if self._file < 0:
            return
        try:
            self._size += os.pwrite(self._file, lines, self._size)
        except OSError as error:
            log.warning("what runs can't be recorded: %s", error)

    def _shrink(self) -> None:
        """The lock is held. In place, and what is left of the old lines cut off last: a broker that is killed in
        between leaves lines that say the same."""
        if self._file < 0 or self._size <= self._compact_size + MAX_FILE_BYTES:
            return
        lines = b"".join(
            [_line("begin", group, note) for group, note in self._running.items()]
            + [_line("begin", group) for group in self._orphans]
        )
        self._size = 0
        self._write(lines)
        self._compact_size = self._size
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, self._size)

    def close(self) -> None:
        """Let go of the file; it stays where something may still run."""
        with self._lock:
            if self._file < 0:
                return
            if not self._running and not self._orphans:
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1


def _line(what: str, group: RemoteGroup, note: str = "") -> bytes:
    # a newline first: after a line that a full disk cut, this one is whole
    fields = json.dumps([what, group.pid, group.started, group.boot], separators=(",", ":"))
    return f"\n{fields[:-1]},{note}]\n".encode() if note else f"\n{fields}\n".encode()


def parse_unfinished(content: bytes) -> dict[RemoteGroup, Note | None]:
    """The groups that began and did not end, with their notes. Lines that make no sense are left out."""
    groups: dict[RemoteGroup, Note | None] = {}
    for line in content.splitlines():
        try:
            what, pid, started, boot, *rest = json.loads(line)
        except (ValueError, TypeError):
            continue
        if not (isinstance(pid, int) and pid > 1 and isinstance(started, str) and isinstance(boot, str)):
            continue
        group, note = RemoteGroup(pid, started, boot), rest[0] if rest and isinstance(rest[0], dict) else None
        if what == "begin" and (group.is_certain or note):
            groups[group] = note
        elif what == "end":
            groups.pop(group, None)
    return groups

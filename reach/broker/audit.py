"""The record of what was run: one JSON line a command, appended when it ends."""

from __future__ import annotations

import errno
import logging
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from reach.session.record import RecordError, encode_record, load_json, parse_record

MAX_COMMAND_CHARACTERS = 100_000
MAX_TAIL_BYTES = 8 << 20
"""How far back a broker looks for what a killed one may have recorded already."""

log = logging.getLogger("reach.audit")


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One command. Text that came from elsewhere is kept as it was and escaped wherever it is shown."""

    time: datetime
    """When it was asked for, UTC."""
    session: str
    target: str
    launch: str | None
    harness: str | None
    pid: int
    """The shim's process id here; 0 for a question of reach's own."""
    remote_pid: int | None
    command: str
    """The command string; `(standard input)` where the commands came that way. Bytes that are no UTF-8 as \\xNN."""
    folder: str
    """On the target."""
    outcome: Literal["exited", "signalled", "refused", "unknown"]
    """`refused`: it did not run. `unknown`: it may have run, and how it ended was never heard."""
    exit_status: int | None = None
    signal: str | None = None
    reason: str | None = None
    """reach's own words, where it was refused or its end is unknown."""
    abandoned: bool = False
    """The shim was gone before the command's end."""
    duration_ms: int | None = None
    """None where the broker that ran it was killed meanwhile."""
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_err: int = 0

    @property
    def identity(self) -> tuple[datetime, int, int | None]:
        """What no two commands of a session share."""
        return self.time, self.pid, self.remote_pid


class AuditLog:
    """Appends to one file; every line is written by one call, so that readers see whole ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.is_failing = False
        """The last line could not be written."""
        self.lost = 0
        """Commands that are not in the log, since this broker began."""

    def append(self, entry: AuditEntry) -> None:
        """Append ENTRY. A full disk costs the line, never the command's own result."""
        line = encode_record(entry) + b"\n"
        with self._lock:
            try:
                handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    written = os.write(handle, line)
                    if written < len(line):  # half a line would spoil the next one too
                        os.ftruncate(handle, os.lseek(handle, 0, os.SEEK_END) - written)
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                finally:
                    os.close(handle)
                self.is_failing = False
            except OSError as error:
                self.lost += 1
                if not self.is_failing:
                    log.error("the audit log can't be written: %s", error)
                self.is_failing = True

    def problem(self) -> str | None:
        """Why commands would not be recorded now, as far as can be told without one; None where they would be."""
        try:
            os.close(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
        except FileNotFoundError:
            if not os.access(self._path.parent, os.W_OK):
                return "its folder can't be written"
        except OSError as error:
            return error.strerror
        return "the last command could not be written to it" if self.is_failing else None

    def has(self, entry: AuditEntry) -> bool:
        """Whether the command of ENTRY is among the last ones recorded, however it ended."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_TAIL_BYTES))
                lines = file.read().splitlines()
        except OSError:
            return False
        found = (parse_entry(line) for line in lines)
        return any(each and each.identity == entry.identity for each in found)


def printable(text: bytes) -> str:
    """TEXT as UTF-8, other bytes as \\xNN, cut where it is very long."""
    shown = text.decode("utf-8", "backslashreplace")
    if len(shown) > MAX_COMMAND_CHARACTERS:
        return f"{shown[:MAX_COMMAND_CHARACTERS]}… ({len(text)} bytes)"
    return shown


def now() -> datetime:
    return datetime.now(UTC)


def load_entries(path: Path) -> list[AuditEntry]:
    """The entries of a log, the oldest first; none where there is no log yet."""
    try:
        lines = path.read_bytes().splitlines()  # of text it would end a line at U+2028 as well, which JSON may hold
    except FileNotFoundError:
        return []
    return [entry for entry in map(parse_entry, lines) if entry]


def parse_entry(line: bytes) -> AuditEntry | None:
    """The entry on one line of a log, or None for a line that is none (cut by a full disk)."""
    try:
        return parse_record(AuditEntry, load_json(line))
    except RecordError:
        return None

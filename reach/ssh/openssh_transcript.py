"""What an ssh that logs in says on its standard error: its own words with -v, and whatever a server had it print.

A server's banner stands among the lines and may look like any of them. It comes after the host key was checked, and
all that it can change is the wording of a failure.
"""

from __future__ import annotations

import re

from reach.ssh.remote_text import printable

MAX_LINES = 4000
MAX_LINE_BYTES = 8192

_SERVER_KEY = re.compile(r"debug1: Server host (?:key|certificate): \S+ (SHA256:[^\s,]+)")
_ADDED = re.compile(r"Warning: Permanently added '(?P<name>[^']*)' \((?P<family>\S+)\) to the list of known hosts\.")
NOISE = re.compile(r"debug\d: |OpenSSH_|Authenticated (?:to|using) |Transferred: |Bytes per second: |@@@|\s*\Z")
"""What nobody needs to read."""
FAILURES = re.compile(
    r"(?:kex_exchange_identification|banner exchange): .*|Connection (?:closed|reset) by .*|ssh: connect to host .*|"
    r"Permission denied, please try again.*|\S+: Permission denied \(.*|no such identity: .*|Load key .*|"
    r"Disconnected from .*|ssh_dispatch_run_fatal: .*|Certificate invalid: .*|stdio forwarding failed.*|"
    r"channel \d+: open failed: .*"
)
"""What is told by the error that the login ends with."""


class Transcript:
    """The lines of one login."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._partial = b""
        self._told = 0

    def feed(self, data: bytes) -> None:
        *whole, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[-MAX_LINE_BYTES:]
        for line in whole:
            self.lines.append(printable(line.rstrip(b"\r")[:MAX_LINE_BYTES]))
        surplus = len(self.lines) - MAX_LINES
        if surplus > 0:
            del self.lines[:surplus]
            self._told = max(0, self._told - surplus)

    def news(self) -> str:
        """What a person should read of the lines that came since the last time: a banner, an instruction, a warning."""
        told: list[str] = []
        for number in range(self._told, len(self.lines)):
            line = self.lines[number]
            if found := _ADDED.match(line):
                told.append(f"The {found['family']} key {self._key_before(number)} of {found['name']} is now known.")
            elif not NOISE.match(line) and not FAILURES.match(line):
                told.append(line)
        self._told = len(self.lines)
        return "\n".join(told).strip("\n")

    def _key_before(self, number: int) -> str:
        shown = [found[1] for line in self.lines[:number] if (found := _SERVER_KEY.match(line))]
        return shown[-1] if shown else ""

    @property
    def ssh_version(self) -> tuple[int, int]:
        """The version of the ssh that speaks: its first line, before anything of a server's. (0, 0) if not known."""
        found = re.match(r"OpenSSH_(\d+)\.(\d+)", self.lines[0]) if self.lines else None
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def is_openssh_there(self) -> bool:
        """Whether the server says that it is OpenSSH."""
        versions = [line for line in self.lines if "remote software version " in line]
        return bool(versions) and "OpenSSH" in versions[-1]

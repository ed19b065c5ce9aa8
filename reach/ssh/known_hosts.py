"""known_hosts files: their lines, which of them speak of a host, and one more line at the end.

A line that can't be read is left out; it never takes another line with it.
Source: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT, OpenSSH 9.2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from reach.errors import ConfigError
from reach.paths import ensure_private_dir
from reach.ssh.wire_format import Reader, WireFormatError

_HASH_MAGIC = "|1|"


class Marker(StrEnum):
    """What a line says about its key."""

    NONE = ""
    REVOKED = "@revoked"
    CERT_AUTHORITY = "@cert-authority"


@dataclass(frozen=True)
class HostKey:
    """A public host key: its blob as it goes over the wire (RFC 4253, section 6.6)."""

    blob: bytes

    @property
    def type(self) -> str:
        return Reader(self.blob).text()

    @property
    def fingerprint(self) -> str:
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode("ascii")
        return f"SHA256:{digest.rstrip('=')}"

    @property
    def rsa_bits(self) -> int | None:
        """The length of an RSA key; None for another type."""
        reader = Reader(self.blob)
        if reader.text() != "ssh-rsa":
            return None
        reader.string()
        return int.from_bytes(reader.string(), "big").bit_length()

    @property
    def base64(self) -> str:
        return base64.b64encode(self.blob).decode("ascii")


@dataclass(frozen=True)
class KnownHost:
    """One line."""

    file: Path
    line: int
    marker: Marker
    patterns: str
    """As written: comma-separated names, or one hashed name."""
    key: HostKey

    def __str__(self) -> str:
        return f"{self.file} line {self.line}"

    def matches(self, name: str) -> bool:
        """Whether this line speaks of NAME: a host, or `[host]:port`."""
        return matches_patterns(self.patterns, name)


def parse_known_hosts(text: str, file: Path) -> Iterator[KnownHost | str]:
    """Read the lines of TEXT; for one that can't be read, yield a sentence about it instead."""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        try:
            yield _parse_line(line, file, number)
        except (ValueError, WireFormatError) as error:
            yield f"{file} line {number} can't be used: {error}"


def _parse_line(line: str, file: Path, number: int) -> KnownHost:
    fields = re.split("[ \t]+", line)
    marker = Marker.NONE
    if fields[0].startswith("@"):
        marker = Marker(fields.pop(0))
    if len(fields) < 3:
        raise ValueError("it has too few fields")
    patterns, key_type, encoded = fields[:3]
    try:
        key = HostKey(base64.b64decode(encoded, validate=True))
    except binascii.Error as error:
        raise ValueError("its key is no base64") from error
    if key.type != key_type:
        raise ValueError(f"its key is no {key_type}")
    return KnownHost(file, number, marker, patterns, key)


def load_known_hosts(files: Iterable[Path]) -> list[KnownHost]:
    """Read FILES, those that exist, in order: the lines that can be used.

    Raises: ConfigError for a file that is there and can't be read: it may hold a revoked key.
    """
    known: list[KnownHost] = []
    for file in dict.fromkeys(files):
        try:
            text = file.read_bytes().decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(f"{file} can't be read: {error.strerror}", fix=f"check it with: ls -l {file}") from error
        known += [entry for entry in parse_known_hosts(text, file) if isinstance(entry, KnownHost)]
    return known


def matches_patterns(patterns: str, name: str) -> bool:
    """Whether NAME is meant by PATTERNS: at least one fits and none that begins with `!` does."""
    name = name.lower()
    if patterns.startswith(_HASH_MAGIC):
        return _matches_hash(patterns, name)
    is_met = False
    for pattern in patterns.lower().split(","):
        if pattern.startswith("!"):
            if _fits(pattern[1:], name):
                return False
        elif _fits(pattern, name):
            is_met = True
    return is_met


def _fits(pattern: str, name: str) -> bool:
    """Match `*` and `?`; a bracket is an ordinary character here, unlike in fnmatch."""
    return bool(pattern) and fnmatchcase(name, pattern.replace("[", "[[]"))


def hashed_name(name: str, salt: bytes | None = None) -> str:
    """NAME as HashKnownHosts writes it."""
    salt = os.urandom(20) if salt is None else salt
    digest = hmac.digest(salt, name.lower().encode(), "sha1")
    return f"{_HASH_MAGIC}{base64.b64encode(salt).decode('ascii')}|{base64.b64encode(digest).decode('ascii')}"


def _matches_hash(hashed: str, name: str) -> bool:
    parts = hashed.split("|")
    if len(parts) != 4:
        return False
    try:
        salt = base64.b64decode(parts[2], validate=True)
    except binascii.Error:
        return False
    return hmac.compare_digest(hashed_name(name, salt).encode(), hashed.encode("utf-8", "surrogateescape"))


def append_known_host(file: Path, name: str, key: HostKey, *, is_hashed: bool) -> None:
    """Add a line for NAME and KEY to FILE, which is made (0600) where it is missing.

    Raises: OSError.
    """
    if not file.parent.exists():
        ensure_private_dir(file.parent)
    shown = hashed_name(name) if is_hashed else name
    handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as stream:
        size = stream.seek(0, os.SEEK_END)
        is_open_ended = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        line = f"{shown} {key.type} {key.base64}\n"
        stream.write(b"\n" * is_open_ended + line.encode())

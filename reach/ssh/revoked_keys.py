"""RevokedHostKeys: a file of public keys that no host may show."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from reach.errors import ConfigError
from reach.ssh.known_hosts import HostKey

_KRL_MAGIC = b"SSHKRL\n\0"


def is_revoked_by_file(file: Path, key: HostKey) -> bool:
    """Whether FILE, one public key a line, lists KEY.

    Raises: ConfigError when FILE can't be read or is a binary revocation list: then no key can be cleared.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"RevokedHostKeys {file} can't be read: {error.strerror}", fix="correct the path in ssh_config"
        ) from error
    if content.startswith(_KRL_MAGIC):
        raise ConfigError(
            f"RevokedHostKeys {file} is a binary list (KRL), which reach can't read",
            fix="list the keys in a text file, one a line",
        )
    return any(key.blob in _blobs(line) for line in content.splitlines())


def is_krl(file: Path) -> bool:
    """Whether FILE is a binary revocation list, as `ssh-keygen -k` makes one."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(_KRL_MAGIC)) == _KRL_MAGIC
    except OSError:
        return False


def _blobs(line: bytes) -> list[bytes]:
    found = []
    for word in line.partition(b"#")[0].split():
        try:
            found.append(base64.b64decode(word, validate=True))
        except binascii.Error:
            continue
    return found

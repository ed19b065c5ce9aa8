"""What is said of a host key that is not accepted, whoever looked at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from reach.errors import HostKeyMismatchError, HostKeyUnknownError
from reach.ssh.host_settings import HostSettings
from reach.ssh.known_hosts import KnownHost

_FAMILIES = {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA"}


class NamedKey(Protocol):
    """A key as far as a person needs it."""

    @property
    def type(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


def describe_key(key: NamedKey) -> str:
    family = _FAMILIES.get(key.type) or ("ECDSA" if key.type.startswith("ecdsa-") else key.type)
    return f"{family} key {key.fingerprint}"


def host_key_unknown(settings: HostSettings, shown: str, reason: str) -> HostKeyUnknownError:
    """SHOWN describes the key; REASON is why it was not taken."""
    return HostKeyUnknownError(
        f"the host key of {settings.label} is not known: {shown}; {reason}",
        fix="compare the fingerprint with the host's, then type in a terminal: "
        f"{settings.up_command}  (or once: {settings.ssh_command})",
    )


def host_key_changed(settings: HostSettings, key: NamedKey, others: Sequence[KnownHost]) -> HostKeyMismatchError:
    """KEY is shown where OTHERS, at least one, are known."""
    entry = next((each for each in others if each.key.type == key.type), others[0])
    return HostKeyMismatchError(
        f"the host key of {settings.label} has changed: it shows the {describe_key(key)}, "
        f"known is the {describe_key(entry.key)} ({entry}); someone may be in between",
        fix="if the change is expected (ask whoever runs the host), type: "
        f"ssh-keygen -R '{settings.known_hosts_name}' -f {entry.file}",
    )


def host_key_revoked(settings: HostSettings, key: NamedKey, where: str) -> HostKeyMismatchError:
    """WHERE is a clause: `which FILE line 1 marks as revoked`."""
    return HostKeyMismatchError(
        f"{settings.label} shows the {describe_key(key)}, {where}",
        fix="do not go on: ask whoever runs the host for its new key",
    )

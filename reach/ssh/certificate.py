"""OpenSSH certificates: their fields, and whether one speaks for a host.

Source: PROTOCOL.certkeys of OpenSSH 9.2.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

import paramiko

from reach.ssh.algorithms import CERTIFICATE_SUFFIX
from reach.ssh.known_hosts import HostKey, matches_patterns
from reach.ssh.wire_format import Reader, WireFormatError, string

HOST_CERTIFICATE = 2
USER_CERTIFICATE = 1

_KEY_FIELDS = {
    "ssh-ed25519": 1,
    "ssh-rsa": 2,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519": 2,
    "sk-ecdsa-sha2-nistp256": 3,
}
"""How many strings make up the public key of each type."""


@dataclass(frozen=True)
class Certificate:
    """A public key with what its authority says about it."""

    type: str
    plain_key: HostKey
    """The key that is certified, as an ordinary one."""
    serial: int
    role: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical_options: tuple[str, ...]
    authority: HostKey
    signature: bytes
    signed: bytes
    """What the signature is over."""

    def is_signed_by_its_authority(self, algorithms: Collection[str]) -> bool:
        """Check the signature, which has to be made with one of ALGORITHMS (CASignatureAlgorithms)."""
        if Reader(self.signature).text() not in algorithms:
            return False
        try:
            authority = paramiko.PKey.from_type_string(self.authority.type, self.authority.blob)
            return bool(authority.verify_ssh_sig(self.signed, paramiko.Message(self.signature)))
        except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError):
            return False

    def objection(self, name: str, now_s: float | None = None) -> str | None:
        """Why this certificate does not speak for the host NAME; None when it does."""
        now_s = time.time() if now_s is None else now_s
        if self.role != HOST_CERTIFICATE:
            return "it is no host certificate"
        if self.critical_options:
            return f"it has the critical option {self.critical_options[0]!r}, which is not known"
        if now_s < self.valid_after:
            return "it is not valid yet"
        if now_s >= self.valid_before:
            return "it has expired"
        if not any(matches_patterns(principal, name) for principal in self.principals):
            return f"it is for {', '.join(self.principals) or 'no host'}, not for {name}"
        return None


def is_certificate(blob: bytes) -> bool:
    return HostKey(blob).type.endswith(CERTIFICATE_SUFFIX)


def parse_certificate(blob: bytes) -> Certificate:
    """Read a certificate from its wire form.

    Raises: WireFormatError.
    """
    reader = Reader(blob)
    kind = reader.text()
    stem = kind.removesuffix(CERTIFICATE_SUFFIX)
    if stem == kind or stem not in _KEY_FIELDS:
        raise WireFormatError(f"{kind} is no certificate type that is known")
    reader.string()  # the nonce
    fields = [reader.string() for _ in range(_KEY_FIELDS[stem])]
    plain_type = f"{stem}@openssh.com" if stem.startswith("sk-") else stem
    serial, role, key_id = reader.uint64(), reader.uint32(), reader.text()
    principals = _strings(reader.string())
    valid_after, valid_before = reader.uint64(), reader.uint64()
    critical = _strings(reader.string())[::2]
    reader.string()  # extensions, which do not bind
    reader.string()  # reserved
    authority = HostKey(reader.string())
    signed = blob[: reader.position]
    signature = reader.string()
    if reader.rest or authority.type.endswith(CERTIFICATE_SUFFIX):
        raise WireFormatError("it is no proper certificate")
    plain = HostKey(string(plain_type) + b"".join(string(field) for field in fields))
    return Certificate(
        kind,
        plain,
        serial,
        role,
        key_id,
        principals,
        valid_after,
        valid_before,
        critical,
        authority,
        signature,
        signed,
    )


def _strings(data: bytes) -> tuple[str, ...]:
    reader = Reader(data)
    found = []
    while reader.rest:
        found.append(reader.text())
    return tuple(found)

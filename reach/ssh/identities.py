"""Which keys to offer to a host, and in which order: ssh's.

Certificates the configuration lists; agent keys it lists; other agent keys unless IdentitiesOnly; key files
that no agent holds. Source: pubkey_prepare() of OpenSSH 9.2, by its description in ssh -vv.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reach.ssh.agent import AgentIdentity
from reach.ssh.certificate import USER_CERTIFICATE, Certificate, parse_certificate
from reach.ssh.host_settings import HostSettings
from reach.ssh.key_file import load_certificate_blob, load_public_blob
from reach.ssh.remote_text import printable
from reach.ssh.wire_format import WireFormatError


@dataclass(frozen=True)
class Identity:
    """One key to offer: its public half where that is known, and where the private half is."""

    label: str
    blob: bytes | None
    """The key or certificate to offer; None for an encrypted file whose public half is not written down."""
    file: Path | None = None
    agent: AgentIdentity | None = None


def identities_to_offer(settings: HostSettings, held: Sequence[AgentIdentity]) -> list[Identity]:
    """The keys of SETTINGS' files and those HELD by an agent, each once, in the order to try."""
    holders = {one.blob: one for one in held}
    files = [_with_holder(one, holders) for one in _from_files(settings)]
    listed = {one.blob: one for one in files if one.blob in holders}
    others = [] if settings.identities_only else [one for one in held if one.blob not in listed]
    return _once(
        [
            *(_with_holder(one, holders) for one in _from_certificate_files(settings)),
            *(listed[one.blob] for one in held if one.blob in listed),
            *(_of_agent(one) for one in others),
            *(one for one in files if one.blob not in holders),
        ]
    )


def _of_agent(held: AgentIdentity) -> Identity:
    return Identity(f"{printable(held.comment) or 'a key'} (agent)", held.blob, agent=held)


def _with_holder(identity: Identity, holders: dict[bytes, AgentIdentity]) -> Identity:
    """IDENTITY, signed for by the agent where that holds it or the key that its certificate is about."""
    if identity.blob is None:
        return identity
    certificate = _certificate(identity.blob)
    holder = holders.get(identity.blob) or (certificate and holders.get(certificate.plain_key.blob))
    return replace(identity, label=f"{identity.label} (agent)", agent=holder) if holder else identity


def _from_files(settings: HostSettings) -> list[Identity]:
    """The key files, each followed by the certificate beside it, unless CertificateFile names others."""
    found = []
    for file in settings.identity_files:
        blob = load_public_blob(file)
        if blob is None and not file.is_file():
            continue
        found.append(Identity(file.name, blob, file))
        beside = file.with_name(file.name + "-cert.pub")
        if not settings.certificate_files and (certificate := _user_certificate(beside)):
            found.append(Identity(beside.name, certificate, file))
    return found


def _from_certificate_files(settings: HostSettings) -> list[Identity]:
    key_files = {load_public_blob(file): file for file in settings.identity_files}
    found = []
    for file in settings.certificate_files:
        if blob := _user_certificate(file):
            certificate = parse_certificate(blob)
            found.append(Identity(file.name, blob, key_files.get(certificate.plain_key.blob)))
    return found


def _user_certificate(file: Path) -> bytes | None:
    blob = load_certificate_blob(file)
    certificate = _certificate(blob) if blob else None
    return blob if certificate and certificate.role == USER_CERTIFICATE else None


def _certificate(blob: bytes) -> Certificate | None:
    try:
        return parse_certificate(blob)
    except WireFormatError:
        return None


def _once(identities: Sequence[Identity]) -> list[Identity]:
    """IDENTITIES without repetitions and without those that nobody can sign with."""
    usable = [one for one in identities if one.file or one.agent]
    by_blob = {one.blob: one for one in reversed(usable) if one.blob is not None}
    return [one for one in usable if one.blob is None or by_blob[one.blob] is one]

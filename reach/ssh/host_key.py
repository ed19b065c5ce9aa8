"""Whether the key that a server showed is the host's: known, vouched for, unknown, changed or revoked.

The server is not trusted until this says so; nothing of the operator's goes to it before.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from reach.errors import HostKeyMismatchError, HostKeyUnknownError
from reach.ssh.algorithms import CERTIFICATE_SUFFIX, key_type
from reach.ssh.certificate import Certificate, is_certificate, parse_certificate
from reach.ssh.host_key_error import describe_key, host_key_changed, host_key_revoked, host_key_unknown
from reach.ssh.host_settings import HostKeyPolicy, HostSettings
from reach.ssh.known_hosts import HostKey, KnownHost, Marker, append_known_host, load_known_hosts
from reach.ssh.operator import Operator
from reach.ssh.revoked_keys import is_revoked_by_file
from reach.ssh.wire_format import WireFormatError


@dataclass(frozen=True)
class HostKeyRecord:
    """What the known_hosts files say about one host."""

    settings: HostSettings
    known: tuple[KnownHost, ...]
    """The lines about the host under its own name."""
    portless: tuple[KnownHost, ...]
    """The lines about the name without its port: ssh takes them as proof, never as a contradiction."""

    @classmethod
    def load(cls, settings: HostSettings) -> HostKeyRecord:
        """Read the files that SETTINGS name. Raises: ConfigError."""
        entries = load_known_hosts(settings.known_hosts_files)
        name = settings.known_hosts_name
        bare = "" if settings.host_key_alias or settings.port == 22 else settings.hostname.lower()
        return cls(
            settings,
            tuple(entry for entry in entries if entry.matches(name)),
            tuple(entry for entry in entries if bare and entry.matches(bare)),
        )

    def preferred_algorithms(self) -> tuple[str, ...]:
        """The host key algorithms to offer, those first for which a key of the host is known."""
        keys = {e.key.type for e in self.known if e.marker is Marker.NONE}
        keys = keys or {e.key.type for e in self.portless if e.marker is Marker.NONE}
        has_authority = any(e.marker is Marker.CERT_AUTHORITY for e in self.known + self.portless)

        def is_expected(algorithm: str) -> bool:
            if algorithm.endswith(CERTIFICATE_SUFFIX):
                return has_authority
            return key_type(algorithm) in keys

        offered = self.settings.host_key_algorithms
        if not has_authority:
            offered = tuple(a for a in offered if not a.endswith(CERTIFICATE_SUFFIX)) or offered
        return tuple(sorted(offered, key=lambda algorithm: not is_expected(algorithm)))

    def check(self, blob: bytes, operator: Operator) -> None:
        """Accept the host key BLOB or refuse it; ask OPERATOR about an unknown one where the policy says so.

        Raises: HostKeyUnknownError, HostKeyMismatchError; ConfigError when RevokedHostKeys can't be read.
        """
        certificate = _certificate(blob)
        key = certificate.plain_key if certificate else HostKey(blob)
        self._refuse_revoked(key, certificate)
        self._refuse_short(key)
        objection = self._objection(certificate) if certificate else ""
        if objection is None:
            return
        if any(e.key == key for e in self.known + self.portless if e.marker is Marker.NONE):
            return
        others = [entry for entry in self.known if entry.marker is Marker.NONE]
        if others:
            raise host_key_changed(self.settings, key, others)
        self._meet_unknown(key, objection, operator)

    def _refuse_revoked(self, key: HostKey, certificate: Certificate | None) -> None:
        suspects = [key, certificate.authority] if certificate else [key]
        for entry in self.known + self.portless:
            if entry.marker is Marker.REVOKED and entry.key in suspects:
                raise host_key_revoked(self.settings, entry.key, f"which {entry} marks as revoked")
        file = self.settings.revoked_host_keys
        if file and any(is_revoked_by_file(file, suspect) for suspect in suspects):
            raise host_key_revoked(self.settings, key, f"which {file} (RevokedHostKeys) lists")

    def _refuse_short(self, key: HostKey) -> None:
        bits, wanted = key.rsa_bits, self.settings.min_rsa_bits
        if bits is not None and bits < wanted:
            raise HostKeyMismatchError(
                f"{self.settings.label} shows an RSA key of {bits} bits; {wanted} is the least to be trusted",
                fix="have the host get a new key, or lower RequiredRSASize in ssh_config",
            )

    def _objection(self, certificate: Certificate) -> str | None:
        """Why CERTIFICATE does not speak for the host (empty: nobody known signed it); None when it does."""
        authorities = [e for e in self.known + self.portless if e.marker is Marker.CERT_AUTHORITY]
        if not any(entry.key == certificate.authority for entry in authorities):
            return ""
        objection = certificate.objection(self.settings.host_key_alias or self.settings.hostname.lower())
        if objection or certificate.is_signed_by_its_authority(self.settings.ca_signature_algorithms):
            return objection
        return "its signature is not valid"

    def _meet_unknown(self, key: HostKey, objection: str, operator: Operator) -> None:
        policy = self.settings.host_key_policy
        shown = f"the {describe_key(key)}"
        if objection:
            shown += f" (its certificate does not count: {objection})"
        if policy is HostKeyPolicy.REFUSE:
            raise host_key_unknown(self.settings, shown, "StrictHostKeyChecking is yes")
        if policy is HostKeyPolicy.ASK and not self._operator_agrees(key, shown, operator):
            raise host_key_unknown(self.settings, shown, "nobody has confirmed it")
        self._remember(key, operator)

    def _operator_agrees(self, key: HostKey, shown: str, operator: Operator) -> bool:
        if self.settings.is_batch:
            return False
        question = (
            f"{self.settings.label} is not known yet. It shows {shown}.\n"
            "Is that the host's key (yes, no, or the fingerprint you expect)? "
        )
        answer = operator.ask(question, echo=True)
        while answer is not None:
            answer = answer.strip()
            if answer.lower() == "yes" or answer == key.fingerprint:
                return True
            if answer.lower() == "no":
                return False
            answer = operator.ask("Type yes, no or the fingerprint: ", echo=True)
        return False

    def _remember(self, key: HostKey, operator: Operator) -> None:
        shown = f"The {describe_key(key)} of {self.settings.label}"
        file = next(iter(self.settings.user_known_hosts), Path(os.devnull))
        if file == Path(os.devnull):
            operator.tell(f"{shown} is accepted and not remembered.")
            return
        name, is_hashed = self.settings.known_hosts_name, self.settings.hash_known_hosts
        try:
            append_known_host(file, name, key, is_hashed=is_hashed)
        except OSError as error:
            operator.tell(f"{shown} could not be added to {file}: {error.strerror}.")
        else:
            operator.tell(f"{shown} is now in {file}.")


def _certificate(blob: bytes) -> Certificate | None:
    if not is_certificate(blob):
        return None
    try:
        return parse_certificate(blob)
    except WireFormatError as error:
        raise HostKeyUnknownError(f"the server's host certificate can't be read: {error}") from error

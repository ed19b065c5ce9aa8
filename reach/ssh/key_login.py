"""Logging in with keys: the agent's, those of files, and certificates, as ssh would offer them."""

from __future__ import annotations

from collections.abc import Iterator

from reach.ssh.agent import Agent, AgentError, AgentIdentity
from reach.ssh.algorithms import key_type, plain_algorithm
from reach.ssh.host_settings import HostSettings
from reach.ssh.identities import Identity, identities_to_offer
from reach.ssh.key_file import KeyFileError
from reach.ssh.known_hosts import HostKey
from reach.ssh.login_record import LoginRecord
from reach.ssh.operator import Operator
from reach.ssh.passphrase import NobodyAnsweredError, open_key_file
from reach.ssh.secrets import Secrets
from reach.ssh.signer import LoadedKey, Signer
from reach.ssh.userauth import KeyWelcome, LoginExchange, Reply, is_right
from reach.ssh.wire_format import string

METHOD = "publickey"


class KeyLogin:
    """The method publickey of RFC 4252, section 7. A key is asked about before it is opened or signs."""

    def __init__(
        self,
        exchange: LoginExchange,
        settings: HostSettings,
        record: LoginRecord,
        agent: Agent | None,
        operator: Operator,
        secrets: Secrets,
    ) -> None:
        self._exchange = exchange
        self._settings = settings
        self._record = record
        self._agent = agent
        self._operator = operator
        self._secrets = secrets
        self._used: set[bytes] = set()
        """Keys that were right in an earlier step; a server does not take one twice."""

    def attempts(self) -> Iterator[Reply]:
        """Offer one key after the other, and yield what the server replies to each."""
        for identity in identities_to_offer(self._settings, self._held()):
            if identity.blob in self._used:
                continue
            reply = self._offer(identity)
            if reply is not None:
                yield reply

    def _held(self) -> list[AgentIdentity]:
        try:
            return self._agent.identities() if self._agent else []
        except AgentError as error:
            self._record.note(METHOD, str(error))
            return []

    def _offer(self, identity: Identity) -> Reply | None:
        """Try one key. None when it could not be tried."""
        signer: Signer | None = identity.agent
        blob = identity.blob
        if blob is None:
            signer = opened = self._opened(identity)
            blob = opened.public_blob if opened else None
        if blob is None or (algorithm := self._algorithm(blob, identity.label)) is None:
            return None
        reply = self._exchange.request(METHOD, b"\0" + string(algorithm) + string(blob))
        if not isinstance(reply, KeyWelcome):
            self._record.note(METHOD, f"{identity.label} refused")
            return reply
        signer = signer or self._opened(identity)
        return self._signed(identity.label, algorithm, blob, signer) if signer else None

    def _signed(self, label: str, algorithm: str, blob: bytes, signer: Signer) -> Reply | None:
        try:
            reply = self._exchange.signed_request(algorithm, blob, signer.sign)
        except AgentError as error:
            self._record.note(METHOD, f"{label}: {error}")
            return None
        if is_right(reply):
            self._used.add(blob)
        self._record.note(METHOD, label if is_right(reply) else f"{label} refused")
        return reply

    def _algorithm(self, blob: bytes, label: str) -> str | None:
        """What to sign with: the first that the settings allow for this key and the server takes."""
        server = self._exchange.signature_algorithms
        key = HostKey(blob)
        if (key.rsa_bits or self._settings.min_rsa_bits) < self._settings.min_rsa_bits:
            self._record.note(METHOD, f"{label} not offered ({key.rsa_bits} bits are too few)")
            return None
        for algorithm in self._settings.pubkey_algorithms:
            plain = plain_algorithm(algorithm)
            if key_type(algorithm) == key.type and plain != "ssh-rsa" and (not server or plain in server):
                return algorithm
        self._record.note(METHOD, f"{label} not offered (its type is excluded)")
        return None

    def _opened(self, identity: Identity) -> LoadedKey | None:
        """The private key in IDENTITY's file, or None when it can't be had."""
        if identity.file is None:
            return None
        try:
            return open_key_file(identity.file, self._operator, self._secrets)
        except NobodyAnsweredError:
            self._record.note(METHOD, f"{identity.label} not opened")
            self._record.note_unanswered(f"the passphrase of {identity.file}")
        except KeyFileError as error:
            self._record.note(METHOD, f"{identity.label} not used: {error}")
        return None

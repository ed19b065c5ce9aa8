"""A key pair as authentication needs it: a public blob to offer, and something that signs."""

from __future__ import annotations

import base64
from typing import Protocol

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from reach.ssh.algorithms import plain_algorithm
from reach.ssh.wire_format import mpint, string

PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey

_CURVE_HASHES = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}
"""Source: RFC 5656, section 6.2.1."""


class Signer(Protocol):
    """Whoever holds the private half: this process, or an SSH agent."""

    def sign(self, data: bytes, algorithm: str) -> bytes:
        """Sign DATA with ALGORITHM (a certificate's name means its plain one).

        Shape: a signature blob, RFC 4253 section 6.6.
        """
        ...


class LoadedKey:
    """A private key in this process's memory."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "LoadedKey(…)"

    @property
    def public_blob(self) -> bytes:
        return public_blob(self._key)

    def sign(self, data: bytes, algorithm: str) -> bytes:
        plain = plain_algorithm(algorithm)
        return string(plain) + string(self._raw_signature(data, plain))

    def _raw_signature(self, data: bytes, algorithm: str) -> bytes:
        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(data)
        if isinstance(self._key, RSAPrivateKey):
            digest = hashes.SHA256() if algorithm == "rsa-sha2-256" else hashes.SHA512()
            return self._key.sign(data, PKCS1v15(), digest)
        r, s = decode_dss_signature(self._key.sign(data, ECDSA(_CURVE_HASHES[self._key.curve.key_size])))
        return mpint(r) + mpint(s)


def public_blob(key: PrivateKey) -> bytes:
    """The public half of KEY in its wire form."""
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return base64.b64decode(line.split()[1])

"""Key files: the public half for the asking, the private half once a passphrase opens it."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from reach.ssh.known_hosts import HostKey
from reach.ssh.signer import LoadedKey
from reach.ssh.wire_format import Reader, WireFormatError

MAX_KEY_FILE_BYTES = 1 << 20
_OPENSSH_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_OPENSSH_END = b"-----END OPENSSH PRIVATE KEY-----"
_OPENSSH_MAGIC = b"openssh-key-v1\0"


class KeyFileError(Exception):
    """The file holds no key that can be used; the message says why, without the file's name."""


class PassphraseNeededError(Exception):
    """The private key is encrypted and the passphrase given, if any, does not open it."""


def load_public_blob(file: Path) -> bytes | None:
    """The public key of the key FILE: what is unencrypted in it, or FILE itself, or FILE.pub."""
    content = _read(file)
    return (
        (_blob_in_openssh_key(content) if content else None)
        or (_blob_in_line(content) if content else None)
        or _blob_in_line(_read(file.with_name(file.name + ".pub")) or b"")
    )


def load_certificate_blob(file: Path) -> bytes | None:
    """The certificate in FILE, a one-line public key file; None where there is none."""
    return _blob_in_line(_read(file) or b"")


def load_private_key(file: Path, passphrase: str | None) -> LoadedKey:
    """Read the private key in FILE, in OpenSSH's own format or PEM.

    Raises: PassphraseNeededError; KeyFileError when it can't be used whatever the passphrase.
    """
    content = _read_private(file)
    secret = passphrase.encode("utf-8") if passphrase else None
    try:
        load = load_ssh_private_key if _OPENSSH_BEGIN in content else load_pem_private_key
        key: object = load(content, secret)
    except TypeError as error:
        if secret is not None:  # cryptography objects to a passphrase for a key that has none
            return load_private_key(file, None)
        raise PassphraseNeededError from error
    except ValueError as error:
        if secret is not None:
            raise PassphraseNeededError from error
        raise KeyFileError(f"it can't be read ({error})") from error
    except UnsupportedAlgorithm as error:
        raise KeyFileError(f"its kind of key or cipher is not supported ({error})") from error
    if not isinstance(key, (RSAPrivateKey, EllipticCurvePrivateKey, Ed25519PrivateKey)):
        raise KeyFileError("its kind of key is not supported")
    return LoadedKey(key)


def _read_private(file: Path) -> bytes:
    try:
        status = file.stat()
        content = file.read_bytes()[:MAX_KEY_FILE_BYTES]
    except OSError as error:
        raise KeyFileError(f"it can't be read ({error.strerror})") from error
    if b"PRIVATE KEY" not in content:
        raise KeyFileError("it holds no private key")
    if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) & 0o077:
        raise KeyFileError(f"others may read it; type: chmod 600 {file}")
    return content


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()[:MAX_KEY_FILE_BYTES] if file.is_file() else None
    except OSError:
        return None


def _blob_in_line(content: bytes) -> bytes | None:
    for line in content.splitlines():
        fields = line.split()
        if len(fields) < 2 or fields[0].startswith(b"#"):
            continue
        try:
            blob = base64.b64decode(fields[1], validate=True)
            return blob if HostKey(blob).type.encode() == fields[0] else None
        except (binascii.Error, WireFormatError):
            return None
    return None


def _blob_in_openssh_key(content: bytes) -> bytes | None:
    """Source: PROTOCOL.key of OpenSSH 9.2: the public key stands unencrypted before the private ones."""
    _, begin, rest = content.partition(_OPENSSH_BEGIN)
    body, end, _ = rest.partition(_OPENSSH_END)
    if not begin or not end:
        return None
    try:
        data = base64.b64decode(b"".join(body.split()), validate=True)
        if not data.startswith(_OPENSSH_MAGIC):
            return None
        reader = Reader(data[len(_OPENSSH_MAGIC) :])
        for _ in range(3):  # cipher, key derivation, its options
            reader.string()
        return reader.string() if reader.uint32() == 1 else None
    except (binascii.Error, WireFormatError):
        return None

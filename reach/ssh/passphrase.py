"""Opening a key file with the passphrase that is remembered, or that the operator types."""

from __future__ import annotations

from pathlib import Path

from reach.ssh.key_file import KeyFileError, PassphraseNeededError, load_private_key
from reach.ssh.operator import Operator
from reach.ssh.secrets import Secrets
from reach.ssh.signer import LoadedKey

MAX_TRIES = 3


class NobodyAnsweredError(Exception):
    """The key is encrypted, and nobody was there to give its passphrase."""


def open_key_file(file: Path, operator: Operator, secrets: Secrets) -> LoadedKey:
    """Read the private key in FILE, asking OPERATOR for its passphrase where SECRETS do not have it.

    Raises: KeyFileError when the key can't be used or the passphrase was not right; NobodyAnsweredError.
    """
    passphrase = secrets.passphrase(file)
    for tries_left in range(MAX_TRIES, -1, -1):
        try:
            key = load_private_key(file, passphrase)
        except PassphraseNeededError:
            if not tries_left:
                break
            passphrase = operator.ask(f"Passphrase for the key {file}: ", echo=False)
            if passphrase is None:
                raise NobodyAnsweredError from None
            if not passphrase:
                raise KeyFileError("it was left out") from None
        else:
            if passphrase:
                secrets.keep_passphrase(file, passphrase)
            return key
    raise KeyFileError("its passphrase was not right")

"""The algorithms that both ssh_config allows and paramiko has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import paramiko
from paramiko.kex_curve25519 import KexCurve25519

from reach.errors import ConfigError

CERTIFICATE_SUFFIX = "-cert-v01@openssh.com"

KEX_CLASSES = dict(paramiko.Transport._kex_info)  # type: ignore[attr-defined]
"""paramiko's key exchanges, and curve25519-sha256 under the name RFC 8731 gave it besides the older one."""
if KexCurve25519.is_available():
    KEX_CLASSES["curve25519-sha256"] = KexCurve25519

CIPHERS: tuple[str, ...] = tuple(paramiko.Transport._preferred_ciphers)  # type: ignore[attr-defined]
MACS: tuple[str, ...] = tuple(paramiko.Transport._preferred_macs)  # type: ignore[attr-defined]
KEY_EXCHANGES: tuple[str, ...] = tuple(KEX_CLASSES)
HOST_KEYS: tuple[str, ...] = tuple(paramiko.Transport._key_info)  # type: ignore[attr-defined]

_SAFE_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
_SAFE_MACS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1",
)
_SAFE_KEY_EXCHANGES = tuple(name for name in paramiko.Transport._preferred_kex)  # type: ignore[attr-defined]
_PLAIN_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_SK_KEYS = ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")
_SK_CERTIFICATES = ("sk-ssh-ed25519-cert-v01@openssh.com", "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com")
_CERTIFICATES = tuple(name + CERTIFICATE_SUFFIX for name in _PLAIN_KEYS)

DEFAULTS: dict[str, tuple[str, ...]] = {
    "ciphers": _SAFE_CIPHERS,
    "macs": _SAFE_MACS,
    "kexalgorithms": _SAFE_KEY_EXCHANGES,
    "hostkeyalgorithms": _CERTIFICATES + _PLAIN_KEYS,
    "pubkeyacceptedalgorithms": _CERTIFICATES + _SK_CERTIFICATES + _PLAIN_KEYS + _SK_KEYS,
    "casignaturealgorithms": _PLAIN_KEYS,
}
"""What holds when ssh_config says nothing and no ssh client is there to tell."""


_OFFERED = {"Ciphers": CIPHERS, "MACs": MACS, "KexAlgorithms": KEY_EXCHANGES, "HostKeyAlgorithms": HOST_KEYS}


def parse_algorithms(keyword: str, value: str | None) -> tuple[str, ...]:
    """Read a list of algorithms; one that begins with +, - or ^ changes the default list.

    VALUE is None where nothing is said. An empty one is ssh's answer where a list had everything taken out.
    """
    default = DEFAULTS[keyword]
    if value is None:
        return default
    if not value:
        return ()
    names = tuple(name for name in value.lstrip("+-^").split(",") if name)
    if value[0] == "+":
        return default + tuple(name for name in names if name not in default)
    if value[0] == "-":
        return tuple(name for name in default if not any(fnmatchcase(name, pattern) for pattern in names))
    if value[0] == "^":
        return names + tuple(name for name in default if name not in names)
    return names


def available(keyword: str, wanted: Iterable[str], host: str) -> tuple[str, ...]:
    """Those of WANTED that paramiko has, in WANTED's order.

    Raises: ConfigError when none is left.
    """
    wanted = tuple(wanted)
    left = _in_common(keyword, wanted)
    if not left:
        raise ConfigError(
            f"{keyword} for {host} allows only {','.join(wanted) or 'nothing'}, none of which reach has",
            fix=f"allow one of {','.join(_OFFERED[keyword])} for this host in ssh_config",
        )
    return left


def lists_without_any(wanted: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Those of WANTED, lists by keyword, of which paramiko has no algorithm."""
    return (keyword for keyword, names in wanted.items() if not _in_common(keyword, names))


def _in_common(keyword: str, wanted: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in wanted if name in _OFFERED[keyword])


def quickest_first(ciphers: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """CIPHERS with AES-GCM ahead where WANTED is OpenSSH's own list, whose first choice paramiko lacks.

    Encrypting and authenticating in one step takes two thirds of the time of AES-CTR with a MAC, and OpenSSH 10 has
    this order itself. A list of the operator's keeps its order.
    """
    if not wanted[0].startswith("chacha20-"):
        return ciphers
    return tuple(sorted(ciphers, key=lambda name: "-gcm" not in name))


def plain_algorithm(algorithm: str) -> str:
    """ALGORITHM without the certificate: what the signature itself is made with."""
    plain = algorithm.removesuffix(CERTIFICATE_SUFFIX)
    return f"{plain}@openssh.com" if plain != algorithm and plain.startswith("sk-") else plain


def key_type(algorithm: str) -> str:
    """The type of key that ALGORITHM signs with: an RSA key is `ssh-rsa` whatever the signature."""
    plain = algorithm.removesuffix(CERTIFICATE_SUFFIX)
    suffix = algorithm[len(plain) :]
    return ("ssh-rsa" if plain in ("rsa-sha2-256", "rsa-sha2-512") else plain) + suffix

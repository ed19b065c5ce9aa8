"""Settings of a host that this transport can't serve, so that another may be chosen or the operator told."""

from __future__ import annotations

import shutil
import socket
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

from reach.ssh.algorithms import lists_without_any, parse_algorithms
from reach.ssh.config import Options
from reach.ssh.expansion import Expansion
from reach.ssh.revoked_keys import is_krl

_PROBE_TIMEOUT_S = 0.5
_KLIST_TIMEOUT_S = 5.0


def unsupported_settings(
    options: Options, expand: Expansion, identity_files: Iterable[Path], agent_socket: Path | None
) -> tuple[str, ...]:
    """Name every setting in OPTIONS that paramiko has nothing for, in the words of ssh_config."""
    found = [f"{name} {_one(options, keyword)}" for keyword, name in _VALUES if _is_set(options, keyword)]
    found += [f"{name} yes" for keyword, name in _SWITCHES if _one(options, keyword) in ("yes", "true")]
    first_method = _one(options, "preferredauthentications").partition(",")[0]
    if first_method in ("gssapi-with-mic", "gssapi-keyex", "hostbased"):
        found.append(f"PreferredAuthentications {first_method}")
    elif _one(options, "gssapiauthentication") in ("yes", "true") and _has_ticket():
        found.append("GSSAPIAuthentication yes (a Kerberos ticket is there)")
    if agent_socket is None:
        found += [f"IdentityFile {file} (security key without an agent)" for file in identity_files if is_sk_file(file)]
    if live_master(options, expand):
        found.append(f"ControlPath {_one(options, 'controlpath')} (a master is running)")
    lists = {name: parse_algorithms(name.lower(), options.get(name.lower(), [None])[0]) for name in _ALGORITHM_LISTS}
    found += [f"{name} {','.join(lists[name]) or 'of nothing'}" for name in lists_without_any(lists)]
    revocations = _one(options, "revokedhostkeys")
    if revocations not in ("", "none") and is_krl(expand.path(revocations)):
        found.append(f"RevokedHostKeys {revocations} (a binary list)")
    return tuple(found)


def live_master(options: Options, expand: Expansion) -> Path | None:
    """The socket of a master that the operator runs for this host, if it may be used.

    One that forwards an agent is not: sshd gives the agent to every session of such a connection. Neither is one that
    has its owner asked each time.
    """
    if not _is_set(options, "controlpath") or _one(options, "controlmaster") in ("ask", "autoask"):
        return None
    if _one(options, "forwardagent") not in ("", "no", "false"):
        return None
    path = expand.path(_one(options, "controlpath"))
    return path if _is_live_socket(path) else None


_VALUES = (
    ("pkcs11provider", "PKCS11Provider"),
    ("knownhostscommand", "KnownHostsCommand"),
    ("bindinterface", "BindInterface"),
)
_SWITCHES = (
    ("proxyusefdpass", "ProxyUseFdpass"),
    ("hostbasedauthentication", "HostbasedAuthentication"),
    ("verifyhostkeydns", "VerifyHostKeyDNS"),
)
_ALGORITHM_LISTS = ("Ciphers", "MACs", "KexAlgorithms", "HostKeyAlgorithms")


def is_sk_file(file: Path) -> bool:
    """Whether FILE is the handle of a key that lives in a FIDO authenticator, by the public key beside it."""
    try:
        return file.is_file() and file.with_name(file.name + ".pub").read_bytes().startswith(b"sk-")
    except OSError:
        return False


def _one(options: Options, keyword: str) -> str:
    values = options.get(keyword)
    return values[0].strip() if values else ""


def _is_set(options: Options, keyword: str) -> bool:
    return _one(options, keyword) not in ("", "none")


def _has_ticket() -> bool:
    """Whether the operator's Kerberos tickets, if there are any, are still good. Source: klist(1), -s."""
    klist = shutil.which("klist")
    if klist is None:
        return False
    try:
        return subprocess.run([klist, "-s"], stdin=subprocess.DEVNULL, timeout=_KLIST_TIMEOUT_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):  # a cache may be a service that does not answer
        return False


def _is_live_socket(path: Path) -> bool:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_TIMEOUT_S)
            probe.connect(str(path))
    except OSError:
        return False
    return True

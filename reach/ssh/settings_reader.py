"""One host's options, turned into values."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
from dataclasses import replace
from pathlib import Path

from reach.errors import ConfigError
from reach.ssh.algorithms import parse_algorithms
from reach.ssh.config import Options, ssh_destination
from reach.ssh.expansion import Expansion
from reach.ssh.host_settings import HostKeyPolicy, HostSettings
from reach.ssh.unsupported import live_master, unsupported_settings
from reach.target import Target

DEFAULT_METHODS = ("gssapi-with-mic", "hostbased", "publickey", "keyboard-interactive", "password")
"""ssh's own order. The first two are never attempted here."""

_YES = ("yes", "true")
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
_DEFAULT_KEY_FILES = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class SettingsReader:
    """Reads the options that ssh_config has for one target."""

    def __init__(self, options: Options, target: Target, agent_socket: str | None, config_file: Path | None) -> None:
        self._options = options
        self._target = target
        self._config_file = config_file
        self._host = target.host
        self._own_agent = agent_socket
        self.hostname = self.one("hostname") or target.host
        self.port = self._number("port", 22)
        self.user = self.one("user") or pwd.getpwuid(os.getuid()).pw_name
        self._alias = self.one("hostkeyalias")
        jump = self.one("proxyjump", "none")
        self._expand = Expansion(
            self._host, self.hostname, self.port, self.user, self._alias, "" if jump == "none" else jump
        )

    def one(self, keyword: str, default: str = "") -> str:
        values = self._options.get(keyword)
        return values[0].strip() if values else default

    def settings(self, jump: HostSettings | None) -> HostSettings:
        agent, absence = self._agent_socket()
        identities = self._key_files()
        return HostSettings(
            host=self._host,
            hostname=self.hostname,
            port=self.port,
            user=self.user,
            host_key_alias=self._alias or None,
            address_family=_FAMILIES.get(self.one("addressfamily", "any"), socket.AF_UNSPEC),
            bind_address=self.one("bindaddress") or None,
            connect_timeout_s=self._seconds("connecttimeout", None),
            connection_attempts=self._number("connectionattempts", 1),
            methods=self._methods(),
            identity_files=identities,
            certificate_files=self._paths("certificatefile"),
            identities_only=self._is_on("identitiesonly", False),
            agent_socket=agent,
            agent_absence=absence,
            password_prompts=self._number("numberofpasswordprompts", 3),
            is_batch=self._is_on("batchmode", False),
            host_key_policy=self._policy(),
            hash_known_hosts=self._is_on("hashknownhosts", False),
            user_known_hosts=self._file_list("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"),
            global_known_hosts=self._file_list(
                "globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
            ),
            revoked_host_keys=next(iter(self._paths("revokedhostkeys")), None),
            host_key_algorithms=self._algorithms("hostkeyalgorithms"),
            pubkey_algorithms=self._algorithms("pubkeyacceptedalgorithms"),
            ca_signature_algorithms=self._algorithms("casignaturealgorithms"),
            ciphers=self._algorithms("ciphers"),
            macs=self._algorithms("macs"),
            key_exchanges=self._algorithms("kexalgorithms"),
            min_rsa_bits=self._number("requiredrsasize", 1024),
            keepalive_interval_s=self._seconds("serveraliveinterval", 0) or 0,
            keepalive_max=self._number("serveralivecountmax", 3),
            rekey_bytes=_parse_bytes(self.one("rekeylimit", "0").split()[0]),
            proxy_command=self._proxy_command() if jump is None else None,
            jump=jump,
            unsupported=unsupported_settings(self._options, self._expand, identities, agent)
            + (jump.unsupported if jump else ()),
            shared_master=live_master(self._options, self._expand),
            destination=ssh_destination(self._target),
            ssh_command=self._ssh_command(),
            up_command=f"reach up {replace(self._target, folder=None)}",
        )

    def _ssh_command(self) -> str:
        words = ["ssh"]
        if self._config_file:
            words += ["-F", str(self._config_file)]
        if self._target.port:
            words += ["-p", str(self._target.port)]
        login = f"{self._target.user}@" if self._target.user else ""
        return shlex.join([*words, login + self._target.host])

    def _is_on(self, keyword: str, default: bool) -> bool:
        value = self.one(keyword).lower()
        return value in _YES if value else default

    def _number(self, keyword: str, default: int) -> int:
        value = self.one(keyword)
        if not value:
            return default
        if not value.isdigit():
            raise ConfigError(f"{keyword} for {self._host} is {value!r}, no number", fix="correct it in ssh_config")
        return int(value)

    def _seconds(self, keyword: str, default: int | None) -> int | None:
        value = self.one(keyword)
        return default if value in ("", "none") else parse_seconds(keyword, value)

    def _algorithms(self, keyword: str) -> tuple[str, ...]:
        return parse_algorithms(keyword, self.one(keyword) if keyword in self._options else None)

    def _methods(self) -> tuple[str, ...]:
        wanted = self.one("preferredauthentications")
        methods = tuple(m.strip() for m in wanted.split(",")) if wanted else DEFAULT_METHODS
        off = set()
        if self.one("pubkeyauthentication", "yes").lower() in ("no", "false"):
            off.add("publickey")
        if not self._is_on("passwordauthentication", True):
            off.add("password")
        if not self._is_on("kbdinteractiveauthentication", True):
            off.add("keyboard-interactive")
        return tuple(m for m in methods if m and m not in off)

    def _policy(self) -> HostKeyPolicy:
        value = self.one("stricthostkeychecking", "ask").lower()
        named = {"true": HostKeyPolicy.REFUSE, "false": HostKeyPolicy.ACCEPT, "off": HostKeyPolicy.ACCEPT}
        try:
            return named.get(value) or HostKeyPolicy(value)
        except ValueError:
            raise ConfigError(f"StrictHostKeyChecking for {self._host} is {value!r}") from None

    def _paths(self, keyword: str) -> tuple[Path, ...]:
        values = [value for value in self._options.get(keyword, []) if value.strip() not in ("", "none")]
        return tuple(dict.fromkeys(self._expand.path(value) for value in values))

    def _key_files(self) -> tuple[Path, ...]:
        if "identityfile" in self._options:
            return self._paths("identityfile")
        return tuple(self._expand.path(f"~/.ssh/{name}") for name in _DEFAULT_KEY_FILES)

    def _file_list(self, keyword: str, default: str) -> tuple[Path, ...]:
        value = self.one(keyword, default)
        return () if value == "none" else tuple(self._expand.path(part) for part in split_paths(value))

    def _agent_socket(self) -> tuple[Path | None, str]:
        """Where the agent listens; if nowhere, why."""
        value = self.one("identityagent", "SSH_AUTH_SOCK")
        if value == "none":
            return None, "IdentityAgent is none"
        if value in ("SSH_AUTH_SOCK", "$SSH_AUTH_SOCK"):
            named = self._own_agent
        elif value.startswith("$") and not value.startswith("${"):
            named = os.environ.get(value[1:])
        else:
            return self._expand.path(value), ""
        return (Path(named), "") if named else (None, f"{value.lstrip('$')} is not set")

    def _proxy_command(self) -> str | None:
        value = self.one("proxycommand", "none")
        return None if value == "none" else self._expand.text(value)


def split_paths(value: str) -> list[str]:
    """The paths in VALUE, which `ssh -G` separates by spaces without quoting those inside a path.

    A piece that can't begin a path (no `/`, `~`, `%` or `$`) belongs to the one before it.
    """
    pieces: list[str] = []
    for piece in value.replace('"', "").split(" "):
        if pieces and not piece.startswith(("/", "~", "%", "$")):
            pieces[-1] += f" {piece}"
        elif piece:
            pieces.append(piece)
    return [piece.rstrip() for piece in pieces]


def parse_seconds(keyword: str, value: str) -> int:
    """Read a time as ssh_config writes it: `90`, `1m30s`.

    Raises: ConfigError.
    """
    if not re.fullmatch(r"(\d+[smhdwSMHDW]?)+", value):
        raise ConfigError(f"{keyword} is {value!r}, no time", fix="write it as 90 or 1m30s in ssh_config")
    return sum(int(n) * _UNITS_S[unit.lower()] for n, unit in re.findall(r"(\d+)([a-zA-Z]?)", value))


def _parse_bytes(value: str) -> int:
    match = re.fullmatch(r"(\d+)([KMGkmg]?)", value)
    if not match:
        return 0
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]

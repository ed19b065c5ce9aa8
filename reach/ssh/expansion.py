"""What `~`, `%` tokens and `${VARIABLES}` in an ssh_config value stand for.

Source: ssh_config(5), TOKENS and ENVIRONMENT VARIABLES, OpenSSH 9.2.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from reach.errors import ConfigError
from reach.paths import operator_home


@dataclass(frozen=True)
class Expansion:
    """What is known of one host when its values are expanded."""

    host: str
    """As the operator wrote it."""
    hostname: str
    port: int
    user: str
    host_key_alias: str | None = None
    jump: str = ""

    def text(self, value: str) -> str:
        """Expand the tokens of VALUE. Raises: ConfigError for a token that is not known."""
        tokens = self._tokens()

        def replace(match: re.Match[str]) -> str:
            if match[1] not in tokens:
                raise ConfigError(f"ssh_config: {match[0]!r} in {value!r} is no token", fix="write %% for %")
            return tokens[match[1]]

        return re.sub(r"%(.?)", replace, value, flags=re.DOTALL)

    def path(self, value: str) -> Path:
        """Expand `~`, variables and tokens of VALUE, a path."""
        return Path(self.text(_with_variables(_with_home(value))))

    def _tokens(self) -> dict[str, str]:
        account = pwd.getpwuid(os.getuid())
        here = socket.gethostname()
        port = str(self.port)
        connection = f"{here}{self.hostname}{port}{self.user}{self.jump}"
        return {
            "%": "%",
            "C": hashlib.sha1(connection.encode(), usedforsecurity=False).hexdigest(),
            "d": str(operator_home()),
            "h": self.hostname,
            "i": str(account.pw_uid),
            "j": self.jump,
            "k": self.host_key_alias or self.host,
            "L": here.partition(".")[0],
            "l": here,
            "n": self.host,
            "p": port,
            "r": self.user,
            "u": account.pw_name,
        }


def _with_home(value: str) -> str:
    """VALUE with a leading `~` or `~user` replaced from the account database: HOME may be a managed one."""
    if not value.startswith("~"):
        return value
    name, slash, rest = value[1:].partition("/")
    if not name:
        return f"{operator_home()}{slash}{rest}"
    try:
        return f"{pwd.getpwnam(name).pw_dir}{slash}{rest}"
    except KeyError:
        raise ConfigError(f"ssh_config: {value!r} names no account of this machine") from None


def _with_variables(value: str) -> str:
    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigError(f"ssh_config: {value!r} needs the variable {match[1]}, which is not set")
        return found

    return re.sub(r"\$\{(\w+)\}", replace, value)

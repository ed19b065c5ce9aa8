"""How to connect to a host: what ssh_config says about it, resolved and checked, jump hosts included.

Never acted upon, whatever the configuration says: ForwardAgent, ForwardX11, RemoteCommand, RequestTTY,
LocalForward, RemoteForward, DynamicForward, SendEnv, SetEnv, LocalCommand, Compression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from reach.errors import ConfigError
from reach.ssh.config import load_options
from reach.ssh.host_settings import HostKeyPolicy as HostKeyPolicy
from reach.ssh.host_settings import HostSettings as HostSettings
from reach.ssh.settings_reader import SettingsReader
from reach.target import Target, parse_target

MAX_JUMPS = 8


def resolve_settings(target: Target, *, config_file: Path | None, agent_socket: str | None) -> HostSettings:
    """Read what ssh_config says about TARGET and every host on the way to it.

    AGENT_SOCKET stands for SSH_AUTH_SOCK; this process's own environment is not asked for it.

    Raises: ConfigError when the configuration can't be read or makes no sense.
    """
    if target.is_demo:
        raise ConfigError("demo: is no host of ssh_config")
    return _Resolver(config_file, agent_socket).resolve(target, None, 0)


@dataclass(frozen=True)
class _Resolver:
    config_file: Path | None
    agent_socket: str | None

    def resolve(self, target: Target, through: str | None, depth: int) -> HostSettings:
        """Settings for TARGET; THROUGH, when not None, replaces its own ProxyJump, as `ssh -J` does."""
        if depth > MAX_JUMPS:
            raise ConfigError(
                f"ProxyJump leads through more than {MAX_JUMPS} hosts on the way to {target.host}",
                fix="look for hosts in ssh_config that jump through each other",
            )
        options = load_options(target, self.config_file)
        reader = SettingsReader(options, target, self.agent_socket, self.config_file)
        spec = reader.one("proxyjump", "none") if through is None else through
        jump = None if spec in ("none", "") else self._jump(spec, depth)
        return reader.settings(jump)

    def _jump(self, spec: str, depth: int) -> HostSettings:
        before, _, last = spec.rpartition(",")
        return self.resolve(parse_jump(last), before or None, depth + 1)


def parse_jump(text: str) -> Target:
    """Read one host of a ProxyJump: [user@]host[:port] or ssh://….

    Raises: ConfigError.
    """
    text = text.strip()
    if text.startswith("ssh://"):
        return parse_target(text.rstrip("/"))
    match = re.fullmatch(r"(?:(?P<user>.+)@)?(?:\[(?P<address>[^]]+)\]|(?P<host>[^:@\[\]]+))(?::(?P<port>\d+))?", text)
    host = match and (match["address"] or match["host"])
    if not match or not host or host.startswith("-") or (match["user"] or "").startswith("-"):
        raise ConfigError(f"ProxyJump {text!r} is not [USER@]HOST[:PORT]", fix="correct it in ssh_config")
    return Target(host, match["user"], int(match["port"]) if match["port"] else None)

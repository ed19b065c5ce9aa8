"""How ssh is called to become a master: the operator's configuration, with what reach never does switched off.

ssh takes the first value that it gets for an option, so what stands on the command line holds whatever ssh_config
says. SendEnv and SetEnv are not among it: a master opens no session of its own, and who opens one sends no variable.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from reach.ssh.host_settings import HostKeyPolicy, HostSettings
from reach.ssh.keepalive import rule_for

DEFAULT_CONNECT_TIMEOUT_S = 30
IDLE_END_S = 5
"""A master without a client ends by itself after this: it must not outlive a broker that was killed."""

_NEVER = {
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "ExitOnForwardFailure": "no",
    "Tunnel": "no",
    "GSSAPIDelegateCredentials": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "UpdateHostKeys": "no",
    "AddKeysToAgent": "no",
    "VisualHostKey": "no",
}
"""What would send more than commands to the target, change the operator's files or agent, or mix into the messages."""


def master_argv(ssh: str, settings: HostSettings, config_file: Path | None, socket: Path) -> list[str]:
    """The argv of an ssh that logs in, listens on SOCKET and goes into the background."""
    argv = [ssh, "-v", *_config(config_file), "-M", "-N", "-n", "-a", "-x", "-S", _literally(str(socket))]
    argv += [*_options(settings), f"-oControlPersist={IDLE_END_S}"]
    if settings.jump:
        argv.append(f"-oProxyCommand={_jump_command(ssh, settings.jump, config_file)}")
    return [*argv, *settings.destination]


def _jump_command(ssh: str, settings: HostSettings, config_file: Path | None) -> str:
    """The ProxyCommand that goes through the jump host of SETTINGS: ssh's own ProxyJump would hand on none of this."""
    argv = [ssh, "-v", *_config(config_file), "-a", "-x", *_options(settings), "-oControlMaster=no"]
    argv.append("-oControlPersist=no")
    if settings.jump:
        argv.append(f"-oProxyCommand={_jump_command(ssh, settings.jump, config_file)}")
    words = [_literally(shlex.join(argv)), "-W", "'[%h]:%p'", _literally(shlex.join(settings.destination))]
    return " ".join(words)


def _config(config_file: Path | None) -> list[str]:
    return ["-F", str(config_file)] if config_file else []


def _options(settings: HostSettings) -> list[str]:
    rule = rule_for(settings)
    options = {
        **_NEVER,
        "ConnectTimeout": settings.connect_timeout_s or DEFAULT_CONNECT_TIMEOUT_S,
        "ServerAliveInterval": int(rule.interval_s),
        "ServerAliveCountMax": rule.max_unanswered,
    }
    if settings.host_key_policy is HostKeyPolicy.ACCEPT:  # ssh would go on with a key that has changed
        options["StrictHostKeyChecking"] = HostKeyPolicy.ACCEPT_NEW
    return [f"-o{keyword}={value}" for keyword, value in options.items()]


def _literally(text: str) -> str:
    """TEXT where ssh expands tokens."""
    return text.replace("%", "%%")


def ssh_environment(
    environment: Mapping[str, str], agent_socket: str | None, askpass: Path, socket: Path
) -> dict[str, str]:
    """What ssh runs with: ENVIRONMENT, which its proxies and providers may need, and reach's own way to ask."""
    kept = {name: value for name, value in environment.items() if name != "SSH_AUTH_SOCK"}
    if agent_socket:
        kept["SSH_AUTH_SOCK"] = agent_socket
    return {
        **kept,
        "SSH_ASKPASS": os.fspath(askpass),
        "SSH_ASKPASS_REQUIRE": "force",
        "DISPLAY": kept.get("DISPLAY") or "reach",  # before OpenSSH 8.4 there is no asking without one
        "REACH_ASKPASS_SOCKET": os.fspath(socket),
    }

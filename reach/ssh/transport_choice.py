"""Which of the two transports serves a host, and why."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Literal

from reach.errors import ConfigError
from reach.ssh.host_settings import HostSettings

Wanted = Literal["auto", "paramiko", "openssh"]


@dataclass(frozen=True)
class TransportChoice:
    """One transport, with the reason in words that `reach status` shows."""

    name: Literal["paramiko", "openssh"]
    why: str
    ssh: str = ""
    """The program, for openssh."""
    lacks: tuple[str, ...] = ()
    """Settings that this transport can't serve."""


def choose_transport(wanted: Wanted, settings: HostSettings) -> TransportChoice:
    """The transport for SETTINGS: the one that is WANTED, else paramiko where it can serve them.

    Raises: ConfigError when ssh is wanted and there is none.
    """
    ssh = shutil.which("ssh")
    needs = ", ".join(settings.unsupported)
    if wanted == "openssh":
        if ssh is None:
            raise ConfigError(
                "the transport openssh needs an ssh client, and there is none on PATH",
                fix="install openssh-client, or choose --transport paramiko",
            )
        return TransportChoice("openssh", "chosen by --transport", ssh)
    if wanted == "paramiko":
        why = "chosen by --transport" + (f"; it can't serve {needs}" if needs else "")
        return TransportChoice("paramiko", why, lacks=settings.unsupported)
    if not needs:
        return TransportChoice("paramiko", "the settings need no other")
    if ssh is None:
        why = f"there is no ssh client, which {needs} would need"
        return TransportChoice("paramiko", why, lacks=settings.unsupported)
    return TransportChoice("openssh", f"the other transport can't serve {needs}", ssh)

"""What a session's file holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from reach.session.record import RecordError

SESSION_SCHEMA: Literal[1] = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True, kw_only=True)
class Session:
    """One session as its file holds it. Text that came from the target is escaped wherever it is shown."""

    schema_version: Literal[1] = SESSION_SCHEMA
    name: str
    target: str
    """The canonical spelling; parse_target reads it."""
    created: datetime
    folder: str | None = None
    """Absolute path on the target, as the target gave it; None until first connected."""
    hostname: str | None = None
    """What the target calls itself."""
    login_shell: str | None = None
    shell: str | None = None
    """Absolute path on the target of the shell that runs commands: bash, or sh where there is no bash."""
    ssh_config: str | None = None
    """Absolute path of the ssh_config file in place of the usual ones (REACH_SSH_CONFIG)."""
    ssh_agent_socket: str | None = None
    """SSH_AUTH_SOCK as it was at `reach up`: harnesses drop it from the environment."""
    transport: Literal["auto", "paramiko", "openssh"] = "auto"

    def __post_init__(self) -> None:
        """Raises: RecordError where the name is none: it becomes a folder's."""
        if not NAME.fullmatch(self.name):
            raise RecordError("a name that is none")

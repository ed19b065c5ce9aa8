"""The SSH target that a test suite runs against: an embedded one, or a host that somebody named."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reach.errors import ConfigError
from reach.ssh.embedded import start_embedded
from reach.target import parse_target


@dataclass(frozen=True)
class LiveTarget:
    """A target that accepts connections, or a host of which that is believed."""

    spelling: str
    """As `reach up` takes it."""
    ssh_config: Path | None
    """The ssh_config that knows it, for `ssh -F`; None where it is the usual one."""
    hostname: str | None
    """What an embedded target calls itself; None for a host that was named: a session finds it out."""
    folder: Path | None
    """The home of an embedded target, as a folder of this machine to lay files into; None for a host that was named."""

    @property
    def is_embedded(self) -> bool:
        return self.folder is not None

    @property
    def has_own_hostname(self) -> bool:
        """Whether an embedded target could be given another name than this machine's."""
        return self.hostname is not None and self.hostname != platform.node()


@contextmanager
def live_target(named: str | None, folder: Path) -> Iterator[LiveTarget]:
    """NAMED, or an embedded target in FOLDER that ends with the block, and at the latest with this process.

    Raises: TargetSyntaxError; ConfigError for a REACH_SSH_CONFIG that is no file; ConnectError.
    """
    if named and not parse_target(named).is_demo:
        yield LiveTarget(named, _operators_config(), hostname=None, folder=None)
        return
    home = folder / "home"
    with start_embedded(home, has_project=False) as embedded:
        yield LiveTarget(embedded.alias, embedded.write_ssh_config(folder), embedded.hostname, home)


def _operators_config() -> Path | None:
    config = os.environ.get("REACH_SSH_CONFIG")
    if config and not os.path.isfile(config):
        raise ConfigError(f"REACH_SSH_CONFIG names {config!r}, which is no file", fix="name one, or unset it")
    return Path(config).absolute() if config else None

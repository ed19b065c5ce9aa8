"""The two ways into a process of the broker's: a shim that found none, and the broker itself."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import NoReturn

from reach.errors import BrokerError, ReachError
from reach.paths import Paths

LEAST_DESCRIPTORS = 64
"""At rest a broker holds fifteen; a command takes five, a connection a few."""


def main(session: str, roots: list[str]) -> NoReturn:
    """Start SESSION's broker for a shim; on failure one line on standard error and exit code 1."""
    from reach.broker.lifecycle import start_broker

    try:
        start_broker(Paths(*map(Path, roots)), session)
    except (ReachError, OSError) as error:
        print(str(error), file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def serve(session: str, roots: list[str], ready: int) -> NoReturn:
    """Be SESSION's broker."""
    from reach.broker.server import run_broker

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    os.umask(0o077)
    try:
        _forget_starter()
        code = run_broker(Paths(*map(Path, roots)), session, ready)
    except (ReachError, OSError) as error:
        print(str(error), file=sys.stderr)
        code = 1
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # threads that wait for the harness's descriptors must not hold the process


def _forget_starter() -> None:
    """What the one process that happened to start it set for itself is not to hold for every later command.

    Raises: BrokerError where it can't work under what is left.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, every child would seem to have ended well
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_DATA):
        _, hard = resource.getrlimit(kind)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (hard, hard))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < LEAST_DESCRIPTORS:
        raise BrokerError(f"reach's broker can't work with the {hard} open files that `ulimit -n` allows here")

"""A master that the operator runs: used beside the operator's own sessions, and never harmed.

A proxy's channel that the server refuses stays behind in the master without a number of the server's, and the master
ends itself when the proxy goes away (OpenSSH 9.2: "no remote_id"). So nothing is asked for here that may be refused:
a session by the master's other way, where a refusal does no harm, first finds out whether there is room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reach.errors import ChannelOpenError, ConnectionLostError
from reach.ssh.openssh_mux import try_session

MAX_CHANNELS = 4
"""Of the ten that sshd allows a connection by default: the operator's own sessions need some."""
SETTLE_S = 0.2
"""After this a server has cleared away the session that was tried; nothing tells when it did."""
ASK_TIMEOUT_S = 1.0
CLOSE_TIMEOUT_S = 2.0


class SharedMaster:
    """The master that listens on PATH. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = threading.Lock()
        self._is_settled = False

    @contextmanager
    def room(self, count_open: Callable[[], int], ask: Callable[[float], bool]) -> Iterator[None]:
        """Have room for one more channel, nobody else opening one meanwhile.

        COUNT_OPEN tells how many of ours are open. ASK has the server answer, for which it first has to clear away
        what was tried, and tells whether it did.
        Raises: ChannelOpenError when there is none; ConnectionLostError once the proxy is about to go.
        """
        with self._opening:
            if self._is_settled:
                raise ConnectionLostError("the connection ended while a channel was opened")
            if count_open() >= MAX_CHANNELS:
                raise ChannelOpenError(f"no more than {MAX_CHANNELS} channels are used of a connection of yours")
            refusal = try_session(self._path)
            if refusal is not None:
                raise ChannelOpenError(f"the server refused one more channel ({refusal}); its MaxSessions limits them")
            if not ask(ASK_TIMEOUT_S):
                threading.Event().wait(SETTLE_S)
            yield

    def settle(self) -> None:
        """Let no further channel be opened, and wait a little for one that just is: the master must not lose its proxy
        meanwhile."""
        self._is_settled = True
        if self._opening.acquire(timeout=CLOSE_TIMEOUT_S):
            self._opening.release()

"""The broker's socket: whose it is, who may connect, and who has not said yet what for."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from reach.paths import Paths, ensure_private_dir

BACKLOG = 512
REQUEST_TIMEOUT_S = 20.0
"""How long a peer may be connected without sending anything."""
MAX_SILENT_PEERS = 256
"""Peers that have sent nothing yet; beyond them the one that waits longest is let go."""
LOCK_POLL_S = 0.05

log = logging.getLogger("reach.broker")


class SessionLock:
    """Held by the one broker that serves a session. The kernel lets go of it with the process, however that ends."""

    def __init__(self, paths: Paths, name: str) -> None:
        ensure_private_dir(paths.runtime)
        self._path = ensure_private_dir(paths.session_runtime(name)) / "lock"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def take(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.write(self._file, b"%d\n" % os.getpid())
        return True

    def is_in_place(self) -> bool:
        """Whether the runtime folder is still the one it was: cleaners remove what lies in temporary folders."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except OSError:
            return False

    def release(self) -> None:
        os.close(self._file)


def read_lock_holder(paths: Paths, name: str) -> int | None:
    """The process that serves session NAME, or was the last to do so."""
    try:
        return int((paths.session_runtime(name) / "lock").read_bytes())
    except (OSError, ValueError):
        return None


class Listener:
    """Accepts in one thread and hands each peer on when it has sent something.

    A peer that connects and says nothing costs a descriptor and no thread.
    """

    def __init__(self, path: Path, lock: SessionLock, serve: Callable[[socket.socket], None]) -> None:
        """The session's lock is held: whatever lies at PATH is a dead broker's. SERVE must not wait."""
        self._path = path
        self._lock = lock
        self._serve = serve
        self._silent: dict[int, tuple[socket.socket, float]] = {}
        """By descriptor: the peer, and until when it may stay silent. The oldest first."""
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self._socket.bind(str(path))
        finally:
            os.umask(before)
        self._socket.setblocking(False)
        self._socket.listen(BACKLOG)
        self._stop_reader, self._stop_writer = os.pipe()

    def run(self) -> None:
        """Accept until stopped. Peers that are still silent then are let go: nothing was asked of us."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        poller.register(self._stop_reader, select.POLLIN)
        stopping = False
        while not stopping:
            for descriptor, event in poller.poll(self._patience_ms()):
                if descriptor == self._socket.fileno():
                    self._accept(poller)
                elif descriptor == self._stop_reader:
                    stopping = True
                elif descriptor in self._silent:
                    poller.unregister(descriptor)
                    peer = self._silent.pop(descriptor)[0]
                    if event & select.POLLHUP and _said_nothing(peer):
                        peer.close()
                    else:
                        self._hand_on(peer)
            self._let_go(poller)
        self._accept(poller)  # who connected before the path went away
        self._let_go(poller, everybody=True)
        self._socket.close()

    def _patience_ms(self) -> float | None:
        deadline = next((until for _, until in self._silent.values()), None)
        return None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000

    def _accept(self, poller: select.poll) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.error("accept: %s", error)
                if error.errno in (errno.EMFILE, errno.ENFILE):  # silent peers hold descriptors for nothing
                    self._let_go(poller, everybody=True)
                    time.sleep(0.05)
                return
            if not _is_same_user(peer):
                log.warning("a process of another user was turned away")
                peer.close()
                continue
            self._silent[peer.fileno()] = (peer, time.monotonic() + REQUEST_TIMEOUT_S)
            poller.register(peer, select.POLLIN)

    def _hand_on(self, peer: socket.socket) -> None:
        try:
            self._serve(peer)
        except RuntimeError as error:  # no more threads; nothing was taken from the peer, so it may ask again
            log.error("a request could not be served: %s", error)
            peer.close()

    def _let_go(self, poller: select.poll, *, everybody: bool = False) -> None:
        """Close peers that were silent for too long, or are too many."""
        now_s = time.monotonic()
        for descriptor, (peer, until) in list(self._silent.items()):
            if not everybody and until > now_s and len(self._silent) <= MAX_SILENT_PEERS:
                return
            readable = select.poll()
            readable.register(peer, select.POLLIN)
            poller.unregister(descriptor)
            del self._silent[descriptor]
            if readable.poll(0):
                self._hand_on(peer)
            else:
                peer.close()

    def stop(self) -> None:
        """Take the socket away and have `run` end. Who connected and asked before that is served."""
        with contextlib.suppress(OSError):
            if self._lock.is_in_place():
                self._path.unlink()
        os.write(self._stop_writer, b"x")

    def close(self) -> None:
        """Give back what `run` used; it has ended."""
        os.close(self._stop_reader)
        os.close(self._stop_writer)


def _said_nothing(peer: socket.socket) -> bool:
    """Whether PEER, who has hung up, sent nothing before."""
    try:
        return not peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return True


def _is_same_user(peer: socket.socket) -> bool:
    """Ask the kernel who connected. Where it can't tell, the folder's mode (0700) is what keeps others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return bool(uid == os.getuid())

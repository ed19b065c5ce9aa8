"""The broker's process: whom it serves, and when it ends."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import socket
import threading
import time

from reach.broker.call import ServedCall
from reach.broker.children import end_children
from reach.broker.client import connect_broker
from reach.broker.control import serve_control
from reach.broker.listener import LOCK_POLL_S, REQUEST_TIMEOUT_S, Listener, SessionLock
from reach.broker.state import Broker
from reach.errors import BrokerError, BrokerUnavailableError, ReachError
from reach.paths import Paths
from reach.session import SessionStore
from reach.session.launch import live_launches, retire_ended_launches
from reach.ssh.beat import to_next_beat_s
from reach.wire.frames import Answer, ControlRequest, Operation, RunRequest, parse_request, read_request, write_frame

IDLE_END_S = 4 * 3600.0
"""Without a command for so long, and no harness of its session running, a broker ends."""
CHECK_INTERVAL_S = 60.0
"""A multiple of the usual keepalive's, for their beats to coincide."""
LOCK_TIMEOUT_S = 12.0
"""How long a new broker waits for one that is ending."""
WANTED_DESCRIPTORS = 16384
"""A command takes five; the usual soft limit is 1024."""

log = logging.getLogger("reach.broker")


def run_broker(paths: Paths, name: str, ready: int) -> int:
    """Serve session NAME until told to end, or idle. One byte on READY says that the socket takes requests.

    Returns the exit code: 0 also where another broker serves the session; 1 where one neither serves nor ends.
    """
    session = SessionStore(paths).load(name)
    lock = SessionLock(paths, name)
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while not lock.take():
        if _is_served(paths, name):
            return 0
        if time.monotonic() > deadline:
            log.error("another broker of this session neither serves nor ends")
            return 1
        time.sleep(LOCK_POLL_S)
        if not lock.is_in_place():
            lock.release()
            lock = SessionLock(paths, name)
    _raise_descriptor_limit()
    server = _Server(Broker(paths, session), lock)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stopping.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    server.open()
    with contextlib.suppress(OSError):  # whoever started us may be gone
        os.write(ready, b"+")
        os.close(ready)
    server.serve()
    return 0


def _is_served(paths: Paths, name: str) -> bool:
    try:
        connect_broker(paths, name).close()
    except BrokerUnavailableError:
        return False
    return True


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(WANTED_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Server:
    def __init__(self, broker: Broker, lock: SessionLock) -> None:
        self._broker = broker
        self._lock = lock
        self._path = broker.paths.socket(broker.session.name)
        self.stopping = threading.Event()

    def open(self) -> None:
        """Begin to accept."""
        self._listener = Listener(self._path, self._lock, self._take_in)
        self._accepting = threading.Thread(target=self._listener.run, name="accept", daemon=True)
        self._accepting.start()

    def serve(self) -> None:
        """Watch for the end, and end."""
        while not self.stopping.wait(to_next_beat_s(CHECK_INTERVAL_S)):
            if not self._accepting.is_alive():
                log.error("nobody accepts any more; ending")
                break
            with contextlib.suppress(OSError):
                retire_ended_launches(self._broker.paths, self._broker.session.name)
            if self._may_end():
                self._shut()
                if not self._broker.in_flight:
                    break
                self.open()  # somebody asked at the last moment
        self._shut()
        self._broker.end_commands()
        self._broker.close()
        end_children()

    def _may_end(self) -> bool:
        if self._broker.in_flight:
            return False
        if not self._lock.is_in_place():
            log.info("the runtime folder was taken away; ending")
            return True
        idle = self._broker.idle_s() > IDLE_END_S and not live_launches(self._broker.paths, self._broker.session.name)
        if idle:
            log.info("idle; ending")
        return idle

    def _shut(self) -> None:
        """Accept nobody any more. Whoever asked before is counted in the broker's in_flight."""
        if self._accepting.is_alive():
            self._listener.stop()
            self._accepting.join()
            self._listener.close()

    def _take_in(self, peer: socket.socket) -> None:
        """Count the peer before anything can end, then serve it in a thread."""
        self._broker.use_begins()
        try:
            self._broker.submit(lambda: self._serve_peer(peer))
        except RuntimeError:
            self._broker.use_ends()
            raise

    def _serve_peer(self, peer: socket.socket) -> None:
        """One request of one peer. Whatever it sends concerns nobody else."""
        try:
            with peer:
                peer.settimeout(REQUEST_TIMEOUT_S)
                try:
                    self._serve_request(peer)
                except (BrokerError, TimeoutError, ConnectionError) as error:
                    log.warning("a request was refused: %s", error)
                    with contextlib.suppress(OSError):
                        write_frame(peer, Answer.FAILURE + str(error).encode("utf-8", "replace"))
        finally:
            self._broker.use_ends()

    def _serve_request(self, peer: socket.socket) -> None:
        received = read_request(peer)
        if received is None:
            return
        payload, descriptors = received
        try:
            request = parse_request(payload)
        except ReachError:
            _close_all(descriptors)
            raise
        peer.settimeout(None)
        if isinstance(request, RunRequest):
            ServedCall(self._broker, peer, request, descriptors).run()
        else:
            _close_all(descriptors)
            self._serve_control(peer, request)
        if not self._broker.is_of_session():
            log.info("the session was removed and bound anew; ending")
            self.stopping.set()

    def _serve_control(self, peer: socket.socket, request: ControlRequest) -> None:
        try:
            serve_control(self._broker, peer, request)
        except OSError:
            # an operator who went away while the first connection was made: nothing is here that anybody needs
            if request.operation is Operation.UP and self._broker.facts is None and self._broker.in_flight <= 1:
                log.info("whoever brought this session up went away before it was connected; ending")
                self.stopping.set()
            raise
        if request.operation is Operation.DOWN:
            self.stopping.set()


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)

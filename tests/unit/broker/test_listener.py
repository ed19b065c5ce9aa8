from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reach.broker import listener as module
from reach.broker.listener import Listener, SessionLock, read_lock_holder
from reach.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "s", tmp_path / "d", tmp_path / "c", tmp_path / "r")


class Door:
    """A listener in a thread, and who was handed on."""

    def __init__(self, paths: Paths) -> None:
        self.lock = SessionLock(paths, "t")
        assert self.lock.take()
        self.path = paths.socket("t")
        self.served: list[bytes] = []
        self.changed = threading.Semaphore(0)
        self.refuse = False
        self.listener = Listener(self.path, self.lock, self.serve)
        self.thread = threading.Thread(target=self.listener.run)
        self.thread.start()

    def serve(self, peer: socket.socket) -> None:
        if self.refuse:
            raise RuntimeError("can't start new thread")
        with peer:
            self.served.append(peer.recv(100))
        self.changed.release()

    def connect(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(20)
        peer.connect(str(self.path))
        return peer

    def close(self) -> None:
        self.listener.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.listener.close()
        self.lock.release()


@pytest.fixture
def door(paths: Paths) -> Iterator[Door]:
    made = Door(paths)
    yield made
    if made.thread.is_alive():
        made.close()


def test_who_says_something_is_handed_on_and_who_does_not_is_not(door: Door) -> None:
    silent = door.connect()
    with silent, door.connect() as peer:
        peer.sendall(b"hello")
        assert door.changed.acquire(timeout=20)
    assert door.served == [b"hello"]


def test_who_hangs_up_without_a_word_is_not_handed_on(door: Door) -> None:
    for _ in range(20):
        door.connect().close()
    with door.connect() as peer:
        peer.sendall(b"hello")
        assert door.changed.acquire(timeout=20)
    assert door.served == [b"hello"]


def test_what_was_said_before_hanging_up_is_heard(door: Door) -> None:
    with door.connect() as peer:
        peer.sendall(b"last words")
    assert door.changed.acquire(timeout=20)
    assert door.served == [b"last words"]


def test_silence_is_borne_for_a_while(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.05)
    with door.connect() as peer:
        assert peer.recv(1) == b""


def test_of_too_many_silent_peers_the_oldest_is_let_go(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SILENT_PEERS", 3)
    peers = [door.connect() for _ in range(4)]
    assert peers[0].recv(1) == b""
    peers[3].sendall(b"the youngest")
    assert door.changed.acquire(timeout=20)
    for peer in peers:
        peer.close()


def test_where_no_thread_can_be_had_the_peer_is_let_go_and_the_next_one_heard(door: Door) -> None:
    door.refuse = True
    with door.connect() as peer:
        peer.sendall(b"x")
        with suppress(ConnectionResetError):
            assert peer.recv(1) == b""
    door.refuse = False
    with door.connect() as peer:
        peer.sendall(b"y")
        assert door.changed.acquire(timeout=20)


def test_who_asked_before_the_end_is_served(door: Door) -> None:
    with door.connect() as peer:
        peer.sendall(b"in time")
        door.close()
        assert door.served == [b"in time"]
    assert not door.path.exists()


def test_what_lies_in_the_sockets_place_is_a_dead_brokers(paths: Paths, door: Door) -> None:
    door.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(paths.socket("t")))
    again = Door(paths)
    with again.connect() as peer:
        peer.sendall(b"new")
        assert again.changed.acquire(timeout=20)
    again.close()


def test_the_lock_is_one_brokers_and_goes_with_it(paths: Paths) -> None:
    first, second = SessionLock(paths, "t"), SessionLock(paths, "t")
    assert first.take()
    assert not second.take()
    assert read_lock_holder(paths, "t") == os.getpid()
    first.release()
    assert second.take()
    second.release()


def test_a_lock_whose_folder_went_away_is_not_in_place(paths: Paths) -> None:
    lock = SessionLock(paths, "t")
    assert lock.take()
    assert lock.is_in_place()
    (paths.session_runtime("t") / "lock").unlink()
    assert not lock.is_in_place()
    other = SessionLock(paths, "t")
    assert other.take(), "a second broker serves the new folder"
    assert not lock.is_in_place()
    lock.release()
    other.release()

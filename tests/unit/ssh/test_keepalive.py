from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from reach.ssh.keepalive import Keepalive, KeepaliveRule
from reach.ssh.packetizer import awake_clock_s

QUICK = KeepaliveRule(0.02, 3)


class Peer:
    """Answers, or not; asking it may wait for ever."""

    def __init__(self) -> None:
        self.heard = awake_clock_s()
        self.is_alive = True
        self.is_silent = False
        self.asked = threading.Semaphore(0)
        self.gave_up = threading.Event()
        self.hold = threading.Event()
        self.hold.set()

    def ask(self) -> None:
        self.asked.release()
        self.hold.wait(20)
        if not self.is_silent:
            self.heard = awake_clock_s()

    def give_up(self) -> None:
        self.is_alive = False
        self.gave_up.set()

    def keepalive(self, rule: KeepaliveRule = QUICK) -> Keepalive:
        return Keepalive(
            rule, heard_s=lambda: self.heard, ask=self.ask, is_alive=lambda: self.is_alive, give_up=self.give_up
        )


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.is_alive = False
    made.hold.set()


def test_the_bound_is_what_the_rule_allows() -> None:
    assert KeepaliveRule().bound_s == 60
    assert KeepaliveRule(1, 2).bound_s == 3


def test_a_silent_peer_is_given_up_and_not_before_every_question_was_asked(peer: Peer) -> None:
    peer.is_silent = True
    peer.keepalive()
    assert peer.gave_up.wait(20)
    for _ in range(QUICK.max_unanswered):
        assert peer.asked.acquire(timeout=1)


def test_a_peer_that_answers_is_kept(peer: Peer) -> None:
    keepalive = peer.keepalive(KeepaliveRule(0.02, 1000))  # more patience than a busy machine needs
    for _ in range(20):
        assert peer.asked.acquire(timeout=20)
    assert not peer.gave_up.is_set()
    assert keepalive.answers()
    keepalive.stop()


def test_a_question_that_can_not_be_sent_does_not_stop_the_count(peer: Peer) -> None:
    peer.hold.clear()
    peer.is_silent = True
    peer.keepalive()
    assert peer.gave_up.wait(20)
    assert peer.asked.acquire(timeout=1)
    assert not peer.asked.acquire(blocking=False), "a second question behind the one that waits"


def test_a_stopped_one_asks_nothing_more(peer: Peer) -> None:
    keepalive = peer.keepalive()
    assert peer.asked.acquire(timeout=20)
    keepalive.stop()
    for thread in threading.enumerate():
        if thread.name == "keepalive":
            thread.join(20)
    while peer.asked.acquire(blocking=False):
        pass
    assert not peer.asked.acquire(timeout=0.1)


def test_a_peer_not_heard_since_a_sleep_is_asked_before_a_command_goes_there(peer: Peer) -> None:
    rule = KeepaliveRule(1000, 3)
    keepalive = peer.keepalive(rule)
    peer.heard -= 100
    assert keepalive.answers(), "taken for granted"
    assert not peer.asked.acquire(blocking=False)
    peer.heard -= 2000
    assert keepalive.answers()
    assert peer.asked.acquire(blocking=False)
    peer.is_silent = True
    peer.heard -= 2000
    assert not keepalive.answers(timeout_s=0.1)
    keepalive.stop()


def test_the_clock_does_not_stand_still() -> None:
    before = awake_clock_s()
    time.sleep(0.01)
    assert awake_clock_s() > before

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reach.broker import folder_keeper
from reach.broker.folder_keeper import FolderKeeper

PATIENCE_S = 20.0


class Target:
    """Answers when it is told to, and says when it was asked."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[bytes | None | Exception] = queue.SimpleQueue()

    def list_folders(self) -> bytes | None:
        self.asked.put(True)
        answer = self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, answer: bytes | None | Exception) -> None:
        """Wait until asked, then answer."""
        self.asked.get(timeout=PATIENCE_S)
        self.answers.put(answer)


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def keeper(target: Target) -> Iterator[FolderKeeper]:
    made = FolderKeeper(target.list_folders)
    yield made
    made.close()
    target.answers.put(None)
    if made._thread:
        made._thread.join(PATIENCE_S)
        assert not made._thread.is_alive(), "the keeper's thread does not end"


def _until(is_so: Callable[[], object], what: str) -> None:
    pause = threading.Event()
    for _ in range(4000):
        if is_so():
            return
        pause.wait(0.005)
    raise AssertionError(f"waited for {what}")


def _wait_for(folder: Path) -> None:
    _until(folder.is_dir, str(folder))


def test_a_folder_that_a_command_made_is_here_after_its_end(
    keeper: FolderKeeper, target: Target, tmp_path: Path
) -> None:
    with keeper.command_runs(str(tmp_path)):
        pass
    target.answer(b"./made\0./made/in\0")
    _wait_for(tmp_path / "made" / "in")


def test_a_command_that_runs_on_is_looked_after(
    keeper: FolderKeeper, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_keeper, "FIRST_LOOK_S", 0.01)
    with keeper.command_runs(str(tmp_path)):
        target.answer(b"./first\0")
        _wait_for(tmp_path / "first")
        target.answer(b"./second\0")
        _wait_for(tmp_path / "second")


def test_many_ends_at_once_ask_the_target_no_more_than_twice(
    keeper: FolderKeeper, target: Target, tmp_path: Path
) -> None:
    keeper.look(str(tmp_path))
    target.asked.get(timeout=PATIENCE_S)
    for _ in range(50):
        with keeper.command_runs(str(tmp_path)):
            pass
    target.answers.put(b"./before\0")
    target.answer(b"./after\0")
    _wait_for(tmp_path / "after")
    _until(lambda: keeper._next_s() is None, "the keeper to have nothing to do")
    assert target.asked.empty()


def test_a_slow_target_is_left_alone_for_longer(
    keeper: FolderKeeper, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = [1000.0]
    monkeypatch.setattr(folder_keeper.time, "monotonic", lambda: clock_s[0])
    keeper.look(str(tmp_path))
    target.asked.get(timeout=PATIENCE_S)
    clock_s[0] += 5  # which is how long this listing takes
    target.answers.put(b"./first\0")
    _until(lambda: keeper._rest_until_s, "the end of the listing")
    keeper.look(str(tmp_path))
    assert keeper._next_s() == 1005 + folder_keeper.REST_FACTOR * 5


@pytest.mark.parametrize("answer", [None, ValueError("what no answer should do")])
def test_a_listing_that_fails_changes_nothing_and_the_next_is_asked_for(
    keeper: FolderKeeper, target: Target, tmp_path: Path, answer: Exception | None
) -> None:
    keeper.look(str(tmp_path))
    target.answer(answer)
    keeper.look(str(tmp_path))
    target.answer(b"./made\0")
    _wait_for(tmp_path / "made")


def test_without_a_command_nobody_is_asked(keeper: FolderKeeper, target: Target) -> None:
    assert keeper._thread is None
    assert keeper._next_s() is None

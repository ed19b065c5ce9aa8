from __future__ import annotations

import secrets
import sys
import threading
from pathlib import Path

import pytest

from reach.errors import HarnessError
from reach.probe.process import MAX_KEPT_BYTES, HarnessProcess
from support.processes import eventually, is_dead


def start(*argv: str, token: str | None = None, cwd: Path = Path("/")) -> HarnessProcess:
    token = token or secrets.token_hex(8)
    return HarnessProcess(argv, env={"PATH": "/usr/bin:/bin", "TOKEN": token}, cwd=cwd, token=token)


def test_an_end_is_noticed_at_once_with_the_last_words_escaped() -> None:
    with start("sh", "-c", r"echo first >&2; printf 'last \033[31mred\n' >&2; exit 3") as process:
        ended = process.wait(60)
    assert (ended.exit_code, ended.timed_out, ended.given_up) == (3, False, False)
    assert ended.last_words == r"last \x1b[31mred"
    assert ended.how == "ended with exit code 3"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo out", "out"),
        ("echo out; echo err >&2", "err"),
        ("printf 'Error: no\\n    at one\\n    at two\\n' >&2", "Error: no"),
        ("printf '   only indented\\n' >&2", "only indented"),
        ("true", ""),
    ],
)
def test_the_last_words_are_the_last_that_say_something(script: str, words: str) -> None:
    with start("sh", "-c", script) as process:
        assert process.wait(60).last_words == words


def test_at_the_time_limit_everything_is_killed_that_was_started(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! >a; setsid sh -c 'echo $$ >b; exec sleep 600' & wait"
    with start("sh", "-c", script, cwd=tmp_path) as process:
        assert eventually(lambda: all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in "ab"))
        ended = process.wait(0.2)
    assert ended.timed_out
    assert "did not end" in ended.how
    assert eventually(lambda: all(is_dead(int((tmp_path / name).read_text())) for name in "ab"))


def test_what_outlives_the_harness_is_killed_too(tmp_path: Path) -> None:
    with start("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $! >a", cwd=tmp_path) as process:
        ended = process.wait(60)
    assert ended.exit_code == 0
    assert eventually(lambda: is_dead(int((tmp_path / "a").read_text())))


def test_a_process_of_another_run_is_left_alone() -> None:
    with start("sleep", "600") as other, start("true") as process:
        process.wait(60)
        assert not is_dead(other.pid)


def test_hopeless_is_given_up_at_once() -> None:
    with start("sh", "-c", "echo no hope >&2; sleep 600") as process:
        ended = process.wait(60, lambda stderr: "no hope" in stderr)
    assert (ended.given_up, ended.timed_out) == (True, False)


def test_a_flood_does_not_fill_the_memory() -> None:
    with start(sys.executable, "-c", f"print('x' * {MAX_KEPT_BYTES * 20}); print('end')") as process:
        ended = process.wait(60)
    assert len(ended.stdout) == MAX_KEPT_BYTES
    assert ended.last_words == "end"


def test_standard_input_is_empty() -> None:
    with start("cat") as process:
        assert process.wait(60).exit_code == 0


def test_a_program_that_cant_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="nonesuch can't be started: No such file"):
        start(str(tmp_path / "nonesuch"))


def test_death_by_signal_is_told() -> None:
    with start("sh", "-c", "kill -9 $$; sleep 600") as process:
        assert process.wait(60).how == "was ended by signal 9"


def test_progress_puts_the_time_limit_off() -> None:
    counted = iter(range(1000))
    with start("sleep", "1") as process:
        assert not process.wait(0.3, count_progress=lambda: next(counted)).timed_out
    with start("sleep", "600") as process:
        assert process.wait(0.3, count_progress=lambda: 1).timed_out


def test_progress_made_while_this_process_stood_still_counts() -> None:
    counted, standstill = iter(range(1000)), threading.Event()
    with start("sleep", "1") as process:
        ended = process.wait(0.1, lambda _: standstill.wait(0.2), count_progress=lambda: next(counted))
    assert not ended.timed_out

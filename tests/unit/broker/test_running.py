from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reach.broker.remote_group import RemoteGroup
from reach.broker.running import RunningCommands, parse_unfinished

BOOT = "01234567-89ab-cdef-0123-456789abcdef"
FIRST, SECOND = RemoteGroup(101, "5000", BOOT), RemoteGroup(102, "5001", BOOT)
UNCERTAIN, THIRD = RemoteGroup(103), RemoteGroup(104, "5002", BOOT)


def test_what_a_killed_broker_ran_is_adopted_by_the_next_one(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from reach.broker.running import RunningCommands; from reach.broker.remote_group import RemoteGroup\n"
        "running = RunningCommands(Path(sys.argv[1]))\n"
        f"running.begin({FIRST!r}); running.begin({SECOND!r}); running.end({SECOND!r}, is_known=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "running")], check=False)
    successor = RunningCommands(tmp_path / "running")
    assert successor.adopt() == 1
    assert successor.orphans() == [FIRST]
    assert successor.adopt() == 0, "adopted twice"
    successor.close()
    third = RunningCommands(tmp_path / "running")
    assert third.adopt() == 1, "an orphan that could not be ended is forgotten"
    third.forget([FIRST])
    third.close()
    assert list((tmp_path / "running").iterdir()) == []


def test_a_living_brokers_commands_are_nobodys_to_adopt(tmp_path: Path) -> None:
    first, second = RunningCommands(tmp_path / "running"), RunningCommands(tmp_path / "running")
    first.begin(FIRST)
    assert second.adopt() == 0
    assert second.orphans() == []
    first.close()
    assert second.adopt() == 1


def test_a_command_whose_end_is_known_is_no_orphan(tmp_path: Path) -> None:
    running = RunningCommands(tmp_path / "running")
    running.begin(FIRST)
    running.begin(SECOND)
    running.end(FIRST, is_known=True)
    running.end(SECOND, is_known=False)
    assert running.orphans() == [SECOND]
    assert running.running() == []


def test_a_process_that_may_be_another_one_later_is_never_an_orphan(tmp_path: Path) -> None:
    running = RunningCommands(tmp_path / "running")
    running.begin(UNCERTAIN)
    assert running.running() == [UNCERTAIN]
    running.end(UNCERTAIN, is_known=False)
    assert running.orphans() == []


def test_where_nothing_can_be_written_commands_run_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "running").write_text("in the way")
    running = RunningCommands(tmp_path / "running")
    running.begin(FIRST)
    running.end(FIRST, is_known=False)
    assert running.adopt() == 0
    assert running.orphans() == [FIRST]
    running.close()


def test_a_full_disk_costs_the_record_alone(tmp_path: Path) -> None:
    running = RunningCommands(tmp_path / "running")
    os.dup2(os.open("/dev/full", os.O_WRONLY), running._file)
    running.begin(FIRST)
    running.end(FIRST, is_known=False)
    assert running.orphans() == [FIRST]


def test_the_file_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reach.broker.running.MAX_FILE_BYTES", 1000)
    running = RunningCommands(tmp_path / "running")
    for _ in range(200):
        running.begin(FIRST)
        running.end(FIRST, is_known=True)
    [path] = (tmp_path / "running").glob("*.jsonl")
    assert path.stat().st_size < 1300


def test_the_note_of_a_command_is_told_once_and_only_where_its_end_is_not_known(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from reach.broker.running import RunningCommands; from reach.broker.remote_group import RemoteGroup\n"
        "running = RunningCommands(Path(sys.argv[1]))\n"
        f"running.begin({FIRST!r}, '{{\"n\":1}}'); running.begin({SECOND!r}, '{{\"n\":2}}')\n"
        f"running.begin({UNCERTAIN!r}, '{{\"n\":3}}'); running.begin({THIRD!r}, '{{\"n\":4}}')\n"
        f"running.end({SECOND!r}, is_known=True); running.end({THIRD!r}, is_known=False)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "running")], check=False)
    told: list[object] = []
    successor = RunningCommands(tmp_path / "running")
    successor.adopt(lambda note: told.append(note["n"]))
    assert told == [1, 3]
    assert set(successor.orphans()) == {FIRST, THIRD}
    successor.close()
    RunningCommands(tmp_path / "running").adopt(lambda note: told.append(note["n"]))
    assert told == [1, 3]


def test_what_runs_survives_that_its_file_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reach.broker.running.MAX_FILE_BYTES", 1000)
    running = RunningCommands(tmp_path / "running")
    running.begin(FIRST, '{"n":1}')
    for _ in range(200):
        running.begin(SECOND, '{"n":2}')
        running.end(SECOND, is_known=True)
    running.end(THIRD, is_known=False)
    [path] = (tmp_path / "running").glob("*.jsonl")
    assert path.stat().st_size < 1500
    assert parse_unfinished(path.read_bytes()) == {FIRST: {"n": 1}, THIRD: None}


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (b"", set()),
        (b'["begin",101,"5000","%s"]' % BOOT.encode(), {FIRST}),
        (b'["begin",101,"5000","%s"]\n["beg' % BOOT.encode(), {FIRST}),
        (b'["beg\n["begin",101,"5000","%s"]\n' % BOOT.encode(), {FIRST}),
        (b'["begin",101,"5000","%s"]\n["end",101,"5000","%s"]' % (BOOT.encode(), BOOT.encode()), set()),
        (b'["begin",101,"",""]', set()),
        (b'["begin",1,"5000","%s"]' % BOOT.encode(), set()),
        (b'["begin","101","5000","%s"]' % BOOT.encode(), set()),
        (b'{"begin":1}\n[]\nnull\n7\n\xff\xfe\n["begin",true,"1","2"]', set()),
    ],
)
def test_a_record_that_makes_no_sense_names_nobody(text: bytes, groups: set[RemoteGroup]) -> None:
    assert parse_unfinished(text).keys() == groups

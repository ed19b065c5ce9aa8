from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reach.probe.folder import probe_folder, remove_abandoned
from support.processes import eventually, is_dead

PROBE = """
import subprocess, sys, time
from reach.probe.folder import probe_folder
with probe_folder() as folder:
    (folder / "home").mkdir()
    child = subprocess.Popen(["sleep", "600"], env={"TMPDIR": f"{folder}/tmp"})
    print(folder, child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def probing(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """A probe of another process: the process, its folder, and what it has started."""
    with subprocess.Popen(
        [sys.executable, "-c", PROBE],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        folder, child = process.stdout.readline().split()
        try:
            yield process, Path(folder), int(child)
        finally:
            process.kill()
            if not is_dead(int(child)):
                os.kill(int(child), signal.SIGKILL)


def test_what_a_killed_probe_left_goes_with_what_it_has_started(temporary: Path) -> None:
    with probing(temporary) as (process, folder, child):
        process.kill()
        process.wait()
        assert (folder / "home").is_dir()
        remove_abandoned()
        assert not folder.exists()
        assert eventually(lambda: is_dead(child))


def test_a_probe_that_lives_is_left_alone_whoever_asks(temporary: Path) -> None:
    with probing(temporary) as (process, folder, child), probe_folder() as own:
        remove_abandoned()
        assert (folder / "home").is_dir()
        assert not is_dead(child)
        assert own.is_dir()
        process.communicate("")
        assert not folder.exists()
        assert eventually(lambda: is_dead(child))


@pytest.mark.root
def test_a_folder_of_another_user_is_left_alone(temporary: Path) -> None:
    with probing(temporary) as (process, folder, _):
        process.kill()
        process.wait()
        os.chown(folder, 65534, 65534)
        remove_abandoned()
        assert (folder / "home").is_dir()
        os.chown(folder, 0, 0)
        remove_abandoned()
        assert not folder.exists()


def test_what_is_no_probes_is_left_alone(temporary: Path) -> None:
    with probing(temporary) as (process, folder, _):
        process.kill()
        process.wait()
        elsewhere = folder.rename(temporary / "elsewhere")
    (temporary / "reach-probe-link").symlink_to(elsewhere)
    (temporary / "reach-probe-unlocked").mkdir()
    (temporary / "reach-probe-file").touch()
    (temporary / "reach-probe-new").mkdir()
    (temporary / "reach-probe-new" / ".lock.new").touch()
    before = sorted(temporary.rglob("*"))
    remove_abandoned()
    assert sorted(temporary.rglob("*")) == before

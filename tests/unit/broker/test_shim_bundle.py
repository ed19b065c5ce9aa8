"""The shim's code as it lies in a session's folder: one file for every call, the sources beside it for the rest."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from reach.broker.shim_folder import install_shim
from reach.paths import Paths
from reach.session import SessionStore
from reach.target import parse_target
from support.session import wait_for


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """The shim of a session that was never up."""
    paths = Paths(tmp_path / "state", tmp_path / "data", tmp_path / "cache", tmp_path / "run")
    SessionStore(paths).bind(parse_target("nowhere.invalid"), "s")
    return install_shim(paths, "s") / "bash"


def _library(shim: Path) -> Path:
    (library,) = (shim.parent.parent / "lib").iterdir()
    return library


def _version(shim: Path) -> str:
    done = subprocess.run([shim, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr


def test_every_call_reads_one_file(shim: Path) -> None:
    shutil.rmtree(_library(shim) / "shim")
    assert _version(shim).startswith("GNU bash")


def test_another_python_than_the_one_it_was_compiled_for_reads_the_sources(shim: Path) -> None:
    text, changed = re.subn(r"hexversion >> 16 == \d+", "hexversion >> 16 == 0", shim.read_text())
    assert changed == 1
    shim.write_text(text)
    (_library(shim) / "bundle").write_bytes(b"of no use")
    assert _version(shim).startswith("GNU bash")


def test_a_missing_bundle_runs_nothing(shim: Path, tmp_path: Path) -> None:
    (_library(shim) / "bundle").unlink()
    done = subprocess.run(
        [shim, "-c", f"touch {tmp_path}/ran"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode != 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name",
    ["/dev//stdin", "/dev/../dev/fd/0", "/proc/thread-self/fd/0", "/dev/./fd/3", "link", "link12", "fds/0", "fds/3"],
)
def test_an_open_descriptor_by_any_name_is_no_script_of_this_machine(shim: Path, tmp_path: Path, name: str) -> None:
    script = tmp_path / "script"
    script.write_text(f"touch {tmp_path}/ran\n")
    (tmp_path / "link").symlink_to("/dev/stdin")
    for number in range(1, 13):
        (tmp_path / f"link{number}").symlink_to(f"link{number - 1}" if number > 1 else "link")
    (tmp_path / "fds").symlink_to("/dev/fd")
    argv = ["/bin/sh", "-c", f'exec "{shim}" {name} <{script} 3<{script}']
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, (tmp_path / "ran").exists()) == (125, False)
    assert "can't be sent" in done.stderr


def _opens_the_pipe(pid: int) -> bool:
    return Path(f"/proc/{pid}/wchan").read_text() in ("wait_for_partner", "fifo_open")


def test_an_interrupt_before_the_request_ends_it_by_that_signal_and_says_nothing(shim: Path) -> None:
    path = _library(shim) / "bundle"
    path.unlink()
    os.mkfifo(path)  # opening it waits: the interrupt comes while the shim starts
    process = subprocess.Popen([shim, "-c", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for(lambda: _opens_the_pipe(process.pid), "the shim to open its code")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said) == (-signal.SIGINT, b"")

"""The folders that a harness looks for on its own machine, while commands make and remove them on the target."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.session import LaunchedShim, ReachSession, wait_for

pytestmark = [pytest.mark.sshd, pytest.mark.transports("paramiko", "openssh")]


@pytest.fixture
def shim(session: ReachSession) -> LaunchedShim:
    return session.launch(keeps_folders=True)


@pytest.mark.parametrize(
    "name", [b"plain", b"a b", b"it's", b"-n", b"new\nline", b"caf\xe9", b"deep/er/still"], ids=lambda name: repr(name)
)
def test_a_folder_that_a_command_made_can_be_named_by_the_next(
    session: ReachSession, shim: LaunchedShim, name: bytes
) -> None:
    here = os.path.join(os.fsencode(shim.workspace), b"made", name)
    there = os.path.join(os.fsencode(session.facts["folder"]), b"made", name)
    quoted = b"'" + name.replace(b"'", b"'\\''") + b"'"
    assert session.run(b"mkdir -p -- made/" + quoted, shim=shim).returncode == 0
    wait_for(lambda: os.path.isdir(here), "the folder here")
    done = session.run("pwd", shim=shim, cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, there + b"\n", b"")


def test_a_folder_that_a_running_command_made_is_there_before_its_end(
    session: ReachSession, shim: LaunchedShim
) -> None:
    process = session.start("mkdir early; sleep 4951", shim=shim)
    wait_for(lambda: (shim.workspace / "early").is_dir(), "the folder here")
    assert process.poll() is None
    process.kill()
    process.communicate()


def test_a_folder_that_is_gone_on_the_target_is_named_and_nothing_runs(
    session: ReachSession, shim: LaunchedShim, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    assert session.run("mkdir gôing; mkdir marker", shim=shim).returncode == 0
    wait_for(lambda: (shim.workspace / "gôing").is_dir(), "the folder here")
    assert session.run("rmdir gôing; mkdir later", shim=shim).returncode == 0
    wait_for(lambda: (shim.workspace / "later").is_dir(), "a listing after it went")
    done = session.run(f"touch {ran}", shim=shim, cwd=shim.workspace / "gôing")
    gone = f"{session.facts['folder']}/gôing"
    assert done.returncode == 125
    assert f"the folder '{gone}' is not there on the target; it did not run".encode() in done.stderr
    assert not ran.exists()


def test_commands_leave_the_folders_of_a_real_workspace_alone(session: ReachSession, tmp_path: Path) -> None:
    plain = session.launch(workspace=tmp_path)
    shim = session.launch(workspace=session.home / "other", keeps_folders=True)
    assert session.run("mkdir for-the-skeleton", shim=plain).returncode == 0
    assert session.run("true", shim=shim).returncode == 0
    wait_for(lambda: (shim.workspace / "for-the-skeleton").is_dir(), "the folder in the other launch's workspace")
    assert list(tmp_path.iterdir()) == []


def test_looking_for_folders_is_no_command_of_the_session(session: ReachSession, shim: LaunchedShim) -> None:
    before = len(session.audit())
    assert session.run("mkdir unlogged", shim=shim).returncode == 0
    wait_for(lambda: (shim.workspace / "unlogged").is_dir(), "the folder here")
    assert [entry.command for entry in session.audit()[before:]] == ["mkdir unlogged"]

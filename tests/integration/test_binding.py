"""A session's name, its target and its broker belong together, whatever else is typed at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reach.broker.captured import run_captured
from reach.broker.lifecycle import is_running, stop_broker
from reach.broker.shim_folder import install_shim
from reach.cli import binding
from reach.errors import BrokerUnavailableError, SessionError
from reach.paths import Paths
from reach.session import SessionStore
from support.session import ReachSession, quiet_sshd, wait_for
from support.sshd import Sshd

pytestmark = pytest.mark.sshd


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with quiet_sshd() as server:
        monkeypatch.setenv("REACH_SSH_CONFIG", str(server.config))
        yield server


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    paths = Paths.below(tmp_path)
    yield paths
    for name in SessionStore(paths).names():
        with suppress(BrokerUnavailableError):
            stop_broker(paths, name)


def test_a_session_bound_anew_is_never_served_by_the_broker_of_the_old_one(session: ReachSession) -> None:
    store = SessionStore(session.paths)
    before = store.load(session.name)
    anew = replace(before, target=f"{session.server.alias}:/tmp", folder=None, created=datetime.now(UTC))
    store.save(anew)
    ran = session.run("pwd")
    assert (ran.stdout, ran.returncode) == (b"", 125)
    assert b"bound anew" in ran.stderr
    wait_for(lambda: not is_running(session.paths, session.name), "the old broker's end")
    assert run_captured(session.paths, session.name, "pwd").stdout == b"/tmp\n"


def test_an_up_that_is_given_up_leaves_the_session_that_another_connected(
    server: Sshd, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = binding.connect

    def connected_by_another(*arguments: Any) -> None:
        connect(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(binding, "connect", connected_by_another)
    with pytest.raises(KeyboardInterrupt):
        binding.bind_and_connect(paths, server.alias, "t")
    assert run_captured(paths, "t", "echo there").stdout == b"there\n"


def test_what_a_forgotten_session_was_wired_into_never_finds_this_machines_bash(server: Sshd, paths: Paths) -> None:
    binding.bind_and_connect(paths, server.alias, "t")
    wired = {"PATH": f"{install_shim(paths, 't')}:/usr/bin:/bin"}
    stop_broker(paths, "t")
    SessionStore(paths).remove("t")
    assert SessionStore(paths).names() == []
    ran = subprocess.run(["bash", "-c", "uname -n"], env=wired, capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == ("", 125)
    assert "no session named 't'" in ran.stderr
    assert ran.stderr.endswith("it did not run\n")
    binding.bind_and_connect(paths, server.alias, "t")
    ran = subprocess.run(["bash", "-c", "uname -n"], env=wired, capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == (f"{server.hostname}\n", 0)


def test_an_up_that_never_connected_leaves_no_session(server: Sshd, paths: Paths) -> None:
    with pytest.raises(SessionError, match="/nowhere"):
        binding.bind_and_connect(paths, f"{server.alias}:/nowhere", "t")
    assert SessionStore(paths).names() == []
    assert not is_running(paths, "t")


def test_an_up_that_is_refused_before_it_connects_leaves_no_session(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REACH_SSH_CONFIG", "/nowhere/config")
    with pytest.raises(Exception, match="/nowhere/config"):
        binding.bind_and_connect(paths, "box", None)
    assert SessionStore(paths).names() == []


@pytest.mark.parametrize("words", [["uname", "-s"], ["--", "uname", "-s"]], ids=["plain", "after-two-dashes"])
def test_a_target_and_a_command_are_read_as_ssh_reads_them(server: Sshd, tmp_path: Path, words: list[str]) -> None:
    code = "from reach.cli.main import main; main()"
    environment = {**os.environ, "REACH_HOME": str(tmp_path), "REACH_SSH_CONFIG": str(server.config)}
    argv = [sys.executable, "-c", code, server.alias, *words]
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    stop_broker(Paths.below(tmp_path), server.alias)
    assert (done.stdout, done.stderr, done.returncode) == ("Linux\n", "", 0)

"""What reach's own commands say of a fault, and what they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from faults.stage import Stage
from reach.broker.client import connect_broker
from reach.broker.lifecycle import is_running, start_broker
from reach.session import SessionStore
from reach.target import parse_target
from reach.wire.frames import Operation, encode_control, read_frame, write_frame
from support.processes import is_dead
from support.session import wait_for

pytestmark = pytest.mark.sshd

REACH = "import sys; from reach.cli.main import main; sys.argv[0] = 'reach'; main()"


def reach(stage: Stage, *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "REACH_HOME": str(stage.session.home), "REACH_SSH_CONFIG": str(stage.server.config)}
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    argv = [sys.executable, "-c", REACH, *words]
    return subprocess.run(argv, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_that_commands_are_not_recorded_is_said_by_reach_and_not_in_their_streams(stage: Stage) -> None:
    log = stage.session.paths.audit_log("t")
    log.unlink(missing_ok=True)
    log.symlink_to("/dev/full")
    call = stage.run("echo out")
    assert (call.outcome, call.out, call.said) == ("result", b"out\n", b"")
    told = reach(stage, "exec", "--session", "t", "--", "echo out")
    assert (told.returncode, told.stdout) == (0, b"out\n")
    [line] = told.stderr.splitlines()
    assert b"not recorded" in line
    assert os.fsencode(log) in line
    assert b"2 commands not recorded" in b" ".join(reach(stage, "status").stdout.split())
    log.unlink()
    assert reach(stage, "exec", "--session", "t", "--", "echo out").stderr.count(b"not recorded") == 1, "not yet known"
    assert reach(stage, "exec", "--session", "t", "--", "echo out").stderr == b""
    shown = reach(stage, "log", "t")
    assert b"echo out" in shown.stdout
    assert b"2 more could not be written" in shown.stderr


def test_an_audit_log_that_can_not_be_opened_is_told_before_the_first_command(stage: Stage) -> None:
    stage.session.paths.audit_log("t").mkdir()
    assert b"not recorded" in reach(stage, "exec", "--session", "t", "--", "true").stderr


def test_without_a_name_the_session_that_is_up_is_taken_down_and_no_other_brought_up(stage: Stage) -> None:
    SessionStore(stage.session.paths).bind(parse_target("farbox:other"), "later")
    told = reach(stage, "doctor")
    assert b"later" in told.stdout
    assert b"reach doctor later" in b" ".join(told.stdout.split())
    assert not is_running(stage.session.paths, "later")
    assert reach(stage, "down").stdout == b"session t: down\n"
    assert reach(stage, "down").stdout.endswith(b"was not up\n")


def test_an_up_that_fails_leaves_no_folder_behind(stage: Stage) -> None:
    stage.proxy.refuse()
    assert reach(stage, "up", "farbox:other", "--name", "new").returncode == 125
    assert not stage.session.paths.session_runtime("new").exists()
    assert not stage.session.paths.session_state("new").exists()


def test_an_up_that_is_killed_at_its_question_leaves_no_broker_behind(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(ssh_options={"StrictHostKeyChecking": "ask"})
    stage.session.down()
    stage.server.known_hosts.write_text("")
    start_broker(stage.session.paths, "t")
    pid = stage.session.broker_pid
    with connect_broker(stage.session.paths, "t") as asking:
        write_frame(asking, encode_control(Operation.UP))
        while b'"ask"' not in (read_frame(asking) or b'"ask"'):
            pass
    wait_for(lambda: is_dead(pid), "the broker's end")
    stage.server.trust_host_key()
    assert stage.run().outcome == "result"

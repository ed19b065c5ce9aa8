"""The broker, its files or its socket fail. No command is run twice, none is left behind, and the next one works."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.stage import BOTH_TRANSPORTS, BOUND_S, HUNG_S, KEEPALIVE, Stage
from reach.broker.lifecycle import start_broker, stop_broker
from support.accounts import Account
from support.processes import is_dead
from support.session import descriptors_of, wait_for
from support.sshd import Sshd

pytestmark = [pytest.mark.sshd, BOTH_TRANSPORTS]

MakeStage = Callable[..., Stage]

CALLS_AT_AN_END = 40
"""So many calls in a row, each some milliseconds after the one before: a broker may find itself idle at any of them."""


def test_a_killed_broker_leaves_its_command_unknown_and_the_next_one_ends_it(stage: Stage) -> None:
    call = stage.call("sleep 4501 & sleep 4502")
    stage.wait_for_run(call)
    stage.kill_broker()
    assert stage.finish(call).outcome == "may have run"
    assert stage.run().outcome == "result"
    wait_for(lambda: not stage.remote("sleep", "4502"), "the end of what nobody waits for")
    wait_for(lambda: not stage.remote("sleep", "4501"), "the end of its background job")


def test_the_command_of_a_killed_broker_is_recorded_by_the_next_one(stage: Stage) -> None:
    assert stage.run("echo first").outcome == "result"
    call = stage.call("sleep 4511")
    stage.wait_for_run(call)
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    holds_on = stage.call("sleep 4512 & exit 7", **nowhere)  # answered, and its background job holds the streams
    assert stage.finish(holds_on).outcome == "result"
    for _ in range(2):
        stage.kill_broker()
        stage.finish(call)
        assert stage.run("echo next").outcome == "result"
    recorded = [(entry.command.partition("; ")[2].partition("\n")[0], entry.outcome) for entry in stage.session.audit()]
    expected = [("echo first", "exited"), ("sleep 4512 & exit 7", "exited"), ("sleep 4511", "unknown")]
    assert recorded == [*expected, ("echo next", "exited"), ("echo next", "exited")]
    [left] = [entry for entry in stage.session.audit() if entry.outcome == "unknown"]
    assert "may have run" in (left.reason or "")
    assert left.duration_ms is None
    assert left.remote_pid


def test_what_a_killed_broker_ran_is_in_the_log_though_the_target_is_away(stage: Stage) -> None:
    call = stage.call("sleep 4513")
    stage.wait_for_run(call)
    stage.proxy.refuse()
    stage.kill_broker()
    stage.finish(call)
    assert stage.run().outcome == "did not run"
    assert [entry.outcome for entry in stage.session.audit()] == ["unknown", "refused"]
    stage.proxy.accept()


def test_a_killed_broker_that_was_idle_is_started_again(stage: Stage) -> None:
    for _ in range(3):
        stage.kill_broker()
        call = stage.run()
        assert (call.outcome, call.said) == ("result", b"")


def test_only_what_a_dead_broker_left_is_ended_not_a_process_that_got_its_number(stage: Stage) -> None:
    call = stage.call("sleep 4503")
    stage.wait_for_run(call)
    folder = stage.session.paths.session_state("t") / "running"
    [record] = folder.glob("*.jsonl")
    lines = [json.loads(line) for line in record.read_text().split("\n") if line]
    stage.kill_broker()
    stage.finish(call)
    # the same number with another start, as after a reuse of the number
    what, pid, started, boot, *_ = lines[-1]
    record.write_text("".join(json.dumps(["begin", pid, *rest]) + "\n" for rest in (
        [str(int(started) + 1), boot], [started, "0" * 36])) + "half a li")  # fmt: skip
    assert stage.run().outcome == "result"
    wait_for(lambda: not record.exists(), "the dead broker's record to be dealt with")
    wait_for(lambda: b"were ended" in stage.session.broker_log().encode(), "the next broker to have looked")
    assert stage.remote("sleep", "4503")


@pytest.mark.root
def test_a_target_without_proc_has_what_a_dead_broker_left_ended_too(transport: str) -> None:
    """As on macOS and BSD, where `ps` alone tells when a process started."""
    hide = "mount --bind /dev/null /proc/sys/kernel/random/boot_id && exec \"$@\""
    with Account() as account:
        with Sshd(user=account.name, by=["/usr/bin/unshare", "--mount", "/bin/sh", "-c", hide, "hide"]) as server:
            with Stage(server=server, transport=transport) as stage:
                call = stage.call("sleep 4514")
                stage.wait_for_run(call)
                [record] = (stage.session.paths.session_state("t") / "running").glob("*.jsonl")
                assert '"ps"' in record.read_text()
                stage.kill_broker()
                assert stage.finish(call).outcome == "may have run"
                assert stage.run().outcome == "result"
                wait_for(lambda: not stage.remote("sleep", "4514"), "the end of what nobody waits for")
                assert stage.tally().is_clean


def test_a_record_of_a_living_broker_is_left_alone(stage: Stage) -> None:
    call = stage.call("sleep 4504")
    stage.wait_for_run(call)
    first = stage.session.broker_pid
    shutil.rmtree(stage.session.paths.runtime)  # so that a second broker serves beside the first
    assert stage.run().outcome == "result"
    assert stage.session.broker_pid != first
    assert stage.remote("sleep", "4504")
    call.process.terminate()
    assert stage.finish(call).outcome == f"signal {signal.SIGTERM.value}"
    os.kill(first, signal.SIGTERM)
    wait_for(lambda: is_dead(first), "the first broker's end")


def test_a_runtime_folder_that_a_cleaner_removed_is_made_again(stage: Stage) -> None:
    for _ in range(2):
        old = stage.session.broker_pid
        shutil.rmtree(stage.session.paths.runtime)
        assert stage.run().outcome == "result"
        assert stage.session.broker_pid != old
        os.kill(old, signal.SIGTERM)
        wait_for(lambda pid=old: is_dead(pid), "the old broker's end")  # type: ignore[misc]
        assert stage.run().outcome == "result", "the old broker took the new one's socket along"


def test_a_stale_socket_is_no_broker(stage: Stage) -> None:
    stage.session.down()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(stage.session.paths.socket("t")))
    assert stage.run().outcome == "result"


def test_brokers_started_at_once_are_one(stage: Stage) -> None:
    stage.session.down()
    code = (
        f"import sys; sys.path[:] = {[entry for entry in sys.path if entry]!r}\n"
        "from pathlib import Path; from reach.paths import Paths; from reach.broker.lifecycle import _launch\n"
        f"_launch(Paths(*map(Path, {[str(x) for x in _roots(stage)]!r})), 't')"
    )
    starters = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [starter.wait() for starter in starters] == [0] * 4
    lock = stage.session.paths.session_runtime("t") / "lock"
    wait_for(lambda: len(_holders(str(lock))) == 1, "all brokers but one to end")
    assert _holders(str(lock)) == [stage.session.broker_pid]
    assert stage.run().outcome == "result"


def test_down_ends_what_runs_and_says_so(stage: Stage) -> None:
    call = stage.call("sleep 4505")
    stage.wait_for_run(call)
    stubborn = stage.call("trap '' TERM; sleep 4506; sleep 4507")
    stage.wait_for_run(stubborn)
    assert stop_broker(stage.session.paths, "t")
    assert stage.finish(call).outcome == f"signal {signal.SIGTERM.value}"
    assert stage.finish(stubborn).outcome == f"signal {signal.SIGKILL.value}"
    wait_for(lambda: not stage.remote("sleep", "4505"), "the end of the one")
    wait_for(lambda: not stage.remote("sleep", "4506"), "the end of the other")


def test_down_ends_though_the_target_is_silent(make_stage: MakeStage) -> None:
    stage = make_stage(ssh_options=KEEPALIVE)
    call = stage.call("sleep 4508")
    stage.wait_for_run(call)
    stage.proxy.freeze()
    assert stop_broker(stage.session.paths, "t")
    assert stage.finish(call).outcome == "may have run"
    stage.proxy.unfreeze()
    assert stage.run().outcome == "result"
    wait_for(lambda: not stage.remote("sleep", "4508"), "the end of what nobody waits for")


def test_a_broker_that_slept_longer_than_the_bound_serves_on(make_stage: MakeStage) -> None:
    stage = make_stage({"ClientAliveInterval": 1, "ClientAliveCountMax": 1}, ssh_options=KEEPALIVE)
    assert stage.run().outcome == "result"
    pid = stage.session.broker_pid
    served = stage.server.log_text().count("Timeout, client not responding")
    asleep = stage.session.local_pids()  # ssh sleeps with its machine as well
    for each in asleep:
        os.kill(each, signal.SIGSTOP)
    stage.server.wait_for_log("Timeout, client not responding", count=served + 1)
    for each in asleep:
        os.kill(each, signal.SIGCONT)
    assert stage.run().outcome == "result"
    assert stage.session.broker_pid == pid


def test_a_broker_that_was_stopped_for_a_moment_finishes_its_command(make_stage: MakeStage) -> None:
    stage = make_stage(ssh_options=KEEPALIVE)
    call = stage.call(f"sleep {BOUND_S + 3}; echo done")
    stage.wait_for_run(call)
    pid = stage.session.broker_pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        call.process.wait(timeout=BOUND_S + 2)
    os.kill(pid, signal.SIGCONT)
    assert (stage.finish(call).outcome, call.out) == ("result", b"done\n")


def test_a_broker_that_is_stopped_and_then_killed_is_told_as_one_that_was_killed(stage: Stage) -> None:
    call = stage.call("sleep 4515")
    stage.wait_for_run(call)
    pid = stage.session.broker_pid
    os.kill(pid, signal.SIGSTOP)
    unheard = stage.call()  # the stopped broker's socket takes it
    wait_for(lambda: _is_waiting_for_a_broker(unheard.process.pid), "a shim that waits for an answer")
    assert call.process.poll() is None, "a shim gives up a broker that only sleeps"
    os.kill(pid, signal.SIGKILL)
    assert stage.finish(call).outcome == "may have run"
    assert stage.finish(unheard).outcome == "result", "nothing of it was sent: the next broker runs it"
    wait_for(lambda: not stage.remote("sleep", "4515"), "the end of what nobody waits for")


def _is_waiting_for_a_broker(pid: int) -> bool:
    """Whether process PID has a socket and sleeps."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        return state == "S" and any(link.startswith("socket:") for link in descriptors_of(pid))
    except OSError:
        return False


def test_a_state_folder_that_can_not_be_written_costs_the_record_and_not_the_command(stage: Stage) -> None:
    state = stage.session.paths.session_state("t")
    stage.kill_broker()
    (state / "audit.jsonl").unlink(missing_ok=True)
    shutil.rmtree(state / "running")
    for name in ("audit.jsonl", "broker.log", "running"):  # root may write anything but these
        (state / name).unlink(missing_ok=True)
        os.symlink("/proc/version", state / name)
    try:
        assert stage.run().outcome == "result"
        assert stage.run().outcome == "result"
    finally:
        for name in ("audit.jsonl", "broker.log", "running"):
            (state / name).unlink()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_under_the_audit_log_costs_the_record_and_not_the_command(stage: Stage) -> None:
    log = stage.session.paths.audit_log("t")
    log.unlink(missing_ok=True)
    os.symlink("/dev/full", log)
    assert stage.run().outcome == "result"
    log.unlink()
    assert stage.run().outcome == "result"
    assert [entry.outcome for entry in stage.session.audit()] == ["exited"]
    assert stage.session.broker_log().count("audit log") == 1


def test_a_storm_of_silent_peers_keeps_nobody_out(stage: Stage) -> None:
    pid = stage.session.broker_pid
    before = len(descriptors_of(pid))
    peers = []
    for _ in range(600):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.connect(str(stage.session.paths.socket("t")))
        peers.append(peer)
    assert stage.run().outcome == "result"
    assert len(os.listdir(f"/proc/{pid}/task")) < 60
    for peer in peers:
        peer.close()
    assert stage.run().outcome == "result"
    wait_for(lambda: len(descriptors_of(pid)) < before + 30, "the peers' descriptors to be given back")


def test_a_thread_of_requests_that_trickle_keeps_nobody_out(stage: Stage) -> None:
    peers = []
    for _ in range(100):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.connect(str(stage.session.paths.socket("t")))
        peer.sendall((1000).to_bytes(4, "big") + b"1\0run")
        peers.append(peer)
    for _ in range(5):
        assert stage.run().outcome == "result"
    for peer in peers:
        peer.close()


def test_a_shim_that_is_killed_leaves_nothing_on_the_target(stage: Stage) -> None:
    call = stage.call("sleep 4509")
    stage.wait_for_run(call)
    call.process.kill()
    assert stage.finish(call).outcome == "signal 9"
    wait_for(lambda: not stage.remote("sleep", "4509"), "the end of what nobody waits for")
    wait_for(lambda: not stage.session.status()["commands_running"], "the broker to know it")


def test_a_shim_that_is_killed_while_the_connection_is_gone_leaves_nothing_on_the_target(stage: Stage) -> None:
    call = stage.call("sleep 4510")
    stage.wait_for_run(call)
    stage.proxy.refuse()
    stage.proxy.cut()
    stage.finish(call)
    stage.proxy.accept()
    assert stage.run().outcome == "result"
    wait_for(lambda: not stage.remote("sleep", "4510"), "the end of what nobody waits for")


def test_a_broker_starts_where_its_starter_is_gone(stage: Stage) -> None:
    stage.session.down()
    start_broker(stage.session.paths, "t")
    assert stage.run().outcome == "result"


def test_a_command_that_comes_as_an_idle_broker_ends_is_run(stage: Stage) -> None:
    code = (
        f"import sys; sys.path[:] = {[entry for entry in sys.path if entry]!r}\n"
        "from reach.broker import server, start; server.IDLE_END_S, server.CHECK_INTERVAL_S = 0.02, 0.005\n"
        f"start.serve('t', {[str(x) for x in _roots(stage)]!r}, int(sys.argv[1]))"
    )
    for _ in range(5):
        stage.session.down()
        reader, writer = os.pipe()
        argv = [sys.executable, "-c", code, str(writer)]
        broker = subprocess.Popen(argv, pass_fds=[writer], stderr=subprocess.DEVNULL)
        os.close(writer)
        assert os.read(reader, 1) == b"+"
        os.close(reader)
        for _ in range(CALLS_AT_AN_END):
            if broker.poll() is not None:
                break
            assert stage.run().outcome == "result"
        assert broker.wait(HUNG_S) == 0
        assert stage.run().outcome == "result"


def _roots(stage: Stage) -> list[object]:
    paths = stage.session.paths
    return [paths.state, paths.data, paths.cache, paths.runtime]


def _holders(path: str) -> list[int]:
    """The processes that have PATH open."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if path in descriptors_of(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


def test_a_broker_keeps_nothing_of_what_its_starter_set_for_itself(stage: Stage) -> None:
    """One command's shell starts the broker; every later one's depends on it."""
    stage.kill_broker()
    code = (
        "import os, resource, signal\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        f"os.execv({str(stage.session.bash)!r}, ['bash', '-c', 'exit 9'])"
    )
    assert subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL).returncode == 9
    status = Path(f"/proc/{stage.session.broker_pid}/status").read_text()
    masks = {line[:6]: int(line.split()[1], 16) for line in status.splitlines() if line[:6] in ("SigBlk", "SigIgn")}
    assert masks["SigBlk"] == 0
    assert not masks["SigIgn"] >> (signal.SIGCHLD - 1) & 1
    assert resource.prlimit(stage.session.broker_pid, resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_broker_that_may_open_too_few_files_does_not_come_up(stage: Stage) -> None:
    """Up, it would refuse every later command as well, of shells without that limit."""
    stage.kill_broker()
    argv = ["/bin/sh", "-c", f"ulimit -n 20; exec {stage.session.bash} -c true"]
    limited = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (limited.returncode, limited.stderr.count("\n")) == (125, 1)
    assert "did not come up" in limited.stderr
    assert limited.stderr.endswith("it did not run\n")
    assert stage.run().outcome == "result"

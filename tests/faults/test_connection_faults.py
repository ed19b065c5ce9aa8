"""The connection fails under something that goes on. Nothing hangs, lies or runs twice, and the next command works."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

import pytest

from faults.stage import BOTH_TRANSPORTS, BOUND_S, KEEPALIVE, Stage
from support.session import wait_for

pytestmark = [pytest.mark.sshd, BOTH_TRANSPORTS]

MakeStage = Callable[..., Stage]


def _kill_connections(stage: Stage) -> None:
    stage.server.kill_connections()


def _reset(stage: Stage) -> None:
    stage.proxy.cut("rst")


def _close_in_order(stage: Stage) -> None:
    stage.proxy.cut("fin")


CUTS = pytest.mark.parametrize("cut", [_kill_connections, _reset, _close_in_order], ids=["killed", "reset", "closed"])


@CUTS
def test_a_command_whose_connection_ends_is_unknown_and_its_group_is_ended(
    stage: Stage, cut: Callable[[Stage], None]
) -> None:
    call = stage.call("sleep 4401")
    stage.wait_for_run(call)
    cut(stage)
    assert stage.finish(call).outcome == "may have run"
    assert b"not run again" in call.said
    assert stage.run().outcome == "result"
    wait_for(lambda: not stage.remote("sleep", "4401"), "the end of what nobody waits for")


@CUTS
def test_a_connection_that_ends_while_idle_is_no_fault_of_the_next_command(
    stage: Stage, cut: Callable[[Stage], None]
) -> None:
    assert stage.run().outcome == "result"
    for _ in range(3):
        stage.end_connections(lambda: cut(stage))
        assert stage.run("hostname").outcome == "result"


def test_a_connection_that_ends_is_opened_anew_without_any_command(stage: Stage) -> None:
    stage.proxy.cut()
    wait_for(lambda: stage.session.status()["warm_workers"], "new workers")
    wait_for(lambda: stage.proxy.connection_count, "a new connection")


def test_a_connection_cut_during_output_keeps_what_came_and_says_so(stage: Stage) -> None:
    call = stage.call("while :; do echo 0123456789abcdef; done")
    assert call.process.stdout is not None
    seen = call.process.stdout.read(1 << 20)
    stage.proxy.cut()
    assert stage.finish(call).outcome == "may have run"
    assert (seen + call.out).startswith(b"0123456789abcdef\n" * 60_000)
    assert stage.run().outcome == "result"


def test_a_connection_cut_while_workers_are_started_costs_no_command(stage: Stage) -> None:
    for _ in range(10):
        assert stage.run().outcome == "result"
        stage.end_connections()


def test_a_silent_network_is_noticed_within_the_bound(make_stage: MakeStage) -> None:
    stage = make_stage(ssh_options=KEEPALIVE)
    call = stage.call("sleep 4402")
    stage.wait_for_run(call)
    stage.proxy.freeze()
    assert stage.finish(call, within_s=BOUND_S + 15).outcome == "may have run"
    stage.proxy.unfreeze()
    assert stage.run().outcome == "result"
    wait_for(lambda: not stage.remote("sleep", "4402"), "the end of what nobody waits for")


def test_a_server_that_is_stopped_is_noticed_though_its_kernel_answers(make_stage: MakeStage) -> None:
    stage = make_stage(ssh_options=KEEPALIVE)
    call = stage.call("sleep 4403")
    stage.wait_for_run(call)
    stopped = stage.server.connection_pids()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    assert stage.finish(call, within_s=BOUND_S + 15).outcome == "may have run"
    assert stage.run().outcome == "result"
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


def test_input_that_nobody_takes_does_not_keep_a_dead_peer_from_being_noticed(make_stage: MakeStage) -> None:
    stage = make_stage(ssh_options=KEEPALIVE)
    with open("/dev/zero", "rb") as endless:
        call = stage.call("cat >/dev/null", stdin=endless)
        stage.wait_for_run(call)
        stage.proxy.freeze()
        assert stage.finish(call, within_s=BOUND_S + 30).outcome == "may have run"
    stage.proxy.unfreeze()
    assert stage.run().outcome == "result"


def test_a_peer_that_went_silent_while_idle_costs_a_new_command_nothing_but_time(make_stage: MakeStage) -> None:
    stage = make_stage(ssh_options=KEEPALIVE)
    assert stage.run().outcome == "result"
    before = stage.proxy.connections_total
    for pid in stage.server.connection_pids():
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: stage.proxy.connections_total > before, "the silence to be noticed")
    assert stage.run().outcome == "result"


def test_a_slow_network_is_no_dead_one(make_stage: MakeStage) -> None:
    stage = make_stage(ssh_options=KEEPALIVE, delay_s=0.2)
    call = stage.run("sleep 5; echo done")
    assert (call.outcome, call.out) == ("result", b"done\n")
    assert stage.proxy.connections_total == 1


def test_sshd_restarted_is_unknown_for_what_ran_and_nothing_for_what_comes(stage: Stage) -> None:
    call = stage.call("sleep 4404")
    stage.wait_for_run(call)
    stage.server.restart()
    assert stage.finish(call).outcome == "may have run"
    assert stage.run().outcome == "result"


def test_a_target_that_refuses_for_a_while_is_told_each_time_and_works_again(stage: Stage) -> None:
    stage.proxy.refuse()
    stage.end_connections()
    for _ in range(3):
        call = stage.run()
        assert call.outcome == "did not run"
        assert b"refused" in call.said
        assert len(call.said.splitlines()) == 1
    stage.proxy.accept()
    assert stage.run().outcome == "result"


def test_commands_that_wait_for_one_failing_attempt_fail_together(stage: Stage) -> None:
    stage.proxy.refuse()
    stage.end_connections()
    calls = [stage.call() for _ in range(16)]
    assert {stage.finish(call).outcome for call in calls} == {"did not run"}
    stage.proxy.accept()
    assert stage.run().outcome == "result"


def test_a_changed_host_key_stops_new_connections_and_not_the_open_one(stage: Stage) -> None:
    stage.server.swap_host_key()
    assert stage.run().outcome == "result"
    stage.end_connections()
    for _ in range(2):
        call = stage.run()
        assert call.outcome == "did not run"
        assert call.said.count(b"SHA256:") == 2
    stage.server.trust_host_key()
    assert stage.run().outcome == "result"


def test_a_key_removed_meanwhile_is_told_and_not_tried_without_end(stage: Stage) -> None:
    stage.server.remove_authorized_key()
    assert stage.run().outcome == "result"
    stage.end_connections()
    call = stage.run()
    assert call.outcome == "did not run"
    assert b"permission denied" in call.said
    tried = stage.proxy.connections_total
    status = stage.session.status()
    assert status["connections"] == 0
    assert stage.proxy.connections_total <= tried + 1
    stage.server.restore_authorized_key()
    assert stage.run().outcome == "result"


def test_a_shell_that_dies_before_it_begins_the_command_lends_it_no_status(stage: Stage) -> None:
    wait_for(lambda: stage.session.status()["warm_workers"] == 2, "waiting workers")
    serving = stage.server.connection_pids()
    waiting = [pid for pid in stage.server.pids() if pid not in serving and pid != stage.server.pid]
    for pid in serving:  # so that the shells' end is told only when the command is on its way
        os.kill(pid, signal.SIGSTOP)
    for pid in waiting:
        with contextlib.suppress(ProcessLookupError):  # what surveyed the target ends by itself
            os.kill(pid, signal.SIGKILL)
    call = stage.call()
    wait_for(lambda: stage.session.status()["commands_running"], "the command to be on its way")
    for pid in serving:
        os.kill(pid, signal.SIGCONT)
    assert stage.finish(call).outcome == "did not run"
    assert not stage.runs()[call.number]
    assert stage.run().outcome == "result"

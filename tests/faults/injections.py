"""The faults, each as one trial: commands under way, something breaks, and a command after it that has to work."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from faults.stage import BOUND_S, KEEPALIVE, Call, Stage
from support.processes import is_dead
from support.session import wait_for
from support.sshd import KEYS_EXCHANGED, Options

REKEYED_BYTES = 190_000_000
MOST_UNDER_ONE_KEY = (1 << 20) + (1 << 16)

Trial = Callable[[Stage, random.Random], None]


@dataclass(frozen=True)
class Fault:
    """A row of the table."""

    name: str
    times: int
    trial: Trial
    make_stage: Callable[[], Stage] = Stage


def after(stage: Stage) -> None:
    """The command that comes next has to work, at the first attempt."""
    call = stage.run("echo next")
    if call.outcome != "result" or call.out != b"next\n":
        call.outcome = f"exit code: the next command did not work: {call.outcome} {call.said!r}"


def _started(stage: Stage, then: str) -> Call:
    call = stage.call(then)
    stage.wait_for_run(call)
    return call


# --- the connection


def random_cut(stage: Stage, chance: random.Random) -> None:
    """Up to three commands at once, and the connection ends at any moment or byte of theirs."""
    calls = [stage.call(f"echo out; sleep {chance.random() * 0.2:.3f}") for _ in range(chance.randint(1, 3))]
    how: Literal["rst", "fin"] = chance.choice(["rst", "fin"])
    kind = chance.randrange(4)
    if kind == 0:
        stage.proxy.cut_after(chance.randint(1, 4000), chance.choice(["to_server", "to_client"]), how)
        time.sleep(0.3)
        stage.proxy.cut(how)
    elif kind == 1:
        time.sleep(chance.random() * 0.3)
        stage.server.kill_connections()
    else:
        time.sleep(chance.random() * 0.3)
        stage.proxy.cut(how)
    for call in calls:
        stage.finish(call)


def cut_while_running(stage: Stage, chance: random.Random) -> None:
    call = _started(stage, "sleep 4601")
    stage.proxy.cut(chance.choice(["rst", "fin"]))
    stage.finish(call)
    after(stage)
    wait_for(lambda: not stage.remote("sleep", "4601"), "the orphan's end")


def kill_connection(stage: Stage, chance: random.Random) -> None:
    call = _started(stage, "sleep 4602")
    stage.server.kill_connections()
    stage.finish(call)
    after(stage)
    wait_for(lambda: not stage.remote("sleep", "4602"), "the orphan's end")


def cut_while_idle(stage: Stage, chance: random.Random) -> None:
    stage.end_connections(lambda: stage.proxy.cut(chance.choice(["rst", "fin"])))
    after(stage)


def cut_during_output(stage: Stage, chance: random.Random) -> None:
    call = stage.call("while :; do echo 0123456789; done")
    assert call.process.stdout is not None
    call.process.stdout.read(chance.randint(1, 1 << 20))
    stage.proxy.cut(chance.choice(["rst", "fin"]))
    stage.finish(call)
    after(stage)


def cut_during_input(stage: Stage, chance: random.Random) -> None:
    with open("/dev/zero", "rb") as endless:
        call = stage.call("cat >/dev/null", stdin=endless)
        stage.wait_for_run(call)
        time.sleep(chance.random() * 0.1)
        stage.proxy.cut(chance.choice(["rst", "fin"]))
        stage.finish(call)
    after(stage)


def cut_during_refill(stage: Stage, chance: random.Random) -> None:
    after(stage)
    time.sleep(chance.random() * 0.05)
    stage.end_connections(lambda: stage.proxy.cut(chance.choice(["rst", "fin"])))
    after(stage)


def freeze_network(stage: Stage, chance: random.Random) -> None:
    call = _started(stage, "sleep 4603")
    stage.proxy.freeze()
    stage.finish(call, within_s=BOUND_S + 15)
    stage.proxy.unfreeze()
    after(stage)


def stop_server_process(stage: Stage, chance: random.Random) -> None:
    call = _started(stage, "sleep 4604")
    stopped = stage.server.connection_pids()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    stage.finish(call, within_s=BOUND_S + 15)
    after(stage)
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- the server


def restart_sshd(stage: Stage, chance: random.Random) -> None:
    call = _started(stage, "sleep 4605")
    stage.server.restart()
    stage.finish(call)
    after(stage)


def refuse_for_a_while(stage: Stage, chance: random.Random) -> None:
    stage.proxy.refuse()
    stage.end_connections()
    calls = [stage.call() for _ in range(3)]
    for call in calls:
        stage.finish(call)
    stage.proxy.accept()
    after(stage)


def change_host_key(stage: Stage, chance: random.Random) -> None:
    stage.server.swap_host_key()
    stage.end_connections()
    stage.run()
    stage.server.trust_host_key()
    after(stage)


def remove_authorized_key(stage: Stage, chance: random.Random) -> None:
    stage.server.remove_authorized_key()
    stage.end_connections()
    stage.run()
    stage.server.restore_authorized_key()
    after(stage)


def burst(stage: Stage, chance: random.Random) -> None:
    calls = [stage.call("sleep 0.3") for _ in range(32)]
    for call in calls:
        stage.finish(call)
    after(stage)


def rekey_under_output(stage: Stage, chance: random.Random) -> None:
    lines = 23_000_000
    before = stage.server.log_text().count(KEYS_EXCHANGED)
    call = stage.run(f"seq {lines}")
    if len(call.out) < REKEYED_BYTES or hashlib.sha256(call.out).digest() != _digest_of_lines(lines):
        call.outcome = f"exit code: {len(call.out)} bytes came, and not those that were sent"
    if stage.server.log_text().count(KEYS_EXCHANGED) - before < REKEYED_BYTES // MOST_UNDER_ONE_KEY:
        call.outcome = "exit code: new keys were not exchanged every megabyte"
    call.out = b""


@functools.cache
def _digest_of_lines(count: int) -> bytes:
    return hashlib.sha256(subprocess.run(["seq", str(count)], capture_output=True, check=True).stdout).digest()


# --- the broker


def kill_broker(stage: Stage, chance: random.Random) -> None:
    call = _started(stage, "sleep 4606")
    stage.kill_broker()
    stage.finish(call)
    after(stage)
    wait_for(lambda: not stage.remote("sleep", "4606"), "the orphan's end")


def kill_broker_at_random(stage: Stage, chance: random.Random) -> None:
    pid = stage.session.broker_pid
    calls = [stage.call("sleep 0.05") for _ in range(3)]
    time.sleep(chance.random() * 0.3)
    os.kill(pid, signal.SIGKILL)
    for call in calls:
        stage.finish(call)
    after(stage)


def stop_broker_beyond_the_bound(stage: Stage, chance: random.Random) -> None:
    pid = stage.session.broker_pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(BOUND_S + 1)
    stage.proxy.cut()
    os.kill(pid, signal.SIGCONT)
    after(stage)


def remove_runtime_folder(stage: Stage, chance: random.Random) -> None:
    old = stage.session.broker_pid
    call = _started(stage, "sleep 0.5")
    shutil.rmtree(stage.session.paths.runtime)
    after(stage)
    stage.finish(call)
    os.kill(old, signal.SIGTERM)
    wait_for(lambda: is_dead(old), "the old broker's end")


def leave_stale_socket(stage: Stage, chance: random.Random) -> None:
    stage.session.down()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(stage.session.paths.socket("t")))
    calls = [stage.call() for _ in range(3)]  # three starters at once
    for call in calls:
        stage.finish(call)
    after(stage)


def fill_audit_disk(stage: Stage, chance: random.Random) -> None:
    log = stage.session.paths.audit_log("t")
    log.unlink(missing_ok=True)
    os.symlink("/dev/full", log)
    after(stage)
    log.unlink()


# --- the harness


def kill_shim(stage: Stage, chance: random.Random) -> None:
    call = _started(stage, "sleep 4607")
    call.process.kill()
    stage.finish(call)
    wait_for(lambda: not stage.remote("sleep", "4607"), "the end of what nobody waits for")
    after(stage)


def kill_shim_at_random(stage: Stage, chance: random.Random) -> None:
    calls = [stage.call("sleep 4608") for _ in range(3)]
    time.sleep(chance.random() * 0.3)
    for call in calls:
        call.process.kill()
        stage.finish(call)
    wait_for(lambda: not stage.remote("sleep", "4608"), "the end of what nobody waits for")
    after(stage)


def _alive() -> Stage:
    return Stage(ssh_options=KEEPALIVE)


def _rekeying() -> Stage:
    """The server counts what it sends, and so asks after each megabyte exactly; the operator's side asks as well."""
    limit: Options = {"RekeyLimit": "1M"}
    return Stage({"LogLevel": "DEBUG1", **limit}, ssh_options=limit)


def _limited(sessions: int) -> Callable[[], Stage]:
    return lambda: Stage({"MaxSessions": sessions, "MaxStartups": 100})


FAULTS = (
    Fault("connection cut at a random moment or byte, up to 3 commands at once", 1000, random_cut),
    Fault("connection cut while a command runs", 25, cut_while_running),
    Fault("sshd's process for the connection killed", 25, kill_connection),
    Fault("connection cut while idle", 50, cut_while_idle),
    Fault("connection cut during output", 25, cut_during_output),
    Fault("connection cut during input", 25, cut_during_input),
    Fault("connection cut while workers are started", 50, cut_during_refill),
    Fault("network silent while a command runs", 5, freeze_network, _alive),
    Fault("sshd's process for the connection stopped", 5, stop_server_process, _alive),
    Fault("sshd restarted while a command runs", 10, restart_sshd),
    Fault("target refuses connections for a while", 10, refuse_for_a_while),
    Fault("host key changed", 5, change_host_key),
    Fault("key removed from authorized_keys", 5, remove_authorized_key),
    Fault("MaxSessions 1, 32 commands at once", 3, burst, _limited(1)),
    Fault("MaxSessions 2, 32 commands at once", 3, burst, _limited(2)),
    Fault("MaxSessions 10, 32 commands at once", 3, burst, _limited(10)),
    Fault("new keys every megabyte of 200", 3, rekey_under_output, _rekeying),
    Fault("broker killed while a command runs", 15, kill_broker),
    Fault("broker killed at a random moment of 3 commands", 60, kill_broker_at_random),
    Fault("broker stopped for longer than the keepalive's bound", 3, stop_broker_beyond_the_bound, _alive),
    Fault("runtime folder removed", 5, remove_runtime_folder),
    Fault("stale socket, three commands at once", 5, leave_stale_socket),
    Fault("disk full under the audit log", 5, fill_audit_disk),
    Fault("shim killed while its command runs", 25, kill_shim),
    Fault("shim killed at a random moment, 3 at once", 60, kill_shim_at_random),
)

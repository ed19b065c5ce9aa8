"""How a command ends, how it is ended, and which process a number means."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.session import LaunchedShim, ReachSession, wait_for
from support.sshd import Sshd
from support.wrappers import WRAPPERS, Wrapper

pytestmark = [pytest.mark.sshd, pytest.mark.transports("paramiko", "openssh")]

NAMED = ["ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2"]
"""Those that an SSH server names (RFC 4254, section 6.10)."""


def test_every_exit_status_comes_through(session: ReachSession) -> None:
    for status in range(256):
        done = session.run(f"exit {status}")
        assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")
    assert [entry.exit_status for entry in session.audit()[-256:]] == list(range(256))


@pytest.mark.parametrize("name", NAMED)
def test_death_by_a_signal_looks_as_it_does_here(session: ReachSession, name: str) -> None:
    done = session.run(f"ulimit -c 0; exec sh -c 'kill -{name} $$'")  # bash itself ignores QUIT
    assert done.returncode == -signal.Signals[f"SIG{name}"]
    assert done.stderr == b""
    [entry] = session.audit()[-1:]
    assert (entry.outcome, entry.signal) == ("signalled", name)


@pytest.mark.parametrize("name", ["BUS", "TRAP", "XCPU", "SYS", "RTMIN"])
def test_death_by_a_signal_without_a_name_is_told_as_well_as_it_can_be(session: ReachSession, name: str) -> None:
    done = session.run(f"ulimit -c 0; kill -{name} $$")
    assert done.returncode == 255
    assert (session.audit()[-1].outcome, session.audit()[-1].signal) == ("signalled", "SIG@openssh.com")
    number = int(subprocess.run(["bash", "-c", f"kill -l {name}"], capture_output=True).stdout)
    assert session.run(f"bash -c 'kill -{name} $$'; exit $?").returncode == 128 + number


def test_a_status_of_125_or_255_is_told_from_reach_s_own_by_the_log_and_by_stderr(session: ReachSession) -> None:
    for status in (125, 255):
        done = session.run(f"exit {status}")
        assert (done.returncode, done.stderr) == (status, b"")
        entry = session.audit()[-1]
        assert (entry.outcome, entry.exit_status, entry.reason) == ("exited", status, None)
    shim = session.launch()
    (shim.workspace / "gone").mkdir()
    done = session.run("true", shim=shim, cwd=shim.workspace / "gone")
    assert done.returncode == 125
    assert done.stderr.startswith(b"reach: ")
    entry = session.audit()[-1]
    assert (entry.outcome, entry.exit_status) == ("refused", None)


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_a_signal_to_the_shim_reaches_the_remote_group_as_that_signal(session: ReachSession, name: str) -> None:
    process = session.start(
        f"trap 'echo got {name}; exit 7' {name}; echo ready; while :; do sleep 0.05; done", start_new_session=True
    )
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.Signals[f"SIG{name}"])
    stdout, _ = process.communicate(timeout=20)
    assert stdout == f"got {name}\n".encode()
    assert process.returncode == 7


def test_a_cancelled_command_s_children_end_with_it(session: ReachSession) -> None:
    process = session.start("sleep 4701 | sleep 4702 & sleep 4703", start_new_session=True)
    wait_for(lambda: session.remote_pids("sleep", "4703"), "the sleeps")
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    wait_for(lambda: not any(session.remote_pids("sleep", f"470{n}") for n in (1, 2, 3)), "the end of all")
    assert process.returncode == -signal.SIGTERM


def test_a_job_with_a_session_of_its_own_outlives_the_cancelling(session: ReachSession) -> None:
    process = session.start("setsid sleep 4711 >/dev/null 2>&1 </dev/null & sleep 4712", start_new_session=True)
    [detached] = wait_for(lambda: session.remote_pids("sleep", "4711"), "the detached sleep")
    wait_for(lambda: os.getsid(detached) == detached, "its session")
    wait_for(lambda: session.remote_pids("sleep", "4712"), "the sleep")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    wait_for(lambda: not session.remote_pids("sleep", "4712"), "the end of the sleep")
    assert session.remote_pids("sleep", "4711") == [detached]
    os.kill(detached, signal.SIGKILL)


@pytest.mark.parametrize(
    "how",
    [
        "kill {pid}", "kill -- -{pid}", "kill -9 {pid}", "kill -s KILL -- -{pid}", "/bin/kill {pid}",
        "/usr/bin/kill -KILL -- -{pid}", "pkill -g {pid}", "ps -p {pid} >/dev/null && kill {pid}",
    ],
)  # fmt: skip
def test_kill_with_the_number_that_the_harness_shows_ends_that_command(session: ReachSession, how: str) -> None:
    process = session.start("exec sleep 4721", start_new_session=True)
    wait_for(lambda: session.remote_pids("sleep", "4721"), "the sleep")
    done = session.run(how.format(pid=process.pid))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    process.communicate(timeout=20)
    assert process.returncode == -(signal.SIGKILL if "KILL" in how or "-9" in how else signal.SIGTERM)
    assert not session.remote_pids("sleep", "4721")


def test_kill_of_a_group_reaches_what_runs_in_the_background(session: ReachSession) -> None:
    process = session.start("sleep 4731 >/dev/null 2>&1 </dev/null & sleep 4732 >/dev/null 2>&1 </dev/null &")
    process.communicate(timeout=20)
    wait_for(lambda: session.remote_pids("sleep", "4731"), "the sleep")
    assert session.run(f"kill -- -{process.pid}").returncode == 0
    wait_for(lambda: not session.remote_pids("sleep", "4731"), "the end of the group")


def test_what_asks_for_a_process_by_the_number_that_the_harness_shows_finds_it(session: ReachSession) -> None:
    process = session.start("sleep 4771; :", start_new_session=True)
    [child] = wait_for(lambda: session.remote_pids("sleep", "4771"), "the sleep")
    assert session.run(f"pgrep -P {process.pid}").stdout == f"{child}\n".encode()
    assert b"sleep 4771" in session.run(f"ps -p{process.pid} -o args=").stdout
    assert session.run(f"pkill -P {process.pid}").returncode == 0
    process.communicate(timeout=20)
    assert session.run(f"ps -p {process.pid} -o args=").returncode == 1


def test_kill_of_what_has_ended_says_so_with_the_number_that_the_model_knows(session: ReachSession) -> None:
    process = session.start("exec true")
    process.communicate()
    gone = session.run(f"kill -- -{process.pid}")
    assert gone.stderr == f"bash: line 1: kill: (-{process.pid}) - No such process\n".encode()
    assert gone.returncode == 1


def test_a_number_of_the_target_means_the_target_s(session: ReachSession) -> None:
    done = session.run("sleep 4741 >/dev/null 2>&1 </dev/null & echo $!")
    pid = int(done.stdout)
    assert session.run(f"kill {pid}").returncode == 0
    wait_for(lambda: not session.remote_pids("sleep", "4741"), "the end of the sleep")


def test_a_call_with_such_a_number_is_otherwise_as_any_other(session: ReachSession) -> None:
    process = session.start("exec sleep 4751")
    wait_for(lambda: session.remote_pids("sleep", "4751"), "the sleep")
    probe = 'echo "$BASH_ENV|$LINENO|$0|$BASH_EXECUTION_STRING"; env | grep -c BASH_ENV; ls /proc/self/fd | wc -l'
    plain, special = session.run(probe + "; : 1"), session.run(f"{probe}; : kill {process.pid}")
    assert special.stdout.replace(f"kill {process.pid}".encode(), b"1") == plain.stdout
    assert session.run(f"kill {process.pid}; type kill | head -1").returncode == 0
    process.communicate()


@pytest.fixture(scope="module")
def shim(session: ReachSession, tmp_path_factory: pytest.TempPathFactory) -> LaunchedShim:
    return session.launch(environment={"TMPDIR": str(tmp_path_factory.mktemp("tmp"))})


@pytest.mark.parametrize("wrapper", [w for w in WRAPPERS if "gemini" in (w.side or "")], ids=lambda w: w.name)
def test_the_harness_finds_its_side_file_and_the_target_nothing(
    session: ReachSession, shim: LaunchedShim, wrapper: Wrapper
) -> None:
    side = wrapper.prepare(Path(shim.environment["TMPDIR"]))
    assert side is not None
    before = _hidden_files()
    done = session.run(wrapper.wrap(b"echo out; sleep 4761 >/dev/null 2>&1 & echo $!", side), shim=shim)
    pid = int(done.stdout.split()[1])
    assert (done.returncode, done.stderr) == (0, b"")
    content = side.read_text()
    if wrapper.name.endswith("typed"):
        assert content == f"{shim.workspace}\n"
    elif wrapper.name == "0.61.0":
        assert content == f"{pid}\n"
    else:
        own = session.audit()[-1].pid
        assert sorted(content.split()) == sorted([str(own), str(pid)])  # in the order of the target's own numbers
    assert not _hidden_files() - before
    assert session.run(f"kill {pid}").returncode == 0


def _hidden_files() -> set[str]:
    """What a worker's shell would leave where it may write."""
    return {name for folder in ("/tmp", "/dev/shm") for name in os.listdir(folder) if name.startswith(".reach")}


def test_a_target_without_pgrep_makes_no_noise(
    make_target: Callable[..., Sshd], make_session: Callable[..., ReachSession], tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "rm", "sleep", "uname"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    (tmp_path / ".profile").write_text(f"PATH={tools}\n")
    session = make_session(make_target({"SetEnv": f"HOME={tmp_path}"}), folder="/")
    shim = session.launch(environment={"TMPDIR": str(tmp_path)})
    wrapper = WRAPPERS[3]
    side = wrapper.prepare(tmp_path)
    done = session.run(wrapper.wrap(b"type pgrep >/dev/null || echo none", side), shim=shim)
    assert side is not None
    assert (done.stdout, done.returncode, side.exists()) == (b"none\n", 0, False)
    assert done.stderr == b"bash: line 2: type: pgrep: not found\n"

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_REQUEST
from paramiko.packet import Packetizer

from reach.ssh import namespace
from reach.ssh.embedded import EmbeddedTarget, start_embedded
from reach.ssh.embedded_server import EmbeddedServer
from reach.ssh.negotiation import NegotiatingTransport
from support.processes import eventually, is_dead

BLOB = os.urandom(1 << 20) * 50
needs_ssh = pytest.mark.skipif(not shutil.which("ssh"), reason="needs the ssh client")


class Client(NegotiatingTransport):
    """reach's own client, which also notes what an exit-signal message says."""

    exit_signal: str | None = None

    @staticmethod
    def note_request(channel: paramiko.Channel, message: paramiko.Message) -> None:
        position = message.packet.tell()
        if message.get_text() == "exit-signal":
            message.get_boolean()
            channel.get_transport().exit_signal = message.get_text()  # type: ignore[attr-defined]
        message.packet.seek(position)
        channel._handle_request(message)  # type: ignore[attr-defined]

    _channel_handler_table: ClassVar[dict[int, Callable[..., None]]] = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_REQUEST: note_request,
    }

    def execute(self, command: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        channel = self.open_session()
        channel.exec_command(command)
        with ThreadPoolExecutor() as pool:
            pool.submit(send_all_and_end, channel, stdin)
            stderr = pool.submit(read_all, channel.recv_stderr)
            stdout = read_all(channel.recv)
            return channel.recv_exit_status(), stdout, stderr.result()


def send_all_and_end(channel: paramiko.Channel, content: bytes) -> None:
    for start in range(0, len(content), 1 << 18):  # sendall copies what is left at every packet
        channel.sendall(content[start : start + (1 << 18)])
    channel.shutdown_write()


def read_all(receive: Callable[[int], bytes]) -> bytes:
    return b"".join(iter(lambda: receive(1 << 20), b""))


def read_until(channel: paramiko.Channel, end: bytes) -> bytes:
    got = b""
    while end not in got:
        chunk = channel.recv(65536)
        assert chunk, got
        got += chunk
    return got


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTarget]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPERATORS_OWN", "must not be seen")
        with start_embedded(tmp_path_factory.mktemp("demo") / "home") as started:
            yield started


def log_in(target: EmbeddedTarget) -> Client:
    key = paramiko.ECDSAKey.from_private_key_file(str(target.client_key_path))
    connection = socket.create_connection((target.host, target.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client = Client(connection)
    client.connect(username=target.user, pkey=key)
    return client


@pytest.fixture
def client(target: EmbeddedTarget) -> Iterator[Client]:
    with log_in(target) as logged_in:
        yield logged_in


@pytest.fixture
def ssh(target: EmbeddedTarget, tmp_path: Path) -> list[str]:
    """The real client's argv up to and with the host."""
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(target.known_hosts_line + "\n")
    options = ["BatchMode=yes", "IdentitiesOnly=yes", f"UserKnownHostsFile={known_hosts}", "LogLevel=ERROR"]
    flags = [word for option in options for word in ("-o", option)]
    login = ["-p", str(target.port), "-l", target.user, "-i", str(target.client_key_path)]
    return ["ssh", "-F", "none", *flags, *login, target.host]


def test_exit_statuses_all_come_through(client: Client) -> None:
    assert [client.execute(f"exit {status}")[0] for status in range(256)] == list(range(256))


@needs_ssh
def test_real_client_gets_output_status_and_separate_stderr(ssh: list[str], target: EmbeddedTarget) -> None:
    argv = [*ssh, "uname -n; cat; echo err >&2; exit 7"]
    result = subprocess.run(argv, input=b"\x00\xff\r\n", capture_output=True)
    assert result.stdout == target.hostname.encode() + b"\n\x00\xff\r\n"
    assert (result.returncode, result.stderr) == (7, b"err\n")


@pytest.mark.parametrize(
    ("command", "name"),
    [("kill -9 $$", "KILL"), ("kill -TERM $$", "TERM"), ("ulimit -c 0; kill -BUS $$", "BUS@openssh.com")],
    ids=["kill", "term", "one-that-the-RFC-does-not-name"],
)
def test_death_by_signal_is_an_exit_signal_message(client: Client, command: str, name: str) -> None:
    assert client.execute(command)[0] == -1
    assert client.exit_signal == name
    assert client.execute("exit 3")[0] == 3


@needs_ssh
def test_real_client_reports_a_death_by_signal_as_255(ssh: list[str]) -> None:
    assert subprocess.run([*ssh, "kill -9 $$"], capture_output=True).returncode == 255


@pytest.mark.skipif(not Path("/proc/self/ns/uts").exists(), reason="needs Linux's UTS namespaces")
def test_hostname_is_the_targets_own(client: Client, target: EmbeddedTarget) -> None:
    if not target.has_own_hostname:
        pytest.skip("the system gives no hostname of its own to an ordinary user")
    assert client.execute("uname -n")[1].decode().strip() == target.hostname != socket.gethostname()


def test_environment_is_a_login_and_nothing_of_the_operators(client: Client, target: EmbeddedTarget) -> None:
    environment = dict(line.split("=", 1) for line in client.execute("env")[1].decode().splitlines())
    of_the_shell = {"PWD", "SHLVL", "_", "OLDPWD"}
    login = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "SSH_CLIENT", "SSH_CONNECTION"}
    assert set(environment) - of_the_shell == login
    assert environment["USER"] == target.user
    assert client.execute("pwd")[1].decode().strip() == environment["HOME"]


def test_project_lies_in_the_home_and_its_check_fails(client: Client) -> None:
    assert client.execute("ls")[1].split() == [b"README.md", b"add-up.sh", b"check.sh", b"notes.txt"]
    status, _, stderr = client.execute("sh check.sh")
    assert (status, stderr) == (1, b"wrong: 3 + 12 + 7 is 22, add-up.sh says 15\n")


def test_fifty_megabytes_go_both_ways_unchanged(client: Client) -> None:
    assert client.execute("cat", BLOB) == (0, BLOB, b"")


@needs_ssh
def test_fifty_megabytes_go_both_ways_through_the_real_client(ssh: list[str]) -> None:
    result = subprocess.run([*ssh, "cat"], input=BLOB, capture_output=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == BLOB


def test_both_streams_can_be_full_at_once(client: Client) -> None:
    status, stdout, stderr = client.execute("head -c 6000000 /dev/zero >&2 & head -c 6000000 /dev/zero; wait")
    assert (status, len(stdout), len(stderr)) == (0, 6_000_000, 6_000_000)


def test_command_sent_on_stdin_is_read_whole_and_the_rest_is_left(client: Client) -> None:
    script = b"echo first; cat; echo last\0"
    command = "bash -c 'IFS= read -r -d \"\" text; eval \"$text\"'"
    assert client.execute(command, script + BLOB[:3_000_000])[1] == b"first\n" + BLOB[:3_000_000] + b"last\n"


def test_channel_that_nobody_reads_stalls_alone_and_in_bounded_memory(
    client: Client, target: EmbeddedTarget
) -> None:
    stalled = client.open_session()
    stalled.exec_command("exec head -c 300000000 /dev/zero")
    assert eventually(lambda: len(stalled.in_buffer) >= 1 << 20)
    assert client.execute("cat", BLOB)[1] == BLOB
    assert resident_kib(target.process.pid) < 200_000
    assert len(read_all(stalled.recv)) == 300_000_000
    assert stalled.recv_exit_status() == 0


def resident_kib(pid: int) -> int:
    if not Path("/proc/self/status").exists():
        return 0
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.parametrize("who", ["client", "server"])
def test_channels_come_and_go_while_keys_are_exchanged_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    key = paramiko.ECDSAKey.generate()
    # In this process, so that the amount after which it starts an exchange of its own can be set.
    monkeypatch.setattr(Packetizer, "REKEY_BYTES", 1 << 18 if who == "server" else 1 << 29)
    server = EmbeddedServer(tmp_path, paramiko.ECDSAKey.generate(), key)
    with Client(("127.0.0.1", server.port)) as client, ThreadPoolExecutor() as pool:
        client.packetizer.REKEY_BYTES = 1 << 18 if who == "client" else 1 << 29
        client.connect(username=pwd.getpwuid(os.geteuid()).pw_name, pkey=key)
        big = pool.submit(client.execute, "cat", BLOB[:20_000_000])
        rounds = 0
        while not big.done() or rounds < 20:
            assert client.execute(f"echo {rounds}; exit 6") == (6, b"%d\n" % rounds, b"")
            rounds += 1
        assert big.result() == (0, BLOB[:20_000_000], b"")
    server.close()


def test_program_that_does_not_read_stalls_its_channel_alone(client: Client) -> None:
    deaf = client.open_session()
    deaf.exec_command("exec sleep 1000")
    sender = threading.Thread(target=send_ignoring_the_end, args=(deaf, BLOB))
    sender.start()
    assert client.execute("cat", BLOB[:5_000_000])[1] == BLOB[:5_000_000]
    deaf.close()
    sender.join()


def send_ignoring_the_end(channel: paramiko.Channel, content: bytes) -> None:
    try:
        channel.sendall(content)
    except OSError:
        return


def test_input_that_a_program_refuses_is_thrown_away(client: Client) -> None:
    assert client.execute("exec <&-; echo done", BLOB)[:2] == (0, b"done\n")


def test_background_job_holds_the_channel_and_not_the_exit_status(client: Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    channel = client.open_session()
    channel.exec_command(f"{{ read go < '{tmp_path}/gate'; echo late; }} & echo early")
    assert channel.recv_exit_status() == 0
    assert channel.recv(100) == b"early\n"
    assert not channel.closed
    (tmp_path / "gate").write_text("go\n")
    assert read_all(channel.recv) == b"late\n"


def test_end_of_output_is_told_before_the_program_ends(client: Client) -> None:
    channel = client.open_session()
    channel.exec_command("exec >&- 2>&-; read line; exit 5")
    assert channel.recv(1) == b""
    assert not channel.exit_status_ready()
    channel.sendall(b"go\n")
    assert channel.recv_exit_status() == 5


def test_thirty_two_channels_run_at_once(client: Client) -> None:
    channels = [client.open_session() for _ in range(32)]
    for number, channel in reversed(list(enumerate(channels))):
        channel.exec_command(f"echo up; read line; echo {number} $line")
    assert all(channel.recv(3) == b"up\n" for channel in channels)
    for channel in channels:
        channel.sendall(b"go\n")
    assert [read_all(channel.recv) for channel in channels] == [b"%d go\n" % number for number in range(32)]


def test_pty_has_the_size_asked_for_and_is_resized(client: Client) -> None:
    channel = client.open_session()
    channel.get_pty("vt100", width=101, height=33)
    on_resize = "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.05; done"
    channel.exec_command(f"stty size; echo $TERM; {on_resize}")
    assert read_until(channel, b"up\r\n") == b"33 101\r\nvt100\r\nup\r\n"
    channel.resize_pty(width=90, height=20)
    assert read_until(channel, b"20 90\r\n") == b"20 90\r\n"
    assert channel.recv_exit_status() == 0


def test_pty_is_the_controlling_terminal_and_ctrl_c_interrupts(client: Client) -> None:
    channel = client.open_session()
    channel.get_pty()
    channel.exec_command("tty < /dev/tty; test -t 0 && test -t 1 && test -t 2 && echo up; exec sleep 1000")
    read_until(channel, b"up\r\n")
    channel.sendall(b"\x03")
    assert channel.recv_exit_status() == -1
    assert client.exit_signal == "INT"


def test_pty_output_is_complete_when_the_program_has_ended(client: Client) -> None:
    for _ in range(20):
        channel = client.open_session()
        channel.get_pty()
        channel.exec_command("seq 3000")
        assert read_all(channel.recv).split() == [b"%d" % number for number in range(1, 3001)]


def test_pty_background_job_does_not_hold_the_channel(client: Client) -> None:
    channel = client.open_session()
    channel.get_pty()
    channel.exec_command("sleep 1000 & echo early")
    assert read_all(channel.recv) == b"early\r\n"


def test_login_shell_can_be_had(client: Client) -> None:
    channel = client.open_session()
    channel.invoke_shell()
    channel.sendall(b"echo up; exit 4\n")
    assert b"up\n" in read_all(channel.recv)
    assert channel.recv_exit_status() == 4


@needs_ssh
def test_killed_client_ends_what_read_its_input_and_what_had_its_terminal(ssh: list[str]) -> None:
    for flags, program in (([], "cat"), (["-tt"], "sleep 1000")):
        argv = [*ssh[:1], *flags, *ssh[1:], f"echo $$; exec {program}"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            pid = int(process.stdout.readline())
            was_alive = not is_dead(pid)
            process.kill()
        assert was_alive
        assert eventually(partial(is_dead, pid)), program


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_ended_connections_leave_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    with start_embedded(tmp_path) as target:

        def held() -> tuple[int, int]:
            folder = Path(f"/proc/{target.process.pid}")
            return len(list((folder / "fd").iterdir())), len(list((folder / "task").iterdir()))

        before = held()
        for _ in range(3):
            with log_in(target) as client:
                for is_terminal in (False, True, False, True):
                    channel = client.open_session()
                    if is_terminal:
                        channel.get_pty()
                    channel.exec_command("echo up; exec cat")
                    assert channel.recv(100).strip() == b"up"
        assert eventually(lambda: held() == before), (before, held())


def test_command_too_long_for_the_kernel_is_status_1_and_the_reason(client: Client) -> None:
    status, _, stderr = client.execute("echo " + "x" * 140_000)
    assert status == 1
    assert b"Argument list too long" in stderr


def test_everything_but_sessions_is_refused(client: Client, target: EmbeddedTarget) -> None:
    with pytest.raises(paramiko.ChannelException):
        client.open_channel("direct-tcpip", ("127.0.0.1", target.port), ("127.0.0.1", 1))
    channel = client.open_session()
    with pytest.raises(paramiko.SSHException):
        channel.invoke_subsystem("sftp")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda transport, user, key: transport.auth_publickey(user, paramiko.ECDSAKey.generate()),
        lambda transport, user, key: transport.auth_publickey(user + "-x", key),
        lambda transport, user, key: transport.auth_password(user, ""),
        lambda transport, user, key: transport.auth_none(user),
    ],
    ids=["another-key", "another-user", "password", "none"],
)
def test_only_the_key_of_this_run_logs_in(
    target: EmbeddedTarget, attempt: Callable[[paramiko.Transport, str, paramiko.PKey], object]
) -> None:
    key = paramiko.ECDSAKey.from_private_key_file(str(target.client_key_path))
    with paramiko.Transport((target.host, target.port)) as transport:
        transport.start_client()
        with pytest.raises(paramiko.SSHException):
            attempt(transport, target.user, key)
        assert not transport.is_authenticated()


@pytest.mark.parametrize("how", ["close", "stdin", "terminate"])
def test_end_kills_all_that_was_started_and_removes_the_key(tmp_path: Path, how: str) -> None:
    target = start_embedded(tmp_path / "home")
    with log_in(target) as client:
        job = "setsid sh -c 'echo $$; exec sleep 1000' < /dev/null 2> /dev/null & exit"
        channel = client.open_session()
        channel.exec_command(job)
        pid = int(channel.makefile().readline())
        assert not is_dead(pid)
        if how == "stdin":
            assert target.process.stdin
            target.process.stdin.close()
        elif how == "terminate":
            target.process.terminate()
        else:
            target.close()
        assert target.process.wait(20) == 0
    assert is_dead(pid)
    assert not target.client_key_path.exists()
    target.close()


def test_end_kills_all_that_was_started_without_a_namespace_too(tmp_path: Path) -> None:
    """Without one, descendants are followed; this runs the same steps in a process that has none."""
    script = (
        "import os, subprocess; from reach.ssh import namespace; namespace.adopt_orphans();"
        "shell = subprocess.Popen(['sh', '-c', 'setsid sleep 1000 & echo $!'], stdout=subprocess.PIPE);"
        "print(shell.stdout.readline().decode().strip(), flush=True); shell.wait(); shell.stdout.close();"
        "namespace.kill_all_started(False)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: is_dead(int(done.stdout)))


def test_folder_that_holds_anything_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    start_embedded(tmp_path).close()
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_namespace_refuses_to_run_a_program_under_the_wrong_hostname() -> None:
    argv = [sys.executable, "-I", str(namespace.__file__), "x" * 100, "/bin/true"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 125
    assert "no hostname of its own" in done.stderr

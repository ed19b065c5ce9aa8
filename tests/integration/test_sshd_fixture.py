from __future__ import annotations

import os
import pwd
import socket
import subprocess
from collections.abc import Callable

import pytest

from support.accounts import Account
from support.processes import is_dead
from support.sshd import Sshd

pytestmark = pytest.mark.sshd
MakeSshd = Callable[..., Sshd]


def test_target_has_a_hostname_of_its_own(sshd: Sshd) -> None:
    result = sshd.run("uname -n")
    assert result.stdout.decode().strip() == sshd.hostname != socket.gethostname()


def test_exit_status_and_stdin_pass_through(sshd: Sshd) -> None:
    result = sshd.run("cat; echo err >&2; exit 7", stdin=b"\x00\xff\r\n")
    assert (result.returncode, result.stdout, result.stderr) == (7, b"\x00\xff\r\n", b"err\n")


def test_pty_can_be_had(sshd: Sshd) -> None:
    argv = sshd.ssh_argv("-tt", sshd.alias, "tty && stty size")
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr + sshd.log_text()
    assert result.stdout.startswith("/dev/pts/")


def test_stop_leaves_no_process_behind(make_sshd: MakeSshd) -> None:
    server = make_sshd()
    server.run("setsid sleep 4711 >/dev/null 2>&1 </dev/null & echo $!")
    pids = server.pids()
    assert len(pids) >= 2
    server.stop()
    assert not [pid for pid in pids if not is_dead(pid)]


def test_restart_keeps_port_keys_and_hostname(make_sshd: MakeSshd) -> None:
    server = make_sshd()
    port = server.port
    server.restart()
    assert server.port == port
    assert server.run("uname -n").stdout.decode().strip() == server.hostname


def test_kill_connections_ends_them_and_not_the_server(make_sshd: MakeSshd) -> None:
    server = make_sshd()
    with subprocess.Popen(
        server.ssh_argv(server.alias, "echo up; exec cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as client:
        assert client.stdout
        assert client.stdout.readline() == b"up\n"
        assert server.connection_count() == 1
        assert server.kill_connections() == 1
        assert client.wait() == 255
    assert server.run("true").returncode == 0


def test_swapped_host_key_is_refused_by_the_real_client(make_sshd: MakeSshd) -> None:
    server = make_sshd()
    server.swap_host_key()
    result = server.run("true")
    assert result.returncode == 255
    assert b"REMOTE HOST IDENTIFICATION HAS CHANGED" in result.stderr
    server.trust_host_key()
    assert server.run("true").returncode == 0


def test_removed_key_is_refused_by_the_real_client(make_sshd: MakeSshd) -> None:
    server = make_sshd()
    server.remove_authorized_key()
    assert b"Permission denied" in server.run("true").stderr
    server.restore_authorized_key()
    assert server.run("true").returncode == 0


def test_options_reach_sshd(make_sshd: MakeSshd) -> None:
    server = make_sshd({"Banner": "none", "AcceptEnv": ["FOO", "BAR"]}, ssh_options={"SetEnv": "FOO=1"})
    assert server.run("echo $FOO").stdout == b"1\n"


@pytest.mark.root
def test_throw_away_account_logs_in_with_its_own_shell_and_goes_away(make_sshd: MakeSshd) -> None:
    with Account(shell="/bin/dash") as account:
        server = make_sshd(user=account.name)
        assert server.run("id -un; echo $0").stdout.decode().split() == [account.name, "dash"]
        assert server.run("pwd").stdout.decode().strip() == str(account.home)
        server.stop()
    assert not account.home.exists()
    with pytest.raises(KeyError):
        pwd.getpwnam(account.name)


@pytest.mark.root
def test_password_login_is_checked_by_the_real_sshd(make_sshd: MakeSshd) -> None:
    with Account(password="s3cret") as account:
        server = make_sshd({"PasswordAuthentication": "yes"}, user=account.name)
        askpass = account.home / "askpass"
        askpass.write_text("#!/bin/sh\necho s3cret\n")
        askpass.chmod(0o755)
        env = {**os.environ, "SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force"}
        argv = server.ssh_argv("-o", "PubkeyAuthentication=no", server.alias, "id -un")
        result = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert result.stdout.strip() == account.name, result.stderr + server.log_text()
        server.stop()

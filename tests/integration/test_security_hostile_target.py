"""A target that means harm: it floods, never ends, lies, or never answers. Nobody else is harmed by it."""

from __future__ import annotations

import os
import resource
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest

from reach.errors import TransportError
from reach.ssh.packetizer import MAX_BANNER_BYTES, BoundedPacketizer
from reach.ssh.process import Closed
from reach.ssh.transport import WINDOW_BYTES
from support.accounts import Account
from support.hostile_server import HostileServer, connected_to
from support.session import ReachSession, wait_for
from support.sshd import Sshd

EVIL = "\x1b]0;owned\x07\x1b[2J'\"\\\r\nreach: all is well\x9b31m\u202e"


def _flood(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
    try:
        for _ in range(1000):
            server.send_data(channel, bytes(32768))
    except (OSError, EOFError, paramiko.SSHException):
        return


def _flood_of_nothing(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
    try:
        for _ in range(200_000):
            server.send_request(channel, "exit-status", 0)
    except (OSError, EOFError, paramiko.SSHException):
        return


def _flood_of_bytes(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
    try:
        for _ in range(200_000):
            server.send_data(channel, b"x", stderr=True)
    except (OSError, EOFError, paramiko.SSHException):
        return


@pytest.mark.parametrize("flood", [_flood, _flood_of_nothing, _flood_of_bytes], ids=["window", "messages", "bytes"])
def test_a_server_that_floods_a_channel_loses_its_connection(flood: Callable[..., None]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with connected_to(HostileServer(flood)) as connection:
        process = connection.start("x")
        ended = threading.Event()
        connection.on_end(ended.set)
        assert ended.wait(60), "the flood is taken"
        assert process.inbox.take()[-1] == Closed(lost=True)
        process.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (64 << 10) + WINDOW_BYTES // 1024


def test_a_flood_on_a_channel_that_was_closed_here_is_not_kept() -> None:
    begin, done = threading.Event(), threading.Event()

    def flood(server: HostileServer, channel: paramiko.Channel, command: bytes) -> None:
        begin.wait(20)
        _flood(server, channel, command)
        done.set()

    with connected_to(HostileServer(flood)) as connection:
        process = connection.start("x")
        process.close()
        begin.set()
        assert done.wait(60)
        assert process.inbox.unread == 0


@pytest.mark.parametrize("size", [(1 << 18) + 12, (1 << 24) + 4, 0xFFFFFFFC])
def test_a_packet_is_not_awaited_when_it_is_said_to_be_huge(size: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">IB", size, 4) + bytes(64))
        with pytest.raises(paramiko.SSHException, match="announced a packet"):
            BoundedPacketizer(ours).read_message()


def test_a_server_that_talks_without_end_before_its_version_is_cut_off() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        talker = threading.Thread(target=_talk, args=(theirs, MAX_BANNER_BYTES * 4), daemon=True)
        talker.start()
        with pytest.raises(paramiko.SSHException, match="without end"):
            BoundedPacketizer(ours).readline(20)
        ours.close()
        talker.join(20)


def _talk(peer: socket.socket, count: int) -> None:
    try:
        peer.sendall(b"x" * count)
    except OSError:
        return


def test_a_server_that_asks_for_our_agent_or_our_ports_gets_neither() -> None:
    server = HostileServer(lambda *_: None)
    with connected_to(server) as connection:
        connection.start("x")
        assert server.transport
        for kind in ("auth-agent@openssh.com", "x11", "forwarded-tcpip", "direct-tcpip", "session"):
            with pytest.raises(paramiko.SSHException):
                server.transport.open_channel(kind, ("127.0.0.1", 22), ("127.0.0.1", 1), timeout=20)
        assert connection.is_alive


@pytest.mark.sshd
@pytest.mark.root
def test_lies_in_the_survey_reach_no_terminal(make_session: Callable[..., ReachSession]) -> None:
    with Account() as account, Sshd(user=account.name) as server:
        account.write("bin/uname", f"#!/bin/sh\nprintf '%s' {_quoted(EVIL)}\n", mode=0o755)
        account.write(".bashrc", f"PATH=$HOME/bin:$PATH\nexport EVIL={_quoted(EVIL)}\n")
        account.write(".bash_profile", f"export PATH=$HOME/bin:{_quoted(EVIL)}:$PATH SHELL={_quoted(EVIL)}\n")
        session = make_session(server)
        assert session.facts["hostname"].startswith("\x1b]0;"), "the lie is believed, or this tests nothing"
        done = session.run("echo works; echo $HOME")
        assert (done.returncode, done.stdout) == (0, f"works\n{account.home}\n".encode())
        for arguments in (["status"], ["status", "--json"], ["doctor"], ["log"], ["up", server.alias, "--name", "t"]):
            said = _reach(session, *arguments)
            assert said.strip(), arguments
            _assert_harmless(said)
        session.run(f"printf '%s' {_quoted(EVIL)}; : {_quoted(EVIL)}")
        _assert_harmless(_reach(session, "log"))


@pytest.mark.sshd
@pytest.mark.root
def test_endless_start_up_noise_is_refused_and_others_go_on(make_session: Callable[..., ReachSession]) -> None:
    with Account() as account, Account() as good, Sshd(user=account.name) as server, Sshd(user=good.name) as fine:
        neighbour = make_session(fine)
        account.write(".bashrc", "while :; do echo 0123456789012345678901234567890123456789; done\n")
        session = ReachSession(server, name="noisy")
        with pytest.raises(TransportError, match="print without end"):
            session.up()
        assert neighbour.run("echo fine").stdout == b"fine\n"
        session.close()


@pytest.mark.sshd
@pytest.mark.root
def test_an_endless_line_costs_no_memory_and_disturbs_no_neighbour(make_session: Callable[..., ReachSession]) -> None:
    with Account() as account, Sshd(user=account.name) as server:
        session = make_session(server)
        before = _resident_kib(session.broker_pid)
        endless = session.start("tr '\\0' x </dev/zero")
        assert endless.stdout.read(64 << 20) == b"x" * (64 << 20)
        assert session.run("echo fine").stdout == b"fine\n"
        wait_for(lambda: _resident_kib(session.broker_pid) - before < 32 << 10, "the broker to hold no more")
        endless.kill()
        endless.communicate()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _reach(session: ReachSession, *arguments: str) -> str:
    """What `reach ARGUMENTS` says, on both streams."""
    environment = {
        **os.environ,
        "REACH_HOME": str(session.home),
        "REACH_SSH_CONFIG": str(session.server.config),
        "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[2:3])),
    }
    argv = [sys.executable, "-c", "from reach.cli import main; main()", *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    return (done.stdout + done.stderr).decode("utf-8", "surrogateescape")


def _assert_harmless(text: str) -> None:
    bad = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) <= 0x9F or c == "\u202e"]
    assert not bad, text
    assert not any(line.startswith("reach: all is well") for line in text.splitlines()), text


def _resident_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

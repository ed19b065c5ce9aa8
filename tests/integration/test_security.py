"""What stays on the operator's machine, and who else on it may touch a session."""

from __future__ import annotations

import array
import base64
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from reach.broker.call import ServedCall
from reach.broker.state import Broker
from reach.paths import Paths
from reach.session import SessionStore
from reach.session.launch import create_launch
from reach.ssh.embedded_server import EmbeddedServer
from reach.ssh.packetizer import BoundedPacketizer
from reach.target import parse_target
from reach.wire.frames import RunRequest, read_frame
from support.accounts import Account
from support.login import running_agent
from support.session import ReachSession, descriptors_of, quiet_sshd
from support.sshd import Sshd

pytestmark = pytest.mark.sshd

SECRETS = {
    "API_TOKEN": "tok-5f1c9d0e7b",
    "GEMINI_API_KEY": "AIza-not-a-real-one-3381",
    "DATABASE_URL": "postgres://operator:hunter2@db.internal/prod",
    "COMPANY": "Umbrella & Söhne",
    "MULTI": "line one\nline two of it",
    "SSH_AUTH_SOCK": "/run/user/4711/agent.sock",
    "EDITOR": "/opt/operator/bin/edit",
    "USER": "operator-by-name",
    "LOGNAME": "operator-by-name",
    "HOSTNAME": "operators-own-machine",
}
"""The operator's environment at the launch."""
CONNECTION_PROTOCOL = 80
"""The first number of its messages. Source: RFC 4250 section 4.1.1."""
ADDED = {"GEMINI_CLI": "1-it-is", "PAGER": "cat-as-the-harness-set-it"}
"""What the harness set: this is to travel."""


def _run_as(user: str, code: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # this interpreter may lie in a home that nobody else can enter
    interpreter = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin") or sys.executable
    argv = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "/usr/bin/env", "-i", interpreter]
    return subprocess.run([*argv, "-I", "-S", "-c", code, *arguments], capture_output=True, cwd="/")


@pytest.fixture(scope="module")
def sshd() -> Iterator[Sshd]:
    with quiet_sshd() as server:
        yield server


@pytest.fixture
def other_user() -> Iterator[str]:
    with Account() as account:
        yield account.name


CONNECT = """
import socket, sys
peer = socket.socket(socket.AF_UNIX)
try: peer.connect(sys.argv[1])
except PermissionError: sys.exit(13)
peer.settimeout(20)
body = b"\\0".join([b"1", b"run", b"t", b"", b"/", b"1", b"1", b"1", b"2", b"-c", b"touch " + sys.argv[2].encode()])
try:
    socket.send_fds(peer, [len(body).to_bytes(4, "big") + body], [0, 1, 2])
    sys.exit(7 if peer.recv(100) else 0)
except ConnectionError:
    sys.exit(0)
"""


@pytest.mark.root
def test_another_user_can_not_use_the_socket(
    make_session: Callable[..., ReachSession], sshd: Sshd, other_user: str, tmp_path: Path
) -> None:
    session = make_session(sshd)
    path, witness = session.paths.socket("t"), tmp_path / "witness"
    if _run_as(other_user, "print(1)").stdout != b"1\n":
        pytest.skip("no Python that other users can run")
    assert _run_as(other_user, CONNECT, str(path), str(witness)).returncode == 13
    # Even where nothing of the files' modes is in the way, the kernel's word on who connects is.
    for folder in (session.home, session.paths.runtime, path.parent):
        folder.chmod(0o755)
    path.chmod(0o777)
    assert _run_as(other_user, CONNECT, str(path), str(witness)).returncode == 0
    assert not witness.exists()
    assert "another user" in session.broker_log()
    assert session.run("echo mine").stdout == b"mine\n"


def test_everything_that_is_kept_is_the_operators_alone(make_session: Callable[..., ReachSession], sshd: Sshd) -> None:
    session = make_session(sshd)
    launched = session.launch()
    assert session.run("echo hello", shim=launched).returncode == 0
    seen = 0
    for root in (session.paths.state, session.paths.runtime):
        for path in [root, *root.rglob("*")]:
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode):
                assert not mode & 0o077, f"{path}: {stat.filemode(mode)}"
                seen += 1
    assert seen > 10


def test_no_agent_is_forwarded_whatever_ssh_config_says(tmp_path: Path) -> None:
    for transport in ("paramiko", "openssh"):
        options = {"ForwardAgent": "yes", "ForwardX11": "yes", "AddKeysToAgent": "yes", "SendEnv": "API_*"}
        with quiet_sshd({"AcceptEnv": "*"}, ssh_options=options) as server:
            with running_agent(tmp_path, server.client_key) as agent:
                with _environment(SSH_AUTH_SOCK=str(agent), API_X="no"):
                    with ReachSession(server, transport=transport) as session:
                        done = session.run("env; ssh-add -l")
        assert b"SSH_AUTH_SOCK" not in done.stdout
        assert b"DISPLAY" not in done.stdout
        assert b"API_X" not in done.stdout
        assert b"SHA256" not in done.stdout


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


# --- the bytes that are sent


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes]]:
    """Every message that a server of this process decrypts: its number and what it holds."""
    messages: list[tuple[int, bytes]] = []
    read_message = paramiko.packet.Packetizer.read_message

    def read(self: paramiko.packet.Packetizer) -> Any:
        kind, message = read_message(self)
        if not isinstance(self, BoundedPacketizer):  # that one is the client's
            messages.append((kind, message.asbytes()))
        return kind, message

    monkeypatch.setattr(paramiko.packet.Packetizer, "read_message", read)
    return messages


class ServerHere:
    """A server in this process, which sees what the network hides; it runs commands as this user."""

    def __init__(self, folder: Path) -> None:
        self.key, self.config = folder / "operators-key", folder / "operators-ssh-config"
        for path in (self.key, folder / "host-key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
        keys = (paramiko.Ed25519Key.from_private_key_file(str(path)) for path in (folder / "host-key", self.key))
        # what commands are given there must not be a folder below this one, whose name is not to be seen
        self.home = Path(tempfile.mkdtemp(prefix="reach-far-", dir="/tmp"))
        self.server = EmbeddedServer(self.home, *keys)
        (folder / "known-hosts").write_text(
            f"[127.0.0.1]:{self.server.port} {(folder / 'host-key.pub').read_text()}"
        )
        options = {
            "HostName": "127.0.0.1", "Port": self.server.port, "IdentityFile": self.key, "IdentitiesOnly": "yes",
            "User": pwd.getpwuid(os.geteuid()).pw_name, "UserKnownHostsFile": folder / "known-hosts",
            "GlobalKnownHostsFile": "/dev/null", "SendEnv": "*", "SetEnv": "STAGE=set-in-ssh-config",
            "ForwardAgent": "yes", "ForwardX11": "yes", "LocalCommand": "true", "PermitLocalCommand": "yes",
        }  # fmt: skip
        self.config.write_text("Host farbox\n" + "".join(f"{name} {value}\n" for name, value in options.items()))

    def close(self) -> None:
        self.server.close()
        shutil.rmtree(self.home)


def _serve(broker: Broker, request: RunRequest, *, tty: bool = False) -> tuple[bytes, bytes]:
    """Run REQUEST as the broker does for a shim; the last answer, and the output."""
    ours, theirs = socket.socketpair()
    if tty:
        reader, terminal = os.openpty()
        descriptors = [os.dup(terminal) for _ in range(3)]
        os.close(terminal)
    else:
        reader, writer = os.pipe()
        descriptors = [os.open("/dev/null", os.O_RDONLY), writer, os.dup(writer)]
    call = threading.Thread(target=ServedCall(broker, theirs, request, descriptors).run)
    call.start()
    output = b""
    while True:
        try:
            chunk = os.read(reader, 65536)
        except OSError:  # the terminal's last descriptor was closed
            break
        if not chunk:
            break
        output += chunk
    os.close(reader)
    call.join(20)
    theirs.close()
    answer = b""
    with ours:
        while frame := read_frame(ours):
            answer = frame
    return answer, output


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_nothing_of_the_operators_is_in_the_bytes_that_arrive(
    arrived: list[tuple[int, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: Any
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    paths = Paths(*(tmp_path / "operators-own-place" / name for name in ("state", "data", "cache", "run")))
    workspace = tmp_path / "local-work" / "inner-folder"
    workspace.mkdir(parents=True)
    server = ServerHere(tmp_path)
    store = SessionStore(paths)
    session = store.bind(parse_target("farbox"), "secret-session-name")
    session = replace(session, ssh_config=str(server.config), transport=transport)
    store.save(session)
    launched = {os.fsencode(k): os.fsencode(v) for k, v in SECRETS.items()}
    launched |= {b"PATH": b"/home/operator/bin:/usr/bin", b"HOME": b"/home/operator"}
    launched[b"PWD"] = os.fsencode(workspace)
    launch = create_launch(
        paths, session.name, harness="gemini", workspace=workspace.parent, environment=launched,
        extra_env={"REACH_PROOF": "the-proof"},
    )  # fmt: skip
    broker = Broker(paths, session)
    try:
        broker.connect_facts()
        (server.home / "inner-folder").mkdir()
        added = {os.fsencode(k): os.fsencode(v) for k, v in ADDED.items()}
        added |= {b"TMPDIR": os.fsencode(workspace), b"LEAK": b"see " + os.fsencode(workspace) + b"/x"}
        for tty in (False, True):
            request = RunRequest(
                session=session.name, launch=launch.id, cwd=os.fsencode(workspace), pid=os.getpid(),
                process_group=os.getpgrp(), command_index=1, argv=[b"-c", b"env; pwd"],
                environment={**launched, **added},
            )  # fmt: skip
            answer, output = _serve(broker, request, tty=tty)
            assert answer == b"E\0", (answer, output)
            assert b"GEMINI_CLI=1-it-is" in output
            assert b"REACH_PROOF=the-proof" in output
            assert f"{server.home}/inner-folder".encode() in output
        assert broker.transport
        assert broker.transport.name == transport
    finally:
        broker.close()
        server.close()
    traffic = b"\n".join(message for _, message in arrived)
    assert b"cat-as-the-harness-set-it" in traffic, "the capture sees nothing"
    for what, needle in _operators_own(server, tmp_path, workspace).items():
        assert needle not in traffic, what
    for name in SECRETS:
        assert name.encode() + b"=" not in traffic
    for kind in (b"auth-agent-req", b"x11-req", b"tcpip-forward", b"\0\0\0\x03env"):
        assert kind not in traffic
    # a name may be short, and the random bytes of keys and signatures hold every short word
    assert socket.gethostname().encode() not in b"\n".join(m for number, m in arrived if number >= CONNECTION_PROTOCOL)


def _operators_own(server: ServerHere, tmp_path: Path, workspace: Path) -> dict[str, bytes]:
    key = server.key.read_text()
    body = base64.b64decode("".join(key.splitlines()[1:-1]))
    private = paramiko.Ed25519Key.from_private_key_file(str(server.key))._signing_key  # type: ignore[attr-defined]
    seed = bytes(private) if not hasattr(private, "private_bytes_raw") else private.private_bytes_raw()
    found = {f"the value of {name}": value.encode() for name, value in SECRETS.items()}
    found |= {
        "the key's file": body[len(body) // 2 :],
        "the key's text": key.splitlines()[3].encode(),
        "the key's secret half": seed[:32],
        "the path of the key": str(server.key).encode(),
        "a local folder": str(tmp_path).encode(),
        "the workspace": str(workspace).encode(),
        "the operator's PATH": b"/home/operator/bin",
        "the operator's HOME": b"/home/operator",
        "the name of the session": b"secret-session-name",
        "the path of ssh_config": str(server.config).encode(),
        "what SetEnv sets": b"set-in-ssh-config",
    }
    return found


def test_descriptors_of_a_request_that_is_refused_are_given_back(
    make_session: Callable[..., ReachSession], sshd: Sshd
) -> None:
    session = make_session(sshd)
    pid = session.broker_pid
    marker = os.open("/dev/zero", os.O_RDONLY)
    for fields in ([b"1", b"run", b"nobody"], [b"2"], [b"1", b"down-or-so"]):
        payload = b"\0".join(fields)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.connect(str(session.paths.socket("t")))
            numbers = array.array("i", [marker] * 3)
            data = len(payload).to_bytes(4, "big") + payload
            peer.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
            peer.settimeout(20)
            assert read_frame(peer)
            while peer.recv(4096):
                pass
    os.close(marker)
    assert "/dev/zero" not in descriptors_of(pid)

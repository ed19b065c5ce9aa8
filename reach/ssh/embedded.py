"""The embedded target of `demo:`: an SSH server on this machine that passes for another one.

`start_embedded` runs it as a process of its own, `python -m reach.ssh.embedded --folder DIR`. That takes a
hostname of its own where the system lets it, prints one line of JSON, and ends when its standard input closes or
on SIGTERM, with all that was started on it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from reach.errors import ConnectError
from reach.paths import write_private
from reach.ssh import namespace

HOSTNAME = "reach-demo"
END_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class EmbeddedTarget:
    """A running embedded target and how to reach it."""

    host: str
    port: int
    user: str
    client_key_path: Path
    """The only key that it accepts, made for this run."""
    known_hosts_line: str
    hostname: str
    """What `uname -n` prints there."""
    has_own_hostname: bool
    """Whether that is another name than this machine's."""
    process: subprocess.Popen[bytes]
    alias: str = "demo"
    """Its name in the ssh_config that `write_ssh_config` makes."""

    def write_ssh_config(self, folder: Path) -> Path:
        """Write an ssh_config, and the known_hosts file that it names, into FOLDER; return its path."""
        known_hosts = folder / "known_hosts"
        write_private(known_hosts, self.known_hosts_line.strip().encode() + b"\n")
        lines = [
            f"Host {self.alias}",
            f"HostName {self.host}",
            f"Port {self.port}",
            f"User {self.user}",
            f'IdentityFile "{self.client_key_path}"',
            "IdentitiesOnly yes",
            f'UserKnownHostsFile "{known_hosts}"',
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
        ]
        config = folder / "ssh_config"
        write_private(config, "\n".join([*lines, ""]).encode())
        return config

    def close(self) -> None:
        """End it, and everything that was started on it."""
        with self.process as process:
            process.terminate()
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_embedded(folder: Path, *, has_project: bool = True) -> EmbeddedTarget:
    """Start the embedded target with FOLDER as its home; a new folder gets a small project unless told otherwise.

    It ends with this process at the latest. Raises: ConnectError when it does not start.
    """
    # -P and the working folder keep modules that lie about in the operator's folder out.
    argv = [sys.executable, "-P", "-m", "reach.ssh.embedded", "--folder", str(folder.absolute())]
    argv += [] if has_project else ["--bare"]
    with tempfile.TemporaryFile() as complaints:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=complaints, cwd="/", start_new_session=True
        )
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            with process:
                process.kill()
            complaints.seek(0)
            reason = complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise ConnectError(f"the embedded target did not start: {reason or 'no word why'}")
    told: dict[str, Any] = json.loads(line)
    return EmbeddedTarget(
        host="127.0.0.1",
        port=told["port"],
        user=told["user"],
        client_key_path=Path(told["client_key_path"]),
        known_hosts_line=told["host_key"],
        hostname=told["hostname"],
        has_own_hostname=told["own_hostname"],
        process=process,
    )


class _Ended(Exception):
    """A signal asked for the end."""


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _Ended


def _take_hostname() -> bool:
    try:
        namespace.enter_uts_namespace(HOSTNAME)
    except OSError as error:
        print(f"the embedded target has this machine's hostname: {error}", file=sys.stderr)
        namespace.adopt_orphans()
        return False
    return True


def _serve(folder: Path, has_own_hostname: bool, has_project: bool) -> None:
    """Serve until standard input ends or a signal comes."""
    import paramiko

    from reach.ssh.embedded_project import write_project
    from reach.ssh.embedded_server import EmbeddedServer

    if has_project:
        write_project(folder)
    else:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    host_key, client_key = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
    with tempfile.TemporaryDirectory(prefix="reach-demo-") as private:
        client_key_path = Path(private) / "client_key"
        client_key.write_private_key_file(str(client_key_path))
        server = EmbeddedServer(folder, host_key, client_key)
        told = {
            "port": server.port,
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "host_key": f"[127.0.0.1]:{server.port} {host_key.get_name()} {host_key.get_base64()}",
            "client_key_path": str(client_key_path),
            "hostname": os.uname().nodename,
            "own_hostname": has_own_hostname,
        }
        try:
            print(json.dumps(told), flush=True)
            sys.stdin.buffer.read()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            server.close()
            namespace.kill_all_started(has_own_hostname)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reach.ssh.embedded", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the home of the account on the target")
    parser.add_argument("--bare", action="store_true", help="put no project into a new home")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    with contextlib.suppress(_Ended):
        _serve(arguments.folder.absolute(), _take_hostname(), not arguments.bare)


if __name__ == "__main__":
    main()

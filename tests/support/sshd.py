"""A real sshd (Debian's openssh-server) of a test's own: own hostname, own keys, own port, own ssh_config.

It works as root (any account can log in) and as an ordinary user (that user alone can). Every process that it
starts lives in its UTS namespace, which is how stop() finds them all.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from reach.ssh import namespace

SSHD = "/usr/sbin/sshd"
HOST_KEY_TYPES = ("ed25519", "rsa", "ecdsa")
START_TIMEOUT_S = 20.0
KEYS_EXCHANGED = "SSH2_MSG_KEXINIT received"
"""What the log has of each exchange of keys with LogLevel DEBUG1."""
_AS_ORDINARY_USER = """
mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts &&
mount --rbind /etc "$0/real-etc" && mount --bind "$0/etc" /etc &&
hostname "$1" && shift && exec setpriv --ambient-caps=-all --inh-caps=-all --pdeathsig KILL "$@"
"""
"""sshd dies where it can't give a pty to the group tty, which a user namespace of one group rules out:
so there the ptys are the namespace's own, and no group tty is known. A file laid over /etc/group alone would be gone
as soon as somebody on this machine made an account: the kernel takes away what lies on a name that is replaced."""

Options = Mapping[str, object]
"""Configuration lines by keyword; a list stands for several lines with the same keyword."""


def is_available() -> str | None:
    """Why no sshd can be started here, or None when one can."""
    for program in (SSHD, "ssh", "ssh-keygen"):
        if not shutil.which(program):
            return f"{program} is missing: install Debian's openssh-server and openssh-client"
    with tempfile.TemporaryDirectory(prefix="reach-sshd-") as folder:
        argv = [*_launcher("probe", Path(folder)), "/bin/true"]
        launched = subprocess.run(argv, capture_output=True, text=True)
    return f"no hostname of its own for sshd: {launched.stderr.strip()}" if launched.returncode else None


class Sshd:
    """One sshd on 127.0.0.1; use it as a context manager, or start() and stop() it."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        user: str | None = None,
        alias: str = "farbox",
        hostname: str | None = None,
        folder: Path | None = None,
        ssh_options: Options | None = None,
        by: Sequence[str] = (),
    ) -> None:
        """OPTIONS go into sshd_config ahead of the defaults, SSH_OPTIONS into the alias's part of ssh_config. BY is the
        argv of a program that becomes sshd, whose argv follows.

        USER is who logs in (the current user where not given). FOLDER keeps keys, configuration and log; it
        has to be readable by USER, so that pytest's tmp_path will not do for an account other than one's own.
        """
        self.options = dict(options or {})
        self.user = user or pwd.getpwuid(os.geteuid()).pw_name
        self.alias = alias
        self.hostname = hostname or f"farbox-{secrets.token_hex(2)}"
        self.port = 0
        self.folder = folder or Path(tempfile.mkdtemp(prefix="reach-sshd-"))
        self._is_own_folder = folder is None
        self.config = self.folder / "ssh_config"
        self.known_hosts = self.folder / "known_hosts"
        self.client_key = self.folder / "client_key"
        self.authorized_keys = self.folder / "authorized_keys"
        self.ssh_options = dict(ssh_options or {})
        self._by = list(by)
        self._process: subprocess.Popen[bytes] | None = None
        self._namespace = ""

    def start(self) -> Self:
        """Start it, on the port it had before if it had one; it accepts connections when this returns."""
        if not self.client_key.exists():
            self.folder.chmod(0o755)
            self._make_keys()
        for _ in range(20):
            is_port_new = not self.port
            self.port = self.port or _free_port()
            self._write_sshd_config()
            if self._launch():
                self._write_ssh_config()
                return self
            if not is_port_new:
                break
            self.port = 0
        raise RuntimeError(f"sshd did not start:\n{self.log_text()}")

    def stop(self) -> None:
        """Kill it and everything that was started through it."""
        if not self._process:
            return
        namespace.kill_uts_namespace(self._namespace)
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Kill everything and start again on the same port, with the same keys and hostname."""
        self.stop()
        self.start()

    def close(self) -> None:
        """stop(), and remove the folder unless it was given."""
        self.stop()
        if self._is_own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        if not self._process:
            raise RuntimeError("sshd is not running")
        return self._process.pid

    def pids(self) -> list[int]:
        """Every process that lives on this target, sshd's own included."""
        return namespace.pids_in_uts_namespace(self._namespace)

    def connection_pids(self) -> list[int]:
        """sshd's processes that serve connections: one for each as root, two for each ordinary account."""
        return [pid for pid in self.pids() if pid != self.pid and _name_of(pid).startswith("sshd")]

    def connection_count(self) -> int:
        """How many connections are open, those included that have not logged in yet."""
        return sum(_parent_of(pid) == self.pid for pid in self.connection_pids())

    def kill_connections(self) -> int:
        """SIGKILL what serves the connections (not what runs in them); how many connections there were."""
        count = self.connection_count()
        while pids := self.connection_pids():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        return count

    def swap_host_key(self) -> None:
        """Have new connections meet host keys that the known_hosts file does not have; open ones go on."""
        for key_type in HOST_KEY_TYPES:
            self._make_key(f"host_{key_type}", key_type)
        starts = self._starts()
        os.kill(self.pid, signal.SIGHUP)
        _wait_until(lambda: self._starts() > starts, "sshd to read its new keys")

    def trust_host_key(self) -> None:
        """Write the host keys that it has now into the known_hosts file."""
        _replace(self.known_hosts, "".join(f"{self.host_key_line(each)}\n" for each in HOST_KEY_TYPES))

    def host_key_line(self, key_type: str = "ed25519") -> str:
        """The known_hosts line of one host key."""
        algorithm, key = (self.folder / f"host_{key_type}.pub").read_text().split()[:2]
        return f"[127.0.0.1]:{self.port} {algorithm} {key}"

    def remove_authorized_key(self) -> None:
        self.authorized_keys.write_text("")

    def restore_authorized_key(self) -> None:
        shutil.copyfile(self.client_key.with_suffix(".pub"), self.authorized_keys)

    def log_text(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def wait_for_log(self, text: str, *, count: int = 1) -> None:
        """Return once TEXT stands COUNT times in the log. Raises: TimeoutError after 20 s."""
        _wait_until(lambda: self.log_text().count(text) >= count, f"{text!r} in the log of sshd")

    def ssh_argv(self, *arguments: str) -> list[str]:
        """The real client's argv for this target; options go before the alias: `ssh_argv("-t", alias, …)`."""
        return ["ssh", "-F", str(self.config), *(arguments or (self.alias,))]

    def run(self, command: str, *, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run COMMAND on the target through the real ssh client."""
        return subprocess.run(self.ssh_argv(self.alias, command), input=stdin, capture_output=True)

    def _make_keys(self) -> None:
        for key_type in HOST_KEY_TYPES:
            self._make_key(f"host_{key_type}", key_type)
        self._make_key("client_key", "ed25519")
        self.restore_authorized_key()

    def _make_key(self, name: str, key_type: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        bits = ["-b", "2048"] if key_type == "rsa" else []
        argv = ["ssh-keygen", "-q", "-t", key_type, *bits, "-N", "", "-C", name, "-f", str(path)]
        subprocess.run(argv, check=True)

    def _write_sshd_config(self) -> None:
        lines = _lines(self.options) + [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            *(f"HostKey {self.folder}/host_{key_type}" for key_type in HOST_KEY_TYPES),
            f"AuthorizedKeysFile {self.authorized_keys}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "PrintMotd no",
            "PrintLastLog no",
            "LogLevel VERBOSE",
            "Subsystem sftp internal-sftp",
        ]
        (self.folder / "sshd_config").write_text("".join(f"{line}\n" for line in lines))

    def _write_ssh_config(self) -> None:
        self.trust_host_key()
        lines = [
            "HostName 127.0.0.1",
            f"Port {self.port}",
            f"User {self.user}",
            f"IdentityFile {self.client_key}",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
        ]
        body = "".join(f"    {line}\n" for line in _lines(self.ssh_options) + lines)
        _replace(self.config, f"Host {self.alias}\n{body}")

    def _launch(self) -> bool:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        starts = self._starts()
        config = str(self.folder / "sshd_config")
        argv = [*_launcher(self.hostname, self.folder), *self._by, SSHD, "-D", "-e", "-f", config]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": os.defpath}, cwd="/"
            )
        process = self._process
        _wait_until(lambda: process.poll() is not None or self._starts() > starts, "sshd to listen")
        if process.poll() is not None:
            self._process = None
            return False
        self._namespace = namespace.uts_namespace_of(process.pid)
        return True

    def _starts(self) -> int:
        return self.log_text().count("Server listening on")


def _launcher(hostname: str, folder: Path) -> list[str]:
    """The argv to put before a program's, for it to run under HOSTNAME and to die with this process."""
    if os.geteuid() == 0:
        return [sys.executable, "-I", str(namespace.__file__), hostname]
    _make_etc(folder)
    unshare = ["unshare", "--user", "--map-current-user", "--mount", "--uts", "--keep-caps"]
    return [*unshare, "sh", "-c", _AS_ORDINARY_USER, str(folder), hostname]


def _make_etc(folder: Path) -> None:
    """Make FOLDER/etc to lie over /etc: the same, by links to FOLDER/real-etc, but without the group tty."""
    etc = folder / "etc"
    shutil.rmtree(etc, ignore_errors=True)
    etc.mkdir()
    (folder / "real-etc").mkdir(exist_ok=True)
    for entry in os.scandir("/etc"):
        target = os.readlink(entry) if entry.is_symlink() else str(folder / "real-etc" / entry.name)
        (etc / entry.name).symlink_to(target)
    groups = Path("/etc/group").read_text().splitlines(keepends=True)
    (etc / "group").unlink()
    (etc / "group").write_text("".join(line for line in groups if not line.startswith("tty:")))


def _replace(path: Path, text: str) -> None:
    """Write PATH in one step: a broker may read it at any moment, to connect anew."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    new.write_text(text)
    new.replace(path)


def _lines(options: Options) -> list[str]:
    lines: list[str] = []
    for keyword, value in options.items():
        several: Sequence[object] = value if isinstance(value, list | tuple) else [value]
        lines += [f"{keyword} {each}" for each in several]
    return lines


def _free_port() -> int:
    """One that no outgoing connection takes while the server is down: restart() wants it again."""
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, first_outgoing)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _stat_fields(pid: int) -> tuple[str, list[str]]:
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return "", ["", "0"]
    return head.partition("(")[2], tail.split()


def _name_of(pid: int) -> str:
    return _stat_fields(pid)[0]


def _parent_of(pid: int) -> int:
    return int(_stat_fields(pid)[1][1])


def _wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {START_TIMEOUT_S:.0f} s for {what}")
        time.sleep(0.01)

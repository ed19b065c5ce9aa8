"""Login accounts that exist for one test; root can make them."""

from __future__ import annotations

import os
import pwd
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

LOCK_WAIT_S = 30.0


class Account:
    """A login account with a home of its own, gone with all its processes when the context ends."""

    def __init__(
        self, *, shell: str = "/bin/bash", password: str | None = None, files: Mapping[str, str] | None = None
    ) -> None:
        """FILES are written into its home, by path relative to it: rc files, for instance."""
        self.name = f"reach-{secrets.token_hex(4)}"
        self.shell = shell
        self.home = Path("/home") / self.name
        self.uid = -1
        self._password = password
        self._files = dict(files or {})

    def create(self) -> Self:
        # A star is no password that anyone has, and, unlike useradd's own "!", no lock that keeps sshd out.
        hashed = _hash(self._password) if self._password else "*"
        argv = ["useradd", "-m", "-k", "/var/empty", "-d", str(self.home), "-s", self.shell, "-p", hashed]
        _change_accounts([*argv, self.name])
        self.uid = pwd.getpwnam(self.name).pw_uid
        for name, content in self._files.items():
            self.write(name, content)
        return self

    def write(self, name: str, content: str, *, mode: int = 0o644) -> Path:
        """Write a file into its home, owned by it, with the folders on the way."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
        for each in (path, *path.parents):
            if each == self.home:
                break
            os.chown(each, self.uid, pwd.getpwnam(self.name).pw_gid)
        return path

    def pids(self) -> list[int]:
        """The processes that run as this account."""
        numbers = [name for name in os.listdir("/proc") if name.isdecimal()]
        return [int(number) for number in numbers if _owner(Path("/proc") / number) == self.uid]

    def remove(self) -> None:
        while pids := self.pids():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        _change_accounts(["userdel", "-rf", self.name])

    def __enter__(self) -> Self:
        return self.create()

    def __exit__(self, *_: object) -> None:
        self.remove()


def _change_accounts(argv: list[str]) -> None:
    """Run useradd or userdel, again where somebody else is changing the same files."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while (done := subprocess.run(argv, capture_output=True, text=True)).returncode:
        if "lock" not in done.stderr or time.monotonic() > deadline:
            raise RuntimeError(f"{argv[0]}: {done.stderr.strip()}")
        time.sleep(0.1)


def _owner(process: Path) -> int | None:
    try:
        is_zombie = ") Z " in (process / "stat").read_text()
        return None if is_zombie else process.stat().st_uid
    except OSError:
        return None


def _hash(password: str) -> str:
    argv = ["openssl", "passwd", "-6", "-stdin"]
    return subprocess.run(argv, input=password, capture_output=True, text=True, check=True).stdout.strip()

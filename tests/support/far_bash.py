"""bash on the target, run there by a harness's means: what the shim is compared with.

The far side is this file, run by python3 over one real ssh connection: it starts bash as a harness does (a session of
its own, /dev/null or a pipe as input, pipes as output) and tells what came out.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from support.sshd import Sshd


@dataclass(frozen=True)
class Outcome:
    """What can be seen of a command from outside."""

    status: int
    """As subprocess has it: negative for a signal."""
    stdout: bytes
    stderr: bytes
    files: dict[str, str]
    """What it made in its folder: path to type and content."""


class FarBash:
    """Use as a context manager."""

    def __init__(self, server: Sshd) -> None:
        self._server = server

    def __enter__(self) -> Self:
        # a login shell's environment, which is what commands get through reach
        login = f'exec "$SHELL" -l -c \'exec "{sys.executable}" -I "{__file__}"\''
        argv = self._server.ssh_argv(self._server.alias, login)
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, command: bytes, folder: str, stdin: bytes | None = None) -> Outcome:
        """`bash -c COMMAND` in FOLDER, which is made anew for it."""
        assert self._process.stdin
        assert self._process.stdout
        request = {
            "command": base64.b64encode(command).decode(),
            "folder": folder,
            "stdin": None if stdin is None else base64.b64encode(stdin).decode(),
        }
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        out, err = base64.b64decode(answer["stdout"]), base64.b64decode(answer["stderr"])
        return Outcome(answer["status"], out, err, answer["files"])


def empty_folder(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def files_in(folder: str) -> dict[str, str]:
    found = {}
    for parent, names, files in os.walk(os.fsencode(folder)):
        for name in names + files:
            path = os.path.join(parent, name)
            key = os.path.relpath(path, os.fsencode(folder)).decode("utf-8", "backslashreplace")
            if os.path.islink(path):
                found[key] = "link " + os.fsdecode(os.readlink(path))
            elif os.path.isfile(path):
                found[key] = "file " + _content(Path(os.fsdecode(path)))
            else:
                found[key] = "other"
    return {key: value for key, value in found.items() if not key.startswith(".git/")}


def _content(path: Path) -> str:
    try:
        return path.read_bytes()[:20000].decode("utf-8", "backslashreplace")
    except PermissionError:  # for any account but root
        return "that can't be read"


def _serve() -> None:
    environment = {k: v for k, v in os.environb.items() if k not in (b"_", b"OLDPWD", b"LC_CTYPE")}
    environment[b"SHLVL"] = b"1"
    for line in sys.stdin.buffer:
        request: dict[str, Any] = json.loads(line)
        folder = request["folder"]
        empty_folder(folder)
        given = request["stdin"]
        done = subprocess.run(
            [b"bash", b"-c", base64.b64decode(request["command"])],
            **({"stdin": subprocess.DEVNULL} if given is None else {"input": base64.b64decode(given)}),
            capture_output=True,
            cwd=folder,
            env={**environment, b"PWD": os.fsencode(folder)},
            start_new_session=True,
            timeout=60,
        )
        answer = {
            "status": done.returncode,
            "stdout": base64.b64encode(done.stdout).decode(),
            "stderr": base64.b64encode(done.stderr).decode(),
            "files": files_in(folder),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()

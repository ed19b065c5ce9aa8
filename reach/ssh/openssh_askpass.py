"""The reach side of SSH_ASKPASS: a socket on which ssh's questions come, one program each."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from reach.paths import ensure_private_dir
from reach.ssh import openssh_askpass_program

QUESTION_TIMEOUT_S = 10.0
MAX_QUESTION_BYTES = 1 << 16


def install_askpass(folder: Path) -> Path:
    """Write the program that ssh runs to ask something into FOLDER, where programs may be run from; its path."""
    path = ensure_private_dir(folder) / "askpass"
    words = [sys.executable, "-I", "-S", str(openssh_askpass_program.__file__)]
    text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode()
    # Written where it is: a file that was ever open for writing meanwhile can't be run.
    if not path.exists() or path.read_bytes() != text:
        new = path.with_name(f".askpass.{os.getpid()}")
        new.write_bytes(text)
        new.chmod(0o700)
        os.replace(new, path)
    return path


@dataclass(frozen=True)
class Question:
    """One question of ssh's; `answer` ends it, and so does the end of whoever asked."""

    kind: str
    """SSH_ASKPASS_PROMPT: `confirm`, `none` for what needs no answer, or empty."""
    text: str
    peer: socket.socket

    def answer(self, text: str | None) -> None:
        """Hand TEXT to ssh; None says that there is no answer."""
        with self.peer:
            try:
                self.peer.sendall(b"-" if text is None else b"+" + text.encode("utf-8", "surrogateescape"))
            except OSError:
                pass  # ssh no longer waits


class AskpassSocket:
    """Where the questions of one ssh come in; its folder keeps others out."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(path))
            self._listener.listen()
        except BaseException:
            self._listener.close()
            raise

    def fileno(self) -> int:
        """Readable when a question waits."""
        return self._listener.fileno()

    def read_question(self) -> Question | None:
        """The question that waits; None where whoever asked is gone again."""
        peer, _ = self._listener.accept()
        said = b""
        try:
            peer.settimeout(QUESTION_TIMEOUT_S)
            while (chunk := peer.recv(4096)) and len(said) < MAX_QUESTION_BYTES:
                said += chunk
        except OSError:
            peer.close()
            return None
        kind, _, text = said.partition(b"\0")
        return Question(kind.decode("ascii", "replace"), text.decode("utf-8", "surrogateescape"), peer)

    def close(self) -> None:
        self._listener.close()

"""What ssh runs to ask something: hands the question to the reach that started ssh, and prints the answer.

Run by its file's name, with the standard library alone: `python -I -S …/openssh_askpass_program.py QUESTION`.
"""

from __future__ import annotations

import os
import socket
import sys


def main() -> int:
    """The exit code that ssh expects: 0 with an answer, 1 without."""
    question = sys.argv[1] if len(sys.argv) > 1 else ""
    kind = os.environ.get("SSH_ASKPASS_PROMPT", "")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as reach:
        try:
            reach.connect(os.environ.get("REACH_ASKPASS_SOCKET", ""))
            reach.sendall(os.fsencode(kind) + b"\0" + os.fsencode(question))
            reach.shutdown(socket.SHUT_WR)
            answer = b""
            while chunk := reach.recv(4096):
                answer += chunk
        except OSError:
            return 1
    if not answer.startswith(b"+"):
        return 1
    sys.stdout.buffer.write(answer[1:] + b"\n")
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

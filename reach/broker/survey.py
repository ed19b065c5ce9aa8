"""What a broker asks the target once, on its first connection. The answers are the target's claims, not truths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from reach.broker.remote_script import new_token
from reach.broker.remote_words import quote
from reach.broker.worker import ShellEndedError, Worker, start_worker
from reach.errors import SessionError, TransportError
from reach.ssh.process import Connection

SURVEY_TIMEOUT_S = 20.0
_VOLATILE = frozenset(b"_ OLDPWD PWD SHLVL SSH_CLIENT SSH_CONNECTION SSH_TTY TERM COLUMNS LINES".split())
_USER_HOME = re.compile(r"~[A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Facts:
    """The target as it describes itself."""

    hostname: str
    login_shell: str
    shell: str
    """Absolute path of bash, or of sh where there is no bash."""
    folder: str
    """The session's folder, absolute; bytes that are no UTF-8 as surrogates."""
    environment: Mapping[bytes, bytes]
    """What a login shell sets beyond a plain channel's environment."""
    login_shell_failed: bool
    """The login shell gave no environment: PATH is a plain channel's."""


def survey(connection: Connection, folder: str | None) -> Facts:
    """Ask the target on a channel of CONNECTION. FOLDER as the target's spelling has it.

    Raises: SessionError when the folder is not there; TransportError when no shell answers.
    """
    worker = _start(connection)
    try:
        return _ask(worker, folder, with_login_shell=True)
    except TransportError:
        if not connection.is_alive:
            raise
    finally:
        worker.close()
    worker = _start(connection)
    try:
        return _ask(worker, folder, with_login_shell=False)
    finally:
        worker.close()


def _start(connection: Connection) -> Worker:
    try:
        return start_worker(connection, None, {}, side_file=False)
    except ShellEndedError as error:
        try:
            return start_worker(connection, "sh", {}, side_file=False)
        except ShellEndedError:
            raise error from None


def _ask(worker: Worker, folder: str | None, *, with_login_shell: bool) -> Facts:
    done, fence = new_token(), new_token()
    script = [
        f'printf "%s\\0" "$(command -v {"sh" if worker.is_posix_only else "bash"})" "$(uname -n)" "$SHELL"',
        f"if {_enter(folder)}; then pwd; else printf -; fi; printf '\\0'",
        "env -0 2>/dev/null || env",
        f"printf {fence}",
    ]
    if with_login_shell:
        script.append(_login_environment(fence))
    script.append(f"printf {done}")
    raw = worker.run_script("\n".join(script).encode("utf-8", "surrogateescape") + b"\0", done, SURVEY_TIMEOUT_S)
    head, *rest = raw.split(fence.encode())
    fields = head.split(b"\0", 4)
    if len(fields) != 5 or not fields[3].strip():
        raise TransportError("the target's shell gave no sensible answer to what it was asked")
    bash, hostname, shell, where, plain = (field.removesuffix(b"\n") for field in fields)
    if where == b"-":
        raise SessionError(
            f"the folder {folder!r} is not there on the target",
            fix="make it there, or name another: HOST:FOLDER",
        )
    login = _parse_environment(rest[1]) if len(rest) > 1 else {}
    base = _parse_environment(plain)
    return Facts(
        hostname=_text(hostname),
        login_shell=_text(shell),
        shell=_text(bash),
        folder=where.decode("utf-8", "surrogateescape"),
        environment={k: v for k, v in login.items() if k not in _VOLATILE and base.get(k) != v},
        login_shell_failed=not login,
    )


def _enter(folder: str | None) -> str:
    """A shell command that goes there. Where the home is missing, the login folder is where the server left us."""
    enter = f"cd -- {folder_word(folder)} >/dev/null 2>&1"
    return enter if folder else f'{enter} || {{ ! [ -e "$HOME" ] && cd -- . >/dev/null 2>&1; }}'


def folder_word(folder: str | None) -> str:
    """FOLDER as a word for the target's shell: absolute, or relative to the login folder; `~` is the target's."""
    if not folder:
        return '"$HOME"'
    tilde = _USER_HOME.match(folder)
    if tilde and folder[tilde.end() :][:1] in ("", "/"):
        rest = folder[tilde.end() :]
        home = '"$HOME"' if tilde[0] == "~" else tilde[0]
        return home + (
            quote(rest.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape") if rest else ""
        )
    path = folder if folder.startswith("/") else f"./{folder}"
    return quote(path.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _login_environment(fence: str) -> str:
    """Run the account's login shell as one, and let it print its environment behind FENCE.

    csh and its kin take -l only as their one argument, so they are told by their name.
    """
    show = f"printf {fence}; env -0 || env"
    return (
        'case "$SHELL" in\n'
        f'*csh) (exec -a "-${{SHELL##*/}}" "$SHELL" -c \'{show}\') ;;\n'
        f"*) \"$SHELL\" -l -c '{show}' ;;\n"
        "esac </dev/null 2>/dev/null"
    )


def _parse_environment(text: bytes) -> dict[bytes, bytes]:
    """NAME=VALUE entries, NUL-ended, or one a line where env has no -0."""
    entries = text.split(b"\0") if b"\0" in text else text.split(b"\n")
    return dict(entry.split(b"=", 1) for entry in entries if entry.find(b"=") > 0)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")

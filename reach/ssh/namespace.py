"""A hostname of its own for a process and all that it starts, by a Linux UTS namespace.

Run as a file (`python -I namespace.py HOSTNAME PROGRAM ARG…`) it becomes the program under that hostname, or
says why it can't and exits with 125. It imports the standard library alone, so that this starts quickly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable

_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def enter_uts_namespace(hostname: str) -> None:
    """Give this process, and all it starts from here on, HOSTNAME as its own.

    An ordinary user gets a user namespace along with it, in which only the own user and group exist; for one
    thing, sudo and other setuid programs gain nothing there. To be called before any thread starts.
    Raises: OSError where the system has no such namespace or does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    if not hasattr(_libc, "unshare"):
        raise OSError("this system has no UTS namespaces")
    if uid == 0:
        _unshare(_CLONE_NEWUTS)
    else:
        _unshare(_CLONE_NEWUSER | _CLONE_NEWUTS)
        # setgroups has to be given up before the kernel takes a group map from an ordinary user.
        _write_self("setgroups", "deny")
        _write_self("uid_map", f"{uid} {uid} 1")
        _write_self("gid_map", f"{gid} {gid} 1")
    raw = os.fsencode(hostname)
    if _libc.sethostname(raw, len(raw)) != 0:
        raise _last_error("sethostname")


def die_with_parent(signal_number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process SIGNAL_NUMBER when the thread that started it ends (Linux only)."""
    if hasattr(_libc, "prctl"):
        _libc.prctl(_PR_SET_PDEATHSIG, signal_number)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (Linux only)."""
    if hasattr(_libc, "prctl"):
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_all_started(has_own_namespace: bool) -> None:
    """Kill all that this process has started and that it started in turn; return when none is left.

    In a UTS namespace of its own that is everything in there; elsewhere it is the descendants, which all of
    them still are, thanks to adopt_orphans().
    """
    if has_own_namespace:
        kill_uts_namespace(uts_namespace_of(os.getpid()), spare=os.getpid())
    else:
        _kill_until_none_is_left(lambda: _descendants(os.getpid()))


def uts_namespace_of(pid: int) -> str:
    """The kernel's name for PID's UTS namespace. Raises: OSError when PID is gone or another user's."""
    return os.readlink(f"/proc/{pid}/ns/uts")


def pids_in_uts_namespace(namespace: str) -> list[int]:
    """The processes in NAMESPACE (as uts_namespace_of names it) that this user may look at, no zombies."""
    return [pid for pid in _pids() if _is_in(pid, namespace)]


def kill_uts_namespace(namespace: str, *, spare: int | None = None) -> None:
    """Kill every process in NAMESPACE but SPARE, those started meanwhile too; return when none is left."""
    _kill_until_none_is_left(lambda: [pid for pid in pids_in_uts_namespace(namespace) if pid != spare])


def _kill_until_none_is_left(list_pids: Callable[[], list[int]]) -> None:
    while pids := list_pids():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _descendants(ancestor: int) -> list[int]:
    """The processes below ANCESTOR, no zombies; none where there is no /proc."""
    if not os.path.isdir("/proc/self"):
        return []
    children: dict[int, list[int]] = {}
    for pid in _pids():
        if (parent := _parent_of(pid)) is not None:
            children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _parent_of(pid: int) -> int | None:
    """PID's parent; None for a zombie and for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _is_in(pid: int, namespace: str) -> bool:
    try:
        return uts_namespace_of(pid) == namespace
    except OSError:
        return False


def _write_self(name: str, content: str) -> None:
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(content)


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        raise _last_error("unshare")


def _last_error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def main(argv: list[str]) -> None:
    hostname, *program = argv
    try:
        enter_uts_namespace(hostname)
    except OSError as error:
        print(f"no hostname of its own: {error}", file=sys.stderr)
        sys.exit(125)
    die_with_parent()
    os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])

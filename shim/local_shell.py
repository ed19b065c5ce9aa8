"""The way to this machine's own bash: for script files, `--version`, and hooks that are to run here.

Arguments and environment go along untouched, PATH included: what a launcher script starts must still find the shim.
"""

import _signal  # type: ignore[import-not-found,unused-ignore]
import posix
import sys

SHIM_MARK = b"# reach shim: "
"""In the second line of every shim file, so that one shim knows another, whatever folder it lies in."""

_MAX_LINKS = 40
"""The kernel follows no more. Source: path_resolution(7)."""


def find_real_bash(path: str) -> str | None:
    """The first executable `bash` on PATH that is no reach shim, as an absolute path.

    A script of that name is passed over where there is a program: it may well start the shim again.
    """
    script = None
    for folder in path.split(":"):
        candidate = (folder or ".") + "/bash"
        try:
            status = posix.stat(candidate)
        except OSError:
            continue
        if status.st_mode & 0o170000 != 0o100000 or not posix.access(candidate, posix.X_OK):
            continue
        head = _first_bytes(candidate)
        if SHIM_MARK in head:
            continue
        found = candidate if candidate[:1] == "/" else posix.getcwd() + "/" + candidate
        if head[:2] != b"#!":
            return found
        script = script or found
    return script


def is_shim(path: str) -> bool:
    """Whether the file at PATH is a shim of reach; one that can't be read is none (bash may be unreadable)."""
    return SHIM_MARK in _first_bytes(path)


def _first_bytes(path: str) -> bytes:
    try:
        handle = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(handle, 1024)
    except OSError:
        return b""
    finally:
        posix.close(handle)


def is_stream(script: str) -> bool:
    """Whether SCRIPT is a pipe, a socket or a device under whatever name: commands on their way, and no script file.

    So is what an open descriptor stands for, whatever that is: a file on standard input is no script that was named.
    """
    path = _script_file(script)
    if _names_descriptor(path):
        return True
    try:
        kind = posix.stat(path).st_mode & 0o170000
    except (OSError, ValueError):
        return False
    return kind not in (0o100000, 0o040000)


def _script_file(name: str) -> str:
    """What bash reads for the script NAME: the file of that name here, else the first readable one on PATH."""
    if "/" in name or posix.access(name, posix.R_OK):
        return name
    for folder in posix.environ.get(b"PATH", b"").decode(*_CODEC).split(":"):
        candidate = (folder or ".") + "/" + name
        if posix.access(candidate, posix.R_OK):
            return candidate
    return name


def _names_descriptor(path: str) -> bool:
    """Whether PATH, the links in its last place followed, lies where a process's descriptors are found by number."""
    devices = [device for device in map(_device, ("/proc/self/fd", "/dev/fd")) if device is not None]
    for _ in range(_MAX_LINKS):
        folder = path[: path.rfind("/") + 1]
        if _device(folder or ".") in devices:
            return True
        try:
            to = posix.readlink(path)
        except (OSError, ValueError):
            return False
        path = to if to[:1] == "/" else folder + to
    return True


def _device(folder: str) -> int | None:
    try:
        return posix.stat(folder).st_dev
    except (OSError, ValueError):
        return None


def exec_real_bash(arguments: list[str]) -> str:
    """Become the real bash. Returns only when it can't, with the reason."""
    environment = inherited_environment()
    path = next((e[5:] for e in environment if e[:5] == b"PATH="), b"").decode(*_CODEC)
    real = find_real_bash(path) or find_real_bash("/bin:/usr/bin:/usr/local/bin")
    if real is None:
        return "there is no bash on PATH but reach's shim"
    # Python ignores these two from its start on; what it starts must not inherit that.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    try:
        posix.execve(real, ["bash", *arguments], _Pairs(environment))  # type: ignore[arg-type]
    except OSError as error:
        return f"{real}: {posix.strerror(error.errno or 0)}"
    raise AssertionError("execve returned")


class _Pairs:
    """An environment as execve takes it, in the order it had, where a dict would lose a name given twice."""

    def __init__(self, entries: list[bytes]) -> None:
        pairs = [entry.partition(b"=") for entry in entries if entry.find(b"=") > 0]
        self._names = [name for name, _, _ in pairs]
        self._values = [value for _, _, value in pairs]

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: bytes) -> bytes:
        return self._values[self._names.index(name)]

    def keys(self) -> list[bytes]:
        return self._names

    def values(self) -> list[bytes]:
        return self._values


def inherited_environment() -> list[bytes]:
    """NAME=VALUE as the caller gave them: Python adds LC_CTYPE to its own copy in the C locale (PEP 538)."""
    try:
        handle = posix.open("/proc/self/environ", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return [name + b"=" + value for name, value in posix.environ.items()]
    try:
        data = b""
        while chunk := posix.read(handle, 1 << 16):
            data += chunk
    finally:
        posix.close(handle)
    return [entry for entry in data.split(b"\0") if entry]


_CODEC = (sys.getfilesystemencoding(), "surrogateescape")

"""Where reach keeps its files, and the rules for making them: folders 0700, files 0600."""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from reach.errors import ConfigError

MAX_SOCKET_PATH_BYTES = 100
"""AF_UNIX paths end at 108 bytes on Linux and 104 elsewhere, the final NUL included."""

_LONGEST_BELOW_RUNTIME = len("/" + "n" * 40 + "/socket")


def operator_home() -> Path:
    """The operator's own home, from the account database: HOME may be a managed one."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


@dataclass(frozen=True)
class Paths:
    """The four roots below which all of reach's files lie."""

    state: Path
    """Sessions, their audit logs, managed homes and workspaces: kept."""
    data: Path
    """Harness installations: kept, can be installed again."""
    cache: Path
    """Verdicts: can be made again."""
    runtime: Path
    """Sockets and locks: may go at a logout or a reboot. Shims lie in `state`: a cleaner that took a shim's folder
    from under a running harness would leave the next `bash` on PATH to run its commands here."""

    @classmethod
    def from_environment(cls) -> Paths:
        """All below REACH_HOME where that is set, else the platform's folders.

        Raises: ConfigError when REACH_HOME is no absolute path, or a folder's name holds a colon: PATH would be split
        there, and the next `bash` on it is this machine's.
        """
        paths = cls._from_environment()
        for root in (paths.state, paths.data, paths.cache, paths.runtime):
            if os.pathsep in str(root):
                raise ConfigError(
                    f"{str(root)!r} holds a colon, which PATH can't", fix="set REACH_HOME to a folder without one"
                )
        return paths

    @classmethod
    def _from_environment(cls) -> Paths:
        home = os.environ.get("REACH_HOME")
        if home:
            if not os.path.isabs(home):
                raise ConfigError(f"REACH_HOME is {home!r}, no absolute path", fix="give it a path from /")
            return cls.below(Path(home))
        import platformdirs

        with warnings.catch_warnings():  # platformdirs warns where there is no runtime folder; we have a place then
            warnings.simplefilter("ignore")
            runtime = Path(platformdirs.user_runtime_dir("reach"))
        if not os.access(runtime.parent, os.W_OK):
            runtime = Path("/tmp") / f"reach-{os.getuid()}"
        state = Path(platformdirs.user_state_dir("reach"))
        # Another HOME has other sessions, perhaps of the same names, and often the same runtime folder: commands would
        # go to the broker, and so to the target, of the other one's.
        runtime = runtime.with_name(f"{runtime.name}-{_digest(state)[:8]}")
        return cls(
            state,
            Path(platformdirs.user_data_dir("reach")),
            Path(platformdirs.user_cache_dir("reach")),
            _short_runtime(runtime),
        )

    @classmethod
    def below(cls, root: Path) -> Paths:
        """Those of a REACH_HOME that is ROOT."""
        return cls(root / "state", root / "data", root / "cache", _short_runtime(root / "run"))

    def session_state(self, name: str) -> Path:
        return self.state / "sessions" / name

    def session_file(self, name: str) -> Path:
        return self.session_state(name) / "session.json"

    def session_runtime(self, name: str) -> Path:
        return self.runtime / name

    def session_launches(self, name: str) -> Path:
        return self.session_state(name) / "launches"

    def socket(self, name: str) -> Path:
        return self.session_runtime(name) / "socket"

    @property
    def home_links(self) -> Path:
        """Short links to the managed homes of launches."""
        return self.runtime / ".homes"

    def audit_log(self, name: str) -> Path:
        return self.session_state(name) / "audit.jsonl"


def _short_runtime(wanted: Path) -> Path:
    """WANTED, or a short stand-in for it below /tmp where a socket's path would be too long."""
    if len(os.fsencode(wanted)) + _LONGEST_BELOW_RUNTIME <= MAX_SOCKET_PATH_BYTES:
        return wanted
    return Path("/tmp") / f"reach-{os.getuid()}-{_digest(wanted)[:12]}"


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def ensure_private_dir(folder: Path) -> Path:
    """Make FOLDER (and what is missing above it) with mode 0700, or check that it is ours alone.

    Raises: ConfigError when it is a link, another user's, or open to others and can't be closed.
    """
    try:
        for missing in reversed([each for each in folder.parents if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        if not os.path.lexists(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise ConfigError(
            f"the folder {str(folder)!r} can't be made: {error.strerror}", fix="set REACH_HOME to a folder of yours"
        ) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise ConfigError(
            f"{folder} is not a folder of yours alone", fix="remove it, or set REACH_HOME to another place"
        )
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def write_private(path: Path, content: bytes) -> None:
    """Write CONTENT to PATH in one step (a reader sees the old or the new), mode 0600."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise

"""The folder that a test run keeps everything in, and its end, which comes even where the run is killed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reach.broker.lifecycle import stop_broker
from reach.errors import ReachError
from reach.paths import Paths
from reach.probe.folder import remove_folder
from reach.probe.process import kill_all_with
from reach.session import SessionStore

HOME = "home"
"""The REACH_HOME, below the folder."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """A temporary folder. With the block ends all that was started from the REACH_HOME in it, and the folder goes.

    A process of its own sees to that: its standard input closes with this process, by whatever that is ended, and no
    Ctrl-C reaches it.

    Raises: RuntimeError with what could not be ended.
    """
    root = Path(tempfile.mkdtemp(prefix="reach-test-"))
    # -P and the working folder keep modules that lie about in the suite's folder out.
    argv = [sys.executable, "-P", "-m", "reach.testing.home", str(root)]
    keeper = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    try:
        yield root
    finally:
        _, complaints = keeper.communicate()
        if keeper.returncode:
            raise RuntimeError(f"{root} was not cleared away: {complaints.decode(errors='replace').strip()}")


def end_session(paths: Paths, name: str) -> None:
    """End session NAME and every process that was started with its shim on PATH, and remove what is kept for it.

    The shim goes last: whoever is alive without it finds the next `bash` on PATH, which is this machine's. The broker
    is ended twice, since a shim may have started it again meanwhile.

    Raises: BrokerUnavailableError where the broker does not end.
    """
    stop_broker(paths, name)
    kill_all_with(str(paths.session_state(name)))
    stop_broker(paths, name)
    SessionStore(paths).remove(name)
    shutil.rmtree(paths.session_runtime(name), ignore_errors=True)


def clear(root: Path) -> list[str]:
    """End what runs from the REACH_HOME below ROOT and remove ROOT; what could not be ended."""
    paths, complaints = Paths.below(root / HOME), []
    for name in SessionStore(paths).names():
        try:
            end_session(paths, name)
        except (ReachError, OSError) as error:
            complaints.append(str(error))
    kill_all_with(str(root))
    for folder in (paths.runtime, root):
        remove_folder(folder)
    return complaints


def main() -> None:
    """Clear away the folder that is named, once standard input has closed."""
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.buffer.read()
    complaints = clear(Path(sys.argv[1]))
    if complaints:
        sys.exit("; ".join(complaints))


if __name__ == "__main__":
    main()

"""A test suite of somebody else's, run by a pytest of its own, and the proof that nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.processes import is_dead

OPTIONS = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
MARKED = "REACH_TEST_SUITE_MARK"


class Suite:
    """A test suite of somebody's in FOLDER, run with a temporary folder and a HOME of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = Path(sys.executable)
        """With pytest and reach; another one's may be set."""
        self.temporary = folder / "tmp"
        self.home = folder / "home"
        for each in (self.temporary, self.home):
            each.mkdir()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("REACH_", "PYTEST_"))
        }
        self.environment |= {"TMPDIR": str(self.temporary), "HOME": str(self.home), MARKED: str(folder)}

    def write(self, text: str, name: str = "test_theirs.py") -> None:
        (self.folder / name).write_text(text)

    def run(self, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, *OPTIONS, *options],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.python, *OPTIONS],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def told(self, name: str) -> str:
        """What a test of the suite wrote into a file."""
        return (self.folder / name).read_text()

    def left_over(self) -> list[str]:
        """Processes and folders that the suite has left behind."""
        processes = [
            (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            for entry in Path("/proc").glob("[0-9]*")
            if not is_dead(int(entry.name)) and self._is_ours(entry)
        ]
        folders = [str(path) for path in self.temporary.iterdir() if not path.name.startswith("pytest-of-")]
        noted = self.folder / "runtime"
        sockets = [path for path in (noted.read_text().splitlines() if noted.exists() else []) if os.path.exists(path)]
        homes = [str(path) for path in self.home.iterdir()]
        return [*processes, *folders, *sockets, *homes]

    def _is_ours(self, entry: Path) -> bool:
        try:
            return f"{MARKED}={self.folder}\0".encode() in (entry / "environ").read_bytes()
        except OSError:
            return False

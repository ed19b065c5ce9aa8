"""How the scripted model speaks to one harness: a small Protocol, and a registry by the harness's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mock_server import Call
from reach.errors import ConfigError


@dataclass(frozen=True)
class ShellResult:
    """The result of a shell call, as the harness words it for the model."""

    output: str
    """Standard output and error, without a final newline."""
    exit_status: int | None
    background_pids: tuple[int, ...] = ()


class ProbeScript(Protocol):
    """The calls of one harness's tools, and the reading of what it answers and says."""

    @property
    def dialect(self) -> str:
        """The mock's name of the API that the harness speaks."""

    def shell(self, command: str, version: str | None, folder: str | None = None) -> Call:
        """A call of the shell tool, in FOLDER below the workspace."""

    def read_shell_result(self, text: str) -> ShellResult: ...

    def takes_folder(self, version: str | None) -> bool:
        """Whether the shell tool can be told to work in a subfolder."""

    def write_file(self, path: Path, content: str) -> Call:
        """A call of the tool that writes a file of this machine."""

    def read_file(self, path: Path) -> Call: ...

    def is_passing_refusal(self, text: str) -> bool:
        """Whether a result means that the same call may do in a moment."""

    def cut_off_line(self, stderr: str) -> str | None:
        """The line in which the harness says that it can't reach the model, if it does: it only goes on trying."""

    def complaints(self, stderr: str) -> list[str]:
        """Lines in which the harness misses what its shell should have left for it."""

    def limit_silence(self, home: Path, version: str | None, limit_s: int) -> bool:
        """Have the harness cancel a command that says nothing for LIMIT_S; False for a version that can't."""

    def lay_trap(self, project: Path, touched: Path) -> None:
        """Make PROJECT a folder whose own settings bring file tools, hooks and servers that would make TOUCHED."""


def script_for(harness: str) -> ProbeScript:
    """Raises: ConfigError for a harness that can't be probed."""
    from reach.probe.gemini import GeminiScript

    scripts: dict[str, ProbeScript] = {"gemini": GeminiScript()}
    try:
        return scripts[harness]
    except KeyError:
        raise ConfigError(f"there is no probe for the harness {harness!r}") from None

"""What reach has to know about a harness: the small Protocol that each one fills in, and the values it deals
in.

Whatever is the same for every harness (finding its program, reading its version, composing the environment,
replacing this process) is not here but in `binary`, `launch` and `install`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

Environment = Mapping[str, str]
"""Variables as `os.environ` holds them: bytes that are no UTF-8 are surrogate escapes."""


@dataclass(frozen=True)
class Place:
    """What a harness is prepared for: one session's folders on this machine and what is known of its
    target."""

    session: str
    target: str
    """The target as the operator wrote it."""
    hostname: str | None
    """What the target calls itself; untrusted text."""
    folder: str | None
    """Absolute path on the target; untrusted text."""
    home: Path
    """The managed HOME: a private folder, or a link to one, that exists. `prepare` fills it."""
    operator_home: Path | None
    """Where the operator's own preferences and credentials are. None (a probe): nothing is carried over or
    linked, and the sign-in is the one that `probe_environment` provides for."""
    workspace: Path
    """The harness's working folder."""
    folders: Sequence[bytes] = ()
    """Folders below `folder` on the target, as relative paths; untrusted."""
    instructions: str | None = None
    """The target's own file of instructions for a model; untrusted."""
    is_managed_workspace: bool = True
    """False for a real local folder of the operator's (`--workspace`)."""
    nonce: str | None = None
    """Put into the orientation text as one line (see `canary_line`): its presence in what the harness sends
    to the model shows that this managed home is in force."""


@dataclass(frozen=True)
class Preparation:
    """What `prepare` decided: how the harness is to be started."""

    arguments: tuple[str, ...] = ()
    """Put before the operator's own arguments."""
    set_environment: Mapping[str, str] = field(default_factory=dict)
    remove_environment: frozenset[str] = frozenset()
    fingerprint: str = ""
    """Digest of the managed settings' content, whatever belongs to one session or one operator left out: a
    verdict holds for one fingerprint."""
    notes: tuple[str, ...] = ()
    """Lines for the operator, each a whole sentence without a final full stop."""


class Harness(Protocol):
    """One coding agent. A conformance suite runs on every one that the registry holds."""

    @property
    def name(self) -> str:
        """As typed after `reach`, and the name of its folders."""

    @property
    def title(self) -> str:
        """As its makers write it."""

    @property
    def command(self) -> str:
        """The program's name on PATH."""

    @property
    def npm_package(self) -> str: ...

    @property
    def instruction_file(self) -> str:
        """The name of the file in which a project keeps its instructions for this harness."""

    def find_imports(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where TEXT, instructions of a project, names a file to be put in its place: start, end, path as written."""

    @property
    def allowed_tools(self) -> frozenset[str]:
        """The tools that may be advertised to the model: none of them can touch the operator's machine."""

    def check_arguments(self, arguments: Sequence[str]) -> None:
        """Refuse an argument that would take the harness past the seam or bring local files to the model.

        Raises: ConfigError, naming the argument and the reason.
        """

    def prepare(self, place: Place, version: str | None, environment: Environment) -> Preparation:
        """Write the managed home of PLACE and say how to start the harness.

        VERSION is that of the program to be started, None where it can't be told: the newest is assumed.

        Raises: HarnessError where the operator's own settings can't be read.
        """

    def probe_arguments(self, prompt: str) -> list[str]:
        """The arguments of one unattended turn that may run commands without asking."""

    def probe_environment(self, mock_url: str) -> dict[str, str]:
        """The variables that make the harness talk to a mock API at MOCK_URL, with a key that is no
        secret."""

    def show_inside(self, text: str, environment: Environment) -> Mapping[str, str]:
        """Have an interactive harness started with ENVIRONMENT show TEXT where it stays visible.

        Returns what to add to ENVIRONMENT for that.
        """


def canary_line(nonce: str) -> str:
    """The line of the orientation text that carries NONCE."""
    return f"[reach canary {nonce}]"

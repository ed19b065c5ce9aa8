"""Who a shim file is, and how it says that it did not run a command."""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

NOT_RUN = 125
"""The exit code that is reach's own."""


class Place:
    """Who a shim file is: written into it, since harnesses drop the environment's variables."""

    def __init__(
        self,
        session: str,
        target: str,
        launch: str,
        socket: str,
        python: str,
        import_path: list[str],
        roots: list[str],
    ) -> None:
        self.session = session
        self.target = target
        """As the operator wrote it, for messages."""
        self.launch = launch
        """Empty for a session's own shim, outside any launch."""
        self.socket = socket
        self.python = python
        """The interpreter that has reach installed; this one may lack it."""
        self.import_path = import_path
        self.roots = roots
        """State, data, cache and runtime folders, for starting the broker."""

    def refuse(self, reason: str) -> "NoReturn":
        """End with 125 and one line: nothing runs here instead."""
        line = f"reach: session {self.session} ({self.target}): {reason}\n"
        try:
            posix.write(2, line.encode("utf-8", "replace"))
        finally:
            posix._exit(NOT_RUN)

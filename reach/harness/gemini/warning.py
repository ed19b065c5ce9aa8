"""Words that stay on the screen: an interactive Gemini CLI clears it, and what reach said before, at its start."""

from __future__ import annotations

import os

from reach.harness.base import Environment

TITLE = "UNSAFE: launched with reach --force"
_NAME = "gemini-cli-warnings.txt"
"""In the temporary folder: Gemini CLI shows its lines above the conversation and removes it (0.1.22 to 0.61.0)."""


def show_inside(text: str, environment: Environment) -> dict[str, str]:
    """Have TEXT among Gemini CLI's own warnings, and return what puts one in the window's title for the whole time.

    ENVIRONMENT is the harness's. Without that file (somebody else's is there) the title must do.
    """
    folder = next((environment[name] for name in ("TMPDIR", "TMP", "TEMP") if environment.get(name)), "/tmp")
    try:
        handle = os.open(os.path.join(folder, _NAME), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError:
        pass
    else:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text + "\n")
    return {"CLI_TITLE": TITLE}

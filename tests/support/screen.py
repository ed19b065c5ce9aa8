"""A terminal that a program fills the screen of, in tmux: what is on it can be read."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path

from support.processes import is_dead
from support.session import wait_for

SCREEN_TIMEOUT_S = 90.0
HUMAN_PAUSE_S = 0.2


class Screen:
    """A tmux server of the test's own with one window."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]

    def start(self, argv: list[str], environment: dict[str, str]) -> None:
        words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *argv]
        command = f"{shlex.join(words)}; echo ended with $?; sleep 1000"
        subprocess.run([*self._tmux, "new-session", "-d", "-x", "130", "-y", "50", command], check=True)

    def screen(self) -> str:
        return subprocess.run([*self._tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout

    def wait_for(self, text: str) -> str:
        def shown() -> str:
            seen = self.screen()
            return seen if text in seen else ""

        try:
            found: str = wait_for(shown, f"{text!r} on the screen", SCREEN_TIMEOUT_S)
        except TimeoutError as error:
            raise TimeoutError(f"{error}, which shows:\n{self.screen()}") from None
        return found

    def type(self, *keys: str) -> None:
        """Press KEYS; "Enter" as late as a person would: Gemini CLI takes one within 30 ms of the key before it for a
        part of something pasted."""
        if keys[-1] == "Enter":
            if keys[:-1]:
                subprocess.run([*self._tmux, "send-keys", *keys[:-1]], check=True)
            time.sleep(HUMAN_PAUSE_S)
            keys = keys[-1:]
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def resize(self, columns: int, rows: int) -> None:
        subprocess.run([*self._tmux, "resize-window", "-x", str(columns), "-y", str(rows)], check=True)

    def end(self) -> None:
        shown = subprocess.run([*self._tmux, "display-message", "-p", "#{pid}"], capture_output=True, text=True)
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)
        if shown.stdout.strip():
            wait_for(lambda: is_dead(int(shown.stdout)), "tmux to end")

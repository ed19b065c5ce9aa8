"""The person at the terminal, asked and told on it whatever standard input and output are."""

from __future__ import annotations

import getpass

import click


class TerminalOperator:
    """Asks on the controlling terminal. Without one, nobody can answer."""

    def ask(self, prompt: str, *, echo: bool) -> str | None:
        try:
            terminal = open("/dev/tty", "r+b", buffering=0)
        except OSError:
            return None
        with terminal:
            if not echo:
                try:
                    return getpass.getpass(prompt, stream=None)
                except (EOFError, OSError):
                    return None
            terminal.write(prompt.encode("utf-8", "replace"))
            line = b""
            while not line.endswith(b"\n"):
                chunk = terminal.read(1024)
                if not chunk:
                    return None
                line += chunk
            return line.decode("utf-8", "replace").rstrip("\r\n")

    def tell(self, text: str) -> None:
        click.echo(text, err=True)

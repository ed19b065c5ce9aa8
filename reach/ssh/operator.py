"""The person who started reach, as a connection needs one: asked for secrets, told what the server says."""

from __future__ import annotations

from typing import Protocol


class Operator(Protocol):
    """Whoever sits at the terminal. Texts arrive printable: what a server sent has been escaped before."""

    def ask(self, prompt: str, *, echo: bool) -> str | None:
        """Show PROMPT and return the answer without its newline; None when nobody can answer."""
        ...

    def tell(self, text: str) -> None:
        """Show TEXT."""
        ...


class NobodyThere:
    """The operator of a connection that is made in the background."""

    def ask(self, prompt: str, *, echo: bool) -> str | None:
        return None

    def tell(self, text: str) -> None:
        return None

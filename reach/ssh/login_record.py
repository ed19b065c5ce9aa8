"""What was tried in one login, and the error that tells of it."""

from __future__ import annotations

from collections import Counter

from reach.errors import AuthenticationError
from reach.ssh.host_settings import HostSettings
from reach.ssh.remote_text import printable

MANY_KEYS = 5
"""sshd hangs up after six attempts (MaxAuthTries) by default."""


class LoginRecord:
    """The attempts of one login to the host of SETTINGS, in words."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._who = f"{settings.user} on {settings.label}"
        self._tried: dict[str, list[str]] = {}
        self._unanswered: dict[str, None] = {}
        self.agent_absence = settings.agent_absence
        """Why no agent is asked for keys; empty when one is."""

    def note(self, method: str, what: str) -> None:
        self._tried.setdefault(method, []).append(what)

    def note_unanswered(self, what: str) -> None:
        """Nobody was there to answer WHAT."""
        self._unanswered[what] = None

    def denied(self, allowed: tuple[str, ...]) -> AuthenticationError:
        """The error for a server that would still take ALLOWED, of which nothing is left to try."""
        left = ", ".join(printable(method) for method in allowed) or "nothing"
        message = f"permission denied for {self._who}: {self._story()}; the server takes {left}"
        if self.agent_absence and "publickey" in allowed:
            message += f"; no SSH agent was asked: {self.agent_absence}"
        if self._unanswered:
            return AuthenticationError(
                f"{message}; nobody was there to answer {', '.join(self._unanswered)}",
                fix=f"type in a terminal: {self._settings.up_command}",
            )
        return AuthenticationError(message, fix=f"see what ssh makes of it: {self._settings.ssh_command} -v")

    def broken_off(self, reason: str, last_words: str) -> AuthenticationError:
        """The error for a login that ended undecided, for REASON; LAST_WORDS are the server's, if it had any."""
        fix = f"see what ssh makes of it: {self._settings.ssh_command} -v"
        if "Too many" in last_words or len(self._tried.get("publickey", [])) >= MANY_KEYS:
            fix = f"offer fewer keys: IdentitiesOnly yes for {self._settings.host} in ssh_config"
        said = f" ({last_words})" if last_words else ""
        return AuthenticationError(f"the login of {self._who} broke off: {reason}{said}; {self._story()}", fix=fix)

    def _story(self) -> str:
        if not self._tried:
            return "nothing to try"
        return "tried " + ", ".join(f"{method} ({_counted(notes)})" for method, notes in self._tried.items())


def _counted(notes: list[str]) -> str:
    """NOTES with repetitions counted: `refused 3 times`."""
    return ", ".join(note if count == 1 else f"{note} {count} times" for note, count in Counter(notes).items())

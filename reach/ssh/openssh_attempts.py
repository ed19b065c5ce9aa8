"""What ssh tried in a login, read from its -v lines into the record that the other transport keeps too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from reach.ssh.host_settings import HostSettings
from reach.ssh.login_record import LoginRecord

_KEY = re.compile(
    r"debug1: (?P<what>Offering public key|Server accepts key): (?P<label>.*) (?P<kind>\S+) SHA256:\S+(?P<rest>.*)"
)
_TRYING = re.compile(r"debug1: Trying private key: (?P<label>.*)")
_USELESS = re.compile(r'Load key "(?P<file>[^"]*)": (?P<reason>.*)')
_SKIPPED = re.compile(r"debug1: Skipping \S+ key (?P<label>.*?) - (?:corresponding algo(?:rithm)? )?not ")
_METHOD = re.compile(r"debug1: Next authentication method: (\S+)")
_CONTINUE = re.compile(r"debug1: Authentications that can continue: ")
_PARTIAL = re.compile(r"Authenticated using \"(\S+)\" with partial success")
_NO_AGENT = re.compile(r"debug1: .*get_authentication_socket.*: (?P<reason>.*)")
NEXT_HOST = re.compile(r"Authenticated to ")


@dataclass(frozen=True)
class Answers:
    """What became of ssh's questions in a login."""

    unanswered: Sequence[str] = ()
    """What nobody was there to answer."""
    tried_files: frozenset[str] = frozenset()
    """The key files for which a passphrase was given."""


def record_of(lines: Sequence[str], settings: HostSettings, answers: Answers) -> LoginRecord:
    """The attempts that LINES tell of, those on the host of SETTINGS."""
    reading = _Reading(settings, answers)
    for line in lines:
        if NEXT_HOST.match(line):  # a host on the way: what follows is another login
            reading = _Reading(settings, answers)
        else:
            reading.take(line)
    reading.judge_key()
    for each in answers.unanswered:
        reading.record.note_unanswered(each)
    return reading.record


class _Reading:
    def __init__(self, settings: HostSettings, answers: Answers) -> None:
        self.record = LoginRecord(settings)
        self._settings = settings
        self._answers = answers
        self._method = ""
        self._key = ""
        """The name of the key that was offered last, until something is said of it."""
        self._accepted_file = ""
        """Its file, once the server would take a signature by it."""

    def take(self, line: str) -> None:
        if found := _METHOD.match(line):
            self.judge_key()
            self._method = found[1]
        elif found := _KEY.match(line):
            self.judge_key()
            self._key = _named(found["label"], found["kind"], found["rest"])
            self._accepted_file = found["label"] if found["what"].startswith("Server") else ""
        elif found := _TRYING.match(line):
            self.judge_key()
            self._key = PurePath(found["label"]).name
        elif found := _USELESS.match(line):
            self._note_useless(found["file"], found["reason"])
        elif found := _SKIPPED.match(line):
            self.record.note("publickey", f"{PurePath(found['label']).name} not offered (its type is excluded)")
        elif found := _PARTIAL.search(line):
            self.record.note(found[1], self._key or "accepted")
            self._key = self._accepted_file = self._method = ""
        elif _CONTINUE.match(line):
            self._note_refusal()
        elif (found := _NO_AGENT.match(line)) and self._settings.agent_socket:
            self.record.agent_absence = f"no SSH agent answers on {self._settings.agent_socket}"

    def _note_refusal(self) -> None:
        if self._method == "publickey" and self._key:
            self.record.note(self._method, f"{self._key} refused")
        elif self._method in ("password", "keyboard-interactive"):
            self.record.note(self._method, "refused")
        self._key = self._accepted_file = ""

    def _note_useless(self, file: str, reason: str) -> None:
        told = f"others may read it; type: chmod 600 {file}" if "permissions" in reason else reason
        self.record.note("publickey", f"{PurePath(file).name} not used: {told}")
        self._key = self._accepted_file = ""

    def judge_key(self) -> None:
        """What is left of a key that the server would have taken, and that was not heard of again."""
        if self._accepted_file:
            has_passphrase = self._accepted_file in self._answers.tried_files
            why = "not used: its passphrase was not right" if has_passphrase else "not opened"
            self.record.note("publickey", f"{self._key} {why}")
        self._key = self._accepted_file = ""


def _named(label: str, kind: str, rest: str) -> str:
    name = PurePath(label).name or label
    if kind.endswith("-CERT") and not name.endswith("-cert.pub"):
        name += "-cert.pub"
    return f"{name} (agent)" if " agent" in rest else name

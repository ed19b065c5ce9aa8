"""Answering what ssh asks during one login: from memory, or by the operator.

A server's questions come the same way as ssh's own, and must not get an answer that is meant for something else. Since
OpenSSH 8.5 they begin with the account in parentheses; before that nothing tells them apart, and nothing is answered
from memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from reach.ssh.host_settings import HostSettings
from reach.ssh.openssh_askpass import Question
from reach.ssh.operator import Operator
from reach.ssh.remote_text import printable
from reach.ssh.secrets import Secrets

_PASSPHRASE = re.compile(r"Enter passphrase for (?:key )?'(?P<file>.+)': ?\Z", re.S)
_PASSWORD = re.compile(r"(?P<user>[^()\n]+)@(?P<host>[^@()\n]+)'s password: \Z")
_NEW_PASSWORD = re.compile(r"(?:Enter|Retype) (?P<user>[^()\n]+)@(?P<host>[^@()\n]+)'s (?:old|new) password: \Z")
_SERVERS_QUESTION = re.compile(r"\((?P<user>[^()]+)@(?P<host>[^@()]+)\) (?P<prompt>.*)\Z", re.S)
_HOST_KEY = re.compile(
    r"The authenticity of host '(?P<host>[^'\n]*)' can't be established\.\s+"
    r"(?P<family>\S+) key fingerprint is (?P<fingerprint>\S+?)\.?\s",
)


@dataclass(frozen=True)
class Prompt:
    """One question for a secret: what it is remembered by, and how it is shown. A jump host's ssh asks as the
    target's does."""

    account: str
    """Whose secret it is: an account on a host, `key`, or `?` where ssh names somebody else."""
    text: str
    """What the other transport remembers the same secret by."""
    shown: str
    name: str
    """For a message that says that nobody answered."""
    is_passphrase: bool = False


def parse_prompt(text: str, settings: HostSettings) -> Prompt:
    """Read one of ssh's prompts in a login with SETTINGS. Shape: TEXT may hold what a server sent."""
    if found := _PASSPHRASE.match(text):
        file = found["file"]
        return Prompt("key", file, f"Passphrase for the key {file}: ", f"the passphrase of {file}", is_passphrase=True)
    if (found := _SERVERS_QUESTION.match(text)) and (hop := _asking(settings, found)):
        asked = printable(found["prompt"], lines=True)
        return Prompt(_account(hop), asked, f"({hop.account}) {asked}", repr(asked.rstrip(": ")))
    if (found := _PASSWORD.match(text)) and (hop := _asking(settings, found)):
        asked = f"{hop.account}'s password: "
        return Prompt(_account(hop), asked, asked, repr(asked.rstrip(": ")))
    asked = printable(text, lines=True)
    return Prompt("?", asked, asked, repr(asked.strip().rstrip(": ")))


def _account(hop: HostSettings) -> str:
    return f"{hop.user}@{hop.known_hosts_name}"


def _asking(settings: HostSettings, found: re.Match[str]) -> HostSettings | None:
    """The host on the way whose account FOUND names."""
    hop: HostSettings | None = settings
    while hop:
        if (hop.user, (hop.host_key_alias or hop.hostname).lower()) == (found["user"], found["host"].lower()):
            return hop
        hop = hop.jump
    return None


class Prompts:
    """The questions of one login with SETTINGS. What was answered is kept once the login was right."""

    def __init__(self, settings: HostSettings, operator: Operator, secrets: Secrets) -> None:
        self._settings = settings
        self._operator = operator
        self._secrets = secrets
        self._given: dict[Prompt, str] = {}
        """Answers that may prove right."""
        self.tells_askers_apart = False
        """Whether this ssh marks what a server asks."""
        self.unanswered: list[str] = []
        """What nobody was there to answer."""
        self.expired: str | None = None
        """Whose password the server wants changed."""

    @property
    def tried_files(self) -> frozenset[str]:
        """The key files for which a passphrase was given."""
        return frozenset(prompt.text for prompt in self._given if prompt.is_passphrase)

    def answer(self, question: Question) -> bool:
        """Answer QUESTION, or leave it to stand where it needs none. False when the login is to be given up: ssh
        would try an empty password."""
        if question.kind == "none":
            self._operator.tell(printable(question.text, lines=True).strip())
            return True
        if found := _HOST_KEY.search(question.text):
            question.answer("yes" if self._trusts_host_key(found) else "no")
            return True
        if found := _NEW_PASSWORD.match(question.text):
            self.expired = (_asking(self._settings, found) or self._settings).account
            question.answer(None)
            return False
        prompt = parse_prompt(question.text, self._settings)
        answer = self._recall(prompt) if self.tells_askers_apart else None
        if answer is None:
            answer = self._ask(prompt.shown, echo=False)
        if answer is None:
            self.unanswered.append(prompt.name)
            question.answer(None)
            return prompt.is_passphrase  # then ssh goes on with the next key
        self._given[prompt] = answer
        question.answer(answer)
        return True

    def _ask(self, text: str, *, echo: bool) -> str | None:
        return None if self._settings.is_batch else self._operator.ask(text, echo=echo)

    def _trusts_host_key(self, found: re.Match[str]) -> bool:
        shown = f"the {printable(found['family'])} key {printable(found['fingerprint'])}"
        answer = self._ask(
            f"{self._host_of_key(found['host']).label} is not known yet. It shows {shown}.\n"
            "Is that the host's key (yes, no, or the fingerprint you expect)? ",
            echo=True,
        )
        while answer is not None:
            answer = answer.strip()
            if answer.lower() == "yes" or answer == found["fingerprint"]:
                return True
            if answer.lower() == "no":
                return False
            answer = self._ask("Type yes, no or the fingerprint: ", echo=True)
        return False

    def _host_of_key(self, named: str) -> HostSettings:
        """The host on the way that ssh calls NAMED: `[host]:port (address)`."""
        hop: HostSettings | None = self._settings
        while hop:
            if named.partition(" ")[0].lower() == hop.known_hosts_name.lower():
                return hop
            hop = hop.jump
        return self._settings

    def _recall(self, prompt: Prompt) -> str | None:
        """The answer that was right before; one that is asked for twice in a login was not right."""
        if prompt in self._given:
            self._secrets.forget_answer(prompt.account, prompt.text)
            return None
        if prompt.is_passphrase:
            return self._secrets.passphrase(Path(prompt.text))
        return self._secrets.answer(prompt.account, prompt.text)

    def keep(self) -> None:
        """The login was right, and so were the answers."""
        for prompt, answer in self._given.items():
            if prompt.is_passphrase:
                self._secrets.keep_passphrase(Path(prompt.text), answer)
            else:
                self._secrets.keep_answer(prompt.account, prompt.text, answer)

    def forget(self) -> None:
        """The login was refused: what was remembered may be wrong."""
        for prompt in self._given:
            self._secrets.forget_answer(prompt.account, prompt.text)

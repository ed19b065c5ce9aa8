"""Logging in with what a person types: a password, or answers to the server's questions."""

from __future__ import annotations

from collections.abc import Iterator

from reach.errors import AuthenticationError
from reach.ssh.host_settings import HostSettings
from reach.ssh.login_record import LoginRecord
from reach.ssh.operator import Operator
from reach.ssh.remote_text import printable
from reach.ssh.secrets import Secrets
from reach.ssh.userauth import LoginExchange, NewPasswordWanted, Questions, Reply, is_right
from reach.ssh.wire_format import string

MAX_ROUNDS = 16
"""How often a server may come back with more questions in one attempt."""


class TypedLogin:
    """The methods password (RFC 4252, section 8) and keyboard-interactive (RFC 4256)."""

    def __init__(
        self,
        exchange: LoginExchange,
        settings: HostSettings,
        record: LoginRecord,
        operator: Operator,
        secrets: Secrets,
    ) -> None:
        self._exchange = exchange
        self._settings = settings
        self._record = record
        self._operator = operator
        self._secrets = secrets
        self._account = f"{settings.user}@{settings.known_hosts_name}"

    def passwords(self) -> Iterator[Reply]:
        """Try a password, as often as NumberOfPasswordPrompts says, and yield the server's replies."""
        prompt = f"{self._settings.account}'s password: "
        for _ in range(self._settings.password_prompts):
            password = self._answer(prompt, shown=prompt, echo=False)
            if password is None:
                return
            reply = self._exchange.request("password", b"\0" + string(password))
            if isinstance(reply, NewPasswordWanted):
                raise AuthenticationError(
                    f"the password of {self._settings.account} has expired",
                    fix=f"change it with: {self._settings.ssh_command}",
                )
            self._judge("password", reply, {prompt: password})
            yield reply

    def questions(self) -> Iterator[Reply]:
        """Have the server ask, as often as NumberOfPasswordPrompts says, and yield its verdicts."""
        for _ in range(self._settings.password_prompts):
            given: dict[str, str] = {}
            reply = self._exchange.request("keyboard-interactive", string("") + string(""))
            has_questions = isinstance(reply, Questions)
            for _ in range(MAX_ROUNDS):
                if not isinstance(reply, Questions):
                    break
                answers = self._answers(reply, given)
                if answers is None:
                    return
                reply = self._exchange.answer(answers)
            self._judge("keyboard-interactive", reply, given)
            yield reply
            if not has_questions:
                return

    def _answers(self, questions: Questions, given: dict[str, str]) -> list[str] | None:
        for text in (questions.title, questions.instruction):
            if shown := printable(text, lines=True).strip():
                self._operator.tell(shown)
        answers = []
        for prompt, echo in questions.prompts:
            asked = printable(prompt, lines=True)
            answer = self._answer(asked, shown=f"({self._settings.account}) {asked}", echo=echo)
            if answer is None:
                return None
            given[asked] = answer
            answers.append(answer)
        return answers

    def _answer(self, prompt: str, *, shown: str, echo: bool) -> str | None:
        """The answer to PROMPT that was right before, or the operator's; None when nobody can give one."""
        answer = self._secrets.answer(self._account, prompt)
        if answer is None:
            answer = self._operator.ask(shown, echo=echo)
        if answer is None:
            self._record.note_unanswered(f"{prompt.rstrip(': ')!r}")
        return answer

    def _judge(self, method: str, reply: Reply, given: dict[str, str]) -> None:
        """Keep the answers GIVEN if they were right, and forget them if they were not."""
        self._record.note(method, "accepted" if is_right(reply) else "refused")
        for prompt, answer in given.items():
            if is_right(reply):
                self._secrets.keep_answer(self._account, prompt, answer)
            else:
                self._secrets.forget_answer(self._account, prompt)

"""What the operator answered, kept in this process's memory while it lives, so that nobody is asked twice."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NoReturn


class Secrets:
    """Passphrases, passwords and answers of one broker. Never written, printed or pickled."""

    __slots__ = ("_answers", "_lock")

    def __init__(self) -> None:
        self._answers: dict[tuple[str, ...], str] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "Secrets(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets stay in memory")

    def passphrase(self, key_file: Path) -> str | None:
        return self._recall("passphrase", str(key_file))

    def keep_passphrase(self, key_file: Path, passphrase: str) -> None:
        self._keep(passphrase, "passphrase", str(key_file))

    def answer(self, account: str, prompt: str) -> str | None:
        """What was answered to PROMPT for ACCOUNT, if that was right."""
        return self._recall("answer", account, prompt)

    def keep_answer(self, account: str, prompt: str, answer: str) -> None:
        self._keep(answer, "answer", account, prompt)

    def forget_answer(self, account: str, prompt: str) -> None:
        with self._lock:
            self._answers.pop(("answer", account, prompt), None)

    def _recall(self, *key: str) -> str | None:
        with self._lock:
            return self._answers.get(key)

    def _keep(self, secret: str, *key: str) -> None:
        with self._lock:
            self._answers[key] = secret

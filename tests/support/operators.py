"""Operators that tests stand in for the person with."""

from __future__ import annotations


class ScriptedOperator:
    """Answers what a prompt contains by a table, and remembers what it was asked and told."""

    def __init__(self, answers: dict[str, str | list[str]] | None = None) -> None:
        """ANSWERS by a part of the prompt: one answer for always, or a list to use up. Others get None."""
        self._answers = dict(answers or {})
        self.asked: list[str] = []
        self.echoed: list[bool] = []
        self.told: list[str] = []

    def ask(self, prompt: str, *, echo: bool) -> str | None:
        self.asked.append(prompt)
        self.echoed.append(echo)
        for part, answer in self._answers.items():
            if part in prompt:
                if isinstance(answer, str):
                    return answer
                return answer.pop(0) if answer else None
        return None

    def tell(self, text: str) -> None:
        self.told.append(text)

"""The conversation that a probe has with a harness: which call the model makes next, and what came back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mock_server import AnswerSource, Call, Dialect, Reading, Script, Turn
from mock_server.api import ApiRequest, RequestKind
from mock_server.player import Answer, ScriptPlayer

MAX_TRIES = 4
"""Of one call that the harness turns away for a passing reason. After a fifth one Gemini CLI ends what it takes for an
endless loop."""
RETRY_DELAY_S = 1.0


@dataclass(frozen=True)
class Step:
    """One tool call of the scripted model."""

    name: str
    call: Call


def never(*_: object) -> bool:
    return False


class Conversation:
    """A Player of the mock: makes one call after another until one of them is to be the last.

    Which call is due is told from the results in the request alone, so that a request which the harness sends again
    gets the same answer.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._steps: Sequence[Step] = ()
        self._is_last: Callable[[Step, str], bool] = never
        self._is_passing: Callable[[str], bool] = never
        self._aside = ScriptPlayer(Script(), dialect)
        self._lock = threading.Lock()
        self._results: dict[str, str] = {}

    def plan(
        self, steps: Sequence[Step], *, is_last: Callable[[Step, str], bool], is_passing: Callable[[str], bool] = never
    ) -> None:
        """Before the harness starts: IS_LAST is given a step and the text of its result, and says whether to end with
        it; IS_PASSING says of a result's text whether to make the same call again.
        """
        self._steps, self._is_last, self._is_passing = steps, is_last, is_passing

    @property
    def results(self) -> dict[str, str]:
        """What the harness sent back, by the name of the step."""
        with self._lock:
            return dict(self._results)

    def answer(self, request: ApiRequest, reading: Reading) -> Answer:
        if request.kind is not RequestKind.TURN:
            return self._aside.answer(request, reading)
        results, step = self._follow([response.text for response in reading.function_responses])
        with self._lock:
            self._results |= results
        if step is None:
            return self._aside.answer(request, reading)
        if step.name in results:
            time.sleep(RETRY_DELAY_S)  # holds up the mock's only thread, and with it only this harness
        reply = self._dialect.reply(Turn(calls=[step.call]), request)
        return Answer(reply, AnswerSource.TURN, turn_number=len(results) + 1)

    @property
    def turns_left(self) -> int:
        return len(self._steps) - len(self.results)

    def unmet(self) -> list[str]:
        return []

    def _follow(self, texts: Sequence[str]) -> tuple[dict[str, str], Step | None]:
        """The result of each step, given the TEXTS of all that came back, and the step that is due."""
        results: dict[str, str] = {}
        waiting, tries = list(self._steps), 0
        for text in texts:
            if not waiting:
                break
            step, tries = waiting[0], tries + 1
            results[step.name] = text
            if self._is_last(step, text):
                return results, None
            if not self._is_passing(text) or tries >= MAX_TRIES:
                waiting.pop(0)
                tries = 0
        return results, waiting[0] if waiting else None

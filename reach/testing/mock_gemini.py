"""A scripted Gemini API for one test: `mock_server` in this process, given its turns by the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from mock_server import Call, MockServer, Reading, Script, Turn
from mock_server.api import ApiRequest
from mock_server.dialects import DIALECTS
from mock_server.player import Answer, ScriptPlayer
from mock_server.script_file import check_script
from reach.probe.stage import no_proxies

_SIGN_IN = "gemini-api-key"


class _Stand:
    """A Player whose script is put on while the server runs."""

    def __init__(self) -> None:
        self._dialect = DIALECTS["gemini"]
        self.put_on(Script())

    def put_on(self, script: Script) -> None:
        check_script(script, self._dialect)
        self._player = ScriptPlayer(script, self._dialect)

    def answer(self, request: ApiRequest, reading: Reading) -> Answer:
        return self._player.answer(request, reading)

    @property
    def turns_left(self) -> int:
        return self._player.turns_left

    def unmet(self) -> list[str]:
        return self._player.unmet()


class MockGemini(MockServer):
    """A MockServer that listens already. `requests`, `wait_for`, `failures` and `turns_left` are its."""

    def __init__(self, home: Path) -> None:
        self._stand = _Stand()
        super().__init__(dialect="gemini", player=self._stand)
        self.home = home
        """What `environment` names as GEMINI_CLI_HOME. Versions that don't know that variable need it as HOME."""
        (home / ".gemini").mkdir(parents=True)
        (home / ".gemini" / "settings.json").write_text(json.dumps(_settings()))

    def play(self, *turns: Turn | Script) -> None:
        """Have the model take TURNS from now on, or play one whole Script.

        Raises: ScriptError for what Gemini's API does not have.
        """
        scripts = [turn for turn in turns if isinstance(turn, Script)]
        if scripts and len(turns) > 1:
            raise TypeError("give it turns, or one script")
        self._stand.put_on(scripts[0] if scripts else Script(turns=[turn for turn in turns if isinstance(turn, Turn)]))

    @staticmethod
    def shell(*commands: str) -> Turn:
        """A turn in which the model calls the shell tool, once for each of COMMANDS."""
        return Turn(calls=[Call(name="run_shell_command", args={"command": command}) for command in commands])

    @property
    def environment(self) -> dict[str, str]:
        """What a Gemini CLI needs to take this for its API, whatever else is set and wherever it is started."""
        return {
            **no_proxies(),
            **super().environment,
            "GEMINI_CLI_HOME": str(self.home),
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    @property
    def results(self) -> list[str]:
        """What came back for each function call so far, as the model was told it."""
        return [response.text for request in self.requests for response in request.reading.new_function_responses]

    def __enter__(self) -> Self:
        super().__enter__()
        return self


def _settings() -> dict[str, Any]:
    """The sign-in type, as older and as newer versions call it: none may ask for one."""
    return {
        "selectedAuthType": _SIGN_IN,
        "security": {"auth": {"selectedType": _SIGN_IN}, "folderTrust": {"enabled": False}},
    }

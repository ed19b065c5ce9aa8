"""The real Gemini CLI tells its model the same, whether its shell is here or on the target."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mock_server import Call, MockServer, Script, Turn
from mock_server.dialects import DIALECTS
from mock_server.dialects.base import ApiRequest
from mock_server.player import Answer, ScriptPlayer
from mock_server.reading import Reading
from support.session import ReachSession, quiet_sshd, wait_for

pytestmark = [pytest.mark.sshd, pytest.mark.gemini]

RUN_TIMEOUT_S = 240.0
REACH = [sys.executable, "-c", "from reach.cli import main; main()"]
SILENCE_S = 3


@dataclass(frozen=True)
class Bench:
    """The same CLI twice: alone on this machine, and launched by reach."""

    session: ReachSession
    root: Path
    gemini: str

    def here(self, calls: list[Call], player: type[ScriptPlayer] = ScriptPlayer) -> list[str]:
        return self._results(calls, player, [self.gemini, "--skip-trust"], self.root / "here")

    def there(self, calls: list[Call], player: type[ScriptPlayer] = ScriptPlayer) -> list[str]:
        return self._results(calls, player, [*REACH, "gemini", "--session", self.session.name, "--"], self.root)

    def _results(self, calls: list[Call], player: type[ScriptPlayer], argv: list[str], cwd: Path) -> list[str]:
        """What each call gave, as the model is told it."""
        script = Script(turns=[*(Turn(calls=[call]) for call in calls), Turn(text="That is all.")])
        with MockServer(player=player(script, DIALECTS["gemini"])) as mock:
            subprocess.run(
                [*argv, "--yolo", "-m", "gemini-2.5-pro", "-p", "go"],
                env=self.environment() | mock.environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=RUN_TIMEOUT_S,
            )
            asked = [request for request in mock.requests if request.reading.system_text]
        return [response.text for response in asked[-1].reading.function_responses] if asked else []

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return kept | {
            "PATH": f"{Path(self.gemini).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.root / "operator"),
            "GEMINI_CLI_HOME": str(self.root / "operator"),
            "LANG": "C.UTF-8",
            "REACH_HOME": str(self.session.home),
        }


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, gemini: str) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("cli")
    for folder in ("here", "there", "operator/.gemini"):
        (root / folder).mkdir(parents=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "tools": {"shell": {"inactivityTimeout": SILENCE_S}},
    }
    (root / "operator" / ".gemini" / "settings.json").write_text(json.dumps(settings))
    with quiet_sshd() as server, ReachSession(server, folder=str(root / "there"), name="far") as session:
        yield Bench(session, root, gemini)


def _shell(command: str, *, is_background: bool = False, **arguments: str) -> Call:
    return Call(name="run_shell_command", args={"command": command, "is_background": is_background, **arguments})


def _told(text: str) -> str:
    """Without process ids, and without the path by which the CLI calls the shell that it found here."""
    text = re.sub(r"(PIDs?:?|PGID:|line \d+:) ?\d+\b", r"\1 N", text)
    return text.replace("/usr/bin/bash", "bash")


COMMANDS = [
    "echo hi",
    "echo out; echo err >&2",
    "printf 'no newline'",
    "true",
    "exit 7",
    "exit 125",
    "nosuchcommand",
    "ls /nonexistent",
    "cat <<'E'\nheredoc\nE",
    "echo hi # a comment",
    "echo 'unterminated",
    "echo )",
    "sleep 0.5 & echo started",
    "cat; echo after",
    "read x; echo \"[$x]\"",
    "[ -t 0 ]; echo $?; [ -t 1 ]; echo $?",
    "echo 'ünïcode ✓'; printf 'tab\\there\\n'",
    "for i in 1 2 3; do echo line $i; done | tac",
    "kill -TERM $$; sleep 1",
    "kill -KILL $$; sleep 1",
    "bash -c 'kill -SEGV $$'",
    "set -e; false; echo never",
    "mkdir -p made && cd made && touch file && ls",
    "seq 3 > made/list; wc -l < made/list",
    "python3 -c 'import sys; print(\"py\"); sys.exit(3)'",
    "env | grep -e ^GEMINI_CLI= -e ^PAGER= -e ^GIT_PAGER= -e ^GIT_TERMINAL_PROMPT= | sort",
    "trap 'echo bye' EXIT; echo hi",
    "echo one && echo two || echo three; (exit 4)",
    "yes | head -2000 | tail -1",
    "echo $0 $# \"$-\"",
]


def test_the_model_is_told_the_same_of_every_command(bench: Bench) -> None:
    calls = [_shell(command) for command in COMMANDS]
    here, there = bench.here(calls), bench.there(calls)
    assert len(here) == len(COMMANDS)
    for command, near, far in zip(COMMANDS, here, there, strict=True):
        assert _told(far) == _told(near), command
    told = dict(zip(COMMANDS, there, strict=True))
    assert "Exit Code: 7" in told["exit 7"]
    assert "Signal: " in told["kill -KILL $$; sleep 1"]
    assert re.search(r"Background PIDs: \d+", told["sleep 0.5 & echo started"])
    assert re.search(r"Process Group PGID: \d+", told["sleep 0.5 & echo started"])


def test_a_silent_command_is_cut_off_and_gone_on_the_target(bench: Bench) -> None:
    calls = [_shell("echo before; sleep 4901")]
    [near], [far] = bench.here(calls), bench.there(calls)
    assert "cancelled" in far
    assert _told(far) == _told(near)
    wait_for(lambda: not bench.session.remote_pids("sleep", "4901"), "the end of the sleep")


def test_output_keeps_a_slow_command_from_being_cut_off(bench: Bench) -> None:
    ticks = 2 * SILENCE_S
    [far] = bench.there([_shell(f"for i in {{1..{ticks}}}; do echo tick $i; sleep 1; done")])
    assert f"tick {ticks}" in far


class _NumberPlayer(ScriptPlayer):
    """A model that has understood the number of its background process: it stands for every PID from then on."""

    def answer(self, request: ApiRequest, reading: Reading) -> Answer:
        told = " ".join(response.text for response in reading.function_responses)
        if found := re.search(r"PID:? (\d+)", told):
            text = self._script.model_dump_json().replace("-424242", f"-{found[1]}").replace("424242", found[1])
            self._script = Script.model_validate_json(text)
        return super().answer(request, reading)


def test_background_commands_are_listed_read_and_ended_by_their_number(bench: Bench) -> None:
    calls = [
        _shell("echo ready; sleep 4911; echo never", is_background=True),
        _shell("sleep 1"),
        Call(name="list_background_processes", args={}),
        Call(name="read_background_output", args={"pid": 424242}),
        _shell("kill -- -424242"),
        _shell("sleep 1"),
        Call(name="list_background_processes", args={}),
    ]
    here, there = bench.here(calls, _NumberPlayer), bench.there(calls, _NumberPlayer)
    assert [_told(text) for text in there] == [_told(text) for text in here]
    assert "RUNNING" in there[2]
    assert "ready" in there[3]
    assert "RUNNING" not in there[6]
    wait_for(lambda: not bench.session.remote_pids("sleep", "4911"), "the end on the target")


def test_a_folder_that_the_model_made_can_be_named_and_one_that_is_gone_is_named_to_it(bench: Bench) -> None:
    workspace = bench.session.paths.session_state("far") / "workspace"
    there = bench.session.facts["folder"]

    class Thinking(_NumberPlayer):
        """Answers once what the last command did to the folders is to be seen here, as a model's thinking takes."""

        def answer(self, request: ApiRequest, reading: Reading) -> Answer:
            for folder in ("by-a-call", "early", "later"):
                if f"made {folder}" in " ".join(response.text for response in reading.function_responses):
                    with contextlib.suppress(TimeoutError):  # the results will show it
                        wait_for((workspace / folder).is_dir, f"{folder} here")
            return super().answer(request, reading)

    results = bench.there(
        [
            _shell("mkdir -p by-a-call/inner && echo made by-a-call"),
            _shell("pwd", dir_path="by-a-call/inner"),
            _shell("mkdir early && echo made early; sleep 4961", is_background=True),
            Call(name="read_background_output", args={"pid": 424242}),
            _shell("pwd; kill -- -424242", dir_path="early"),
            _shell("rm -r by-a-call; mkdir later; echo made later"),
            _shell("pwd", dir_path="by-a-call"),
        ],
        Thinking,
    )
    assert f"Output: {there}/by-a-call/inner" in results[1]
    assert f"Output: {there}/early" in results[4]
    assert f"the folder '{there}/by-a-call' is not there on the target; it did not run" in results[6]

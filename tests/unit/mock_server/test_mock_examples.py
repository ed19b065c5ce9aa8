"""The examples of the documentation, loaded and run; and the documentation against the models."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mock_client import STREAM, ask, send
from pydantic import BaseModel

import mock_server
from mock_server import MockServer, load_script
from mock_server.expectation import Expectation, ResponseCheck, ToolsCheck
from mock_server.fault import CutFault, StallFault, StatusFault
from mock_server.script import Call, Script, Turn, Usage

EXAMPLES = Path(mock_server.__file__).parent / "examples"
DOCUMENT = Path(__file__).parents[3] / "docs" / "mock-server.md"
SHELL = ("run_shell_command",)


def run_shell(command: str) -> dict[str, Any]:
    """Answer as the Gemini CLI's shell tool does."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    status = f"\nExit Code: {done.returncode}" if done.returncode else ""
    return {"output": f"Output: {done.stdout}{status}"}


def converse(url: str, prompt: str, tools: tuple[str, ...]) -> str:
    """Be a small harness: run what the model asks for until it asks for nothing; its last words."""
    body = ask(prompt, tools=tools)
    while True:
        parts = send(url, STREAM, body).parts
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not calls:
            return "".join(part["text"] for part in parts)
        results = [
            {
                "functionResponse": {
                    "name": c["name"],
                    "id": c["id"],
                    "response": run_shell(c["args"]["command"]),
                }
            }
            for c in calls
        ]
        body["contents"] += [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]


def test_two_commands_run_and_every_result_is_as_expected() -> None:
    with MockServer(load_script(EXAMPLES / "two_commands.yaml")) as mock:
        assert converse(mock.url, "Please look at this machine.", SHELL) == "Done."
    assert mock.failures == []
    assert mock.turns_left == 0


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (SHELL, []),
        ((*SHELL, "read_file"), ["turn 1, request 1: tools advertised that should not be: read_file"]),
        ((), ["turn 1, request 1: tools not advertised: run_shell_command"]),
    ],
    ids=["shell", "shell-and-file", "none"],
)
def test_only_the_shell_tells_a_surface_that_is_too_wide(tools: tuple[str, ...], said: list[str]) -> None:
    with MockServer(load_script(EXAMPLES / "only_the_shell.json")) as mock:
        converse(mock.url, "hello", tools)
    assert mock.failures == said


def test_a_bad_day_is_survived_by_a_client_that_tries_again() -> None:
    seen: list[str] = []
    with MockServer(load_script(EXAMPLES / "bad_day.yaml")) as mock:
        while "The day is over." not in seen:
            seen.append(outcome_of_a_try(mock.url))
    assert seen == [
        "status 503",
        "status 503",
        "Up again.",
        "status 429",
        "IncompleteRead",
        "The first half and the second.",
        "JSONDecodeError",
        "Whole this time.",
        "nothing",
        "At last.",
        "Slowly, but all of it.",
        "As far as I got",
        "The day is over.",
    ]


def outcome_of_a_try(url: str) -> str:
    try:
        answer = send(url, STREAM, ask("go"))
        if answer.status != 200:
            return f"status {answer.status}"
        return "".join(part["text"] for part in answer.parts) or "nothing"
    except (json.JSONDecodeError, http.client.IncompleteRead) as problem:
        return type(problem).__name__


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_every_example_is_in_the_documentation(path: Path) -> None:
    assert f"mock_server/examples/{path.name}" in DOCUMENT.read_text()


@pytest.mark.parametrize(
    "model",
    [Script, Turn, Call, Usage, Expectation, ResponseCheck, ToolsCheck, StatusFault, StallFault, CutFault],
)
def test_every_key_of_a_script_is_in_the_documentation(model: type[BaseModel]) -> None:
    text = DOCUMENT.read_text()
    assert [name for name in model.model_fields if f"`{name}`" not in text] == []


def test_the_python_in_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), {})


@pytest.mark.gemini
@pytest.mark.parametrize("model", [[], ["-m", "gemini-2.5-flash"]], ids=["router", "model-chosen"])
def test_the_real_gemini_cli_lives_through_two_commands(
    gemini: str, model: list[str], tmp_path: Path
) -> None:
    settings = tmp_path / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(
        '{"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}}}'
    )
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with MockServer(load_script(EXAMPLES / "two_commands.yaml")) as mock:
        done = subprocess.run(
            [gemini, "--yolo", *model, "-p", "Please look at this machine."],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **mock.environment},
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("Done.")
    assert mock.failures == []
    assert mock.turns_left == 0
    assert any(request.answer == "side" for request in mock.requests) is not bool(model)

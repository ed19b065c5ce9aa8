"""The workflows that other projects copy: well-formed, modest in what they ask for, and calling only what there is."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from reach.cli.main import cli
from reach.harness.choice import parse_harness_name

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))
RUNNERS_OWN = {"echo", "python", "sudo"}
"""Programs of the runner that a step may call, besides reach."""
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")


def _load(path: Path) -> dict[Any, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


def _steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in _load(path)["jobs"].values() for step in job["steps"]]


def _commands(script: str) -> Iterator[list[str]]:
    """The simple commands of SCRIPT, each as its words."""
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|&;"):
                yield words
                words = []
            else:
                words.append(word)
        if words:
            yield words


RUN_STEPS = [
    pytest.param(step["run"], id=f"{path.stem}-{step['name']}")
    for path in WORKFLOWS
    for step in _steps(path)
    if "run" in step
]
REACH_COMMANDS = [
    pytest.param(words[1:], id=" ".join(words))
    for step in RUN_STEPS
    for words in _commands(str(step.values[0]))
    if words[0] == "reach"
]


def test_there_is_a_workflow_that_runs_reach() -> None:
    assert WORKFLOWS
    assert REACH_COMMANDS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_asks_for_little_and_ends(path: Path) -> None:
    workflow = _load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert "secrets." not in path.read_text()
    assert "pull_request_target" not in workflow[True]  # YAML 1.1 takes `on` for a truth value
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 30


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_githubs_own_and_pinned_by_major_version(path: Path) -> None:
    used = [step["uses"] for step in _steps(path) if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", each) for each in used), used


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_report_is_uploaded_even_when_verify_fails(path: Path) -> None:
    [upload] = [step for step in _steps(path) if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert upload["if"] == "${{ !cancelled() }}"
    commands = [words for step in _steps(path) for words in _commands(step.get("run", ""))]
    written = [words[words.index("--junit") + 1] for words in commands if "--junit" in words]
    assert written == [upload["with"]["path"]]


@pytest.mark.parametrize("script", RUN_STEPS)
def test_a_step_is_a_script_that_bash_reads_and_calls_what_there_is(script: str) -> None:
    bash = shutil.which("bash")
    assert bash
    checked = subprocess.run([bash, "-n"], input=script, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert not EXPRESSION.search(script), "an expression in a script is a way in; hand it over by env"
    assert {words[0] for words in _commands(script)} <= {"reach", *RUNNERS_OWN}


@pytest.mark.parametrize("words", REACH_COMMANDS)
def test_a_command_of_reach_in_a_workflow_has_only_options_that_exist(words: list[str]) -> None:
    command: click.Command = cli
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(click.Context(command), words)
        assert found is not None
        assert name != "TARGET", "the short form would take a misspelt command for a host"
        command = found
    command.make_context(command.name, list(words))
    for word in words:
        if "@" in word:
            assert parse_harness_name(word)[1] == "latest"

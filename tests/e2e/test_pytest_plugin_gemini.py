"""reach's fixtures with the real Gemini CLI, in suites as other people have them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from support.suite import Suite

pytestmark = pytest.mark.gemini

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"


def _path_with(gemini: str) -> str:
    return f"{Path(gemini).parent}{os.pathsep}{os.environ['PATH']}"


def test_the_examples_of_the_page_pass(suite: Suite, gemini: str) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for number, example in enumerate(examples):
        suite.write(example, f"test_example_{number}.py")
    done = suite.run(PATH=_path_with(gemini))
    assert done.returncode == 0, done.stdout
    assert f"{len(examples)} passed" in done.stdout
    for fixture in ("reach_target", "reach_session", "mock_gemini"):
        assert any(fixture in example for example in examples)


def test_a_gemini_cli_started_by_hand_runs_its_commands_on_the_target(suite: Suite, gemini: str) -> None:
    suite.write(
        """
import subprocess

from mock_server import Turn


def test_it(reach_session, mock_gemini, tmp_path):
    mock_gemini.play(mock_gemini.shell("uname -n"), Turn(text="Done."))
    done = subprocess.run(
        ["gemini", "--yolo", "-p", "go"],
        env={**reach_session.environment, **mock_gemini.environment},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert reach_session.hostname in mock_gemini.results[0]
    assert [entry.exit_status for entry in reach_session.audit_log] == [0]
"""
    )
    done = suite.run(PATH=_path_with(gemini))
    assert done.returncode == 0, done.stdout


def test_a_gemini_cli_that_walks_past_the_seam_is_not_launched(suite: Suite, gemini: str) -> None:
    """Else the commands that the test gives the model would run here, and the test be none the wiser."""
    suite.write(
        f"""
def test_it(reach_session, mock_gemini, tmp_path):
    wrapper = tmp_path / "gemini"
    wrapper.write_text('#!/bin/sh\\nPATH=${{PATH#*:}}; export PATH; exec "{gemini}" "$@"\\n')
    wrapper.chmod(0o755)
    mock_gemini.play(mock_gemini.shell(f"touch {{tmp_path}}/ran-here"))
    done = reach_session.launch(
        "gemini", ["--yolo", "-p", "go"], environment=mock_gemini.environment, binary=wrapper
    )
    assert done.exit_code == 1
    assert "was not launched, it is bypassed" in done.stderr
    assert mock_gemini.requests == []
    assert not (tmp_path / "ran-here").exists()
"""
    )
    done = suite.run()
    assert done.returncode == 0, done.stdout

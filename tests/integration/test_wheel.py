from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.requirements import must_have_all
from support.suite import Suite

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an empty virtual environment into which the built wheel was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = subprocess.run(
        [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], capture_output=True, text=True
    )
    if built.returncode and not must_have_all():
        pytest.skip(f"pip can't build here: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    [wheel] = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([folder / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel], check=True)
    return folder / "venv/bin"


def test_the_wheel_holds_reach_the_shim_and_the_mock_server(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "REACH_HOME": str(tmp_path / "home")}
    environment.pop("PYTHONPATH", None)

    def reach(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [installed / "reach", *words], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    ran = reach("demo:", "echo by $0 in $BASH_EXECUTION_STRING")
    try:
        assert (ran.returncode, ran.stdout) == (0, "by bash in echo by $0 in $BASH_EXECUTION_STRING\n"), ran.stderr
        assert '"turns"' in reach("mock", "--schema").stdout
    finally:
        down = reach("down", "--all", "--forget")
    assert down.returncode == 0, down.stderr
    assert reach("status").stdout == "no sessions; type: reach up TARGET\n"


def test_the_wheel_brings_its_fixtures_to_pytest_beside_other_plugins(installed: Path, suite: Suite) -> None:
    suite.python = installed / "python"
    plugins = ["pytest", "pytest-asyncio", "pytest-xdist"]
    subprocess.run([suite.python, "-m", "pip", "install", "--quiet", *plugins], check=True)
    suite.write("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n", "pytest.ini")
    suite.write(
        """
import asyncio, json, os, urllib.request

from mock_server import Turn

async def test_in_a_loop(reach_session, mock_gemini):
    mock_gemini.play(Turn(text="hi"))
    ran = await asyncio.to_thread(reach_session.run, "uname -n")
    assert ran.stdout.strip() == reach_session.hostname
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "go"}]}]}).encode()
    request = urllib.request.Request(f"{mock_gemini.url}/v1beta/models/any:generateContent", body)
    with await asyncio.to_thread(urllib.request.urlopen, request) as answer:
        assert b"hi" in answer.read()

def test_on_the_other_worker(reach_session):
    assert reach_session.run("echo there").stdout == "there\\n"
    assert os.environ["PYTEST_XDIST_WORKER"]
"""
    )
    done = suite.run("-n", "2", "--dist", "each")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout

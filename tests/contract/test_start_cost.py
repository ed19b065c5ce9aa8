"""What must not be imported where a start is to cost little, told by name and not by time."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _imported(code: str) -> set[str]:
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("code", "costly"),
    [
        ("import reach.cli.main", {"pydantic", "paramiko", "importlib.metadata", "asyncio"}),
        (
            "from reach.cli.main import without_plugins\nwithout_plugins()\nimport reach.cli.binding",
            {"pydantic", "paramiko", "importlib.metadata", "asyncio"},
        ),
        (
            "import reach.broker.server, reach.ssh.connect",
            {"asyncio", "unittest.mock", "aiohttp", "rich", "click", "pydantic"},
        ),
        ("import reach.harness.launch, reach.probe.guard, reach.harness.registry", {"paramiko", "pydantic", "aiohttp"}),
        (
            "import reach.testing.plugin",
            {"pydantic", "paramiko", "aiohttp", "asyncio", "click", "yaml", "reach.paths", "mock_server"},
        ),
    ],
    ids=["help", "up", "broker", "launch", "pytest-plugin"],
)
def test_a_start_imports_nothing_costly(code: str, costly: set[str]) -> None:
    assert not _imported(code) & costly

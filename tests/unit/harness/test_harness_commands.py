from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reach.errors import ConfigError
from reach.harness.choice import parse_harness_name
from support.unprivileged import bound_by_modes

Reach = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def reach(tmp_path: Path, make_program: Callable[[str, str], Path]) -> Reach:
    """The reach command with a REACH_HOME that has versions 0.9.0 and 0.10.0 installed, and nothing on PATH."""
    for version in ("0.9.0", "0.10.0"):
        make_program(f"reach/data/harness/gemini/{version}/bin/gemini", "#!/bin/sh\necho 0.0.0\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            bound_by_modes([sys.executable, "-c", "from reach.cli import main; main()", "harness", *arguments]),
            env={**os.environ, "PATH": str(tmp_path / "tools"), "REACH_HOME": str(tmp_path / "reach")},
            capture_output=True,
            text=True,
        )

    return run


def test_list_shows_what_is_on_path_and_what_reach_installed(
    reach: Reach, make_program: Callable[[str, str], Path]
) -> None:
    make_program("tools/gemini", "#!/bin/sh\necho 1.2.3\n")
    rows = json.loads(reach("list", "--json").stdout)
    assert [(row["version"], row["source"]) for row in rows] == [
        ("1.2.3", "PATH"),
        ("0.9.0", "reach"),
        ("0.10.0", "reach"),
    ]
    assert "0.10.0" in reach("list").stdout


def test_install_of_one_that_is_there_prints_its_path_alone(reach: Reach, tmp_path: Path) -> None:
    done = reach("install", "gemini@0.9.0", "--print-path")
    assert done.stdout == f"{tmp_path}/reach/data/harness/gemini/0.9.0/bin/gemini\n"
    assert "there already" in done.stderr
    assert "--harness-version 0.9.0" in reach("install", "gemini@0.9.0").stdout


def test_remove_takes_one_version_away(reach: Reach) -> None:
    assert reach("remove", "gemini@0.9.0").stdout == "Gemini CLI 0.9.0 is removed\n"
    assert [row["version"] for row in json.loads(reach("list", "--json").stdout)] == ["0.10.0"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["install", "gemini@"], 2, "names no version"),
        (["install", "nonesuch"], 2, "no harness named 'nonesuch'"),
        (["remove", "gemini"], 2, "names no version"),
        (["remove", "gemini@latest"], 2, "names no version"),
        (["remove", "gemini@7.7.7"], 125, "not installed by reach; see what is, with: reach harness list"),
        (["remove", "gemini@../x"], 2, "'../x' is no version"),
        (["remove", "gemini@0.61"], 2, "'0.61' is no version; write it like 1.2.3: gemini@1.2.3"),
        (["verify", "codex"], 2, "no harness named 'codex'; reach knows gemini"),
        (["verify", "gemini", "--junit", ""], 2, "--junit names no file; give it one: --junit verify.xml"),
        (["verify", "gemini", "--junit", "/gone/to/j.xml"], 2, "no folder '/gone/to'; type: mkdir -p /gone/to"),
        (["verify", "gemini", "--junit", "/dev/null/j.xml"], 2, "no folder '/dev/null'; name a file in another folder"),
        (["install", "@google/gemini-cli@0.61.0"], 2, "no harness named '@google/gemini-cli'; reach knows gemini"),
    ],
)
def test_what_cant_be_is_said_in_one_line(reach: Reach, arguments: list[str], code: int, said: str) -> None:
    done = reach(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_name_may_carry_a_version() -> None:
    assert parse_harness_name("gemini")[1] is None
    assert parse_harness_name("gemini@1.2.3")[1] == "1.2.3"
    with pytest.raises(ConfigError):
        parse_harness_name("other@1.2.3")


@pytest.mark.parametrize("command", ["install", "remove"])
@pytest.mark.parametrize(
    ("closed", "mode", "fix"), [("", 0o500, "chmod u+rwx"), (".lock", 0o400, "chmod u+rw")], ids=["folder", "lock"]
)
def test_a_folder_that_is_closed_is_named_with_what_opens_it(
    reach: Reach,
    tmp_path: Path,
    make_program: Callable[[str, str], Path],
    command: str,
    closed: str,
    mode: int,
    fix: str,
) -> None:
    make_program("tools/node", "#!/bin/sh\necho /node; echo 22.0.0\n")
    make_program("tools/npm", "#!/bin/sh\n")
    version = "0.9.0" if command == "remove" else "0.11.0"
    folder = tmp_path / "reach" / "data" / "harness" / "gemini"
    (folder / ".lock").touch()
    (folder / closed).chmod(mode)
    try:
        done = reach(command, f"gemini@{version}")
    finally:
        folder.chmod(0o700)
    where = str(folder / closed) if closed else str(folder)
    assert done.returncode == 125
    assert done.stderr.endswith(f"reach: {where!r} is closed to you: Permission denied; type: {fix} {where}\n")
    assert (folder / "0.9.0" / "bin" / "gemini").is_file()


def test_a_junit_file_that_cant_be_written_is_said_before_anything_is_probed(reach: Reach, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    done = reach("verify", "gemini", "--junit", str(closed / "j.xml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{closed}/j.xml' can't be written; name a file in a folder of yours" in done.stderr

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reach.harness.base import Place
from reach.harness.dotenv import load_dotenv, parse_dotenv
from reach.harness.gemini import GeminiHarness
from reach.harness.gemini.environment import REMOVED, launch_variables
from reach.harness.gemini.versions import abilities

MakePlace = Callable[..., Place]


def variables(place: Place, environment: dict[str, str] | None = None, version: str = "0.61.0") -> dict[str, str]:
    return launch_variables(place, environment or {}, abilities(version))


@pytest.mark.parametrize(
    "name",
    [
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "SANDBOX",
        "GEMINI_SYSTEM_MD",
        "GEMINI_CLI_TRUST_WORKSPACE",
        "GEMINI_CLI_IDE_WORKSPACE_PATH",
        "GEMINI_PROJECT_DIR",
        "GEMINI_SESSION_ID",
        "GEMINI_CWD",
    ],
)
def test_a_variable_that_would_open_the_seam_is_removed(make_place: MakePlace, name: str) -> None:
    assert name in GeminiHarness().prepare(make_place(), None, {}).remove_environment


def test_home_and_sandbox_are_set_so_that_nothing_else_can(make_place: MakePlace) -> None:
    place = make_place()
    found = variables(place, {"GEMINI_CLI_HOME": "/elsewhere", "GEMINI_SANDBOX": "docker"})
    assert found["HOME"] == found["GEMINI_CLI_HOME"] == str(place.home)
    assert found["GEMINI_SANDBOX"] == "false"


def test_the_folder_is_trusted_by_variable_only_where_there_is_no_option(make_place: MakePlace) -> None:
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in variables(make_place())
    assert variables(make_place(), version="0.35.0")["GEMINI_CLI_TRUST_WORKSPACE"] == "true"


@pytest.mark.parametrize("where", [".gemini/.env", ".env"])
def test_the_key_in_the_operators_own_dotenv_is_kept_and_other_lines_are_not(make_place: MakePlace, where: str) -> None:
    place = make_place()
    assert place.operator_home
    (place.operator_home / where).write_text("GEMINI_API_KEY=from-file\nGEMINI_SYSTEM_MD=1\nPATH=/evil\nOTHER=x\n")
    assert variables(place)["GEMINI_API_KEY"] == "from-file"
    assert "GEMINI_API_KEY" not in variables(place, {"GEMINI_API_KEY": "set"})
    assert not {"GEMINI_SYSTEM_MD", "PATH", "OTHER"} & variables(place).keys()


def test_a_probe_reads_no_dotenv_of_the_operators(make_place: MakePlace) -> None:
    place = make_place()
    assert place.operator_home
    (place.operator_home / ".env").write_text("GEMINI_API_KEY=secret")
    assert "GEMINI_API_KEY" not in variables(make_place(operator_home=None))


def test_what_a_projects_dotenv_would_set_is_set_before_the_launch(make_place: MakePlace) -> None:
    """Set by the harness itself it would count as the harness's own and travel to the target."""
    place = make_place(is_managed_workspace=False)
    (place.workspace / ".gemini").mkdir()
    (place.workspace / ".gemini" / ".env").write_text("SECRET_TOKEN=abc\nGEMINI_SANDBOX=docker\nSANDBOX=1")
    (place.workspace / ".env").write_text('SECRET_TOKEN=other\nMORE="two\\nlines"\nGEMINI_SYSTEM_MD=1\nHOME=/x')
    (place.workspace.parent / ".env").write_text("ABOVE=1\nMORE=x")
    found = variables(place, {"SET": "1"})
    assert found["SECRET_TOKEN"] == "abc"
    assert found["MORE"] == "two\nlines"
    assert found["ABOVE"] == "1"
    assert found["GEMINI_SANDBOX"] == "false"
    assert found["HOME"] == str(place.home)
    assert found["SANDBOX"] == found["GEMINI_SYSTEM_MD"] == ""


def test_a_managed_workspace_has_no_project(make_place: MakePlace) -> None:
    place = make_place()
    (place.workspace / ".env").write_text("X=1")
    assert "X" not in variables(place)


def test_gclouds_folder_is_named_where_there_is_one(make_place: MakePlace) -> None:
    place = make_place()
    assert place.operator_home
    assert "CLOUDSDK_CONFIG" not in variables(place)
    (place.operator_home / ".config" / "gcloud").mkdir(parents=True)
    assert variables(place)["CLOUDSDK_CONFIG"] == str(place.operator_home / ".config" / "gcloud")
    assert "CLOUDSDK_CONFIG" not in variables(place, {"CLOUDSDK_CONFIG": "/set"})


def test_what_is_set_is_not_also_removed(make_place: MakePlace) -> None:
    assert not variables(make_place()).keys() & REMOVED


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1", {"A": "1"}),
        ("export A=1\r\nB = two words # note\n", {"A": "1", "B": "two words"}),
        ("A='x # y'\nB=\"a\\nb\"\nC=`t`", {"A": "x # y", "B": "a\nb", "C": "t"}),
        ("A=\nB", {"A": ""}),
        ("# A=1\n  \nB: 2", {"B": "2"}),
        ("A=1\nA=2", {"A": "2"}),
        ('A="line\nline"', {"A": "line\nline"}),
        ("A=x=y", {"A": "x=y"}),
    ],
)
def test_a_dotenv_is_read_as_the_dotenv_package_reads_it(text: str, found: dict[str, str]) -> None:
    assert parse_dotenv(text) == found


def test_a_dotenv_that_cant_be_read_sets_nothing(tmp_path: Path) -> None:
    assert load_dotenv(tmp_path / "absent") == load_dotenv(tmp_path) == {}
    (tmp_path / "odd").write_bytes(b"A=\xff\n")
    assert load_dotenv(tmp_path / "odd") == {"A": "\udcff"}

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reach.errors import ConfigError, HarnessError
from reach.harness import launch as launch_module
from reach.harness.launch import PreparedLaunch, execute, prepare_launch
from reach.harness.registry import get_harness
from reach.harness.target_context import TargetContext
from reach.harness.version_managers import version_manager_variables
from reach.paths import Paths
from reach.session import Session
from reach.session.launch import launch_folder, load_launch

GEMINI = get_harness("gemini")
Prepare = Callable[..., PreparedLaunch]


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's home, as the account database would have it."""
    home = tmp_path / "operator"
    home.mkdir()
    monkeypatch.setattr(launch_module, "operator_home", lambda: home)
    return home


@pytest.fixture
def prepare(paths: Paths, session: Session, operator: Path, make_program: Callable[[str, str], Path]) -> Prepare:
    program = make_program("npm/gemini", "#!/bin/sh\necho 0.61.0\n")

    def call(**parts: Any) -> PreparedLaunch:
        defaults: dict[str, Any] = {
            "workspace": None,
            "arguments": [],
            "environment": {"PATH": "/usr/bin:/bin", "HOME": str(operator)},
            "binary": program,
        }
        return prepare_launch(paths, session, GEMINI, **(defaults | parts))

    return call


def test_the_shim_is_first_on_path_and_the_rest_is_as_it_was(
    prepare: Prepare, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepared = prepare(environment={"PATH": "/opt/other session/bin:relative::/usr/bin:/usr/bin"})
    first, *rest = prepared.env["PATH"].split(":")
    assert Path(first) == launch_folder(paths, "box", prepared.launch_id) / "bin"
    assert os.access(Path(first) / "bash", os.X_OK)
    assert rest == ["/opt/other session/bin", str(tmp_path / "relative"), str(tmp_path), "/usr/bin", "/usr/bin"]


def test_the_record_knows_the_launch_environment_by_digest_alone(prepare: Prepare, paths: Paths) -> None:
    prepared = prepare(
        environment={"PATH": "/usr/bin", "MY_SECRET": "hunter2-value"}, extra_env={"PROOF": "p"}, local_hooks=True
    )
    record = load_launch(paths, "box", prepared.launch_id)
    assert record
    for name, value in prepared.env.items():
        assert record.is_operators(os.fsencode(name), os.fsencode(value)), name
    assert not record.is_operators(b"MY_SECRET", b"other")
    assert record.workspace == str(prepared.cwd)
    assert record.pid == os.getpid()
    assert record.extra_env == {"PROOF": "p"}
    assert record.local_hooks
    assert "hunter2-value" not in (launch_folder(paths, "box", prepared.launch_id) / "launch.json").read_text()
    assert "PROOF" not in prepared.env


def test_variables_that_undo_the_launch_do_not_reach_the_harness(prepare: Prepare, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    hostile = {
        "PATH": "/usr/bin",
        "HOME": elsewhere,
        "GEMINI_CLI_HOME": elsewhere,
        "GEMINI_SANDBOX": "docker",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": "/x.json",
        "GEMINI_SYSTEM_MD": "1",
        "SANDBOX": "1",
        "BASH_ENV": "/x",
        "ENV": "/x",
        "OLDPWD": "/home/me/secret-project",
        "GEMINI_PROJECT_DIR": "/x",
    }
    prepared = prepare(environment=hostile | {"GEMINI_API_KEY": "k", "TERM": "xterm", "ODD": "\udcff"})
    assert prepared.env["HOME"] == prepared.env["GEMINI_CLI_HOME"] != elsewhere
    assert prepared.env["GEMINI_SANDBOX"] == "false"
    assert not {"GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_SYSTEM_MD", "SANDBOX", "BASH_ENV", "ENV", "OLDPWD"} & set(
        prepared.env
    )
    assert "GEMINI_PROJECT_DIR" not in prepared.env
    assert prepared.env["PWD"] == str(prepared.cwd)
    assert (prepared.env["GEMINI_API_KEY"], prepared.env["TERM"], prepared.env["ODD"]) == ("k", "xterm", "\udcff")


def test_the_home_is_reached_by_a_path_that_tells_nothing_of_the_operator(prepare: Prepare, paths: Paths) -> None:
    prepared = prepare()
    home = Path(prepared.env["HOME"])
    assert home.parent == paths.runtime / ".homes"
    assert home.resolve() == (paths.session_state("box") / "home").resolve()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_the_arguments_of_reach_come_before_the_operators(prepare: Prepare) -> None:
    prepared = prepare(arguments=["-p", "--", "x"])
    assert prepared.version == "0.61.0"
    assert prepared.argv[1:] == [*prepared.preparation.arguments, "-p", "--", "x"]
    assert Path(prepared.argv[0]).is_absolute()


def test_a_refused_argument_leaves_no_launch_behind(prepare: Prepare, paths: Paths) -> None:
    with pytest.raises(ConfigError, match="--sandbox"):
        prepare(arguments=["--sandbox"])
    assert not list(paths.session_launches("box").glob("*"))


def test_the_managed_workspace_has_the_targets_folders_and_the_home_its_instructions(
    prepare: Prepare, paths: Paths
) -> None:
    prepared = prepare(context=TargetContext([b"src", b"src/inner"], "Use tabs."), nonce="n0")
    assert prepared.cwd == paths.session_state("box") / "workspace"
    assert (prepared.cwd / "src" / "inner").is_dir()
    told = (Path(prepared.env["HOME"]) / ".gemini" / "GEMINI.md").read_text()
    assert "Use tabs." in told
    assert "[reach canary n0]" in told


def test_a_local_workspace_is_used_as_it_is(prepare: Prepare, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    assert prepare(workspace=tmp_path / "link").cwd == folder
    assert list(folder.iterdir()) == []
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(HarnessError, match="--workspace"):
            prepare(workspace=wrong)


def test_the_operators_own_gemini_home_is_read_and_a_managed_one_is_not(
    prepare: Prepare, paths: Paths, tmp_path: Path, operator: Path
) -> None:
    own = tmp_path / "own"
    for home, theme in ((own, "Own"), (operator, "Usual"), (paths.state / "other", "Managed")):
        (home / ".gemini").mkdir(parents=True)
        (home / ".gemini" / "settings.json").write_text(f'{{"ui": {{"theme": "{theme}"}}}}')

    def theme_with(home: str) -> str:
        prepared = prepare(environment={"PATH": "/usr/bin", "GEMINI_CLI_HOME": home})
        return (Path(prepared.env["HOME"]) / ".gemini" / "settings.json").read_text().split('"theme": "')[1][:4]

    assert theme_with(str(own)) == 'Own"'
    assert theme_with("") == theme_with("relative") == theme_with(str(paths.state / "other")) == "Usua"
    inherited = prepare().env["GEMINI_CLI_HOME"]
    assert theme_with(inherited) == "Usua"


def test_a_probe_in_a_folder_of_its_own_leaves_the_sessions_home_alone(
    prepare: Prepare, paths: Paths, tmp_path: Path
) -> None:
    prepared = prepare(root=tmp_path / "probe", is_probe=True, arguments=["--yolo"])
    assert Path(prepared.env["HOME"]).resolve() == tmp_path / "probe" / "home"
    assert prepared.cwd == tmp_path / "probe" / "workspace"
    assert not (paths.session_state("box") / "home").exists()


def test_version_managers_keep_finding_what_is_in_the_operators_home(prepare: Prepare, operator: Path) -> None:
    (operator / ".asdf").mkdir()
    (operator / ".nvm").mkdir()
    (operator / ".tool-versions").write_text("nodejs 20.0.0\n")
    prepared = prepare(environment={"PATH": "/usr/bin", "NVM_DIR": "/opt/nvm"})
    assert prepared.env["ASDF_DATA_DIR"] == str(operator / ".asdf")
    assert prepared.env["NVM_DIR"] == "/opt/nvm"
    assert "VOLTA_HOME" not in prepared.env
    assert (Path(prepared.env["HOME"]) / ".tool-versions").read_text() == "nodejs 20.0.0\n"
    assert version_manager_variables({"ASDF_DATA_DIR": "x", "NVM_DIR": "y"}, operator) == {}


def test_a_program_that_cant_be_started_is_an_error_that_names_it(
    prepare: Prepare, make_program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = make_program("broken", "#!/nonexistent/interpreter\n")
    with pytest.raises(HarnessError, match="broken can't be started"):
        execute(prepare(binary=broken))

"""`reach gemini` with the real Gemini CLI, a mock of its API, a real sshd and everything in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mock_server import Call, MockServer, Script, Turn
from reach.harness.binary import read_version
from reach.harness.gemini.tools import ALLOWED
from reach.harness.gemini.versions import abilities
from reach.harness.registry import get_harness
from support.session import ReachSession, quiet_sshd

pytestmark = [pytest.mark.sshd, pytest.mark.gemini]

RUN_TIMEOUT_S = 150.0
REACH = [sys.executable, "-c", "from reach.cli import main; main()"]
OPERATORS_WORD = "operators-own-instructions"
LOCAL_WORD = "content-of-a-local-file"
PROJECT_WORD = "rules-of-a-local-project"
LEFT_WORD = "left-by-an-earlier-run"
DOTENV_WORD = "secret-of-a-dotenv"
TARGET_WORD = "rules-of-the-target"


@dataclass(frozen=True)
class Ran:
    exit_code: int
    out: str
    err: str
    bodies: list[str]
    """The requests that carried a conversation, as JSON text."""
    tools: set[str]
    """Every tool that any of them advertised."""
    results: list[str]
    """What each call of the model gave, in order."""


@dataclass(frozen=True)
class Bench:
    """A session, the project on its target, an operator with a home that is full of traps, a folder likewise."""

    session: ReachSession
    project: Path
    operator: Path
    trap: Path
    gemini: str

    def run(
        self, *calls: Call, options: tuple[str, ...] = (), extra: Mapping[str, str] | None = None, prompt: str = "go"
    ) -> Ran:
        script = Script(turns=[*(Turn(calls=[call]) for call in calls), Turn(text="That is all.")])
        with MockServer(script) as mock:
            done = subprocess.run(
                [*REACH, "gemini", "--session", self.session.name, *options]
                + ["--", "--yolo", "-m", "gemini-2.5-pro", "-p", prompt],
                env=self.environment() | mock.environment | dict(extra or {}),
                cwd=self.trap,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=RUN_TIMEOUT_S,
            )
            asked = [request for request in mock.requests if request.reading.system_text]
        responses = asked[-1].reading.function_responses if asked else ()
        return Ran(
            done.returncode,
            done.stdout,
            done.stderr,
            [json.dumps(request.body) for request in asked],
            {name for request in asked for name in request.reading.tool_names},
            [response.text for response in responses],
        )

    def environment(self) -> dict[str, str]:
        """The operator's: every variable in it has been seen to lead a harness astray, or a shim."""
        kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return kept | {
            "PATH": f"{Path(self.gemini).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.operator),
            "LANG": "C.UTF-8",
            "REACH_HOME": str(self.session.home),
            "REACH_SESSION": "another",
            "GEMINI_CLI_HOME": str(self.operator),
            "GEMINI_SANDBOX": "docker",
            "SANDBOX": "",
            "GEMINI_SYSTEM_MD": str(self.operator / "notes.txt"),
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(self.trap / ".gemini" / "settings.json"),
            "GEMINI_CLI_TRUST_WORKSPACE": "false",
            "GEMINI_CLI_IDE_WORKSPACE_PATH": str(self.trap),
            "GEMINI_PROJECT_DIR": str(self.trap),
            "GITHUB_SHA": "abc",
        }

    @property
    def marks(self) -> list[str]:
        """Which programs of the project's settings were started on this machine."""
        return sorted(path.name for path in self.trap.parent.glob("ran-*"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, gemini: str) -> Iterator[Bench]:
    # Not below pytest's folders: a home's path is what must not be told.
    root = tmp_path_factory.mktemp("launch")
    project = root / "on-the-target"
    (project / "src" / "a b").mkdir(parents=True)
    (project / "GEMINI.md").write_text(f"{TARGET_WORD}\n@notes.txt\n@{root}/operator/notes.txt\n")
    operator, trap = root / "operator", root / "trap"
    for folder in (operator, trap):
        (folder / ".gemini").mkdir(parents=True)
        (folder / "notes.txt").write_text(LOCAL_WORD)
        (folder / ".env").write_text(f"MY_DOTENV={DOTENV_WORD}\nGEMINI_SANDBOX=podman\nSANDBOX=1\n")
    (operator / ".gemini" / "GEMINI.md").write_text(OPERATORS_WORD)
    (operator / ".gemini" / "settings.json").write_text(
        json.dumps(
            {
                "ui": {"theme": "Dracula"},
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "tools": {"core": ["read_file"], "exclude": ["run_shell_command"]},
                "mcpServers": {"trap": {"command": "touch", "args": [str(root / "ran-operators-mcp")]}},
            }
        )
    )
    (trap / "GEMINI.md").write_text(PROJECT_WORD)
    (trap / ".gemini" / "settings.json").write_text(json.dumps(project_settings(root)))
    with quiet_sshd() as server, ReachSession(server, folder=str(project), name="far") as session:
        yield Bench(session, project, operator, trap, gemini)


def project_settings(root: Path) -> dict[str, Any]:
    hook = [{"hooks": [{"type": "command", "command": f"touch {root}/ran-hook"}]}]
    return {
        "tools": {
            "core": ["read_file", "write_file", "glob"],
            "exclude": [],
            "sandbox": "docker",
            "discoveryCommand": f"sh -c 'touch {root}/ran-discovery; echo []'",
        },
        "mcpServers": {"trap": {"command": "touch", "args": [str(root / "ran-mcp")], "trust": True}},
        "mcp": {"allowed": ["trap"]},
        "hooksConfig": {"enabled": True},
        "hooks": {"SessionStart": hook, "BeforeTool": hook},
        "context": {"includeDirectoryTree": True, "includeDirectories": ["/etc/ssh"]},
        "security": {"folderTrust": {"enabled": True}},
    }


def shell(command: str, **arguments: str) -> Call:
    return Call(name="run_shell_command", args={"command": command, **arguments})


@pytest.fixture(scope="module")
def plain_run(bench: Bench) -> Ran:
    """One launch from the operator's folder of traps, looked at by several tests."""
    return bench.run(
        shell("hostname; pwd"),
        shell("pwd", dir_path="src/a b"),
        shell("env"),
        Call(name="read_file", args={"file_path": "GEMINI.md", "absolute_path": str(bench.operator / "notes.txt")}),
        Call(name="write_file", args={"file_path": "made.txt", "content": "x"}),
        prompt=f"look at @notes.txt and @{bench.operator}/notes.txt",
    )


def test_commands_run_on_the_target_in_the_folder_they_name(bench: Bench, plain_run: Ran) -> None:
    assert plain_run.exit_code == 0, plain_run.err
    assert plain_run.out.strip() == "That is all."
    assert f"{bench.session.server.hostname}\n{bench.project}\n" in plain_run.results[0]
    assert f"{bench.project}/src/a b\n" in plain_run.results[1]


def test_nothing_of_the_operators_is_told_to_the_model(bench: Bench, plain_run: Ran) -> None:
    assert plain_run.bodies
    told = "\n".join(plain_run.bodies)
    for word in (OPERATORS_WORD, LOCAL_WORD, PROJECT_WORD, DOTENV_WORD):
        assert word not in told, word
    local_paths = [str(bench.trap), str(bench.session.home / "state"), str(Path.home() / ".gemini")]
    first = plain_run.bodies[0].replace(f"@{bench.operator}/notes.txt", "")  # the prompt's own words
    for path in (*local_paths, str(bench.operator)):
        assert path not in first, path


def test_the_model_is_told_the_targets_name_folder_folders_and_instructions(bench: Bench, plain_run: Ran) -> None:
    first = plain_run.bodies[0]
    for text in (bench.session.server.hostname, str(bench.project), "`src/a b/`", TARGET_WORD):
        assert text in first, text


def test_only_the_allowed_tools_are_on_offer_and_others_do_nothing(bench: Bench, plain_run: Ran) -> None:
    assert "run_shell_command" in plain_run.tools <= set(ALLOWED)
    for result in plain_run.results[3:5]:
        assert "not found" in result or "denied" in result, result
    assert not list(bench.session.home.rglob("made.txt"))


def test_no_variable_of_the_operators_reaches_the_target(plain_run: Ran) -> None:
    seen = plain_run.results[2]
    assert "PATH=" in seen
    for word in (DOTENV_WORD, "GEMINI_API_KEY", "GEMINI_CLI_HOME", "GITHUB_SHA", "REACH_HOME"):
        assert word not in seen, word


def test_the_operators_taste_is_kept_and_their_programs_are_not_started(bench: Bench, plain_run: Ran) -> None:
    home = bench.session.paths.session_state("far") / "home" / ".gemini"
    assert json.loads((home / "settings.json").read_text())["ui"]["theme"] == "Dracula"
    assert (home / "installation_id").is_symlink()
    assert bench.marks == []


def test_a_projects_own_settings_open_nothing(bench: Bench) -> None:
    ran = bench.run(
        shell("hostname"),
        Call(name="read_file", args={"file_path": "notes.txt"}),
        shell("env"),
        options=("--workspace", str(bench.trap)),
    )
    assert bench.marks == []
    if not abilities(read_version(get_harness("gemini"), Path(bench.gemini), os.environ)).skip_trust:
        assert ran.exit_code == 2
        assert "sets tools.core" in ran.err
        return
    assert ran.exit_code == 0, ran.err
    assert bench.session.server.hostname in ran.results[0]
    assert "run_shell_command" in ran.tools <= set(ALLOWED)
    assert LOCAL_WORD not in "\n".join(ran.bodies)
    assert DOTENV_WORD not in ran.results[2]


def test_a_file_left_in_the_managed_workspace_is_moved_away_and_not_told(bench: Bench, plain_run: Ran) -> None:
    workspace = bench.session.paths.session_state("far") / "workspace"
    (workspace / "GEMINI.md").write_text(LEFT_WORD)
    (workspace / "src" / "left.txt").write_text(LEFT_WORD)
    ran = bench.run(shell("true"), prompt="look at @src/left.txt")
    assert ran.exit_code == 0, ran.err
    assert LEFT_WORD not in "\n".join(ran.bodies)
    assert "left-behind" in ran.err
    kept = [path.name for path in (workspace.parent / "left-behind").rglob("*") if path.is_file()]
    assert sorted(kept) == ["GEMINI.md", "left.txt"]


def test_a_wrapper_script_starts_it_with_the_seam_armed(bench: Bench, tmp_path: Path) -> None:
    wrapper = tmp_path / "shims" / "gemini"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/usr/bin/env bash\nset -eu\nversion=$(bash -c "echo" || true)\nexec "{bench.gemini}" "$@"\n')
    wrapper.chmod(0o755)
    ran = bench.run(shell("hostname"), options=("--binary", str(wrapper)))
    assert ran.exit_code == 0, ran.err
    assert bench.session.server.hostname in ran.results[0]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--", "--sandbox"], 2, "--sandbox is refused"),
        (["-s"], 2, "-s is refused"),
        (["mcp", "list"], 2, "gemini mcp is refused"),
        (["--session", "nonesuch"], 2, "no session named"),
        (["--binary", "/nonexistent/gemini"], 125, "no program"),
        (["--harness-version", "0.0.1"], 125, "reach harness install gemini@0.0.1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_launch_that_can_not_be_says_why_in_one_line(
    bench: Bench, arguments: list[str], code: int, said: str
) -> None:
    done = subprocess.run([*REACH, "gemini", *arguments], env=bench.environment(), capture_output=True, text=True)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_damaged_settings_of_the_operators_are_named_and_left_alone(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"ui": {')
    ran = bench.run(extra={"GEMINI_CLI_HOME": str(tmp_path)})
    assert ran.exit_code == 125
    assert str(path) in ran.err.splitlines()[-1]
    assert path.read_text() == '{"ui": {'

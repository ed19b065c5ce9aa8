from __future__ import annotations

import pytest

from reach.errors import ConfigError
from reach.harness.gemini.arguments import check_arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sandbox"],
        ["-s"],
        ["--sandbox=true"],
        ["--sandbox=docker"],
        ["-s=true"],
        ["-sfoo"],
        ["-ys"],
        ["-sy"],
        ["-dys", "-p", "x"],
        ["--sandbox.x=1"],
        ["--sandbox-image", "x"],
        ["--sandboxImage=x"],
        ["-p", "hello", "--sandbox"],
        ["--admin-policy", "x.toml"],
        ["--admin-policy=x.toml"],
        ["--adminPolicy=x.toml"],
        ["--policy", "x.toml"],
        ["--include-directories", "/home"],
        ["--includeDirectories=/home"],
        ["--all-files"],
        ["--all_files"],
        ["-a"],
        ["-e", "ext"],
        ["--extensions=ext"],
        ["--allowed-mcp-server-names", "x"],
        ["--allowedMcpServerNames=x"],
        ["--acp"],
        ["--experimental-acp"],
        ["--session-file=x.json"],
        ["-w"],
        ["--worktree=x"],
        ["--allowed-tools", "read_file"],
        ["--allowed-tools=write_file"],
        ["--allowed-tools", "run_shell_command,read_file"],
        ["--allowed-tools", "run_shell_command", "glob"],
        ["--allowedTools=glob", "--allowed-tools"],
    ],
    ids=" ".join,
)
def test_an_argument_past_the_seam_is_refused_by_name(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match="refused") as refusal:
        check_arguments(arguments)
    assert any(argument.split("=")[0] in refusal.value.message for argument in arguments if argument.startswith("-"))
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-p", "run sandbox and policy checks"],
        ["--yolo", "-m", "gemini-2.5-pro", "-p", "x"],
        ["-i", "hello"],
        ["--approval-mode=auto_edit"],
        ["-o", "json"],
        ["--resume", "latest"],
        ["-r", "3"],
        ["--list-sessions"],
        ["--no-sandbox"],
        ["--allowed-tools", "run_shell_command"],
        ["--allowed-tools", "run_shell_command(git status, quietly)"],
        ["--allowed-tools=ShellTool,read_background_output"],
        ["--", "--sandbox", "is a word here"],
        ["explain --sandbox to me"],
        ["-m", "mcp"],
        ["-p", "extensions"],
        ["-"],
    ],
    ids=" ".join,
)
def test_an_argument_that_keeps_to_the_seam_passes(arguments: list[str]) -> None:
    check_arguments(arguments)


@pytest.mark.parametrize("word", ["mcp", "extensions", "extension", "skills", "hooks", "gemma"])
def test_a_subcommand_that_changes_the_managed_home_is_refused(word: str) -> None:
    for arguments in ([word], [word, "add", "x"], ["-d", word], ["-m", "x", word]):
        with pytest.raises(ConfigError, match=f"gemini {word} is refused"):
            check_arguments(arguments)
    check_arguments(["what is", word])

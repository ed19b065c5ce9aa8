"""Which of Gemini CLI's arguments may be passed on.

The options are those of 0.1.22 to 0.61.0. yargs, which parses them, also takes `--camelCase` for
`--kebab-case` and letters run together behind one dash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reach.errors import ConfigError
from reach.harness.gemini.tools import ALLOWED

_SANDBOX = (
    "it would start Gemini CLI again inside a container, where commands run in the container and not on the target"
)
_LOCAL_FILES = "it would show files of this machine to the model as if they were the target's"
_TOOLS = "it could give the model a tool that works on this machine"

_REFUSED = {
    "sandbox": _SANDBOX,
    "sandbox-image": _SANDBOX,
    "admin-policy": "reach passes its own, which is what keeps the local tools away; a second one could undo it",
    "policy": "a policy outranks the settings that keep the local tools away",
    "extensions": "an extension brings tools and context files that work on this machine",
    "allowed-mcp-server-names": "an MCP server is a program on this machine",
    "include-directories": _LOCAL_FILES,
    "all-files": _LOCAL_FILES,
    "session-file": "a conversation held elsewhere speaks of another machine's files",
    "acp": "the editor that drives Gemini CLI so hands it files of this machine",
    "experimental-acp": "the editor that drives Gemini CLI so hands it files of this machine",
    "worktree": "it makes a git worktree on this machine",
}
"""Long option → why it is refused. What isn't listed only changes how Gemini CLI looks or which model it
asks."""

_SHORT = {"s": "sandbox", "e": "extensions", "a": "all-files", "w": "worktree"}

_TAKES_VALUE = {
    "model", "m", "prompt", "p", "prompt-interactive", "i", "approval-mode", "resume", "r", "session-id",
    "delete-session", "output-format", "o", "proxy", "telemetry-target", "telemetry-otlp-endpoint",
    "telemetry-otlp-protocol", "telemetry-outfile",
}  # fmt: skip

_SUBCOMMANDS = {"mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"}

_ALLOWED_TOOL = re.compile(rf"(?:{'|'.join(ALLOWED)}|ShellTool)(?:\(.*\))?", re.DOTALL)


def check_arguments(arguments: Sequence[str]) -> None:
    """Raises: ConfigError, naming the argument and the reason."""
    option_part = _before_double_dash(arguments)
    for argument in option_part:
        for option in _options_in(argument):
            if option in _REFUSED:
                raise ConfigError(f"gemini {argument} is refused: {_REFUSED[option]}", fix="leave it out")
    _check_allowed_tools(option_part)
    subcommand = _first_positional(option_part)
    if subcommand in _SUBCOMMANDS:
        raise ConfigError(
            f"gemini {subcommand} is refused: it would change what the managed home of a session keeps away",
            fix=f"for your own Gemini CLI type: gemini {subcommand}",
        )


def _before_double_dash(arguments: Sequence[str]) -> list[str]:
    """What is read as options: yargs takes everything after `--` for plain words."""
    rest = list(arguments)
    return rest[: rest.index("--")] if "--" in rest else rest


def _options_in(argument: str) -> Iterator[str]:
    """The long names that ARGUMENT sets: one of `--name`, `--name=value`, `--camelName`, `-abc`,
    `-a=value`."""
    if argument.startswith("--"):
        name = re.split(r"[=.]", argument[2:], maxsplit=1)[0]
        yield re.sub(r"([A-Z])", lambda m: "-" + m[1].lower(), name).replace("_", "-")
    elif argument.startswith("-"):
        letters = re.match(r"-([A-Za-z]*)", argument)
        for letter in letters[1] if letters else "":
            yield _SHORT.get(letter, letter)


def _check_allowed_tools(arguments: Sequence[str]) -> None:
    """`--allowed-tools` runs tools without asking; it may name the shell and nothing else."""
    values: list[str] = []
    collecting = False
    for argument in arguments:
        if argument.startswith("-"):
            collecting = "allowed-tools" in _options_in(argument)
            if collecting and "=" in argument:
                values.append(argument.partition("=")[2])
        elif collecting:
            values.append(argument)
    for value in values:
        if not _ALLOWED_TOOL.fullmatch(value) and not all(
            _ALLOWED_TOOL.fullmatch(name.strip()) for name in value.split(",")
        ):
            raise ConfigError(f"--allowed-tools {value} is refused: {_TOOLS}", fix=f"name only {', '.join(ALLOWED)}")


def _first_positional(arguments: Sequence[str]) -> str | None:
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return word
        if "=" not in word and list(_options_in(word))[-1:] and list(_options_in(word))[-1] in _TAKES_VALUE:
            next(words, None)
    return None

"""ssh_config's options for a host, read by `ssh -G`, or by paramiko's parser where there is no ssh.

Shape: a mapping of lower-case keywords to the values given for them, as written; nothing is expanded here.
"""

from __future__ import annotations

import glob
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import paramiko
import paramiko.config
from paramiko.ssh_exception import ConfigParseError, CouldNotCanonicalize

from reach.errors import ConfigError
from reach.paths import operator_home
from reach.ssh.remote_text import printable
from reach.target import Target

Options = Mapping[str, list[str]]

SSH_TIMEOUT_S = 20.0
"""`Match exec` and CanonicalizeHostname may ask the network."""
MAX_INCLUDE_DEPTH = 16
_MISREAD_WORDS = {"final", "localnetwork", "tagged", "command", "version", "sessiontype"}
"""Words after Match that paramiko's parser rejects, or takes for a condition that is met."""


def load_options(target: Target, config_file: Path | None) -> Options:
    """Read the options for TARGET from CONFIG_FILE, else from the operator's own and the system's files.

    Raises: ConfigError when the configuration can't be read, with the line of whoever read it.
    """
    ssh = shutil.which("ssh")
    return _ask_ssh(ssh, target, config_file) if ssh else _parse_files(target, config_file)


def _ask_ssh(ssh: str, target: Target, config_file: Path | None) -> Options:
    argv = [ssh, "-G"]
    if config_file is not None:
        argv += ["-F", str(config_file)]
    argv += ssh_destination(target)
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=SSH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"`ssh -G {target.host}` did not end within {SSH_TIMEOUT_S:.0f} seconds",
            fix="look for a `Match exec` that hangs in ssh_config",
        ) from None
    except OSError as error:
        raise ConfigError(f"{ssh} can't be run: {error.strerror}") from error
    if done.returncode != 0:
        raise ConfigError(
            f"ssh can't read its configuration for {target.host}: {_reason(done.stderr)}",
            fix=f"try: ssh -G {target.host}",
        )
    return parse_ssh_g(done.stdout)


def ssh_destination(target: Target) -> tuple[str, ...]:
    """TARGET in the words of ssh's command line. A user or a port that ssh_config would give is left to it: what
    stands on the command line is met by `Match` too."""
    user = ("-l", target.user) if target.user is not None else ()
    port = ("-p", str(target.port)) if target.port is not None else ()
    return (*user, *port, "--", target.host)


def _reason(stderr: bytes) -> str:
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("Pseudo-terminal")]
    return printable("; ".join(telling[:3]) or "no reason given")


def parse_ssh_g(output: bytes) -> Options:
    """Read what `ssh -G` prints: one `keyword value` a line, repeated keywords in order."""
    options: dict[str, list[str]] = {}
    for line in output.decode("utf-8", "surrogateescape").split("\n"):
        keyword, space, value = line.partition(" ")
        if space:
            options.setdefault(keyword.lower(), []).append(value)
    return options


@dataclass(frozen=True)
class _MatchExec:
    """What paramiko's parser takes invoke for: whether a command of `Match exec` succeeds."""

    ok: bool

    @classmethod
    def run(cls, command: str, **_options: object) -> _MatchExec:
        try:
            done = subprocess.run(
                command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=SSH_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise ConfigParseError(f"`Match exec {command}` did not end within {SSH_TIMEOUT_S:g} s") from None
        return cls(done.returncode == 0)


paramiko.config.invoke = _MatchExec  # type: ignore[attr-defined]


class _VerbatimConfig(paramiko.SSHConfig):
    """paramiko's parser without its expansion of `~`, which follows HOME and not the account database."""

    TOKENS_BY_CONFIG_KEY = {
        "hostname": ["%h"],
        "match-exec": paramiko.SSHConfig.TOKENS_BY_CONFIG_KEY["match-exec"],
    }


def _parse_files(target: Target, config_file: Path | None) -> Options:
    files = [config_file] if config_file else [operator_home() / ".ssh/config", Path("/etc/ssh/ssh_config")]
    parser = _VerbatimConfig()
    try:
        for file in files:
            parser.parse(_lines(file, is_required=config_file is not None))
        found = parser.lookup(target.host)
    except (ConfigParseError, CouldNotCanonicalize, KeyError, ValueError) as error:
        raise _unreadable(" and ".join(map(str, files)), str(error)) from error
    options = {
        keyword: value if isinstance(value, list) else ["none" if value is None else str(value)]
        for keyword, value in found.items()
    }
    if target.user is not None:
        options["user"] = [target.user]
    if target.port is not None:
        options["port"] = [str(target.port)]
    return options


def _lines(file: Path, *, is_required: bool = False, depth: int = 0) -> Iterator[str]:
    """The lines of FILE with those of included files in their place.

    Raises: ConfigError for what paramiko's parser would pass over or take for something else.
    """
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        if is_required:
            raise ConfigError(f"{file} does not exist", fix="correct REACH_SSH_CONFIG") from None
        return
    except OSError as error:
        raise _unreadable(str(file), error.strerror or "") from error
    is_top_level = True
    for line in text.splitlines():
        keyword, words = _split(line)
        if keyword == "include":
            if not is_top_level or depth >= MAX_INCLUDE_DEPTH:
                raise _unreadable(str(file), f"{line.strip()!r} inside a Host or Match")
            for included in _included(words):
                yield from _lines(included, depth=depth + 1)
            yield "Host *"  # what comes next belongs to every host again
            continue
        if keyword in ("host", "match"):
            is_top_level = False
        if keyword == "match" and (unknown := {w.lstrip("!").lower() for w in words} & _MISREAD_WORDS):
            raise _unreadable(str(file), f"Match {min(unknown)}")
        yield line


def _split(line: str) -> tuple[str, list[str]]:
    words = line.replace("=", " ", 1).split()
    return (words[0].lower(), words[1:]) if words else ("", [])


def _included(patterns: list[str]) -> list[Path]:
    found: list[Path] = []
    for pattern in (word.strip('"') for word in patterns):
        if pattern.startswith("~/"):
            pattern = str(operator_home() / pattern[2:])
        elif not pattern.startswith("/"):
            pattern = str(operator_home() / ".ssh" / pattern)
        found += [Path(name) for name in sorted(glob.glob(pattern))]
    return found


def _unreadable(files: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{files} can't be read without an ssh client: {printable(reason)}",
        fix="install the OpenSSH client, whose `ssh -G` reads everything",
    )

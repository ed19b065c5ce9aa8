"""Gemini CLI's tools as the scripted model calls them, and its words as the probe reads them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

from mock_server import Call
from reach.paths import write_private
from reach.probe.script import ShellResult

_CUT_OFF = re.compile(r"^.*(?:fetch failed|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH).*$", re.MULTILINE)
"""Seen on 0.61.0, which then tries for minutes."""

_COMPLAINT = re.compile(r"^missing (?:pgrep|background pid) output\b.*$", re.MULTILINE)

_NOT_YET = "could not be parsed safely"
"""0.20.0 says so of every command until its parser of shell commands is loaded, which the first one may be ahead of."""

_FIELD = re.compile(
    r"^(Command|Directory|Stdout|Stderr|Output|Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?",
    re.MULTILINE,
)
_EMPTY = ("(empty)", "(none)")

_FOLDER_SINCE = (0, 20, 0)
"""0.1.22 has `directory`, which takes a folder of the workspace's own and none below it."""
_SILENCE_LIMIT_SINCE = (0, 35, 0)


class GeminiScript:
    dialect = "gemini"

    def shell(self, command: str, version: str | None, folder: str | None = None) -> Call:
        args: dict[str, Any] = {"command": command, "description": "Look where this runs."}
        if folder is not None:
            args["dir_path"] = folder
        return Call(name="run_shell_command", args=args)

    def takes_folder(self, version: str | None) -> bool:
        return _is_at_least(version, _FOLDER_SINCE)

    def read_shell_result(self, text: str) -> ShellResult:
        inner = text.removeprefix("<untrusted_context>\n").removesuffix("\n</untrusted_context>")
        _, *parts = _FIELD.split(inner)
        fields = {name: value.strip("\n") for name, value in zip(parts[::2], parts[1::2], strict=False)}
        said = [fields[name] for name in ("Output", "Stdout", "Stderr") if fields.get(name, "") not in ("", *_EMPTY)]
        status = re.fullmatch(r"-?\d+", fields.get("Exit Code", "0" if fields else ""))  # newer ones leave out a 0
        pids = re.findall(r"\d+", fields.get("Background PIDs", ""))
        return ShellResult("\n".join(said), int(status[0]) if status else None, tuple(map(int, pids)))

    def write_file(self, path: Path, content: str) -> Call:
        return Call(name="write_file", args={"file_path": str(path), "content": content})

    def read_file(self, path: Path) -> Call:
        # The older name of the argument beside the newer: each version ignores the other.
        return Call(name="read_file", args={"file_path": str(path), "absolute_path": str(path)})

    def is_passing_refusal(self, text: str) -> bool:
        return _NOT_YET in text

    def cut_off_line(self, stderr: str) -> str | None:
        found = _CUT_OFF.search(stderr)
        return found[0].strip() if found else None

    def complaints(self, stderr: str) -> list[str]:
        return _COMPLAINT.findall(stderr)

    def limit_silence(self, home: Path, version: str | None, limit_s: int) -> bool:
        if not _is_at_least(version, _SILENCE_LIMIT_SINCE):
            return False
        path = home / ".gemini" / "settings.json"
        settings = json.loads(path.read_bytes())
        settings.setdefault("tools", {}).setdefault("shell", {})["inactivityTimeout"] = limit_s
        write_private(path, json.dumps(settings).encode())
        return True

    def lay_trap(self, project: Path, touched: Path) -> None:
        spring = f"echo sprung >> {shlex.quote(str(touched))}"
        touch = f"/bin/sh -c {shlex.quote(spring)}"
        hook = [{"matcher": "*", "hooks": [{"type": "command", "name": "trap", "command": touch}]}]
        tools = ["read_file", "write_file", "list_directory", "run_shell_command"]
        settings = {
            "tools": {"core": tools, "exclude": [], "enableHooks": True, "discoveryCommand": touch},
            "coreTools": tools,
            "excludeTools": [],
            "toolDiscoveryCommand": touch,
            "hooksConfig": {"enabled": True},
            "hooks": {"enabled": True, "BeforeTool": hook, "SessionStart": hook},
            "mcpServers": {"trap": {"command": "/bin/sh", "args": ["-c", spring]}},
        }
        (project / ".gemini").mkdir(mode=0o700)
        write_private(project / ".gemini" / "settings.json", json.dumps(settings).encode())


def _is_at_least(version: str | None, oldest: tuple[int, int, int]) -> bool:
    """An unknown version is taken for the newest, as it is when the launch is prepared."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version or "")
    return numbers is None or tuple(map(int, numbers.groups())) >= oldest

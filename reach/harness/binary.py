"""A harness's program on this machine: where it is and which version."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from reach.errors import HarnessNotFoundError
from reach.harness.base import Environment, Harness

VERSION_TIMEOUT_S = 20.0
"""`--version` starts the whole program once; a cold start on a slow disk takes some seconds."""

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?")


def find_binary(harness: Harness, environment: Environment, explicit: Path | None = None) -> Path:
    """The program to start, absolute but with links unresolved: managers of versions look at their own name.

    Raises: HarnessNotFoundError.
    """
    if explicit is not None:
        found = Path(os.path.abspath(explicit))
        if _is_program(found):
            return found
        raise HarnessNotFoundError(f"{explicit} is no program that can be started", fix="give --binary another path")
    for entry in environment.get("PATH", os.defpath).split(os.pathsep):
        found = Path(os.path.abspath(Path(entry or ".") / harness.command))
        if _is_program(found):
            return found
    raise HarnessNotFoundError(
        f"{harness.title} is not on PATH (no program named {harness.command})",
        fix=f"type: reach harness install {harness.name}",
    )


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def read_version(harness: Harness, binary: Path, environment: Environment) -> str | None:
    """The version of BINARY: from npm's package.json where BINARY leads into the package, else by asking it.

    None where it doesn't say within VERSION_TIMEOUT_S. ENVIRONMENT is that of the launch, since a version
    manager's wrapper decides by it; what it starts must not reach the target's shell.
    """
    return _version_of_package(harness, binary) or _version_by_asking(binary, environment)


def _version_of_package(harness: Harness, binary: Path) -> str | None:
    for folder in list(binary.resolve().parents)[:6]:
        version = _read_package_version(harness, folder / "package.json")
        if version is not None:
            return version
    # reach's own installations: VERSION/bin/NAME starts what is in VERSION/node_modules
    return _read_package_version(harness, binary.parent.parent / "node_modules" / harness.npm_package / "package.json")


def _read_package_version(harness: Harness, path: Path) -> str | None:
    try:
        package = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(package, dict) or package.get("name") != harness.npm_package:
        return None
    version = package.get("version")
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else None


def _version_by_asking(binary: Path, environment: Environment) -> str | None:
    try:
        done = subprocess.run(
            [binary, "--version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.findall(done.stdout.decode(errors="replace"))
    return found[-1] if found and done.returncode == 0 else None

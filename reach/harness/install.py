"""Harnesses that reach installs itself: npm packages in a private folder, several versions side by side."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reach.errors import ConfigError, HarnessError, HarnessNotFoundError
from reach.harness.base import Environment, Harness
from reach.harness.node import OLDEST_NODE, Node, Progress, provide_node
from reach.harness.package_manager import explain_npm, run_installer
from reach.harness.private_install import installing, remove_installed
from reach.paths import Paths, ensure_private_dir

_NPM_TIMEOUT_S = 1200.0
_CHECK_TIMEOUT_S = 60.0
_NPM_OPTIONS = (
    "--ignore-scripts",  # a package's own programs have no business at install time
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--no-package-lock",
    "--loglevel=error",
)
_WRAPPER = """\
#!/bin/sh
node={node}
[ -x "$node" ] || node=node # that one has gone: a virtual environment was made anew, Node was updated
exec "$node" {script} "$@"
"""
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?")
LATEST = "latest"
"""In place of a version: npm's newest for an install, the newest installed one otherwise."""


@dataclass(frozen=True)
class Installed:
    version: str
    binary: Path


def installed(harness: Harness, paths: Paths) -> list[Installed]:
    """Those in reach's folder, the oldest version first."""
    found = [
        Installed(folder.name, folder / "bin" / harness.command)
        for folder in _folder(harness, paths).glob("*")
        if _VERSION.fullmatch(folder.name) and (folder / "bin" / harness.command).is_file()
    ]
    return sorted(found, key=lambda each: _order(each.version))


def check_version(harness: Harness, version: str) -> None:
    """Raises: ConfigError for what is neither a whole version nor LATEST."""
    if version != LATEST and not _VERSION.fullmatch(version):
        raise ConfigError(f"{version!r} is no version", fix=f"write it like 1.2.3: {harness.name}@1.2.3")


def installed_binary(harness: Harness, version: str | None, paths: Paths) -> Path:
    """The program of VERSION, or of the newest (None or LATEST).

    Raises: HarnessNotFoundError; ConfigError for what is no version.
    """
    if version is not None:
        check_version(harness, version)
    there = installed(harness, paths)
    for each in reversed(there):
        if version in (None, LATEST, each.version):
            return each.binary
    wanted = f"{harness.name}@{version}" if version else harness.name
    raise HarnessNotFoundError(
        f"{harness.title} {version or ''}".rstrip() + " is not installed by reach",
        fix=f"type: reach harness install {wanted}",
    )


def install(
    harness: Harness,
    version: str | None,
    paths: Paths,
    on_progress: Progress,
    environment: Environment | None = None,
) -> Path:
    """Have VERSION (the newest if None or LATEST) in reach's folder; return its program, which needs no node on PATH.

    Raises: HarnessError; ConfigError for what is no version.
    """
    environment = os.environ if environment is None else environment
    version = None if version == LATEST else version
    if version is not None:
        check_version(harness, version)
    if there := _already_there(harness, version, paths, on_progress):
        return there
    node = provide_node(paths, environment, on_progress)
    ensure_private_dir(paths.data)
    ensure_private_dir(paths.data / "harness")
    on_progress(f"installing {harness.npm_package}@{version or LATEST} from npm")
    with installing(_folder(harness, paths)) as (temporary, keep):
        # Another install may have had the lock until now.
        there = _already_there(harness, version, paths, on_progress)
        return there or _install_into(harness, version, paths, node, environment, temporary, keep, on_progress)


def remove(harness: Harness, version: str, paths: Paths) -> None:
    """Raises: HarnessNotFoundError; ConfigError for what is no version."""
    try:
        binary = installed_binary(harness, version, paths)
    except HarnessNotFoundError as error:
        raise HarnessNotFoundError(error.message, fix="see what is, with: reach harness list") from None
    remove_installed(binary.parent.parent)


def _install_into(
    harness: Harness,
    version: str | None,
    paths: Paths,
    node: Node,
    environment: Environment,
    temporary: Path,
    keep: Any,
    on_progress: Progress,
) -> Path:
    argv = [*node.npm, "install", *_NPM_OPTIONS, "--prefix", str(temporary)]
    package = f"{harness.npm_package}@{version or LATEST}"
    run_installer(
        [*argv, package],
        environment,
        _NPM_TIMEOUT_S,
        "npm",
        lambda output: explain_npm(output, harness.npm_package, node.typed_npm),
    )
    described = _read_package(temporary, harness)
    found = str(described["version"])
    if there := _already_there(harness, found, paths, on_progress):
        # It may be running, and a verdict holds for these very files.
        return there
    needed = _needed_node(described)
    if node.version < needed:
        on_progress(f"{harness.title} {found} needs Node.js {'.'.join(map(str, needed))} or newer")
        node = provide_node(paths, environment, on_progress, needed)
    script = Path("node_modules") / harness.npm_package / _script_of(described, harness)
    _check_that_it_runs(harness, node, temporary / script)
    wrapper = temporary / "bin" / harness.command
    wrapper.parent.mkdir(mode=0o700)
    final = _folder(harness, paths) / found
    wrapper.write_text(_WRAPPER.format(node=shlex.quote(str(node.program)), script=shlex.quote(str(final / script))))
    wrapper.chmod(0o700)
    place: Path = keep(temporary, found)
    on_progress(f"{harness.title} {found} is installed")
    return place / "bin" / harness.command


def _already_there(harness: Harness, version: str | None, paths: Paths, on_progress: Progress) -> Path | None:
    for each in installed(harness, paths):
        if each.version == version:
            on_progress(f"{harness.title} {version} is there already")
            return each.binary
    return None


def _folder(harness: Harness, paths: Paths) -> Path:
    return paths.data / "harness" / harness.name


def _read_package(root: Path, harness: Harness) -> dict[str, Any]:
    path = root / "node_modules" / harness.npm_package / "package.json"
    try:
        described = json.loads(path.read_bytes())
        if not _VERSION.fullmatch(described["version"]):
            raise ValueError(described["version"])
    except (OSError, ValueError, KeyError, TypeError):
        raise HarnessError(f"what npm installed is no {harness.npm_package}") from None
    return dict(described)


def _needed_node(described: dict[str, Any]) -> tuple[int, ...]:
    """The oldest Node that the package wants; OLDEST_NODE where it says so in no way that is understood."""
    engines = described.get("engines")
    match = re.match(r">=\s*v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", str(engines.get("node", "")) if engines else "")
    return tuple(int(n or 0) for n in match.groups()) if match else OLDEST_NODE


def _script_of(described: dict[str, Any], harness: Harness) -> str:
    programs = described.get("bin")
    script = programs.get(harness.command) if isinstance(programs, dict) else programs
    if not isinstance(script, str) or os.path.isabs(script) or ".." in Path(script).parts:
        raise HarnessError(f"{harness.npm_package} {described['version']} has no program named {harness.command}")
    return script


def _check_that_it_runs(harness: Harness, node: Node, script: Path) -> None:
    try:
        subprocess.run(
            [node.program, script, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_CHECK_TIMEOUT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise HarnessError(f"{harness.title} was installed but does not run: {said[-1] if said else error}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"{harness.title} was installed but does not run: {error}") from None


def _order(version: str) -> tuple[list[int], bool, str]:
    """By numbers; a pre-release before its release."""
    numbers, _, rest = version.partition("-")
    return [int(n) for n in numbers.split(".")], not rest, rest

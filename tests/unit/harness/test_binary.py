from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reach.errors import ConfigError, HarnessNotFoundError
from reach.harness import binary as binary_module
from reach.harness.binary import find_binary, read_version
from reach.harness.choice import choose_binary
from reach.harness.registry import get_harness, harness_names
from reach.paths import Paths

MakeProgram = Callable[[str, str], Path]
GEMINI = get_harness("gemini")
PATH = {"PATH": "/usr/bin:/bin"}


def make_npm_package(root: Path, version: str = "1.2.3") -> Path:
    """An npm installation of Gemini CLI as far as its version goes; returns the link in .bin."""
    package = root / "node_modules" / "@google" / "gemini-cli"
    (package / "bundle").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": "@google/gemini-cli", "version": version}))
    script = package / "bundle" / "gemini.js"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    link = root / "node_modules" / ".bin" / "gemini"
    link.parent.mkdir()
    link.symlink_to("../@google/gemini-cli/bundle/gemini.js")
    return link


def test_the_first_program_on_path_is_found_absolute_and_unresolved(
    tmp_path: Path, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = make_program("real/gemini-1.0", "#!/bin/sh\n")
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "gemini").mkdir()
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "gemini").write_text("not executable")
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "gemini").symlink_to(real)
    monkeypatch.chdir(tmp_path)
    environment = {"PATH": f"{tmp_path}/first::second:third:/usr/bin"}
    assert find_binary(GEMINI, environment) == tmp_path / "third" / "gemini"


def test_no_program_names_the_way_to_get_one() -> None:
    with pytest.raises(HarnessNotFoundError, match="reach harness install gemini"):
        find_binary(GEMINI, {"PATH": "/nonexistent"})


def test_a_named_program_must_be_one(tmp_path: Path, make_program: MakeProgram) -> None:
    program = make_program("mine", "#!/bin/sh\n")
    assert find_binary(GEMINI, {}, program) == program
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(HarnessNotFoundError, match="no program"):
            find_binary(GEMINI, {}, path)


def test_the_version_of_an_npm_package_is_read_and_nothing_is_started(tmp_path: Path) -> None:
    assert read_version(GEMINI, make_npm_package(tmp_path), PATH) == "1.2.3"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_wrapper_script_is_asked(make_program: MakeProgram, shell: str) -> None:
    wrapper = make_program(
        "shims/gemini", f'#!/usr/bin/env {shell}\necho "using a version"\necho "$1 0.9.1-nightly.2"\n'
    )
    assert read_version(GEMINI, wrapper, PATH) == "0.9.1-nightly.2"


@pytest.mark.parametrize("text", ["#!/bin/sh\necho nothing\n", "#!/bin/sh\necho 1.2.3\nexit 1\n", "no script"])
def test_a_program_that_tells_no_version_has_none(make_program: MakeProgram, text: str) -> None:
    assert read_version(GEMINI, make_program("gemini", text), PATH) is None


def test_a_program_that_hangs_has_no_version(make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_module, "VERSION_TIMEOUT_S", 0.2)
    assert read_version(GEMINI, make_program("gemini", "#!/bin/sh\nexec sleep 60\n"), PATH) is None


def test_another_package_is_not_taken_for_the_harness(tmp_path: Path, make_program: MakeProgram) -> None:
    (tmp_path / "package.json").write_text('{"name": "something-else", "version": "9.9.9"}')
    assert read_version(GEMINI, make_program("bin/gemini", "#!/bin/sh\necho 0.1.0\n"), PATH) == "0.1.0"


def test_an_installed_one_is_used_where_path_has_none(paths: Paths, make_program: MakeProgram) -> None:
    for version in ("0.9.0", "0.10.0"):
        program = paths.data / "harness" / "gemini" / version / "bin" / "gemini"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    folder = paths.data / "harness" / "gemini"
    assert choose_binary(GEMINI, paths, {"PATH": "/nonexistent"}) == folder / "0.10.0" / "bin" / "gemini"
    assert choose_binary(GEMINI, paths, {}, version="0.9.0") == folder / "0.9.0" / "bin" / "gemini"
    on_path = make_program("onpath/gemini", "#!/bin/sh\n")
    assert choose_binary(GEMINI, paths, {"PATH": str(on_path.parent)}) == on_path
    with pytest.raises(HarnessNotFoundError, match="install gemini@0.8.0"):
        choose_binary(GEMINI, paths, {}, version="0.8.0")
    with pytest.raises(ConfigError, match="both"):
        choose_binary(GEMINI, paths, {}, version="0.9.0", explicit=on_path)


def test_an_unknown_harness_is_named_with_those_there_are() -> None:
    assert harness_names() == ["gemini"]
    with pytest.raises(ConfigError, match="gemini"):
        get_harness("nonesuch")

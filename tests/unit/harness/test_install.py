from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reach.errors import ConfigError, HarnessError, HarnessNotFoundError, ReachError
from reach.harness import install as install_module
from reach.harness import node as node_module
from reach.harness.binary import read_version
from reach.harness.install import install, installed, installed_binary, remove
from reach.harness.node import Node, find_node
from reach.harness.private_install import installing
from reach.harness.registry import get_harness
from reach.paths import Paths
from reach.probe.identity import content_digest

GEMINI = get_harness("gemini")

FAKE_NODE = """\
#!/bin/sh
case $1 in
-p) echo "$0"; echo "${FAKE_NODE_VERSION:-20.1.0}" ;;
*) shift; echo "ran $*" ;;
esac
"""

FAKE_NPM = """\
#!/usr/bin/env python3
import json, os, pathlib, sys
args = sys.argv[1:]
with open(os.environ["FAKE_NPM_LOG"], "a") as log:
    log.write(json.dumps(args) + "\\n")
if os.environ.get("FAKE_NPM_FAILS"):
    print("npm error code E404\\nnpm error 404 no such version")
    sys.exit(1)
prefix = pathlib.Path(args[args.index("--prefix") + 1])
name, _, version = args[-1].rpartition("@")
package = prefix / "node_modules" / name
package.mkdir(parents=True)
described = {"name": name, "version": "9.8.7" if version == "latest" else version,
             "bin": {"gemini": "bundle/gemini.js"}, "engines": {"node": os.environ.get("FAKE_ENGINES", ">=20")}}
(package / "package.json").write_text(json.dumps(described))
(package / "bundle").mkdir()
(package / "bundle" / "gemini.js").write_text("")
if os.environ.get("FAKE_NPM_KILLED"):
    os.kill(os.getppid(), 9)
"""
"""Writes what `npm install --prefix` would; the real npm is run by the end-to-end tests and by `reach harness`."""


@pytest.fixture
def environment(tmp_path: Path, make_program: Callable[[str, str], Path]) -> dict[str, str]:
    make_program("tools/node", FAKE_NODE)
    make_program("tools/npm", FAKE_NPM)
    python = Path(sys.executable).parent
    return {"PATH": f"{tmp_path / 'tools'}:{python}:/usr/bin:/bin", "FAKE_NPM_LOG": str(tmp_path / "npm.log")}


def calls_of_npm(environment: dict[str, str]) -> list[list[str]]:
    log = Path(environment["FAKE_NPM_LOG"])
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_an_installed_harness_starts_without_node_on_path(paths: Paths, environment: dict[str, str]) -> None:
    said: list[str] = []
    binary = install(GEMINI, "1.2.3", paths, said.append, environment)
    assert binary == paths.data / "harness" / "gemini" / "1.2.3" / "bin" / "gemini"
    ran = subprocess.run([binary, "a b", "c"], env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=True)
    assert ran.stdout == "ran a b c\n"
    assert read_version(GEMINI, binary, {}) == "1.2.3"
    assert said[0] == "installing @google/gemini-cli@1.2.3 from npm"
    assert stat.S_IMODE(binary.parent.parent.stat().st_mode) == 0o700


def test_npm_runs_no_script_of_a_package_and_sends_no_report(paths: Paths, environment: dict[str, str]) -> None:
    install(GEMINI, "1.2.3", paths, lambda _: None, environment)
    assert {"--ignore-scripts", "--no-audit", "--no-fund"} <= set(calls_of_npm(environment)[0])


def test_versions_lie_side_by_side_and_a_second_install_does_nothing(paths: Paths, environment: dict[str, str]) -> None:
    for version in ("0.10.0", "0.9.0", "0.10.0", "latest", "0.10.0-nightly.1"):
        install(GEMINI, version, paths, lambda _: None, environment)
    assert [each.version for each in installed(GEMINI, paths)] == ["0.9.0", "0.10.0-nightly.1", "0.10.0", "9.8.7"]
    assert len(calls_of_npm(environment)) == 4
    assert {installed_binary(GEMINI, each, paths).parent.parent.name for each in (None, "latest")} == {"9.8.7"}
    remove(GEMINI, "9.8.7", paths)
    assert installed_binary(GEMINI, None, paths).parent.parent.name == "0.10.0"
    with pytest.raises(HarnessNotFoundError, match=r"9\.8\.7 is not installed by .*: reach harness list"):
        remove(GEMINI, "9.8.7", paths)
    left = {path.name for path in (paths.data / "harness" / "gemini").iterdir()}
    assert left == {".lock", "0.9.0", "0.10.0-nightly.1", "0.10.0"}


@pytest.mark.parametrize("version", ["newest", "1", "../x", "1.2.3 && x", ""])
def test_what_is_no_version_is_refused(paths: Paths, environment: dict[str, str], version: str) -> None:
    with pytest.raises(ConfigError, match="no version"):
        install(GEMINI, version, paths, lambda _: None, environment)


def test_a_failed_install_says_what_npm_said_and_leaves_nothing(paths: Paths, environment: dict[str, str]) -> None:
    with pytest.raises(HarnessError, match="install: 404 no such version; .*: npm view @google/gemini-cli versions"):
        install(GEMINI, "1.2.3", paths, lambda _: None, environment | {"FAKE_NPM_FAILS": "1"})
    assert [path.name for path in (paths.data / "harness" / "gemini").iterdir()] == [".lock"]


def test_what_a_killed_install_left_is_never_used_and_goes_away(paths: Paths, environment: dict[str, str]) -> None:
    code = (
        "import os, sys; from pathlib import Path; from reach.paths import Paths;"
        "from reach.harness.install import install; from reach.harness.registry import get_harness;"
        "paths = Paths(*map(Path, sys.argv[1:])); install(get_harness('gemini'), '1.2.3', paths, print, os.environ)"
    )
    roots = [str(root) for root in (paths.state, paths.data, paths.cache, paths.runtime)]
    killed = subprocess.run(
        [sys.executable, "-c", code, *roots], env=environment | {"FAKE_NPM_KILLED": "1"}, capture_output=True
    )
    assert killed.returncode == -9
    folder = paths.data / "harness" / "gemini"
    assert list(folder.glob(".new-*"))
    assert installed(GEMINI, paths) == []
    install(GEMINI, "1.2.3", paths, lambda _: None, environment)
    assert {path.name for path in folder.iterdir()} == {".lock", "1.2.3"}


def test_a_node_that_is_too_old_for_the_version_is_not_used(
    paths: Paths, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "_wheel_in_python", lambda: None)
    monkeypatch.setattr(node_module, "_install_wheel", lambda paths, on_progress: None)
    with pytest.raises(HarnessError, match=r"no Node\.js 22\.0\.0 or newer"):
        install(GEMINI, "1.2.3", paths, lambda _: None, environment | {"FAKE_ENGINES": ">=22"})
    assert installed(GEMINI, paths) == []
    assert find_node(paths, environment | {"FAKE_NODE_VERSION": "18.2.0"}) is None


def test_two_installs_at_once_take_turns(paths: Paths, environment: dict[str, str]) -> None:
    threads = [
        threading.Thread(target=install, args=(GEMINI, "1.2.3", paths, lambda _: None, environment)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.version for each in installed(GEMINI, paths)] == ["1.2.3"]
    assert {path.name for path in (paths.data / "harness" / "gemini").iterdir()} == {".lock", "1.2.3"}


def test_what_another_install_brought_meanwhile_is_not_fetched_again(
    paths: Paths, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    provide_node = install_module.provide_node

    def after_the_other(*arguments: Any) -> Node:
        monkeypatch.undo()
        install(GEMINI, "1.2.3", paths, lambda _: None, environment)
        return provide_node(*arguments)

    monkeypatch.setattr(install_module, "provide_node", after_the_other)
    said: list[str] = []
    binary = install(GEMINI, "1.2.3", paths, said.append, environment)
    assert binary.is_file()
    assert len(calls_of_npm(environment)) == 1
    assert said[-1] == "Gemini CLI 1.2.3 is there already"


@pytest.mark.parametrize("version", [None, "latest"])
def test_an_install_of_the_newest_leaves_it_alone_where_it_is_there(
    paths: Paths, environment: dict[str, str], version: str | None
) -> None:
    before = install(GEMINI, "9.8.7", paths, lambda _: None, environment).parent.parent
    running_from, digest = before.stat(), content_digest(GEMINI, before / "bin" / "gemini")
    said: list[str] = []
    again = install(GEMINI, version, paths, said.append, environment)
    assert os.path.samestat(running_from, again.parent.parent.stat())
    assert content_digest(GEMINI, again) == digest, "the verdict on it would no longer hold"
    assert said[-1] == "Gemini CLI 9.8.7 is there already"
    assert {path.name for path in before.parent.iterdir()} == {".lock", "9.8.7"}


def test_an_install_that_cant_write_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReachError, match="file"), installing(tmp_path / "file" / "below"):
        pass


def test_the_real_node_is_found_by_its_own_path(paths: Paths) -> None:
    node = find_node(paths, os.environ)
    if node is None:
        pytest.skip("there is no Node.js here")
    assert node.program.is_file()
    assert node.version >= (20, 0, 0)

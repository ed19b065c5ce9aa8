"""What a person waits for: a session to come up, the harness to start, a verdict, the help text."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from benchmark.row import Row, Unit, at_most, at_most_value
from benchmark.spawn import MeasurementError, Pipes, cpu_ms, median, time_ms
from benchmark.stage import Stage
from reach.harness.registry import get_harness
from reach.probe.identity import package_root
from support.requirements import find_gemini, missing_for

LAUNCH_LIMIT_MS = 250
HELP_LIMIT_MS = 120
_WRAPPER = """#!/bin/sh
[ -e "{flag}" ] && exit 0
exec "{gemini}" "$@"
"""


def coming_up(stage: Stage, *, quick: bool) -> list[Row]:
    """A session's first contact with a distant target, beside a login by ssh that runs `true`."""
    reach: list[float] = []
    ssh: list[float] = []
    with closing(Pipes()) as pipes:
        cold = [*stage.far.cold_ssh, "true"]
        for number in range(2 if quick else 5):
            name = f"first{number}"
            up = [stage.reach_program, "up", "far", "--name", name]
            reach.append(time_ms(up, pipes, stage.environment))
            ssh.append(time_ms(cold, pipes, stage.environment))
            stage.reach("down", name)
    return [Row("reach up, 50 ms", median(reach), median(ssh), at_most(2.0), detail={"reach_ms": reach, "ssh_ms": ssh})]


def help_text(stage: Stage, *, quick: bool) -> list[Row]:
    with closing(Pipes()) as pipes:
        samples = [cpu_ms([stage.reach_program, "--help"], pipes, stage.environment) for _ in range(5 if quick else 15)]
    return [Row("reach --help, CPU", median(samples), None, at_most_value(HELP_LIMIT_MS, Unit.MS))]


def launch(stage: Stage, *, quick: bool) -> list[Row]:
    """From the command to the harness's first instruction, in a session that is up and with the verdict cached."""
    wrapper, flag = _wrapped_gemini(stage)
    session = stage.near.alias
    stage.reach("harness", "verify", "gemini", "--session", session, "--binary", str(wrapper))
    flag.touch()
    argv = [stage.reach_program, "gemini", "--session", session, "--binary", str(wrapper)]
    reach: list[float] = []
    alone: list[float] = []
    with closing(Pipes()) as pipes:
        for _ in range(4 if quick else 10):
            reach.append(time_ms(argv, pipes, stage.environment))
            alone.append(time_ms([str(wrapper)], pipes, stage.environment))
    flag.unlink()
    extra_ms = median(reach) - median(alone)
    return [Row("launch, over the harness alone", extra_ms, None, at_most_value(LAUNCH_LIMIT_MS, Unit.MS))]


def _wrapped_gemini(stage: Stage) -> tuple[Path, Path]:
    """Gemini CLI behind a script that ends at once while the flag is there."""
    gemini, folder = Path(_gemini()), stage.folder / "harness"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    wrapper, flag = folder / "bin" / "gemini", folder / "flag"
    wrapper.write_text(_WRAPPER.format(flag=flag, gemini=gemini))
    wrapper.chmod(0o755)
    harness = get_harness("gemini")
    package = package_root(harness, gemini)
    if package is None:
        raise MeasurementError(f"{gemini} is no program of {harness.npm_package}")
    copy = folder / "node_modules" / harness.npm_package
    copy.mkdir(parents=True, exist_ok=True)
    shutil.copy(package / "package.json", copy)
    return wrapper, flag


def verify(stage: Stage, *, quick: bool) -> list[Row]:
    """A whole verdict, beside one turn of the bare harness against the same mock."""
    gemini = _gemini()
    argv = [stage.reach_program, "harness", "verify", "gemini", "--session", stage.near.alias, "--binary", gemini]
    reach: list[float] = []
    bare: list[float] = []
    with _mock(stage) as url, closing(Pipes()) as pipes:
        turn, environment = _bare_turn(stage, gemini, url)
        for _ in range(1 if quick else 2):
            bare.append(time_ms(turn, pipes, environment))
            reach.append(time_ms(argv, pipes, stage.environment))
    detail = {"reach_ms": reach, "bare_ms": bare}
    return [Row("verify gemini, by a bare turn", median(reach), median(bare), at_most(2.5), detail=detail)]


def _gemini() -> str:
    found = find_gemini()
    if not found:
        raise MeasurementError(str(missing_for("gemini")))
    return found


def _bare_turn(stage: Stage, gemini: str, url: str) -> tuple[list[str], Mapping[str, str]]:
    harness = get_harness("gemini")
    home = stage.folder / "bare-home"
    (home / ".gemini").mkdir(parents=True, exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    environment = {**stage.environment, **harness.probe_environment(url), "HOME": str(home)}
    return [gemini, "--skip-trust", *harness.probe_arguments("say hello")], environment


@contextmanager
def _mock(stage: Stage) -> Iterator[str]:
    script = stage.folder / "turns.json"
    script.write_text(json.dumps({"turns": [], "closing": {"text": "Hello."}}))
    argv = [stage.reach_program, "mock", "--dialect", "gemini", "--script", str(script), "--json"]
    mock = subprocess.Popen(argv, env=stage.environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        assert mock.stdout is not None
        first = json.loads(mock.stdout.readline() or "{}")
        if "url" not in first:
            raise MeasurementError(f"the mock did not start: {first}")
        os.set_blocking(mock.stdout.fileno(), False)
        yield str(first["url"])
    finally:
        mock.terminate()
        deadline = time.monotonic() + 5
        while mock.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        mock.kill()
        mock.wait()

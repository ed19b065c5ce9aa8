"""The guard's whole decision table, and what makes a verdict lapse."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reach.errors import HarnessError, SeamBypassedError, SurfaceLeakyError
from reach.harness.registry import get_harness
from reach.paths import Paths
from reach.probe import guard
from reach.probe.guard import Action, decide, ensure_verdict, known_verdict
from reach.probe.verdict import Verdict
from reach.session import Session
from support.operators import ScriptedOperator

OK, BYPASSED, LEAKY, FAULTY, ERROR = Verdict.OK, Verdict.BYPASSED, Verdict.LEAKY, Verdict.FAULTY, Verdict.ERROR


@dataclass(frozen=True)
class Found:
    verdict: Verdict
    detail: str = "what was seen"
    leaks: list[str] = field(default_factory=list)


class Launches:
    """One harness program and its launches through the guard."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(folder / "state", folder / "data", folder / "cache", folder / "run")
        self.harness = get_harness("gemini")
        self.binary = folder / "gemini"
        self.binary.write_text("#!/bin/sh\nexit 3\n")
        self.binary.chmod(0o755)
        self.session = Session(name="t", target="box", created=datetime.now(UTC))
        self.version: str | None = "1.0.0"
        self.settings = "settings"
        self.probes = 0
        self.lines: list[str] = []
        self.operator = ScriptedOperator()

    def launch(
        self, found: Verdict, *, force: bool = False, answer: str | None = None, leaks: tuple[str, ...] = ()
    ) -> str | None:
        """Raises: what the guard raises. FOUND is what a probe would find now."""

        def probe() -> Found:
            self.probes += 1
            return Found(found, leaks=list(leaks))

        self.lines.clear()
        self.operator = ScriptedOperator({"Launch it?": answer} if answer is not None else None)
        return ensure_verdict(
            self.paths,
            self.session,
            self.harness,
            self.binary,
            self.version,
            self.settings,
            force=force,
            operator=self.operator,
            echo=self.lines.append,
            probe=probe,
        )


@pytest.fixture
def launches(tmp_path: Path) -> Launches:
    return Launches(tmp_path)


@pytest.mark.parametrize(
    ("verdict", "force", "action"),
    [
        (OK, False, Action.LAUNCH),
        (OK, True, Action.LAUNCH),
        (FAULTY, False, Action.WARN),
        (FAULTY, True, Action.WARN),
        (BYPASSED, False, Action.REFUSE),
        (BYPASSED, True, Action.WARN),
        (LEAKY, False, Action.REFUSE),
        (LEAKY, True, Action.WARN),
        (ERROR, False, Action.ASK),
        (ERROR, True, Action.WARN),
    ],
)
def test_every_verdict_has_one_action(verdict: Verdict, force: bool, action: Action) -> None:
    assert decide(verdict, force=force) is action


def test_the_table_has_a_row_for_every_verdict() -> None:
    assert set(Verdict) == {OK, BYPASSED, LEAKY, FAULTY, ERROR}


@pytest.mark.parametrize("is_stored", [False, True], ids=["probed-now", "from-store"])
@pytest.mark.parametrize(
    ("verdict", "force", "raises", "says"),
    [
        (OK, False, None, None),
        (OK, True, None, None),
        (FAULTY, False, None, "not quite right here: what was seen"),
        (FAULTY, True, None, "not quite right here: what was seen"),
        (BYPASSED, False, SeamBypassedError, None),
        (
            BYPASSED,
            True,
            None,
            "WARNING: Gemini CLI 1.0.0 is bypassed, its commands run on THIS machine: what was seen",
        ),
        (LEAKY, False, SurfaceLeakyError, None),
        (LEAKY, True, None, "WARNING: Gemini CLI 1.0.0 is leaky, it can touch THIS machine: what was seen"),
    ],
)
def test_a_verdict_launches_warns_or_refuses(
    launches: Launches,
    verdict: Verdict,
    force: bool,
    raises: type[HarnessError] | None,
    says: str | None,
    is_stored: bool,
) -> None:
    if is_stored:
        launches.launch(verdict, force=True)
    if raises is None:
        kept = launches.launch(verdict, force=force)
        assert kept == (says if says and says.startswith("WARNING") else None), "what the harness is to keep in view"
        warned = [line for line in launches.lines if "verifying" not in line]
        assert warned == ([] if says is None else [says]) or (says is not None and says in warned[0])
    else:
        with pytest.raises(raises, match="what was seen"):
            launches.launch(verdict, force=force)
    assert launches.probes == 1
    assert any("verifying Gemini CLI 1.0.0" in line for line in launches.lines) is not is_stored
    assert launches.operator.asked == []


@pytest.mark.parametrize(
    ("force", "answer", "is_launched", "is_asked"),
    [
        (False, None, False, True),
        (False, "", False, True),
        (False, "n", False, True),
        (False, "yes", True, True),
        (False, " Y ", True, True),
        (True, None, True, False),
    ],
    ids=["nobody-there", "just-enter", "no", "yes", "y", "forced"],
)
def test_without_a_conclusion_the_operator_is_asked_and_silence_is_no(
    launches: Launches, force: bool, answer: str | None, is_launched: bool, is_asked: bool
) -> None:
    if is_launched:
        launches.launch(ERROR, force=force, answer=answer)
    else:
        with pytest.raises(HarnessError, match="nothing is proven about it: what was seen"):
            launches.launch(ERROR, force=force, answer=answer)
    assert bool(launches.operator.asked) is is_asked
    assert all("nothing is proven" in prompt and "what was seen" in prompt for prompt in launches.operator.asked)
    if force:
        assert "nothing is proven" in launches.lines[-1]


def test_no_conclusion_is_never_kept(launches: Launches) -> None:
    launches.launch(ERROR, force=True)
    launches.launch(OK)
    assert launches.probes == 2
    launches.launch(ERROR)
    assert launches.probes == 2


def test_a_refusal_names_the_tools(launches: Launches) -> None:
    with pytest.raises(SurfaceLeakyError, match=r"tools: read_file, write_file"):
        launches.launch(LEAKY, leaks=("read_file", "write_file"))


def _update_in_place(launches: Launches) -> None:
    launches.binary.write_text("#!/bin/sh\nexit 4\n")


def _change_version(launches: Launches) -> None:
    launches.version = "1.0.1"


def _lose_version(launches: Launches) -> None:
    launches.version = None


def _change_settings(launches: Launches) -> None:
    launches.settings = "others"


def _move(launches: Launches) -> None:
    moved = launches.binary.with_name("gemini-2")
    launches.binary.rename(moved)
    launches.binary = moved


@pytest.mark.parametrize("change", [_update_in_place, _change_version, _lose_version, _change_settings, _move])
def test_a_verdict_lapses_with_what_it_was_found_on(launches: Launches, change: Callable[[Launches], None]) -> None:
    launches.launch(OK)
    change(launches)
    with pytest.raises(SeamBypassedError):
        launches.launch(BYPASSED)
    assert launches.probes == 2


def test_a_verdict_lapses_with_another_reach(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    launches.launch(OK)
    monkeypatch.setattr(guard, "__version__", "99.0")
    launches.launch(OK)
    assert launches.probes == 2
    assert "again: reach was" in launches.lines[0]


@pytest.mark.parametrize("changed", ["package.json", "bundle/gemini.js", "node_modules/dep/index.js", "new"])
def test_a_package_that_updated_itself_is_noticed(tmp_path: Path, changed: str) -> None:
    launches = Launches(tmp_path)
    package = tmp_path / "lib" / "node_modules" / "@google" / "gemini-cli"
    (package / "bundle").mkdir(parents=True)
    (package / "node_modules" / "dep").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@google/gemini-cli", "version": "1.0.0"}')
    script = package / "bundle" / "gemini.js"
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    (package / "node_modules" / "dep" / "index.js").write_text("1")
    launches.binary = tmp_path / "link"
    launches.binary.symlink_to(script)
    launches.launch(OK)
    # As an update does it: another file in its place, of the same size and with the same time.
    found, other = package / changed, package / "other"
    other.write_text(found.read_text() if found.exists() else "x")
    if found.exists():
        os.utime(other, ns=(found.stat().st_atime_ns, found.stat().st_mtime_ns))
        other.chmod(found.stat().st_mode)
    other.rename(found)
    launches.launch(OK)
    assert launches.probes == 2
    assert "again: its files changed" in launches.lines[0]


def test_a_damaged_store_counts_as_none(launches: Launches) -> None:
    launches.launch(OK)
    for file in (launches.paths.cache / "verdicts").iterdir():
        file.write_text('{"schema_version": 1, "verdicts": [{"verdict": "ok"}]}')
    launches.launch(OK)
    assert launches.probes == 2


def test_a_store_that_cant_be_written_costs_another_probe_only(launches: Launches) -> None:
    launches.paths.cache.write_text("in the way")
    launches.launch(OK)
    launches.launch(OK)
    assert launches.probes == 2


def test_the_store_is_private(launches: Launches) -> None:
    launches.launch(OK)
    folder = launches.paths.cache / "verdicts"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]


def test_several_versions_behind_one_program_keep_a_verdict_each(launches: Launches) -> None:
    for version in ("1.0.0", "2.0.0", "1.0.0", "2.0.0"):
        launches.version = version
        launches.launch(OK)
    assert launches.probes == 2


def test_the_list_shows_a_verdict_only_while_the_program_is_the_same(launches: Launches) -> None:
    launches.launch(LEAKY, force=True)
    known = known_verdict(launches.paths, launches.harness, launches.binary, "1.0.0")
    assert known is not None
    assert (known.verdict, replace(known.subject, settings="").version) == (LEAKY, "1.0.0")
    _update_in_place(launches)
    assert known_verdict(launches.paths, launches.harness, launches.binary, "1.0.0") is None

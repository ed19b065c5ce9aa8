"""The same commands by bash on the target and through the shim, inside every wrapper: nothing may differ."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.commands import all_commands
from support.far_bash import FarBash, Outcome, empty_folder, files_in
from support.generated import PROGRAMS, TEXTS
from support.session import LaunchedShim, ReachSession, quiet_sshd
from support.wrappers import WRAPPERS, Wrapper

pytestmark = pytest.mark.sshd


class Bench:
    """Both sides, in one folder of the target."""

    def __init__(self, session: ReachSession, far: FarBash, temporary: Path) -> None:
        self.session = session
        self.far = far
        self.temporary = temporary
        self.shim: LaunchedShim = session.launch(environment={"TMPDIR": str(temporary)})
        self.folder = f"{session.facts['folder']}/case"
        (self.shim.workspace / "case").mkdir(exist_ok=True)

    def compare(self, command: bytes, wrapper: Wrapper, stdin: bytes | None = None) -> None:
        far_side, near_side = wrapper.prepare(self.temporary), wrapper.prepare(self.temporary)
        expected = self.far.run(wrapper.wrap(command, far_side), self.folder, stdin)
        empty_folder(self.folder)
        done = self.session.run(
            wrapper.wrap(command, near_side), shim=self.shim, cwd=self.shim.workspace / "case", input=stdin
        )
        seen = Outcome(done.returncode, done.stdout, done.stderr, files_in(self.folder))
        if wrapper.is_one_line and b"syntax error" in expected.stderr:
            seen, expected = _without_quoted_lines(seen), _without_quoted_lines(expected)
        if b"|" in command:  # the parts of a pipeline run side by side
            seen, expected = _with_sorted_errors(seen), _with_sorted_errors(expected)
        assert _comparable(seen) == _comparable(expected)
        self._compare_side_files(far_side, near_side)

    def _compare_side_files(self, far: Path | None, near: Path | None) -> None:
        """A list of process ids that is empty says the same as none."""
        if not far or not near:
            return
        expected, seen = (path.read_text() if path.exists() else "" for path in (far, near))
        if far.name.startswith("pwd"):
            root, workspace = str(self.session.facts["folder"]), str(self.shim.workspace)
            expected = re.sub(rf"^{re.escape(root)}(?=/|$)", workspace, expected)
        elif "pgrep" in far.name:  # lists whatever has not quite ended yet
            expected, seen = ("PID" if text.replace("\n", "").isdigit() else "" for text in (expected, seen))
        else:
            expected, seen = (re.sub(r"\d+", "PID", text) for text in (expected, seen))
        assert seen == expected


def _comparable(outcome: Outcome) -> Outcome:
    """Without the process ids in bash's own words on a child's death."""
    stderr = re.sub(rb"(line \d+:) +\d+ (?=[A-Z])", rb"\1 PID ", outcome.stderr)
    return Outcome(outcome.status, outcome.stdout, stderr, outcome.files)


def _with_sorted_errors(outcome: Outcome) -> Outcome:
    return Outcome(outcome.status, outcome.stdout, b"\n".join(sorted(outcome.stderr.split(b"\n"))), outcome.files)


def _without_quoted_lines(outcome: Outcome) -> Outcome:
    """bash quotes the line with the error, and in these wrappers that line is the wrapper's too."""
    kept = [line for line in outcome.stderr.splitlines() if b"__code=" not in line]
    return Outcome(outcome.status, outcome.stdout, b"\n".join(kept), outcome.files)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with (
        tempfile.TemporaryDirectory(prefix="rt-") as temporary,
        quiet_sshd() as server,
        ReachSession(server) as session,
        FarBash(server) as far,
    ):
        os.chmod(temporary, 0o700)
        yield Bench(session, far, Path(temporary))


KNOWN = {
    b"ls /proc/self/fd | wc -l": [wrapper.name for wrapper in WRAPPERS if wrapper.side],
    b"set -v; echo verbose": ["0.61.0-typed"],
}
"""Differences that can't be avoided, by command and wrapper; docs/transparency.md has the reasons."""


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.name)
@pytest.mark.parametrize("command", all_commands(), ids=lambda c: repr(c[:40].decode("utf-8", "replace")))
def test_a_command_does_the_same_through_the_shim(bench: Bench, wrapper: Wrapper, command: bytes) -> None:
    if wrapper.name in KNOWN.get(command, []):
        with pytest.raises(AssertionError):
            bench.compare(command, wrapper)
    else:
        bench.compare(command, wrapper)


WITH_INPUT = [b"cat", b"cat; echo after", b"read -r x; echo $x; cat", b"wc -c", b"head -1; cat", b"sort | wc", b":"]
INPUTS = {"empty": b"", "lines": b"b\na\nb\n", "binary": bytes(range(256)) * 40, "large": b"x" * 3_000_000 + b"\n"}


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS.keys())
@pytest.mark.parametrize("command", WITH_INPUT, ids=lambda command: command.decode())
@pytest.mark.parametrize("wrapper", [WRAPPERS[0], WRAPPERS[-2]], ids=lambda wrapper: wrapper.name)
def test_a_command_reads_what_it_is_given(bench: Bench, wrapper: Wrapper, command: bytes, given: bytes) -> None:
    bench.compare(command, wrapper, given)


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.name)
@pytest.mark.parametrize("kind", [TEXTS, PROGRAMS], ids=["texts", "programs"])
def test_a_generated_command_does_the_same_through_the_shim(
    bench: Bench, kind: st.SearchStrategy[bytes], wrapper: Wrapper
) -> None:
    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(command=kind)
    def compare(command: bytes) -> None:
        bench.compare(command, wrapper)

    compare()

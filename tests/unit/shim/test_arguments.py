from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.arguments import FORWARD, PASS, REFUSE, parse_bash_arguments


@pytest.mark.parametrize(
    ("arguments", "plan", "forwarded", "index"),
    [
        (["-c", "hostname"], FORWARD, ["-c", "hostname"], 1),
        (["-lc", "hostname"], FORWARD, ["-lc", "hostname"], 1),
        (["-l", "-c", "hostname", "zero", "one"], FORWARD, ["-l", "-c", "hostname", "zero", "one"], 2),
        (["-c", "-l", "hostname"], FORWARD, ["-c", "-l", "hostname"], 2),
        (["-o", "pipefail", "-c", "x"], FORWARD, ["-o", "pipefail", "-c", "x"], 3),
        (["-eo", "pipefail", "-c", "x"], FORWARD, ["-eo", "pipefail", "-c", "x"], 3),
        (["-ceo", "pipefail", "x"], FORWARD, ["-ceo", "pipefail", "x"], 2),
        (["+O", "extglob", "-c", "x"], FORWARD, ["+O", "extglob", "-c", "x"], 3),
        (["--norc", "-c", "x"], FORWARD, ["--norc", "-c", "x"], 2),
        (["-norc", "-c", "x"], FORWARD, ["-norc", "-c", "x"], 2),
        (["--login", "--noprofile", "-c", "x"], FORWARD, ["--login", "--noprofile", "-c", "x"], 3),
        (["--rcfile", "/home/me/rc", "-ic", "x"], FORWARD, ["-ic", "x"], 1),
        (["-c", "--", "x"], FORWARD, ["-c", "--", "x"], 2),
        (["-c", "-", "x"], FORWARD, ["-c", "-", "x"], 2),
        (["-c", ""], FORWARD, ["-c", ""], 1),
        (["-c", "x", "-c", "y"], FORWARD, ["-c", "x", "-c", "y"], 1),
        ([], FORWARD, [], -1),
        (["-s"], FORWARD, ["-s"], -1),
        (["-s", "arg"], FORWARD, ["-s", "arg"], -1),
        (["-"], FORWARD, ["-"], -1),
        (["-i"], FORWARD, ["-i"], -1),
        (["/dev/stdin", "arg"], FORWARD, ["-s", "--", "arg"], -1),
        (["-e", "--", "/dev/fd/0"], FORWARD, ["-e", "-s", "--"], -1),
        (["/opt/nvm/gemini", "-c", "x"], PASS, None, 0),
        (["-e", "script.sh"], PASS, None, 1),
        (["--", "-c", "x"], PASS, None, 1),
        (["-", "-c", "x"], PASS, None, 1),
        (["--version"], PASS, None, -1),
        (["-version"], PASS, None, -1),
        (["--help", "-c", "x"], PASS, None, -1),
        (["-c"], PASS, None, -1),
        (["-D", "script-file"], PASS, None, -1),
        (["-Z"], PASS, None, -1),
        (["--nosuch", "-c", "x"], PASS, None, -1),
        (["-c", "--norc", "x"], PASS, None, -1),
        (["--rcfile"], PASS, None, -1),
        (["", "-c", "x"], PASS, None, 0),
        (["/dev/fd/3"], REFUSE, None, -1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_arguments_decide_where_the_commands_come_from(
    arguments: list[str], plan: str, forwarded: list[str] | None, index: int
) -> None:
    expected = (plan, arguments if forwarded is None else forwarded, index)
    assert parse_bash_arguments(arguments) == expected


_WORDS = [
    "-c", "-l", "-e", "-x", "+e", "+x", "-s", "-ec", "-ce", "-lc", "-cs", "-o", "+o", "-eo", "-co", "-O", "+O", "-cO",
    "errexit", "pipefail", "extglob", "nosuchname", "--norc", "-norc", "--login", "-login", "--posix", "--noprofile",
    "--rcfile", "--init-file", "/dev/null", "--", "-", "+", "--verbose", "-version", "--help", "-D", "-Z", "+c", "-n",
    "--nosuch", "---", "echo C", "script-file", "", "-h", "-B", "+B", "-r", "-p", "-u", "-", "--restricted",
]  # fmt: skip


def _run(arguments: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/bash", *arguments], input="echo S $#\n", capture_output=True, text=True, cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}, timeout=20,
    )  # fmt: skip
    return done.returncode, done.stdout


def _check(arguments: list[str]) -> None:
    """The plan for ARGUMENTS, held against what bash does with them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script-file").write_text("echo F $#\n")
        _, printed = _run(arguments, folder)
        plan, forwarded, index = parse_bash_arguments(list(arguments))
        ran = {line[:1] for line in printed.splitlines() if line[:2] in ("C", "C ", "S ", "F ")}
        if "F" in ran:
            assert plan == PASS
        elif ran:
            assert plan == FORWARD
        if plan == FORWARD:
            assert _run(forwarded, folder) == _run(arguments, folder)
            assert index < len(forwarded)
            if "C" in ran:
                assert forwarded[index] == "echo C"
            elif "S" in ran:
                assert index == -1


@settings(max_examples=250, deadline=None, derandomize=True)
@given(arguments=st.lists(st.sampled_from(_WORDS), max_size=5))
def test_the_plan_agrees_with_what_bash_does(arguments: list[str]) -> None:
    _check(arguments)


CORPUS = json.loads((Path(__file__).parents[2] / "captures/bash-arguments.json").read_text())
"""Of 40,000 generated lists those that took the parser a way that no shorter one did. To add one: append it there."""


@pytest.mark.parametrize("arguments", CORPUS, ids=" ".join)
def test_an_entry_of_the_corpus_goes_where_bash_takes_it(arguments: list[str]) -> None:
    _check(arguments)


@given(arguments=st.lists(st.one_of(st.sampled_from(_WORDS), st.text(max_size=6)), max_size=8))
def test_any_arguments_have_a_plan_that_loses_none_of_them(arguments: list[str]) -> None:
    plan, kept, index = parse_bash_arguments(list(arguments))
    assert plan in (FORWARD, PASS, REFUSE)
    assert -1 <= index < max(1, len(kept))
    if plan == FORWARD:
        assert set(kept) <= {*arguments, "-s", "--"}
        assert index == -1 or kept[index:] == arguments[len(arguments) - len(kept[index:]) :]
    else:
        assert kept == arguments

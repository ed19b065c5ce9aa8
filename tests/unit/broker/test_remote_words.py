from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reach.broker.remote_words import for_posix_shell, is_name, quote, quote_for_terminal

_WORDS = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"'")), min_size=1, max_size=5)


def _words_of(shell: str, script: bytes, locale: str) -> list[bytes]:
    done = subprocess.run([shell, "-c", script], capture_output=True, env={"LC_ALL": locale}, check=True)
    return done.stdout.split(b"\0")[:-1]


@settings(max_examples=60, deadline=None)
@given(words=_WORDS, shell=st.sampled_from(["bash", "dash"]), locale=st.sampled_from(["C", "C.UTF-8"]))
def test_a_quoted_word_is_that_word_to_every_shell(words: list[bytes], shell: str, locale: str) -> None:
    assert _words_of(shell, b"printf '%s\\0' " + b" ".join(map(quote, words)), locale) == words


@settings(max_examples=60, deadline=None)
@given(words=_WORDS, locale=st.sampled_from(["C", "C.UTF-8"]))
def test_a_word_for_a_terminal_is_that_word_and_holds_no_control_byte(words: list[bytes], locale: str) -> None:
    quoted = b" ".join(map(quote_for_terminal, words))
    assert not set(quoted) & (set(range(32)) - {9, 10} | {127})
    assert _words_of("bash", b"printf '%s\\0' " + quoted, locale) == words


@pytest.mark.parametrize(
    ("name", "is_one"),
    [(b"A", True), (b"_a1", True), (b"1a", False), (b"a.b", False), (b"BASH_FUNC_f%%", False), (b"", False),
     (b"a\n", False), (b"\xc3\xa9", False)],
)  # fmt: skip
def test_what_export_takes_is_told_from_what_it_does_not(name: bytes, is_one: bool) -> None:
    assert is_name(name) is is_one


@pytest.mark.parametrize(
    ("argv", "index", "expected"),
    [
        ([b"-c", b"x"], 1, [b"-c", b"x"]),
        ([b"-lc", b"x", b"zero"], 1, [b"-lc", b"x", b"zero"]),
        ([b"--norc", b"-ec", b"x"], 2, [b"-ec", b"x"]),
        ([b"--login", b"-c", b"x"], 2, [b"-l", b"-c", b"x"]),
        ([b"-O", b"extglob", b"-c", b"x"], 3, [b"-c", b"x"]),
        ([b"+O", b"extglob", b"-c", b"x"], 3, [b"-c", b"x"]),
        ([b"-eo", b"pipefail", b"-c", b"x"], 3, [b"-e", b"-o", b"pipefail", b"-c", b"x"]),
        ([b"-Bc", b"-x y"], 1, [b"-c", b"-x y"]),
        ([b"-c", b"--", b"x"], 2, [b"-c", b"x"]),
        ([b"-s", b"arg"], -1, [b"-s", b"arg"]),
        ([], -1, []),
    ],
)
def test_arguments_for_sh_are_those_that_it_knows(argv: list[bytes], index: int, expected: list[bytes]) -> None:
    assert for_posix_shell(argv, index) == expected

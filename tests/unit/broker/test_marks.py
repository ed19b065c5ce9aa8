from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.broker.marks import Marks

TOKEN = "0123456789abcdef" * 2
START = TOKEN.encode() + b"+"
OPENS, CLOSES = b"\x1e" + TOKEN.encode() + b"=", b"\x1e" + TOKEN.encode() + b"."


def _feed(marks: Marks, data: bytes, cuts: list[int]) -> bytes:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return b"".join(marks.feed(data[a:b]) for a, b in zip(edges, edges[1:], strict=False))


@given(
    noise=st.binary(max_size=30),
    before=st.binary(max_size=80),
    side=st.binary(max_size=40),
    after=st.binary(max_size=80),
    cuts=st.lists(st.integers(0, 400)),
)
def test_marks_are_taken_out_however_the_stream_is_cut(
    noise: bytes, before: bytes, side: bytes, after: bytes, cuts: list[int]
) -> None:
    marks = Marks(TOKEN, expects_side=True)
    seen = _feed(marks, noise + START + before + OPENS + side + CLOSES + after, cuts) + marks.flush()
    assert (seen, marks.side, marks.started) == (before + after, side, True)


@given(output=st.binary(max_size=200), cuts=st.lists(st.integers(0, 400)), expects=st.booleans())
def test_output_without_a_side_file_comes_through_unchanged(output: bytes, cuts: list[int], expects: bool) -> None:
    marks = Marks(TOKEN, expects_side=expects)
    assert _feed(marks, START + output, cuts) + marks.flush() == output
    assert marks.side is None
    assert marks.awaits_side == expects


def test_nothing_is_held_back_but_what_may_be_a_mark() -> None:
    marks = Marks(TOKEN, expects_side=True)
    assert marks.feed(START + b"Password: ") == b"Password: "
    assert marks.feed(b"012") == b"012"
    assert marks.feed(b"x\x1e0") == b"x"
    assert marks.feed(b"no") == b"\x1e0no"


def test_what_a_background_job_writes_after_the_side_file_is_output() -> None:
    marks = Marks(TOKEN, expects_side=True)
    assert marks.feed(START + OPENS + b"12\n" + CLOSES) == b""
    assert marks.feed(b"late") == b"late"
    assert marks.side == b"12\n"


@pytest.mark.parametrize("mark", [b"-", b"!"])
def test_a_refusal_keeps_what_the_shell_said(mark: bytes) -> None:
    marks = Marks(TOKEN, expects_side=False)
    assert marks.feed(b"noise" + TOKEN.encode()) == b""
    assert marks.feed(mark + b"bash: cd: /x: ") == b""
    assert marks.feed(b"No such file or directory\n") == b""
    assert marks.refusal == mark + b"bash: cd: /x: No such file or directory\n"
    assert not marks.started


def test_a_stream_that_never_brings_a_mark_is_shown_in_the_end() -> None:
    marks = Marks(TOKEN, expects_side=False)
    assert marks.feed(b"x" * 65536) == b""
    assert marks.feed(b"y") == b"x" * 65536 + b"y"
    assert marks.started, "what is shown as the command's counts as its beginning"


def test_a_side_file_without_end_is_cut() -> None:
    marks = Marks(TOKEN, expects_side=True)
    marks.feed(START + OPENS)
    for _ in range(100):
        marks.feed(b"1" * 1000)
    assert marks.side is not None
    assert len(marks.side) == 65536

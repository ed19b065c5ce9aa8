from __future__ import annotations

import pytest

from reach.ssh.remote_text import MAX_CHARACTERS, printable


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("Welcome – grüße", "Welcome – grüße"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff\xfe", "��"),
        ("\x1b[2Jcleared", "\\x1b[2Jcleared"),
        ("over\rwritten", "over\\rwritten"),
        ("a\x7f\x08b", "a\\x7f\\x08b"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("two\nlines", "two\\nlines"),
        ("para\u2029graph", "para\\u2029graph"),
    ],
)
def test_nothing_that_steers_a_terminal_gets_through(sent: str | bytes, shown: str) -> None:
    assert printable(sent) == shown


def test_lines_and_tabs_stay_where_lines_are_wanted() -> None:
    assert printable("a\r\nb\tc\n\x1b]0;t\x07", lines=True) == "a\nb\tc\n\\x1b]0;t\\x07"


def test_text_without_end_is_cut() -> None:
    assert len(printable("x" * (MAX_CHARACTERS * 9))) < MAX_CHARACTERS + 10

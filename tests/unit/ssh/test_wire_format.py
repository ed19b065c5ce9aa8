from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.ssh.wire_format import Reader, WireFormatError, mpint, string, uint32


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00000000"), (0x9A378F9B2E332A7, "0000000809a378f9b2e332a7"), (0x80, "000000020080"), (0x7F, "000000017f")],
)
def test_mpint_is_written_as_in_rfc_4251(value: int, encoded: str) -> None:
    assert mpint(value).hex() == encoded


@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(0, 2**32 - 1))
def test_what_is_written_is_read_again(strings: list[bytes], number: int) -> None:
    reader = Reader(b"".join(map(string, strings)) + uint32(number) + b"rest")
    assert [reader.string() for _ in strings] == strings
    assert reader.uint32() == number
    assert reader.rest == b"rest"


@given(st.binary(max_size=12))
def test_bytes_that_end_early_are_an_error_and_nothing_else(data: bytes) -> None:
    reader = Reader(data)
    try:
        while reader.rest:
            reader.text()
    except WireFormatError:
        return
    assert reader.position == len(data)


def test_name_list_without_names_is_empty() -> None:
    assert Reader(string("")).names() == ()
    assert Reader(string("a,b")).names() == ("a", "b")

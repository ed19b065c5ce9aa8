from __future__ import annotations

import pytest

from reach.broker.worker import _announcement_in

TOKEN = b"0123abcd"


@pytest.mark.parametrize(
    ("said", "pty", "found"),
    [
        (b"", False, None),
        (b"noise; 0123abc", False, None),
        (b"noise; 0123abcd 7 (x) y,5", False, None),
        (b"noise; 0123abcd 7 y,5;", False, b"7 y,5"),
        (b"a 0123abcd\r\n0123abcd 7 y,5;rest;", False, b"7 y,5"),
        (b"0123abcd 7 y,5;", True, None),
        (b"0123abcd. 0123abcd 7 y,5;", True, None),
        (b"0123abcd 7 y,5;\r\n0123abcd.", True, b"7 y,5"),
    ],
    ids=["nothing", "cut", "no-end", "whole", "echoed-token", "no-prompt", "prompt-before-it", "prompt"],
)
def test_an_announcement_is_found_behind_noise_and_only_once_it_is_whole(
    said: bytes, pty: bool, found: bytes | None
) -> None:
    assert _announcement_in(said, TOKEN, pty=pty) == found
